"""Measure cells: play the scenario of a feature through a path, and compare with the library and the declaration."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

from .cells import CELLS, Status
from .outcome import Absent, Refused, differing_columns
from .paths import PATHS
from .scenarios import make_scenario, parts_of


class Measured(NamedTuple):
    """What a path does with one part of a feature."""

    status: str
    """works, refused, absent, or other: it does something else."""
    words: str
    """What it said, or what it does instead."""


def measure(feature: str, part: str, path: str) -> Measured:
    """Return what a path does with one part of a feature."""
    driver = PATHS[path]
    scenario = make_scenario(feature, part, driver.rows.get(feature))
    with tempfile.TemporaryDirectory() as folder:
        try:
            answers = driver.play(scenario, Path(folder))
        except Refused as error:
            return Measured("refused", str(error))
        except Absent as error:
            return Measured("absent", str(error))
    tolerance = driver.tolerance.get(feature, 0.0)
    different = differing_columns(answers, driver.expect(scenario, scenario.reference), scenario.start, tolerance)
    if not different:
        return Measured("works", "")
    others = {name: driver.expect(scenario, other) for name, other in scenario.others.items()}
    others |= driver.others(scenario)
    for name, expected in others.items():
        if not differing_columns(answers, expected, scenario.start, tolerance):
            return Measured("other", name)
    return Measured("other", f"nobody knows: {', '.join(different)}")


def declared_status(feature: str, path: str, part: str) -> Status:
    """Return what `cells.py` says about one part of a feature."""
    cell = CELLS[feature][path]
    assert cell is not None, "the feature does not apply"
    return cell if isinstance(cell, Status) else cell[part]


def require_declared(feature: str, path: str, part: str) -> None:
    """Measure one part of a cell, and fail unless it does what is declared."""
    status, measured = declared_status(feature, path, part), measure(feature, part, path)
    if status.name in ("differs", "wrong") or (status.name == "works" and status.evidence):
        expected = "other"  # than `play`
    else:
        expected = "refused" if status.name == "excluded" else status.name
    assert measured.status == expected, f"declared as {status.name}, measured {measured.status}: {measured.words}"
    if expected in ("refused", "absent"):
        assert re.search(status.evidence, measured.words), f"/{status.evidence}/ is not in: {measured.words}"
    else:
        assert measured.words == status.evidence, f"declared: {status.evidence!r}, measured: {measured.words!r}"


def parts_to_measure() -> list[tuple[str, str, str]]:
    """Return feature, path and part of everything that is declared."""
    return [
        (feature, path, part)
        for feature, row in CELLS.items()
        for path, cell in row.items()
        if cell is not None
        for part in parts_of(feature, path)
    ]
