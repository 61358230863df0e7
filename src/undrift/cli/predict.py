"""`undrift predict`: what a saved model says about rows of a file; nothing is learned."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Self

import typer

from undrift._internal.folder import explain_disk_errors
from undrift._internal.stopping import Interrupted, StopRequest
from undrift.cli.output import format_json, format_number, print_error, print_json, printable
from undrift.cli.run_options import FORMAT, Json, Quiet, split_words
from undrift.cli.signals import stop_signals
from undrift.errors import InputError

if TYPE_CHECKING:
    from undrift.run import Predictions
    from undrift.run.tables import TableFile


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a run, or a model file of one (its run.json beside it).")],
    file: Annotated[str, typer.Argument(help="CSV, JSON, Excel or Parquet file with the same columns; - is stdin.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write .csv or .parquet [default: CSV to the standard output].")
    ] = None,
    level: Annotated[
        float | None, typer.Option("--level", help="Level of the intervals [default: that of the run].")
    ] = None,
    quantiles: Annotated[
        list[str] | None, typer.Option("--quantiles", help="Levels of quantiles, 0.1,0.5,0.9 [default: the run's].")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Write what each column adds to each prediction beside its usual value.")
    ] = False,
    format: str | None = FORMAT,  # noqa: A002  # the option's name
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict the rows of FILE with the model as it stands; nothing is learned.

    Every row is taken as the one that might come next. Missing values are filled with the last ones the model saw.
    Labels in FILE only serve the lags of later rows; a row whose earlier labels are not known has no interval.
    Intervals were learned one row ahead: they are too narrow for later rows if the target drifts meanwhile.

    With --explain, the columns are the prediction, the usual one (every column at its mean over the last rows), what
    each column adds, and what they add together; of classes the log-odds of the likeliest label.
    """
    kind = None if out is None else out.suffix.lower()
    if kind not in (None, ".csv", ".parquet"):
        raise InputError(f"{out}: predictions are written as .csv or .parquet, got {kind or 'no ending'}")
    from undrift.run import predict_file
    from undrift.run.tables import TableFile

    table = None if out is None else TableFile(out)

    def what_is_left() -> str:
        if table is None:
            return "the output is not complete, start again"
        table.discard()
        return f"{out} is {'written' if table.written else 'as it was before'}"

    with stop_signals(what_is_left) as stop:
        with stop.interruptible():
            result = predict_file(model, file, level, stop, format or "auto", _levels(quantiles), explained=explain)
        if table is not None:
            _write(result, table, quiet, json)
        elif json:
            _print_json(result, quiet, stop)
        else:
            _print_csv(result, quiet)
    return 0


def _levels(given: list[str] | None) -> list[float] | None:
    """Return the levels of quantiles that were asked for; None for those of the run."""
    words = split_words(given)
    try:
        levels = [float(word) for word in words]
    except ValueError:
        levels = [math.nan]
    if not all(0.005 <= level <= 0.995 for level in levels):
        raise InputError(f"--quantiles must be levels in [0.005, 0.995] such as 0.1,0.5,0.9, got {', '.join(words)}")
    return levels or None


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
    from undrift.run.tables import as_lists

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
    from undrift.run.tables import csv_pieces

    for piece in csv_pieces(result.frames()):
        sys.stdout.write(piece)
        sys.stdout.flush()  # so that what is stopped ends with a whole row
    _print_notes(result, quiet)


def _print_notes(result: Predictions, quiet: bool) -> None:
    for note in () if quiet else result.notes:
        print_error(note)


def _facts(result: Predictions, file: str | None) -> dict[str, Any]:
    return {"rows": result.rows, "target": result.target, "file": file, "notes": list(result.notes)}


BLOCK = 1 << 16
"""Characters copied at a time."""
FILES = Path("temporary files")
"""Whose disk may be full, for the sentence."""


class JsonColumns:
    """Columns as text in temporary files without a name, one for each: nothing is left of them, whatever happens.

    JSON has one column after the other, while rows bring a little of each.
    """

    def __init__(self) -> None:
        self._files: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # of a full disk, which was said before
                file.close()

    def add(self, columns: Mapping[str, list[object]]) -> None:
        """Append some rows, at least one; every call brings the same columns."""
        with explain_disk_errors(FILES):
            for name, cells in columns.items():
                begin = "," if name in self._files else ""
                if not begin:
                    file = tempfile.TemporaryFile("w+", encoding="ascii", newline="")  # noqa: SIM115  # closed at the exit
                    self._files[name] = file
                text = format_json(cells, indent=None, separators=(",\n      ", ": "))
                self._files[name].write(f"{begin}\n      {text[1:-1]}")

    def pieces(self, facts: Mapping[str, object], name: str) -> Iterator[str]:
        """Yield the text of the facts with the columns as their last entry, as `print_json` would print it."""
        yield format_json(facts).removesuffix("\n}") + f",\n  {json.dumps(name)}: {{"
        for number, (column, file) in enumerate(self._files.items()):
            with explain_disk_errors(FILES):
                file.seek(0)  # which writes what is left
            yield f"{',' if number else ''}\n    {json.dumps(column)}: ["
            while block := file.read(BLOCK):
                yield block
            yield "\n    ]"
        yield "\n  }\n}\n"
