"""FleetPlan: what the first file of a fleet decided, and which files were learned; fleet.json, for `undrift update`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from undrift._internal.folder import Folder, regular_file
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.run.fleet.columns import FleetColumns, MadeFeatures, make_fleet
from undrift.run.fleet.orders import TimeColumn
from undrift.stream.settings import FleetSettings

PLAN = "fleet.json"
FORMAT = 2
LONGEST = 64 << 20


class LearnedFile(NamedTuple):
    """A file that was learned, or one with rows added to it."""

    path: str
    sha256: str
    size: int | None
    source: str
    """The name its records have in the store: the digest of the file when it was first seen."""
    rows: int
    """Rows learned or skipped so far."""
    skipped: int
    """Rows whose order was there before, or given up."""
    labelled: int = 0
    """Rows that brought the label of one that was predicted before."""


class FleetPlan(NamedTuple):
    """Everything that later files keep to."""

    settings: FleetSettings
    columns: FleetColumns
    labels: list[str] | None
    """The two labels as they were found in the end; `columns.classes` may lack one that came late."""
    learned: list[LearnedFile]

    def write(self, folder: Folder) -> None:
        """Put the plan into the folder of the fleet."""
        columns = self.columns
        plan = {
            "format": FORMAT,
            "settings": self.settings.as_dict(),
            "waiting_orders": columns.fleet.wait,
            "features": list(columns.fleet.fields.features),
            "task": columns.task,
            "classes": columns.classes,
            "labels": self.labels,
            "time": columns.time,
            "left_out": columns.left_out,
            "made": columns.made.as_json(),
            "learned": [one._asdict() for one in self.learned],
        }
        folder.put(PLAN, (json.dumps(plan, indent=1) + "\n").encode())


def read_plan(folder: Path) -> FleetPlan:
    """Return the plan of a fleet whose first file was learned to its end."""
    if not (folder / PLAN).exists():
        raise InputError(
            f"{folder}: this fleet has no {PLAN}, so its first file was not finished; give its undrift fleet command "
            "again first"
        )
    path = regular_file(folder, PLAN)
    with path.open("rb") as file:
        text = file.read(LONGEST)
    try:
        plan = json.loads(text)
        if plan["format"] > FORMAT:
            raise ModelFileError(f"{path}: written by a newer undrift; upgrade it")
        if plan["format"] < FORMAT:
            raise ModelFileError(
                f"{path}: written by an earlier undrift; give the undrift fleet command of its first file again with "
                "--force"
            )
        return _from_json(plan)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, UndriftError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{path}: damaged; give the undrift fleet command of its first file again with --force"
        ) from None


def _from_json(plan: dict[str, Any]) -> FleetPlan:
    settings = FleetSettings.from_dict(plan["settings"])
    time = None if plan["time"] is None else TimeColumn(*plan["time"])
    classes = None if plan["classes"] is None else tuple(str(one) for one in plan["classes"])
    fleet = make_fleet(settings, plan["task"], plan["features"], plan["waiting_orders"])
    made = MadeFeatures.from_json(plan["made"]) if "made" in plan else MadeFeatures()
    columns = FleetColumns(fleet, plan["task"], classes, time, [str(one) for one in plan["left_out"]], made)
    learned = [LearnedFile(**one) for one in plan["learned"]]
    labels = None if plan["labels"] is None else [str(one) for one in plan["labels"]]
    return FleetPlan(settings, columns, labels, learned)
