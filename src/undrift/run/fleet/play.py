"""`play_fleet`: every row of a file predicted and learned by the model of its key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import undrift
from undrift import kernels
from undrift.errors import DataError, InputError
from undrift.fleet import FleetRun
from undrift.fleet.state_store import FleetMismatchError
from undrift.folder import Folder
from undrift.run.fleet.columns import FleetColumns, infer_fleet_columns
from undrift.run.fleet.records import RecordReader
from undrift.run.fleet.result import KEYS, PREDICTIONS, FleetResult, write_result
from undrift.run.read.source import Source
from undrift.run.settings import Settings
from undrift.stopping import StopRequest

MOST_RECORDS, FEWEST_RECORDS, MOST_CELLS = 500_000, 50_000, 10_000_000
"""Records advanced and saved at a time: as many as leave a key several, fewer if they have many features."""
REPORT = "report.html"
WRITTEN = (PREDICTIONS, KEYS, REPORT)
"""Files of a fleet beside its states."""
DECIDING = ("na", "time_format", "encoding", "delimiter", "format", "limit", "task", "positive")
"""Settings that decide about the results and that neither the model nor its columns show."""
USED = ("target", "time", "features", "drop", "task", "positive", "model", "na", "limit", "seed")
"""Settings that fleets have."""


def play_fleet(
    path: str,
    folder: str | Path,
    settings: Settings,
    *,
    key: str,
    order: str | None = None,
    wait: str = "0",
    force: bool = False,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    stop: StopRequest | None = None,
) -> FleetResult:
    """Predict and learn every row of a file with the model of its key; the same call again continues.

    Parameters
    ----------
    path
        A CSV (also .gz, .zst), Parquet or NDJSON file.
    folder
        Folder of the fleet: the states, predictions.csv and keys.csv. One process at a time writes there.
    settings
        What to predict, and how.
    key
        Column that says which stream a row is of.
    order
        Column of integers that says a row's place in its stream; None: `settings.time`, or the order of the file.
    wait
        How late a row may come: a number of orders, or for times a duration such as "90s", "15m", "2h", "1d".
    force
        Replace the fleet that is there, once the first batch of the new one is learned.
    workers
        Threads.
    progress
        Called with the number of rows that are saved.
    report
        Writes report.html at the path it is given.
    stop
        A request to stop, which raises `Interrupted` in the middle of anything: what is saved stays whole.

    Returns
    -------
    FleetResult
        What was found.
    """
    with (stop or StopRequest()).interruptible():
        source = Source(path, settings, exact=filter(None, (key, order, settings.time)))
        digest = source.digest()
        if digest is None:
            raise InputError("undrift fleet: name a file; the standard input cannot be read twice")
        columns = infer_fleet_columns(source, key, order, wait)
        fleet_folder = Folder(folder, "fleet")
        with fleet_folder.hold_lock():
            fleet_folder.refuse_foreign(WRITTEN)
            run = _play_rows(source, digest, fleet_folder, columns, force, workers, progress)
            asked = settings.as_dict()
            used = {"key": key, "order": order, "wait": wait, **{name: asked[name] for name in USED if name in asked}}
            provenance = {
                "undrift": undrift.__version__,
                "kernels": kernels.level(),
                "source": {"path": source.name, "size": source.size, "sha256": digest},
                "settings": used,
            }
            found = write_result(run, fleet_folder, provenance, columns)
            if not found.rounds:
                worst = found.problems[0] if found.problems else None
                why = "" if worst is None else f"; most often ({worst.count} rows) because: {worst.text}"
                raise DataError(f"{source.name}: no row could be learned{why}; {fleet_folder.path} has predictions.csv")
            if report is not None:
                with fleet_folder.new_file(REPORT) as temporary:
                    report(found, temporary)
    return found


def _play_rows(
    source: Source,
    digest: str,
    fleet_folder: Folder,
    columns: FleetColumns,
    force: bool,
    workers: int,
    progress: Callable[[int], None] | None,
) -> FleetRun:
    """Play the rows that are not learned yet; refuse a folder of another file or with other settings."""
    settings = source.settings
    classes = None if columns.classes is None else list(columns.classes)
    rows = RecordReader(columns.fleet, columns.time, classes, frozenset(settings.na))
    asked = settings.as_dict()
    about = {name: asked.get(name) for name in DECIDING} | {
        "file": digest,
        "classes": columns.classes,
        "clock": None if columns.time is None else (columns.time.format, columns.time.unit),
    }
    size = max(FEWEST_RECORDS, min(MOST_RECORDS, MOST_CELLS // len(columns.fleet.fields.features)))
    try:
        return columns.fleet.run(
            rows.batches(source),
            folder=fleet_folder,
            source=digest,
            about=about,
            replace=force,
            finish=True,
            batch=size,
            workers=workers,
            progress=progress,
        )
    except FleetMismatchError as other:
        instead = "replace it with --force, or choose another folder with --out"
        if other.name == "file":
            what = "the fleet of another file, or of this one before it changed"
            raise InputError(f"{fleet_folder.path}: {what}; {instead}") from None
        raise InputError(
            f"{fleet_folder.path}: this fleet has {other.name} = {other.then!r:.60}, not {other.now!r:.60}; "
            f"use the same settings to continue it, {instead}"
        ) from None
