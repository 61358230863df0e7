"""`Stream.predict` and `Stream.learn`, row by row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_stream
from ..scenarios import CUT, Scenario
from .estimators import Alarms, certify_inside, labels, row_dicts
from .streams import answer_columns, make_row_stream, make_rows


class PredictLearn(PathDriver):
    """Each row is predicted without its label, and learned with it; the stream holds late labels back."""

    name = "predict, learn"
    expect = staticmethod(expect_stream)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Predict and learn every row."""
        asked, columns = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        wanted = {name: asked[name] for name in ("level", "quantiles") if name in asked}
        alarms, features, y = Alarms(), row_dicts(scenario), labels(scenario)
        with explain_errors():
            stream: Any = make_row_stream(scenario, *wanted)
            questions = make_rows(scenario, leave_out=("y", "w"))
            for t, (question, row) in enumerate(zip(questions, make_rows(scenario), strict=True)):
                if t:  # before the first row, nothing is known
                    answers = stream.predict(question, **wanted)
                if "alert" in asked:
                    told = (True, answers.yhat[0], (answers.lower[0], answers.upper[0])) if t else (False, 0.0, ())
                    alarms.add(t, features[t], y[t], *told)
                elif t >= scenario.start:
                    for name, column in answer_columns(answers, scenario).items():
                        columns[name][t] = column[0]
                stream.learn(row)
                if "alert" in asked:
                    alarms.add_memory(t, stream.model)
                if "resume" in asked and t == CUT:
                    stream.save(folder / "stream.undrift")
                    stream = ud.load(folder / "stream.undrift")
            if "certify" in asked:
                return certify_inside(stream.model, features, y)
        return alarms.answers(scenario) if "alert" in asked else Answers(columns)
