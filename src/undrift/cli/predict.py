"""`undrift predict`: what a saved model says about rows of a file; nothing is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.output import as_json, number, plain
from undrift.cli.run_options import Json, Quiet


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a run, or a model file of one (its run.json beside it).")],
    file: Annotated[str, typer.Argument(help="CSV, Parquet or NDJSON file with the same columns; - is stdin.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write .csv or .parquet [default: CSV to the standard output].")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Of the intervals, for numbers.")] = 0.9,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict the rows of FILE with the model as it stands; nothing is learned.

    Every row is taken as the one that might come next. Missing values are filled with the last ones the model saw.
    Labels in FILE only serve the lags of later rows. Intervals were learned one row ahead: with lags, only the first
    row has one; without, they are too narrow for later rows if the target drifts meanwhile.
    """
    import sys

    from undrift.run import predictions

    result = predictions(model, file, level)
    kind = None if out is None else out.suffix.lower()
    if kind not in (None, ".csv", ".parquet"):
        from undrift.errors import InputError

        raise InputError(f"{out}: predictions are written as .csv or .parquet, got {kind or 'no ending'}")
    if out is not None:
        result.write(out)
        if not quiet:
            print(plain(f"{result.rows:,} rows predicted, {out}"), file=sys.stderr)
    for note in result.notes:
        if not quiet:
            print(plain(f"undrift: {note}"), file=sys.stderr)
    if json:
        facts = {"rows": result.rows, "target": result.target, "file": None if out is None else str(out)}
        facts |= {"notes": list(result.notes)}
        as_json(facts | ({"predictions": result.columns()} if out is None else {}))
    elif out is None:
        sys.stdout.write(result.csv())
    elif not quiet:
        low, mean, high = result.spread()
        spread = f"from {number(low)} to {number(high)}, {number(mean)} on average"
        print(plain(f"predictions of '{result.target}' {spread}"))
    return 0
