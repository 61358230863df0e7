"""`undrift versions` and `undrift rollback`: the versions of a run that are kept, and going back to one of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undrift.cli import run_options as options
from undrift.cli.output import format_number, print_error, print_json, print_table, printable

if TYPE_CHECKING:
    from undrift.run import Version

Run = Annotated[Path, typer.Argument(help="Folder of a run.", show_default=False)]


def versions(run: Run, json: options.Json = False) -> int:
    """List the versions of RUN that its folder keeps: undrift rollback goes back to one, or forward.

    Every undrift run, update and serve makes a version when it ends, and a service makes one a day. `parent` is the
    version that one was made from.
    """
    from undrift.metrics import LEADING, TITLES
    from undrift.run import list_versions
    from undrift.run.play.state import read_run

    found = list_versions(run)
    measure = TITLES[LEADING[read_run(run)["task"]]]
    if json:
        listed = [version._asdict() | {"score": _score(version, measure)} for version in found]
        print_json({"run": str(run), "measure": measure, "versions": listed})
        return 0
    print_table(
        ("version", "parent", "made", "by", "learned last", "rows", "labels", measure, "size", ""),
        [_cells(version, measure) for version in found],
    )
    return 0


def _cells(version: Version, measure: str) -> Sequence[str]:
    notes = [word for word, holds in (("current", version.current), ("not complete", not version.complete)) if holds]
    return (
        str(version.number),
        "-" if version.parent is None else str(version.parent),
        version.when,
        version.by,
        version.path,
        f"{version.rows:,}",
        f"{version.rounds:,}",
        format_number(_score(version, measure)),
        f"{version.size / 1000:,.0f} kB",
        ", ".join(notes),
    )


def _score(version: Version, measure: str) -> float | None:
    """Return the error of the model over all rows until then, as the leading measure of its task has it."""
    return version.scores.get("model", {}).get(measure)


def rollback(
    run: Run,
    to: Annotated[int, typer.Option("--to", help="Number of the version, as undrift versions shows it.")],
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Go back, or forward, to a version of RUN: its model, predictions and scores are as they were then, bit for bit.

    The other versions stay. What is learned from then on makes a new version. Of a run that was served, rows that wait
    for their labels are given up.
    """
    from undrift.report import render
    from undrift.run import list_versions, rollback_run, write_report

    before = next(version.number for version in list_versions(run) if version.current)
    state = rollback_run(run, to, log=None if quiet else print_error)
    moved = before != to
    page = write_report(run, render) if report and moved else None
    facts = {"run": str(run), "version": to, "report": None if page is None else str(page)}
    if json:
        print_json(facts | {name: state[name] for name in ("rows", "rounds", "task", "scores")})
        return 0
    already = "" if moved else " already"
    print(printable(f"{run} is at version {to}{already}: {state['rows']:,} rows, {state['rounds']:,} labels"))
    others = [str(version["number"]) for version in state["versions"] if version["number"] != to]
    if others:
        print(f"kept: version{'s' if len(others) > 1 else ''} {', '.join(others)}")
    if page is not None:
        print(printable(f"report: {page}"))
    return 0
