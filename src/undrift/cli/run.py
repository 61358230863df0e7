"""`undrift run`: from a file to predictions, a model and a report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.exit_codes import ExitCode
from undrift.cli.output import print_interrupted, print_json, printable
from undrift.cli.signals import stop_signals
from undrift.errors import InputError
from undrift.stopping import Interrupted

if TYPE_CHECKING:
    from undrift.cli.progress import ProgressBar
    from undrift.run.play.state import RunState


def run(
    context: typer.Context,
    file: options.File = None,
    target: options.Target = None,
    out: options.Out = None,
    time: options.Time = None,
    features: options.Features = None,
    drop: options.Drop = None,
    candidate: options.Candidate = None,
    task: options.Task = None,
    positive: options.Positive = None,
    speed: options.Speed = None,
    half_life: options.HalfLife = None,
    nonnegative: options.Nonnegative = None,
    lag: options.Lag = None,
    delay: options.Delay = None,
    weight: options.Weight = None,
    elapsed: options.Elapsed = None,
    calendar: options.Calendar = None,
    missing: options.Missing = None,
    na: options.Na = None,
    categories: options.Categories = None,
    time_format: options.TimeFormat = None,
    sort: options.Sort = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    format: options.Format = None,  # noqa: A002  # the option's name
    limit: options.Limit = None,
    seed: options.Seed = None,
    alert: options.Alert = None,
    settings: options.SettingsFile = None,
    model: options.OldModel = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Print a prediction as each row comes: JSON lines in and out, and no folder."),
    ] = False,
    id: Annotated[  # noqa: A002  # the option's name
        str | None, typer.Option("--id", help="With --live: column that names rows whose labels come later.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted, bit for bit.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run that is there, once the new one works.")
    ] = False,
    report: options.Report = True,
    certify: Annotated[
        bool | None,
        typer.Option(
            "--certify/--no-certify",
            help="Bound the regret against comparators in hindsight; by default when there is a report.",
        ),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict every row of FILE before its label is seen, learn from it, and say how well that went.

    Writes a folder with the predictions (Parquet), the model, the settings, and a report that opens in a browser.
    Ctrl-C stops it, --resume continues. With --live, rows come from a pipe and predictions are printed at once. Exit
    code 3: the file cannot be used; the message says where and why.
    """
    path, values = options.read_settings(context, settings)  # which are the parameters from `target` to `alert`
    if live:
        from undrift.cli.live import run_live

        if out is not None or resume or force or certify:
            raise InputError("--live keeps no folder; leave out --out, --resume, --force and --certify")
        return run_live(path, values, id_column=id, quiet=quiet)
    if id is not None:
        raise InputError("--id is for rows as they come; add --live")
    folder = out if out is not None else default_folder(path)
    bounded = report if certify is None else certify
    return run_and_report(
        path, folder, values, resume=resume, force=force, report=report, certify=bounded, quiet=quiet, json=json
    )


def run_and_report(
    path: str,
    folder: Path,
    values: dict[str, Any],
    *,
    resume: bool,
    force: bool,
    report: bool,
    certify: bool,
    quiet: bool,
    json: bool,
) -> int:
    """Run, certify, report and sum up; `undrift demo` does the same."""
    from undrift.cli.progress import ProgressBar
    from undrift.cli.summary import summary_lines
    from undrift.metrics import LEADING, TITLES
    from undrift.run import Settings, play_file, read_run

    settings = Settings.from_dict(values)
    command = shlex.join(["undrift", *sys.argv[1:]])
    left = f"{folder} holds what was saved so far"
    with stop_signals(lambda: left) as stop, ProgressBar(quiet) as bar:
        try:
            state = play_file(
                path, folder, settings, resume=resume, force=force, command=command,
                progress=bar.update, log=bar.log, stop=stop,
            )  # fmt: skip
            left = f"the run in {folder} is finished; what is missing of it comes with --resume"
            with stop.interruptible():
                if certify and not state["certificates"]:
                    state = _certify(folder, state, bar)
                page = _write_report(folder, bar) if report else None
                data = read_run(folder)
        except Interrupted as stopped:
            bar.close()
            print_interrupted(str(stopped) or left)
            return stop.code
    facts = {
        "folder": str(folder),
        "report": None if page is None else str(page),
        "measure": TITLES[LEADING[state["task"]]],
    }
    if json:
        print_json(facts | {name: state.get(name, []) for name in _JSON_ENTRIES})
    else:
        print("\n".join(printable(line) for line in summary_lines(data, facts)))
    return ExitCode.CHANGE_FOUND if state.get("events") else ExitCode.FINE


_JSON_ENTRIES = (
    "status", "rows", "rounds", "task", "classes", "features", "scores", "certificates", "problems", "notes",
    "events",
)  # fmt: skip


def default_folder(path: str) -> Path:
    """Return where a run goes unless told otherwise."""
    if path == "-":
        return Path("stdin-run")
    from undrift.run.read.source import COMPRESSIONS, ENDINGS

    name = Path(path).name
    for end in (*COMPRESSIONS, *ENDINGS):
        name = name.removesuffix(end)
    return Path(f"{name}-run")


def _certify(folder: Path, state: RunState, bar: ProgressBar) -> RunState:
    from undrift.errors import ConditionError
    from undrift.run import certify_run

    begun = False

    def show(doing: str, done: float) -> None:
        nonlocal begun
        if not begun:  # runs that cannot be certified are refused before anything is done
            bar.log("certifying")
        begun = True
        bar.show(doing, done)

    try:
        return certify_run(folder, show)
    except ConditionError as error:
        bar.log(f"not certified: {error}" if begun else str(error))
        return state


def _write_report(folder: Path, bar: ProgressBar) -> Path:
    from undrift.report import render
    from undrift.run import write_report

    bar.log("writing the report")
    return write_report(folder, render)
