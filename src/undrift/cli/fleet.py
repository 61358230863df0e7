"""`undrift fleet`: one model per key of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.output import ExitCode, format_number, print_error, print_json, print_table, printable
from undrift.stream.settings import FleetSettings

if TYPE_CHECKING:
    from undrift.run import FleetResult

SHOWN = 5
"""Keys in each list."""


@options.takes_settings(FleetSettings, leave_out=FleetSettings.unsupported)
def fleet(
    file: Annotated[
        str, typer.Argument(help="CSV or JSON (packed or not), Excel or Parquet file.", show_default=False)
    ],
    settings: FleetSettings,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the fleet [default: FILE-fleet].")] = None,
    workers: Annotated[int, typer.Option("--workers", help="Threads.")] = 1,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the fleet that is there, once the first rows are learned anew.")
    ] = False,
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict and learn every row of FILE with a model of its key alone, and say which keys drift or do badly.

    Writes a folder with the states, predictions.csv, keys.csv, and a report that opens in a browser. Killed or stopped,
    the same command continues; with another file or other settings it refuses, and --force begins anew. Exit code 6:
    --alert found changes.
    """
    from undrift.cli.signals import stop_signals
    from undrift.report import render_fleet
    from undrift.run import play_fleet

    folder = out if out is not None else Path(f"{Path(file).name.split('.')[0]}-fleet")

    def show_progress(done: int) -> None:
        if not quiet and sys.stderr.isatty():
            print(f"\r{done:,} rows", end="", file=sys.stderr)

    again = "the same command without --force" if force else "the same command"
    with stop_signals(lambda: f"{folder} holds every row that was saved, {again} continues") as stop:
        found = play_fleet(
            file, folder, settings, force=force, workers=workers,
            progress=show_progress, report=render_fleet if report else None,
            log=None if quiet else print_error, stop=stop,
        )  # fmt: skip
    if not quiet and sys.stderr.isatty():
        print(file=sys.stderr)
    return show(found, folder, report=report, quiet=quiet, json=json)


def show(
    found: FleetResult, folder: Path, *, report: bool, quiet: bool, json: bool, more: dict[str, Any] | None = None
) -> int:
    """Print what was found, and return the exit code; `more` are facts for JSON."""
    page = folder / "report.html" if report else None
    for sentence in () if quiet else found.warnings:
        print_error(sentence)
    if json:
        print_json(_facts(found, folder, page) | (more or {}))
    else:
        _show(found, folder, page)
    return ExitCode.CHANGE_FOUND if found.new_events else ExitCode.FINE


def _facts(found: FleetResult, folder: Path, page: Path | None) -> dict[str, Any]:
    """Return what was found as plain values."""
    return {
        "folder": str(folder),
        "report": None if page is None else str(page),
        "task": found.task,
        "classes": found.classes,
        "features": found.features,
        "left_out": found.left_out,
        "keys": len(found.keys),
        "rounds": found.rounds,
        "bytes_per_key": found.bytes_per_key,
        "interval": found.run.fleet.interval,
        "coverage": found.coverage,
        "withheld_intervals": found.withheld,
        "events": None if found.events is None else [event.as_dict() for event in found.events],
        "warnings": found.warnings,
        "problems": {one.text: one.count for one in found.problems},
        "worst": [
            {"key": one.key, "rounds": one.rounds, "skill": one.skill, "best_naive": _best_naive(one, found)}
            for one in found.worst[:SHOWN]
        ],
        "drifting": [{"key": one.key, "half_life": one.half_life} for one in _drifting(found)],
    }


def _show(found: FleetResult, folder: Path, page: Path | None) -> None:
    """Print what was found."""
    from undrift.report.formatting import percent

    print(f"{len(found.keys):,} keys, {found.rounds:,} rounds of {found.task} from {len(found.features)} columns")
    if found.task == "classification" and found.classes is not None:
        print(printable(f"predicted is {found.classes[1]!r} rather than {found.classes[0]!r}"))
    if found.left_out:
        print(printable(f"not used: {', '.join(found.left_out)}"))
    print(f"a key's state takes {found.bytes_per_key / 1000:.1f} kB; everything is in {folder}")
    if found.coverage == found.coverage:
        promised = percent(found.run.fleet.interval)
        print(f"intervals covered {percent(found.coverage)} of the labels, where {promised} is promised")
    if found.withheld:
        why = "no label of their key was learned since the row before, and intervals hold one row ahead"
        print(f"{found.withheld:,} row{' has' if found.withheld == 1 else 's have'} no interval: {why}")
    if found.events is not None:
        print(f"changes found: {found.new_events:,}")
        for event in found.events[len(found.events) - found.new_events :][:SHOWN]:
            print(printable(f"  row {event.row:,}: {event.sentence}"))
    error = "typical error" if found.task == "regression" else "log-loss"
    rows = [(*_row(one, found.task), _best_naive(one, found)) for one in found.worst[:SHOWN]]
    titles = ["worst keys, by loss saved", "rounds", error, "loss saved", "half-life", "of the best naive guess"]
    print_table(titles, rows)
    drifting = [_row(one, found.task) for one in _drifting(found)]
    print_table(["shortest memory", "rounds", error, "saved", "half-life"], drifting)
    if found.problems:
        often = [(printable(one.text), f"{one.count:,}") for one in found.problems[: 2 * SHOWN]]
        print_table(["problems in the data", "records"], often)
    if page is not None:
        print(printable(f"report: {page}"))


def _row(one: Any, task: str) -> tuple[str, ...]:
    from undrift.run.fleet.key_reports import error_of

    saved = "-" if one.skill != one.skill else f"{one.skill:.1%}"
    error = format_number(error_of(one.mean_loss, task))
    return printable(one.key), f"{one.rounds:,}", error, saved, format_number(one.half_life)


def _best_naive(one: Any, found: FleetResult) -> str:
    """Return the name of the naive guess that did best on a key."""
    return found.baselines[one.naives.index(min(one.naives))] if one.naives else "-"


def _drifting(found: FleetResult) -> list[Any]:
    """Return the keys whose models forget fastest."""
    known = [one for one in found.keys if one.half_life is not None]
    return sorted(known, key=lambda one: (one.half_life, one.key))[:SHOWN]
