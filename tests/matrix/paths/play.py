"""`play` of the online estimators, in blocks of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, explain_errors
from ..references import certificate_columns, expect_stream, trace_columns
from ..scenarios import CUT, Scenario
from .estimators import Alarms, classes_of, labels, make_estimator, row_dicts

BLOCKS = (0, 30, 31, CUT)
"""Where blocks begin."""


class Play(PathDriver):
    """Blocks of rows in order, the feature's arguments cut like the rows."""

    name = "play"
    expect = staticmethod(expect_stream)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Play the blocks one after the other."""
        asked = scenario.options
        with explain_errors():
            model = make_estimator(
                scenario, ud.OnlineRegressor, ud.OnlineClassifier,
                "weight", "elapsed", "delay", "level", "quantiles", "certify", "resume",
            )  # fmt: skip
            rows, y = row_dicts(scenario), labels(scenario)
            if "certify" in asked:
                from undrift.regret import certify, comparators

                return Answers(certificate_columns(certify(model, rows, y, u=comparators.fixed)), single=True)
            if "alert" in asked:
                return _watch(model, scenario)
            arguments: dict[str, Any] = {}
            if "weight" in asked:
                arguments["weight"] = np.array(scenario.columns[asked["weight"]])
            if "elapsed" in asked:
                arguments["elapsed"] = asked["elapsed"]
            for option, argument in (("delay", "delay"), ("level", "interval"), ("quantiles", "quantiles")):
                if option in asked:
                    arguments[argument] = asked[option]
            blocks: list[dict[str, Any]] = []
            for begin, end in zip(BLOCKS, (*BLOCKS[1:], scenario.rows), strict=True):
                some = {name: v[begin:end] if isinstance(v, np.ndarray) else v for name, v in arguments.items()}
                trace = model.play(rows[begin:end], y[begin:end], **some)
                blocks.append(trace_columns(trace, classes_of(scenario), asked.get("quantiles", ())))
                if "resume" in asked:
                    model.save(folder / "model.undrift")
                    model = ud.load(folder / "model.undrift")
        return Answers({name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]})


def _watch(model: Any, scenario: Scenario) -> Answers:
    """Return what a watch beside the loop finds."""
    alarms = Alarms()
    for t, (row, y) in enumerate(zip(row_dicts(scenario), labels(scenario), strict=True)):
        trace = model.play([row], [y], interval=0.9)
        alarms.add(t, row, y, trace.known[0], trace.yhat[0], (trace.lower[0], trace.upper[0]))
        alarms.add_memory(t, model)
    return alarms.answers(scenario)
