"""FleetPlan: what the first file of a fleet decided, and which files were learned; run.json, for `undrift update`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from undrift._internal.folder import Folder
from undrift._internal.state_file import STATE, explain_damage, find_kind, read_state, write_state
from undrift.errors import InputError, ModelFileError
from undrift.events import Event
from undrift.fleet import Fleet
from undrift.fleet.state_store import STORE_FILE
from undrift.run.ledger import LedgerEntry, require_ledger
from undrift.stream.keyed.columns import KeyedColumns
from undrift.stream.keyed.keys_and_orders import TimeColumn
from undrift.stream.schema import Schema
from undrift.stream.settings import FleetSettings


class FleetPlan(NamedTuple):
    """Everything that later files keep to."""

    settings: FleetSettings
    fleet: Fleet
    left_out: Sequence[str]
    """Columns that nothing is learned from."""
    learned: list[LedgerEntry]
    """The ledger. Entries have `source` too, the name their records have in the store (the digest of the file when it
    was first seen), and `labelled`, how many rows brought the label of one that was predicted before; `rows` counts
    those that were skipped too. An entry by "serve" says how many labels a service learned after the entry before."""
    events: list[Event] | None = None
    """What changed, with --alert; None: nobody looked."""

    def write(self, folder: Folder) -> None:
        """Put the plan into the folder of the fleet."""
        plan = {
            "settings": self.settings.as_dict(),
            "plan": self.fleet.schema.as_dict(),
            "features": self.fleet.features,
            "time": self.fleet.time,
            "labels": self.fleet.classes,
            "left_out": list(self.left_out),
            "learned": self.learned,
            "events": None if self.events is None else [event.as_dict() for event in self.events],
        }
        folder.put(STATE, write_state(plan, "fleet"))


def read_plan(folder: Path) -> FleetPlan:
    """Return the plan of a fleet whose first file was learned to its end."""
    if not (folder / STATE).exists() and (folder / STORE_FILE).exists() and find_kind(folder) is None:
        raise InputError(
            f"{folder}: this fleet has no {STATE}, so its first file was not finished; give its undrift fleet command "
            "again first"
        )
    plan = read_state(folder, "fleet")
    if "plan" not in plan and "made" in plan:
        raise ModelFileError(
            f"{folder}: written by an undrift before 0.3; learn its file again: undrift fleet FILE --force"
        )
    with explain_damage(folder, "fleet"):
        return _from_json(plan)


def _from_json(plan: dict[str, Any]) -> FleetPlan:
    settings = FleetSettings.from_dict(plan["settings"])
    time = None if plan["time"] is None else TimeColumn(*plan["time"])
    if time is not None and not all(isinstance(part, str) for part in time):
        raise TypeError("'time' must hold texts")
    schema = Schema.from_dict(plan["plan"], settings.time)
    fleet = Fleet.of_columns(settings, KeyedColumns(schema, time))
    fleet.classes = None if plan["labels"] is None else [str(one) for one in plan["labels"]]
    if (fleet.classes is None) != (schema.classes is None) or (fleet.binary and len(fleet.classes or ()) != 2):
        raise ValueError("'labels' cannot be used")
    require_ledger(plan["learned"])
    if not plan["learned"] or not all(isinstance(entry["source"], str) for entry in plan["learned"]):
        raise TypeError("'learned' must name the file of each entry")
    events = None if plan["events"] is None else [Event.from_dict(event) for event in plan["events"]]
    return FleetPlan(settings, fleet, [str(one) for one in plan["left_out"]], plan["learned"], events)
