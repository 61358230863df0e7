"""`undrift run`, with --live from a pipe, and `undrift demo`: from rows to predictions, a model and a report."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import sys
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.output import ExitCode, ProgressBar, print_json, printable
from undrift.cli.signals import stop_signals
from undrift.errors import DataError, InputError
from undrift.stream.settings import Settings

if TYPE_CHECKING:
    from undrift.events import Event
    from undrift.run import RunData
    from undrift.run.play.state import RunState


@options.takes_settings(Settings)
def run(
    file: options.File,
    settings: Settings,
    out: options.Out = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Print a prediction as each row comes: JSON lines in and out; --out keeps the run."
        ),
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
    versions: options.Versions = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict every row of FILE before its label is seen, learn from it, and say how well that went.

    Writes a folder with the predictions (Parquet), the model, the settings, and a report that opens in a browser.
    Ctrl-C stops it, --resume continues. With --live, rows come from a pipe and predictions are printed at once; with
    --out too, what was learned is committed every 2 seconds, and --live --resume goes on from the folder of any run.
    Exit code 3: the file cannot be used; the message says where and why.
    """
    if live:
        if certify:
            raise InputError("--certify: not with --live, as the rows of a pipe cannot be read again; leave it out")
        return run_live(
            file, settings, id_column=id, out=out, resume=resume, force=force, report=report, versions=versions,
            quiet=quiet,
        )  # fmt: skip
    if id is not None:
        raise InputError("--id is for rows as they come; add --live")
    folder = out if out is not None else default_folder(file)
    bounded = report if certify is None else certify
    return run_and_report(
        file, folder, settings, resume=resume, force=force, report=report, certify=bounded, versions=versions,
        quiet=quiet, json=json,
    )  # fmt: skip


def run_and_report(
    path: str,
    folder: Path,
    settings: Settings,
    *,
    resume: bool,
    force: bool,
    report: bool,
    certify: bool,
    quiet: bool,
    json: bool,
    versions: int | None = None,
) -> int:
    """Run, certify, report and sum up; `undrift demo` does the same."""
    from undrift.metrics import LEADING, TITLES
    from undrift.run import play_file, read_run

    command = shlex.join(["undrift", *sys.argv[1:]])
    left = f"{folder} holds what was saved so far"
    with stop_signals(lambda: left) as stop, ProgressBar(quiet) as bar:
        state = play_file(
            path, folder, settings, resume=resume, force=force, command=command,
            progress=bar.update, log=bar.log, stop=stop, versions=versions,
        )  # fmt: skip
        left = f"the run in {folder} is finished; what is missing of it comes with --resume"
        with stop.interruptible():
            if certify and not state["certificates"]:
                state = certify_folder(folder, state, bar)
            page = write_page(folder, bar) if report else None
            data = read_run(folder)
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


def certify_folder(folder: Path, state: RunState, bar: ProgressBar) -> RunState:
    """Certify a finished run; why that is refused is printed."""
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


def write_page(folder: Path, bar: ProgressBar) -> Path:
    """Write the report of a run, and return where it is."""
    from undrift.report import render
    from undrift.run import write_report

    bar.log("writing the report")
    return write_report(folder, render)


NOT_LIVE = {
    "delay": "a label is learned when its line comes",
    "sort": "rows are learned in the order in which they come",
    "delimiter": "rows are JSON objects",
    "decimal": "rows are JSON objects",
    "header": "rows are JSON objects",
}
"""Settings of runs over files that are refused for rows as they come, and why."""


def run_live(
    path: str,
    settings: Settings,
    *,
    id_column: str | None,
    out: Path | None,
    resume: bool,
    force: bool,
    report: bool,
    versions: int | None,
    quiet: bool,
) -> int:
    """Print a prediction for each row of a pipe or a file of JSON lines before its label is learned."""
    from undrift.run.play.live import LiveRun, find_live_state
    from undrift.run.play.run_folder import RunFolder
    from undrift.run.read.source import Source
    from undrift.run.service.served_run import commit_journal

    if settings.format == "auto":
        settings = settings.replace(format="ndjson")
    for name, reason in NOT_LIVE.items():
        if getattr(settings, name) != Settings.default_of(name):
            raise InputError(f"--{name}: not with --live, as {reason}; leave it out, or leave out --live")
    if settings.format != "ndjson":
        raise InputError(f"--live reads one JSON object a line, not {settings.format}; leave out --format")
    if out is None and (resume or force):
        raise InputError("--resume and --force are about a folder; name it with --out, or leave them out")
    if out is None and versions is not None:
        raise InputError("--versions is about a folder; name it with --out, or leave it out")
    bad = changes = rows = 0

    def complain(error: DataError) -> None:
        nonlocal bad
        bad += 1
        if not quiet:
            print(printable(f"undrift: {error}; left out"), file=sys.stderr, flush=True)

    def show(event: Event) -> None:
        nonlocal changes
        changes += 1
        _print_line({"event": str(event.kind), "line": event.row, "feature": event.feature, "sentence": event.sentence})

    source = Source(path, settings)
    left = "nothing is kept without --out" if out is None else f"{out} holds what was committed last"
    with contextlib.ExitStack() as held:
        stop = held.enter_context(stop_signals(lambda: left))
        folder = None if out is None else RunFolder(out)
        state = None
        if folder is not None:
            if resume:
                commit_journal(folder.path)
            held.enter_context(folder.hold_lock())
            state = find_live_state(folder, settings, resume=resume, force=force)
            if resume and state is None and not quiet:
                print(printable(f"undrift: {out} holds no run yet; this begins one"), file=sys.stderr, flush=True)
        live = LiveRun(
            settings,
            id_column=id_column,
            on_event=show if settings.alert else None,
            folder=folder,
            source=source,
            command=shlex.join(["undrift", *sys.argv[1:]]),
            resume=state,
            versions=versions,
        )
        try:
            for said in live.play(source.lines(), complain, stop):
                _print_line(said.as_dict())
                rows += 1
                if rows == settings.limit:
                    break
        except BrokenPipeError:  # the reader has enough, as `head` has
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends
        live.finish()
    if out is not None and report:
        with ProgressBar(quiet) as bar:
            write_page(out, bar)
    if bad:
        return ExitCode.BAD_DATA
    return ExitCode.CHANGE_FOUND if changes else ExitCode.FINE


def _print_line(values: dict[str, Any]) -> None:
    print(json.dumps(values, allow_nan=False), flush=True)


NOT_INFORMATIVE = 9.0
"""A rival that loses so many times less, nothing but rounding perhaps, is not worth a line."""


def summary_lines(run: RunData, facts: Mapping[str, Any]) -> list[str]:
    """Return what someone who never heard of us should know about a run."""
    from undrift.stream.task import name_classes

    what = "a number" if run.classes is None else name_classes(run.classes)
    source = Path(run.learned[0]["path"]).name
    out = [
        f"Predicted '{run.target}' ({what}) {run.predicted.sum():,} times in {source}, each time before it was known.",
        _quality(run),
        _memory(run),
        _jumps(run),
        _certificate(run),
    ]
    if run.problems:
        count = len(run.problems)
        found = f"{count} thing{'s' if count > 1 else ''} about the data to look at: {_problems(run.problems)}."
        out.append(found)
    folder = f"{facts['folder']}/ has predictions.parquet, model.undrift and run.json"
    out.append(f"Report: {facts['report']} ({folder})" if facts["report"] else f"{folder}.")
    return [line for line in out if line]


def _quality(run: RunData) -> str:
    """Return how far off it was, by the measure that leads in the report too."""
    from undrift.metrics import LEADING, coverage, interval_pinball
    from undrift.report.formatting import number, percent
    from undrift.report.scores import best_baseline, compare_errors, score_predictors

    if not run.rounds:
        return ""
    table, key = score_predictors(run), LEADING[run.task]
    own, best = table[0].measures, best_baseline(table)
    text = f"{'Typical error (RMSE)' if run.classes is None else 'Log-loss'} {number(own[key])}"
    if best is not None and best.measures[key] > 0.0:
        text += f", {compare_errors(own[key], best.measures[key])} the best naive guess"
        text += f" ('{best.name}': {number(best.measures[key])})"
    if run.lower is None or run.upper is None:
        return f"{text}; it named the right class in {percent(own['accuracy'])} of rows."
    inside, level = coverage(run.lower, run.upper, run.y), run.level
    mean = f"; mean absolute error {number(own['mae'])}"
    loss = interval_pinball(run.lower, run.upper, run.y, level=level)
    ends = f" (pinball loss of its ends {number(loss)})" if math.isfinite(loss) else ""
    return f"{text}{mean}; {inside:.1%} of values lay in their {level:.0%} interval{ends}."


def _memory(run: RunData) -> str:
    """Return how much of the past mattered: the half-life of the weights averaged over the run, as in the report."""
    from undrift.report.formatting import half_life_text
    from undrift.report.half_life import memory_length

    if not len(run.spectrum) or len(run.half_lives) < 2:
        return ""
    length = memory_length(run.half_lives, run.spectrum)
    if math.isinf(length.average):
        return "Memory it found best: all of the past; nothing here is forgotten."
    text = length.words(lambda half_life: half_life_text(half_life, unit=run.memory_unit))
    return f"Memory it found best: an observation counts half after about {text}."


def _jumps(run: RunData) -> str:
    """Return where memory shortened at once, unless --alert has told what changed."""
    from undrift.report.formatting import join_words
    from undrift.report.half_life import find_changes

    if run.events is not None or not len(run.spectrum):
        return ""
    changes = find_changes(run.spectrum_round, run.half_lives, run.spectrum)
    rows = [f"{change.round:,}" for change in changes if change.jump]
    if not rows:
        return ""
    where = f"row{'s' if len(rows) > 1 else ''} {join_words(rows)}"
    return f"The data changed around {where}; --alert tells such things on the way."


def _certificate(run: RunData) -> str:
    """Return the comparison with the rival that the report leads with, and what is proven beyond it."""
    from undrift.report.certificate_text import choose_leading, comparison, proof, summarize_certificates
    from undrift.report.formatting import capitalize

    one = choose_leading(summarize_certificates(run))
    if one is None or one.relative(min(one.bounds)) >= NOT_INFORMATIVE:
        return ""
    return f"{capitalize(comparison(one))}. Proven: {proof(one)}."


def _problems(problems: Any) -> str:
    shown = [f"{one['kind']}{'' if one['column'] is None else ' ' + repr(one['column'])}" for one in problems[:3]]
    return ", ".join(shown) + (f" and {len(problems) - 3} more" if len(problems) > 3 else "")


DEMO = Settings(target="departures", calendar=True, lag=(1, 24, 168))
"""Settings of the demo."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; replaced if it is one.")] = Path(
        "undrift-demo"
    ),
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict how many flights leave New York in the next hour, through all of 2013, and report how that went.

    The same as: undrift run nyc_departures.csv.gz --target departures --calendar --lag 1,24,168
    """
    with as_file(files("undrift") / "data" / "nyc_departures.csv.gz") as path:
        done = {"resume": False, "force": True, "report": report, "certify": True}
        return run_and_report(str(path), out, DEMO, **done, quiet=quiet, json=json)
