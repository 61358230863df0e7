"""`Stream.play` on data frames, in blocks of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import expect_stream
from ..scenarios import CUT, Scenario
from .estimators import Alarms, certify_inside, labels, row_dicts
from .streams import answer_columns, make_frame, make_rows, make_stream

BLOCKS = (0, 30, 31, CUT)
"""Where blocks begin."""


class Play(PathDriver):
    """Blocks of a data frame in order, after the columns were found from all of it."""

    name = "play"
    expect = staticmethod(expect_stream)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Play the blocks one after the other."""
        asked = scenario.options
        with explain_errors():
            stream = make_stream(scenario).infer(make_frame(scenario))
            if "alert" in asked:
                return _watch(stream, scenario)
            blocks: list[dict[str, Any]] = []
            for begin, end in zip(BLOCKS, (*BLOCKS[1:], scenario.rows), strict=True):
                answers = stream.play(make_frame(scenario, slice(begin, end)))
                blocks.append(answer_columns(answers, scenario))
                if "resume" in asked:
                    stream.save(folder / "stream.undrift")
                    stream = ud.load(folder / "stream.undrift")
            if "certify" in asked:
                return certify_inside(stream.model, row_dicts(scenario), labels(scenario))
        return Answers({name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]})


def _watch(stream: Any, scenario: Scenario) -> Answers:
    """Return what a watch beside the loop finds."""
    alarms, features = Alarms(), row_dicts(scenario)
    for t, (row, y) in enumerate(zip(make_rows(scenario), labels(scenario), strict=True)):
        answers = stream.play(row)
        interval = answers.lower[0], answers.upper[0]
        alarms.add(t, features[t], y, answers.known[0], answers.yhat[0], interval)
        alarms.add_memory(t, stream.model)
    return alarms.answers(scenario)
