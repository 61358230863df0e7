"""`Stream.ask` and `Stream.tell`: rows are served, and learned when their labels come."""

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


class AskTell(PathDriver):
    """Each row is asked for, and its label told as late as the scenario says."""

    name = "ask, tell"
    expect = staticmethod(expect_stream)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Ask for every row by a name, and tell the labels that are due."""
        asked, columns = scenario.options, {name: np.full(scenario.rows, math.nan) for name in scenario.shows}
        features, y, delay = row_dicts(scenario), scenario.columns["y"], asked.get("delay", 0)
        alarms = Alarms()
        with explain_errors():
            stream: Any = make_row_stream(scenario, "delay")
            for t, row in enumerate(make_rows(scenario, leave_out=("y",))):
                answers = stream.ask(row, f"row {t}")
                if "alert" in asked:
                    interval = answers.lower[0], answers.upper[0]
                    alarms.add(t, features[t], labels(scenario)[t], answers.known[0], answers.yhat[0], interval)
                elif t >= scenario.start:
                    for name, column in answer_columns(answers, scenario).items():
                        columns[name][t] = column[0]
                if "resume" in asked and t == CUT:  # while the row waits for its label
                    stream.save(folder / "stream.undrift")
                    stream = ud.load(folder / "stream.undrift")
                if t >= delay:
                    stream.tell(f"row {t - delay}", y[t - delay])
                if "alert" in asked:
                    alarms.add_memory(t, stream.model)
            if "certify" in asked:
                return certify_inside(stream.model, features, y)
        return alarms.answers(scenario) if "alert" in asked else Answers(columns)
