"""`undrift compare-runs`: two or more runs on the same rows, beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.output import print_json, print_table, printable
from undrift.cli.run_options import Json


def compare_runs(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs; the others are held against the first.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Page to write.")] = Path("comparison.html"),
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write the page.")] = True,
    json: Json = False,
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
        each = [
            {
                "name": run.name, "scores": dict(run.scores), "coverage": run.coverage, "seconds": run.seconds,
                "difference": run.difference, "error": run.error, "differs": run.differs,
            }
            for run in found.runs
        ]  # fmt: skip
        print_json(
            {"report": None if page is None else str(page), "rows": found.rows, "target": found.target, "runs": each}
        )
        return
    print_table(comparison_columns(found), [[printable(cell) for cell in row] for row in comparison_rows(found)])
    for sentence in comparison_sentences(found):
        print(printable(sentence))
    if page is not None:
        print(printable(f"Page: {page}"))
