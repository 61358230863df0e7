"""`undrift predict`: what a saved model says about rows of a file; nothing is learned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli.json_columns import JsonColumns
from undrift.cli.output import format_number, print_error, print_interrupted, print_json, printable
from undrift.cli.run_options import Format, Json, Quiet
from undrift.cli.signals import stop_signals
from undrift.errors import InputError
from undrift.stopping import Interrupted, StopRequest

if TYPE_CHECKING:
    from undrift.run import Predictions
    from undrift.run.write.tables import TableFile


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a run, or a model file of one (its run.json beside it).")],
    file: Annotated[str, typer.Argument(help="CSV, JSON, Excel or Parquet file with the same columns; - is stdin.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write .csv or .parquet [default: CSV to the standard output].")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Of the intervals, for numbers.")] = 0.9,
    format: Format = None,  # noqa: A002  # the option's name
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict the rows of FILE with the model as it stands; nothing is learned.

    Every row is taken as the one that might come next. Missing values are filled with the last ones the model saw.
    Labels in FILE only serve the lags of later rows. Intervals were learned one row ahead: with lags, only the first
    row has one; without, they are too narrow for later rows if the target drifts meanwhile.
    """
    kind = None if out is None else out.suffix.lower()
    if kind not in (None, ".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written as .csv or .parquet, got {kind or 'no ending'}")
    from undrift.run import predict_file
    from undrift.run.write.tables import TableFile

    table = None if out is None else TableFile(out)

    def what_is_left() -> str:
        if table is None:
            return "the output is not complete, start again"
        table.discard()
        return f"{out} is {'written' if table.written else 'as it was before'}"

    with stop_signals(what_is_left) as stop:
        try:
            with stop.interruptible():
                result = predict_file(model, file, level, stop, format or "auto")
            if table is not None:
                _write(result, table, quiet, json)
            elif json:
                _print_json(result, quiet, stop)
            else:
                _print_csv(result, quiet)
        except Interrupted:
            print_interrupted(what_is_left())
            return stop.code
    return 0


def _write(result: Predictions, table: TableFile, quiet: bool, json: bool) -> None:
    table.write(result.frames())
    if not quiet:
        print(printable(f"{result.rows:,} rows predicted, {table.path}"), file=sys.stderr)
    _print_notes(result, quiet)
    if json:
        print_json(_facts(result, str(table.path)))
    elif not quiet:
        low, mean, high = result.spread()
        spread = f"from {format_number(low)} to {format_number(high)}, {format_number(mean)} on average"
        print(printable(f"predictions of '{result.target}' {spread}"))


def _print_json(result: Predictions, quiet: bool, stop: StopRequest) -> None:
    from undrift.run.write.tables import as_lists

    with JsonColumns() as columns:
        for frame in result.frames():
            columns.add(as_lists(frame))
        _print_notes(result, quiet)
        for piece in columns.pieces(_facts(result, None), "predictions"):
            if stop():
                raise Interrupted
            sys.stdout.write(piece)
        sys.stdout.flush()


def _print_csv(result: Predictions, quiet: bool) -> None:
    from undrift.run.write.tables import csv_pieces

    for piece in csv_pieces(result.frames()):
        sys.stdout.write(piece)
        sys.stdout.flush()  # so that what is stopped ends with a whole row
    _print_notes(result, quiet)


def _print_notes(result: Predictions, quiet: bool) -> None:
    for note in () if quiet else result.notes:
        print_error(note)


def _facts(result: Predictions, file: str | None) -> dict[str, Any]:
    return {"rows": result.rows, "target": result.target, "file": file, "notes": list(result.notes)}
