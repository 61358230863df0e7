"""`undrift compare`: our default beside peers, on the user's own file; `undrift compare-runs`: finished runs."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undrift._internal.stopping import Interrupted
from undrift.cli import run_options as options
from undrift.cli.output import (
    ExitCode,
    ProgressBar,
    format_number,
    print_interrupted,
    print_json,
    print_table,
    printable,
)
from undrift.cli.signals import stop_signals
from undrift.stream.settings import Settings

if TYPE_CHECKING:
    from undrift.run import FileComparison

REFUSED = {
    "alert": "a comparison does not watch the stream; undrift run does",
    "resume": "a comparison always starts from the first row",
}
"""Options of runs that a comparison does not support, and why."""


@options.takes_settings(Settings, refuses=REFUSED, helps={"limit": "Rows to compare on [default: 20000]."})
def compare(
    file: options.File,
    settings: Settings,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Learners of River and scikit-learn too.")] = True,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only learners of these names or libraries: best,ridge,river.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", help="No learners of these names or libraries: ARF,every 250.")
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict the rows of FILE with several learners, each row before it is learned, and show how well each did.

    Peers run with their own defaults behind a scaler, those that are installed (pip install river scikit-learn
    lightgbm). Boosted trees are refitted on all past rows every 250 and every 1,000 rows, the last label a feature.
    Those that cost least play first; Ctrl-C shows the table of those that are done (exit code 130).
    """
    from undrift.run import FileComparison

    comparison: FileComparison | None = None
    bar = ProgressBar(quiet)

    def end_early() -> str:
        """Show what there is so far; called in the place of all that follows if a learner cannot be interrupted."""
        bar.close()
        if comparison is None:
            return "nothing was compared yet"
        _show(file, comparison, json=json)
        sys.stdout.flush()
        return f"missing in the table: {', '.join(comparison.missing)}"

    with stop_signals(end_early) as stop, bar:
        try:
            with stop.interruptible():
                comparison = FileComparison(
                    file, settings, peers=peers, only=options.split_words(only), without=options.split_words(without)
                )
            bar.log(_announce(comparison))
            if comparison.absent:
                names = " ".join(comparison.absent)
                bar.log(f"left out, as they are not installed: {names}; pip install {names} brings their learners in")
            comparison.play(log=bar.log, show=bar.show, stop=stop)
        except Interrupted:
            pass  # what there is so far is shown when nobody waits for the end any more
    if comparison is None or comparison.missing:
        print_interrupted(end_early())
        return stop.code
    _show(file, comparison, json=json)
    return ExitCode.FINE


def _announce(comparison: FileComparison) -> str:
    """Return who will play, and for how long."""
    count, seconds = len(comparison.missing), comparison.seconds_left
    who = "1 learner" if count == 1 else f"{count} learners"
    long = f"{seconds / 60.0:.0f} minutes" if seconds > 90.0 else f"{max(seconds, 1.0):.0f} s"
    return f"{who} on {comparison.rows:,} rows, roughly {long}; Ctrl-C shows those that are done"


def _show(path: str, comparison: FileComparison, *, json: bool) -> None:
    """Print the results so far."""
    from undrift.run.finish.peers import versions

    results, rows = comparison.results, comparison.rows
    if json:
        facts = {"file": path, "task": comparison.task, "rows": rows, "versions": versions()}
        facts |= {"not_installed": comparison.absent, "notes": comparison.notes}
        print_json(facts | {"results": [asdict(one) for one in results], "missing": comparison.missing})
        return
    measures, partial = list(results[0].scores), list(results[0].same_rows)
    intervals = list(dict.fromkeys(name for result in results for name in result.intervals))
    rows_title = ["rows"] if partial else []  # where all are scored on the same rows, the last line says how many
    print_table(
        (
            *("learner", "from", *measures, *intervals, *rows_title),
            *(f"{measures[0]} where '{name}'" for name in partial),
            "us/row",
        ),
        [
            (
                result.name,
                result.kind,
                *(format_number(result.scores[measure]) for measure in measures),
                *(format_number(result.intervals.get(name)) for name in intervals),
                *([f"{result.rows:,}"] if partial else []),
                *(format_number(result.same_rows[name]) for name in partial),
                format_number(result.microseconds, 3),
            )
            for result in results
        ],
    )
    for name in partial:
        column = next(result for result in results if result.name == name and result.kind == "given")
        scored = max(result.rows for result in results)
        print(
            printable(
                f"'{name}' has a prediction in {column.rows:,} of the {scored:,} rows that are scored, and is scored "
                f"in these alone: \"{measures[0]} where '{name}'\" is everyone's score in the same rows."
            )
        )
    kinds = ", ".join(f"{name} {version}" for name, version in versions().items())
    heading = f"{rows:,} rows of {path}, every one predicted before it was learned; {kinds}"
    print(printable(f"{heading}, peers with their own defaults."))
    for note in comparison.notes:
        print(printable(f"{note[0].upper()}{note[1:]}."))


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs; the others are held against the first.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write.")] = Path("comparison.html"),
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the page.")] = True,
    json: options.Json = False,
) -> None:
    """Put RUNS beside each other: errors, how far they differ and whether by more than chance, coverage, seconds.

    They must predict the same target of the same file; rows that one of them did not predict are left out. The page
    shows their errors through time.
    """
    from undrift.report import render_comparison
    from undrift.report.comparison_page import comparison_columns, comparison_rows, comparison_sentences
    from undrift.run import compare_runs

    found = compare_runs(runs)
    page = render_comparison(found, out) if report else None
    if json:
        each = [run.facts() | {"differs": run.differs} for run in found.runs]
        print_json(
            {"report": None if page is None else str(page), "rows": found.rows, "target": found.target, "runs": each}
        )
        return
    print_table(comparison_columns(found), [[printable(cell) for cell in row] for row in comparison_rows(found)])
    for sentence in comparison_sentences(found):
        print(printable(sentence))
    if page is not None:
        print(printable(f"Page: {page}"))
