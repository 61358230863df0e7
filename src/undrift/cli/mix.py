"""`undrift mix`: combine forecasts made elsewhere that are columns of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.output import ExitCode, format_number, print_error, print_json, print_table, printable
from undrift.errors import InputError
from undrift.stream.settings import MixSettings

if TYPE_CHECKING:
    from undrift.run.mix import MixResult, MixScore

SHOWN = 5
"""Rows without a label that are printed besides the last one."""
TITLES = {"rmse": "RMSE", "mae": "MAE", "pinball": "pinball loss"}


@options.takes_settings(MixSettings)
def mix(
    file: options.File,
    settings: MixSettings,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the predictions of all rows as .csv or .parquet.")
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Combine the forecasts in columns of FILE into one, row by row, and score it beside each of them.

    Each row is predicted before its label is known. The candidates, their mean and their median are weighted by their
    past errors; an empty cell abstains. Rows at the end without a label are predicted: the forecast for tomorrow.
    """
    from undrift.run.mix import mix_file
    from undrift.run.tables import ENDINGS, write_table

    if out is not None and not out.name.lower().endswith(ENDINGS):
        raise InputError(
            f"{out}: predictions are written as {', '.join(ENDINGS)}; got {out.suffix or 'a name without an ending'}"
        )
    result = mix_file(file, settings)
    for note in () if quiet else result.notes:
        print_error(note)
    if out is not None:
        write_table(out, result.columns())
    if json:
        print_json(_facts(file, result, settings, out))
    else:
        _show(result, out)
    return ExitCode.FINE


def _facts(file: str, result: MixResult, settings: MixSettings, out: Path | None) -> dict[str, Any]:
    """Return the result for JSON; the rows to come are columns."""
    found = result.model.certificate()
    return {
        "file": file,
        "target": result.target,
        "loss": settings.loss,
        "quantile": settings.quantile,
        "rows": len(result.y),
        "scored_rows": result.scores[-1].rows,
        "best": result.best,
        "scores": [
            {name: value for name, value in score._asdict().items() if name != "errors"} | score.errors
            for score in result.scores
        ],
        "certificate": found._asdict()
        | {"combination": None if found.combination is None else found.combination.tolist()},
        "next": _next_rows(result),
        "out": None if out is None else str(out),
        "notes": list(result.notes),
    }


def _next_rows(result: MixResult) -> dict[str, list[Any]]:
    """Return the columns of the rows after the last label; times are texts."""
    from undrift.run.tables import as_lists
    from undrift.stream.extras import polars

    columns = result.columns(result.unlabelled)
    del columns["y"]
    return as_lists(polars("undrift mix").DataFrame(columns))


def _show(result: MixResult, out: Path | None) -> None:
    """Print the scores, what is proven, and the rows to come."""
    measures, scored = list(result.scores[0].errors), result.scores[-1].rows
    print(printable(f"'{result.target}': {len(result.y):,} rows, {scored:,} with a label and a forecast"))
    partial, main = any(score.rows < scored for score in result.scores), TITLES[measures[0]]
    titles = ["forecast", *(["rows"] if partial else []), *(TITLES[measure] for measure in measures)]
    print_table(
        [*titles, *([f"{main} of the mix there"] if partial else []), "weight now"],
        [
            [
                f"{score.name} of all" if score.kind == "combined" else score.name,
                *([f"{score.rows:,}"] if partial else []),
                *map(format_number, score.errors.values()),
                *([format_number(score.mix_error)] if partial else []),
                "" if score.weight is None else f"{score.weight:.1%}",
            ]
            for score in result.scores
        ],
    )
    for sentence in _sentences(result, main):
        print(printable(sentence))
    if result.unlabelled:
        columns = _next_rows(result)
        rows = list(zip(*columns.values(), strict=True))
        shown = rows if len(rows) <= SHOWN + 1 else [*rows[:SHOWN], rows[-1]]
        cells = [[*("-" if cell is None else f"{cell}" for cell in row[:-1]), f"{row[-1]:.6g}"] for row in shown]
        print_table([*(name for name in columns if name != "yhat"), f"forecast of {result.target}"], cells)
    if out is not None:
        print(printable(f"predictions of all rows: {out}"))


def _sentences(result: MixResult, main: str) -> list[str]:
    """Return how the mix compares with the mean and the best candidate, and what is proven."""
    from undrift.report.formatting import number, percent

    by_name = {(score.kind, score.name): score for score in result.scores}
    mean, best = by_name["combined", "mean"], by_name["candidate", result.best]
    sentences = [
        f"The {main} of the mix is {number(_ratio(mean))} times that of the mean of all, and {number(_ratio(best))} "
        f"times that of the best single forecast, '{result.best}'."
    ]
    found = result.model.certificate()
    if not found.total_loss > 0.0:
        return sentences
    unit = " (half the squared errors)" if result.model.loss.name == "squared" else ""
    vacuous = ", which is vacuous" if found.bound >= found.total_loss else ""
    excess = found.excess
    measured = "" if excess is None else f"; measured: {number(excess)} ({percent(excess / found.total_loss)})"
    sentences.append(
        f"Total loss of the mix{unit}: {number(found.total_loss)}. Proven excess over the best fixed weighted mean in "
        f"hindsight: at most {number(found.bound)} ({percent(found.bound / found.total_loss)}){vacuous}{measured}."
    )
    return sentences


def _ratio(score: MixScore) -> float | None:
    """Return the error of the mix over that of another forecast, in the rows of that one."""
    error = next(iter(score.errors.values()))
    return score.mix_error / error if error and score.mix_error is not None else None
