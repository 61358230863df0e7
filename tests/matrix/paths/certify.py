"""`undrift certify` of a run's folder: its rows are read and its predictions played again."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import play_reference
from ..scenarios import FEATURES, Reference, Scenario
from .commands import call, parse_json, require, run_options, write_csv
from .update import update_run


class Certify(PathDriver):
    """A run with the feature is certified; the loss that is certified follows from the library's predictions."""

    name = "certify"
    tolerance: ClassVar = dict.fromkeys(FEATURES, 1e-13)
    """The loss is a sum."""
    rows: ClassVar = dict.fromkeys(FEATURES, 200) | {"calendar": 300, "speed max": 330}
    """Certificates need some rows for each column."""

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return half the sum of squared errors of the library's predictions, and that certificates hold."""
        columns = play_reference(reference)
        if reference.classes:
            codes = [reference.classes.index(label) for label in reference.y]
            p = np.array([columns[f"p({label})"] for label in reference.classes])[codes, range(len(codes))]
            loss = -np.sum(np.log(p[1:]))
        else:
            errors = (columns["yhat"] - reference.y)[1 + reference.play.get("delay", 0) :]
            loss = np.sum(0.5 * errors[~np.isnan(errors)] ** 2)
        return Answers({"own loss": np.array([loss]), "holds": np.array([True])}, single=True)

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Run, then certify."""
        out = folder / "run"
        if "resume" in scenario.options:
            update_run(scenario, folder, out)
        else:
            file = write_csv(folder / "rows.csv", scenario.columns)
            words = [file, *run_options(scenario), "--out", out, "--no-report", "--quiet"]
            require("run", *words, codes=(0, 6))
        _, printed, said = call("certify", out, "--replay", "--json")
        if not printed:
            raise Refused(said)
        facts = parse_json(printed)
        if not facts["replayed"]:
            raise AssertionError("the run did not give the same bits again")
        best = next(entry for entry in facts["certificates"] if entry["name"] == "best fixed")
        if best["refused"]:
            raise Refused(best["refused"])
        holds = best["holds"] and best["hindsight"]["holds"]
        return Answers({"own loss": np.array([best["own_loss"]]), "holds": np.array([holds])}, single=True)
