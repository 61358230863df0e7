"""`undrift run`: from a file to predictions, a model and a report."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.output import as_json, plain
from undrift.cli.signals import stop_signals
from undrift.stopping import Interrupted

if TYPE_CHECKING:
    from undrift.cli.progress import Bar
    from undrift.run.play.state import RunState


def run(
    file: options.File = None,
    target: options.Target = None,
    out: options.Out = None,
    time: options.Time = None,
    features: options.Features = None,
    drop: options.Drop = None,
    task: options.Task = None,
    positive: options.Positive = None,
    model: options.Model = None,
    half_life: options.HalfLife = None,
    lag: options.Lag = None,
    delay: options.Delay = None,
    calendar: options.Calendar = None,
    missing: options.Missing = None,
    na: options.Na = None,
    categories: options.Categories = None,
    time_format: options.TimeFormat = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    format: options.Format = None,  # noqa: A002  # the option's name
    limit: options.Limit = None,
    seed: options.Seed = None,
    settings: options.SettingsFile = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was interrupted, bit for bit.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a run that is there, once the new one works.")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")] = True,
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
    Ctrl-C stops it, --resume continues. Exit code 3: the file cannot be used; the message says where and why.
    """
    given = {
        "target": target, "time": time, "features": features, "drop": drop, "task": task, "positive": positive,
        "model": model, "half_life": half_life, "lag": lag, "delay": delay, "calendar": calendar, "missing": missing,
        "na": na, "categories": categories, "time_format": time_format, "encoding": encoding, "delimiter": delimiter,
        "format": format, "limit": limit, "seed": seed,
    }  # fmt: skip
    path, words = options.merged(file, settings, given)
    folder = out if out is not None else _folder(path)
    bounded = report if certify is None else certify
    return carried_out(path, folder, words, resume, force, report, bounded, quiet, json)


def carried_out(
    path: str,
    folder: Path,
    words: dict[str, Any],
    resume: bool,
    force: bool,
    report: bool,
    certify: bool,
    quiet: bool,
    json: bool,
) -> int:
    """Run, certify, report and sum up; `undrift demo` does the same."""
    from undrift.cli.progress import Bar
    from undrift.cli.summary import lines
    from undrift.metrics import LEADING, TITLES
    from undrift.run import Settings, play_file, read_run

    settings = Settings.of(words)
    command = shlex.join(["undrift", *sys.argv[1:]])
    holds = f"{folder} holds what was saved so far"
    with stop_signals(lambda: f"undrift: interrupted; {plain(holds)}") as stop, Bar(quiet) as bar:
        try:
            state = play_file(
                path, folder, settings, resume=resume, force=force, command=command,
                progress=bar.update, log=bar.say, stop=stop,
            )  # fmt: skip
            holds = f"the run in {folder} is finished; what is missing of it comes with --resume"
            with stop.waiting():
                if certify and not state["certificates"]:
                    state = _certified(folder, state, bar)
                page = _reported(folder, bar) if report else None
                data = read_run(folder)
        except Interrupted as wish:
            bar.close()
            print(f"undrift: interrupted; {plain(str(wish) or holds)}", file=sys.stderr)
            return stop.code
    facts = {
        "folder": str(folder),
        "report": None if page is None else str(page),
        "measure": TITLES[LEADING[state["task"]]],
    }
    if json:
        as_json(facts | {name: state[name] for name in _SHOWN})
    else:
        print("\n".join(plain(line) for line in lines(data, facts)))
    return 0


_SHOWN = ("status", "rows", "rounds", "task", "classes", "features", "scores", "certificates", "problems", "notes")


def _folder(path: str) -> Path:
    """Return where a run goes unless told otherwise."""
    if path == "-":
        return Path("stdin-run")
    name = Path(path).name
    for end in (".gz", ".zst", ".csv", ".tsv", ".txt", ".parquet", ".pq", ".ndjson", ".jsonl"):
        name = name.removesuffix(end)
    return Path(f"{name}-run")


def _certified(folder: Path, state: RunState, bar: Bar) -> RunState:
    from undrift.errors import ConditionError
    from undrift.run import certify_run

    bar.say("certifying")
    try:
        return certify_run(folder)
    except ConditionError as error:
        bar.say(f"not certified: {error}")
        return state


def _reported(folder: Path, bar: Bar) -> Path:
    from undrift.report import render
    from undrift.run import write_report

    bar.say("writing the report")
    return write_report(folder, render)
