"""`update_fleet`: new rows for a fleet that learned a file before, as if they had stood at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from undrift._internal.folder import Folder
from undrift._internal.stopping import StopRequest
from undrift.errors import InputError, LearnedBeforeError
from undrift.run.fleet.plan import LearnedFile, read_plan
from undrift.run.fleet.play import WRITTEN, finish_fleet, learned_file, play_rows
from undrift.run.fleet.result import FleetResult
from undrift.run.read.source import Source


class FleetUpdate(NamedTuple):
    """What an update did."""

    found: FleetResult
    """The fleet over all rows so far."""
    added: int
    """Rows that are new."""
    labelled: int
    """Rows that brought the label of one that was predicted before."""
    skipped: int
    """Rows that had been there before, with nothing new."""


def update_fleet(
    folder: str | Path,
    path: str,
    *,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    stop: StopRequest | None = None,
) -> FleetUpdate:
    """Learn the rows of a file that a fleet has not learned, with the columns and settings it began with.

    A file that begins with the bytes of one that was learned is continued behind them. Of another file, rows count
    whose order or time their key has not seen, and labels of rows that had none; without orders, all of them. A file
    that was learned already is refused.
    Killed at any moment, the same call goes on behind the rows that are saved.
    """
    with (stop or StopRequest()).interruptible():
        fleet_folder = Folder(folder, "fleet")
        plan = read_plan(fleet_folder.path)
        exact = filter(None, (plan.key, plan.order, plan.settings.time))
        source = Source(path, replace(plan.settings, limit=None), exact=exact)
        digest = source.digest()
        if digest is None:
            raise InputError("undrift update: name a file; the standard input cannot be read twice")
        with fleet_folder.hold_lock():
            fleet_folder.refuse_foreign(WRITTEN)
            plan = read_plan(fleet_folder.path)
            if any(one.sha256 == digest for one in plan.learned):
                raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
            before = next((one for one in reversed(plan.learned) if source.begins_with(one.size, one.sha256)), None)
            name, first = (digest if before is None else before.source), plan.learned[0].source
            run = play_rows(source, name, first, fleet_folder, plan, workers=workers, progress=progress)
            outputs = run.outputs
            now = learned_file(run, outputs, source, digest, name)
            plan.learned.append(now)
            found = finish_fleet(run, outputs, fleet_folder, plan, now, report)
    old = before or LearnedFile("", "", 0, name, 0, 0)
    skipped, labelled = now.skipped - old.skipped, now.labelled - old.labelled
    return FleetUpdate(found, now.rows - old.rows - skipped - labelled, labelled, old.rows + skipped)
