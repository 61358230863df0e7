"""`play_fleet`: the rows of a file predicted and learned, each by its key; `learn_later_rows`: rows added later."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import undrift
from undrift import kernels
from undrift._internal.folder import Folder
from undrift._internal.state_file import STATE, find_kind
from undrift._internal.stopping import StopRequest
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.fleet import Fleet, FleetRun
from undrift.fleet.state_store import FleetMismatchError
from undrift.run.fleet.plan import FleetPlan, read_plan
from undrift.run.fleet.result import KEYS, PREDICTIONS, FleetResult, write_result
from undrift.run.ledger import LedgerEntry, extend_entry, find_grown, make_entry, put_entry, was_learned
from undrift.run.read.rows_in_order import read_first_rows, reorder
from undrift.run.read.source import Source
from undrift.stream.cells import RowBatch
from undrift.stream.first_rows import FirstRows
from undrift.stream.keyed.columns import infer_keyed_columns
from undrift.stream.keyed.keys_and_orders import TimeColumn
from undrift.stream.keyed.outputs import DUPLICATE, ERROR, LABELLED, LATE, OK, POISON, PREDICTED, Outputs
from undrift.stream.settings import FleetSettings

MOST_RECORDS, FEWEST_RECORDS, MOST_CELLS = 500_000, 50_000, 10_000_000
"""Records advanced and saved at a time: as many as leave a key several, fewer if they have many features."""
REPORT = "report.html"
WRITTEN = (PREDICTIONS, KEYS, STATE, REPORT)
"""Files of a fleet beside its states."""
DECIDING = ("na", "time_format", "encoding", "delimiter", "format", "limit", "task", "positive", "categories")
"""Settings that decide about the results and that neither the model nor its columns show."""
RECORDED = (
    "key",
    "order",
    "wait",
    "target",
    "time",
    "features",
    "drop",
    "calendar",
    "lag",
    "delay",
    "task",
    "positive",
    "weight",
    "elapsed",
    "candidate",
    "missing",
    "categories",
    "quantiles",
    "speed",
    "sort",
    "na",
    "limit",
    "seed",
)
"""Settings of a fleet that are recorded with its results."""


def play_fleet(
    path: str,
    folder: str | Path,
    settings: FleetSettings,
    *,
    force: bool = False,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    log: Callable[[str], None] | None = None,
    stop: StopRequest | None = None,
) -> FleetResult:
    """Predict and learn every row of a file with the model of its key; the same call again continues.

    Parameters
    ----------
    path
        A CSV or JSON (packed or not), Excel or Parquet file.
    folder
        Folder of the fleet: the states, predictions.csv and keys.csv. One process at a time writes there.
    settings
        What to predict, and how.
    force
        Replace the fleet that is there, once the first batch of the new one is learned.
    workers
        Threads.
    progress
        Called with the number of rows that are saved.
    report
        Writes report.html at the path it is given.
    log
        Called with what was decided about the columns that the user may want to know.
    stop
        A request to stop, which raises `Interrupted` in the middle of anything: what is saved stays whole.

    Returns
    -------
    FleetResult
        What was found.
    """
    with (stop or StopRequest()).interruptible():
        source = _open_source(path, settings)
        digest = source.digest()
        if digest is None:
            raise InputError("undrift fleet: name a file; the standard input cannot be read twice")
        first, _ = read_first_rows(source)
        columns = infer_keyed_columns(first, settings)
        fleet = Fleet.of_columns(settings, columns)
        if log is not None:
            for note in columns.schema.notes:
                log(note)
        fleet_folder = Folder(folder, "fleet")
        with fleet_folder.hold_lock():
            if not force:
                find_kind(fleet_folder.path)  # refuses one that an earlier undrift wrote
            fleet_folder.refuse_foreign(WRITTEN)
            before = [] if force else _find_learned(fleet_folder, digest)
            plan = FleetPlan(settings, fleet, columns.left_out, [])
            run = play_rows(source, digest, digest, fleet_folder, plan, force=force, workers=workers, progress=progress)
            outputs = run.outputs
            learned = before[0] if before else make_entry(source, "fleet") | {"source": digest}
            count_rows(learned, run, outputs)
            plan.learned[:] = [learned, *before[1:]]
            return finish_fleet(run, outputs, fleet_folder, plan, learned, report)


def _open_source(path: str, settings: FleetSettings) -> Source:
    """Return a file whose keys, orders and times are read to the last digit."""
    return Source(path, settings, exact=filter(None, (*settings.key, settings.order, settings.time)))


def _rows_in_order(source: Source, time: TimeColumn | None) -> Iterable[RowBatch]:
    """Return the rows in order of their times if that was asked for, else as they stand in the file."""
    if not source.settings.sort or time is None:
        return source.batches()
    batches = list(source.batches())
    if not batches:
        return batches
    everything = FirstRows(source, batches, whole=True)
    orders = time.read(source, everything.lines, everything.columns[time.name])
    places = np.array([math.inf if one is None else one for one in orders], dtype=object)
    return reorder(everything, batches, np.argsort(places, kind="stable"))


def _find_learned(folder: Folder, digest: str) -> list[LedgerEntry]:
    """Return the ledger of a folder whose first file this is; refuse a file to which rows were added since."""
    learned = read_plan(folder.path).learned if (folder.path / STATE).exists() else []
    if not learned or learned[0]["source"] != digest:
        return []
    if learned[0]["sha256"] != digest:
        raise InputError(
            f"{folder.path}: this file was learned, and since then rows that were added to it; learn further ones with "
            f"undrift update {folder.path} FILE"
        )
    return learned


def finish_fleet(
    run: FleetRun,
    outputs: Outputs,
    folder: Folder,
    plan: FleetPlan,
    learned: LedgerEntry,
    report: Callable[[FleetResult, Path], object] | None,
) -> FleetResult:
    """Write tables, plan and report of a fleet that `learned` a file, of whose rows the outputs are given."""
    asked = plan.settings.as_dict()
    update = learned["source"] != plan.learned[0]["source"]
    unused = find_unused_rows(outputs, update=update)
    warnings = find_warnings(outputs, unused, learned["path"], ordered=run.fleet.fields.order is not None)
    used = {name: asked[name] for name in RECORDED if name in asked}
    provenance = {"undrift": undrift.__version__, "kernels": kernels.level(), "settings": used}
    found = write_result(run, folder, provenance, plan)._replace(warnings=warnings)
    plan = plan._replace(events=None if found.events is None else list(found.events))
    plan.write(folder)
    if not np.isin(outputs.status, (OK, LABELLED, PREDICTED)).any() and (unused.are_most or not found.rounds):
        why = f"; most often ({unused.number} rows) because {unused.reason}" if unused.number else ""
        raise DataError(f"{learned['path']}: no row could be learned{why}; {folder.path} has predictions.csv")
    if report is not None:
        with folder.new_file(REPORT) as temporary:
            report(found, temporary)
    return found


def count_rows(entry: LedgerEntry, run: FleetRun, outputs: Outputs) -> None:
    """Write into an entry of the ledger what became of the rows of its file so far."""
    status = outputs.status
    entry["rows"] = run.progress(entry["source"])
    entry["skipped"] = int(np.count_nonzero((status == DUPLICATE) | (status == LATE)))
    entry["labelled"] = int(np.count_nonzero(status == LABELLED))


def play_rows(
    source: Source,
    name: str,
    first: str,
    fleet_folder: Folder,
    plan: FleetPlan,
    *,
    force: bool = False,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> FleetRun:
    """Play the rows that are not learned yet; refuse a folder of another file or with other settings.

    `name` is what the store calls this file's records, `first` the digest of the fleet's first file.
    """
    fleet, asked = plan.fleet, plan.settings.as_dict()
    about = {name: asked.get(name) for name in DECIDING} | {
        "file": first,
        "sort": plan.settings.sort or None,
        "classes": fleet.schema.classes,
        "clock": None if fleet.time is None else (fleet.time.format, fleet.time.unit),
    }
    size = max(FEWEST_RECORDS, min(MOST_RECORDS, MOST_CELLS // max(1, len(fleet.features))))
    try:
        return fleet.run(
            (fleet.read_rows(batch, source) for batch in _rows_in_order(source, fleet.time)),
            folder=fleet_folder,
            source=name,
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
            more = f"learn new rows with undrift update {fleet_folder.path} FILE, "
            raise InputError(f"{fleet_folder.path}: {what}; {more}{instead}") from None
        raise InputError(
            f"{fleet_folder.path}: this fleet has {other.name} = {other.then!r:.60}, not {other.now!r:.60}; "
            f"use the same settings to continue it, {instead}"
        ) from None


_OF_ROWS = (OK, PREDICTED, LABELLED, DUPLICATE, LATE, POISON, ERROR)
"""What becomes of rows; other outputs are about rows that never came or that were let go."""
_REASONS = {DUPLICATE: "the order or time of each was there before", LATE: "each came after a later one of its key"}


class UnusedRows(NamedTuple):
    """Rows of a file that were not used for one reason, the most frequent one."""

    number: int
    rows: int
    """Rows of the file."""
    reason: str
    """The reason as it was given most often; reasons may differ in the values they name."""

    @property
    def are_most(self) -> bool:
        """Whether they are half of the rows or more."""
        return 2 * self.number >= self.rows > 0


def find_unused_rows(outputs: Outputs, *, update: bool) -> UnusedRows:
    """Return the rows that were not used; in an `update`, those that were there before are no matter."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for status, reason in _REASONS.items():
        counts[reason][reason] = 0 if update else int(np.count_nonzero(outputs.status == status))
    for i in np.flatnonzero(np.isin(outputs.status, (POISON, ERROR))).tolist():
        reason = outputs.reasons.get(i, "")
        counts[reason.split(" is ")[0].split(", got ")[0]][reason] += 1
    most = max(counts.values(), key=Counter.total)
    rows = int(np.count_nonzero(np.isin(outputs.status, _OF_ROWS)))
    return UnusedRows(most.total(), rows, most.most_common(1)[0][0])


def find_warnings(outputs: Outputs, unused: UnusedRows, name: str, *, ordered: bool) -> list[str]:
    """Return one sentence for each thing about a file's outputs that spoils the result as a whole."""
    found = list[str]()
    if unused.are_most:
        share = f"{unused.number:,} of {unused.rows:,} rows ({unused.number / unused.rows:.0%})"
        found.append(f"{name}: {share} were not used, as {unused.reason}; predictions.csv names each")
    asked = int(np.count_nonzero(outputs.status == PREDICTED))
    if asked and not ordered:
        found.append(
            f"{name}: {asked:,} rows without a target were predicted, and no later file can bring their labels, as "
            "only an order or a time tells which row is which; name its column with --order or --time"
        )
    return found


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


def learn_later_rows(
    folder: str | Path,
    path: str,
    *,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
    report: Callable[[FleetResult, Path], object] | None = None,
    stop: StopRequest | None = None,
) -> FleetUpdate:
    """Do what `undrift.run.update_fleet` does, where no service has left anything in a journal."""
    with (stop or StopRequest()).interruptible():
        fleet_folder = Folder(folder, "fleet")
        plan = read_plan(fleet_folder.path)
        source = _open_source(path, plan.settings.replace(limit=None))
        digest = source.digest()
        if digest is None:
            raise InputError("undrift update: name a file; the standard input cannot be read twice")
        with fleet_folder.hold_lock():
            plan = read_plan(fleet_folder.path)
            if not fleet_folder.knows(STATE):  # the list of our files is lost, as in a copy without hidden files
                fleet_folder.adopt(*WRITTEN)
            fleet_folder.refuse_foreign(WRITTEN)
            if was_learned(plan.learned, digest):
                raise LearnedBeforeError(f"{path}: this very file was learned already; nothing was changed")
            grown = find_grown(plan.learned, source)
            if grown is None:
                entry = make_entry(source, "update") | {"source": digest, "labelled": 0}
            else:
                entry = extend_entry(plan.learned[grown], source, "update")
            old, first = dict(entry), plan.learned[0]["source"]
            run = play_rows(source, entry["source"], first, fleet_folder, plan, workers=workers, progress=progress)
            outputs = run.outputs
            count_rows(entry, run, outputs)
            put_entry(plan.learned, grown, entry)
            found = finish_fleet(run, outputs, fleet_folder, plan, entry, report)
    rows, skipped, labelled = (int(entry[name]) - int(old[name]) for name in ("rows", "skipped", "labelled"))
    return FleetUpdate(found, rows - skipped - labelled, labelled, int(old["rows"]) + skipped)
