"""`undrift update`: new rows for a folder that an earlier command left."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from undrift.cli import run_options as options
from undrift.cli.output import ExitCode, ProgressBar, print_error, print_json, printable
from undrift.errors import InputError, LearnedBeforeError


def update(
    folder: Annotated[Path, typer.Argument(help="Folder of undrift forecast, run or fleet.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="File with new rows, or the old file with rows added.", show_default=False)
    ],
    versions: options.Versions = None,
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Learn the new rows of FILE where an earlier command stopped: nothing twice, the same bits as one long file.

    Columns, lags and season stay as the first file decided. Rows that were learned before are skipped and counted. A
    file that was learned already changes nothing: a note says so, and the exit code is 0. A run that was certified is
    certified again, with all its files. Exit code 6: with --alert, changes were found in new rows.
    """
    from undrift._internal.state_file import find_kind
    from undrift.fleet.state_store import STORE_FILE

    run = partial(_update_run, versions=versions)
    kinds: dict[str, Callable[..., int]] = {"forecast": _update_forecast, "run": run, "fleet": _update_fleet}
    kind = find_kind(folder) or ("fleet" if os.path.lexists(folder / STORE_FILE) else "")
    found = kinds.get(kind)
    if found is None:
        raise InputError(
            f"{folder}: nothing to go on with; name a folder of undrift forecast, undrift run or undrift fleet"
        )
    if versions is not None and kind != "run":
        raise InputError(f"{folder}: only runs keep versions, and this is the folder of a {kind}; leave out --versions")
    try:
        return found(folder, file, report=report, quiet=quiet, json=json)
    except LearnedBeforeError as note:  # as when a job delivers a file twice
        print_error(str(note))
        if json:
            print_json({"folder": str(folder), "report": None, "added": 0, "note": str(note)})
        return 0


def _update_forecast(folder: Path, file: str, *, report: bool, quiet: bool, json: bool) -> int:
    from undrift.cli.forecast import show, show_keys
    from undrift.report import render_forecast, render_forecast_keys
    from undrift.run import has_keys, update_forecast, update_keys

    log = None if quiet else print_error
    if has_keys(folder):
        keys = update_keys(folder, file, log=log, report=render_forecast_keys if report else None)
        return show_keys(keys, report=report, json=json)
    result = update_forecast(folder, file, log=log, report=render_forecast if report else None)
    return show(result, report=report, json=json)


def _update_run(folder: Path, file: str, *, report: bool, quiet: bool, json: bool, versions: int | None) -> int:
    from undrift.cli.run import certify_folder, write_page
    from undrift.cli.signals import stop_signals
    from undrift.run import update_run

    left = f"{folder} is as it was before; give the same command again"
    page = None
    with stop_signals(lambda: left) as stop, ProgressBar(quiet) as bar:
        try:
            command = shlex.join(["undrift", *sys.argv[1:]])
            done = update_run(
                folder, file, command=command, progress=bar.update, log=bar.log, stop=stop, versions=versions
            )
        except LearnedBeforeError:
            with stop.interruptible():
                _complete_run(folder, bar, report=report)
            raise
        left = f"the rows are learned; what is missing in {folder} comes with the same command"
        with stop.interruptible():
            if done.state["certify"]:
                certify_folder(folder, done.state, bar)
            if report and done.added:
                page = write_page(folder, bar)
    facts = {"folder": str(folder), "report": None if page is None else str(page)}
    code = ExitCode.CHANGE_FOUND if done.changes else ExitCode.FINE
    if json:
        more = {name: done.state[name] for name in ("rows", "rounds", "task", "scores")}
        print_json(facts | {"added": done.added, "skipped": done.skipped, "changes": done.changes} | more)
        return code
    skipped = f", {done.skipped:,} learned before" if done.skipped else ""
    print(f"{done.state['rows']:,} rows, {done.added:,} of them new{skipped}")
    if not done.added:
        print_error(f"{file} has no row that is new to {folder}")
    print(printable(f"everything is in {folder}" + (f"; report: {page}" if page else "")))
    return code


def _complete_run(folder: Path, bar: ProgressBar, *, report: bool) -> None:
    """Make the certificates and the report that an update which was stopped after its rows had no time for."""
    from undrift._internal.state_file import STATE
    from undrift.cli.run import certify_folder, write_page
    from undrift.run.play.run_folder import REPORT, RunFolder
    from undrift.run.play.state import NOT_CERTIFIED

    state, page = RunFolder(folder).state(), folder / REPORT
    tried = state["certificates"] or any(note.startswith(NOT_CERTIFIED) for note in state["notes"])
    if state.get("certify") and not tried:
        certify_folder(folder, state, bar)
    if report and page.is_file() and page.stat().st_mtime_ns < (folder / STATE).stat().st_mtime_ns:
        write_page(folder, bar)


def _update_fleet(folder: Path, file: str, *, report: bool, quiet: bool, json: bool) -> int:
    from undrift.cli.fleet import show
    from undrift.cli.signals import stop_signals
    from undrift.report import render_fleet
    from undrift.run import update_fleet

    with stop_signals(lambda: f"{folder} holds every row that was saved; give the same command again") as stop:
        done = update_fleet(folder, file, report=render_fleet if report else None, stop=stop)
    if not (done.added or done.labelled or quiet):
        print_error(f"{file} has no row that is new to {folder}")
    new = {"added": done.added, "labelled": done.labelled, "skipped": done.skipped}
    if not json:
        labels = f", {done.labelled:,} labels of rows predicted before" if done.labelled else ""
        print(f"{done.added:,} new rows{labels}" + (f", {done.skipped:,} that came before" if done.skipped else ""))
    return show(done.found, folder, report=report, quiet=quiet, json=json, more=new)
