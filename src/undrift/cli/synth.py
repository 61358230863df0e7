"""`undrift synth`: a drifting stream with known truth, as a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.output import print_json, printable
from undrift.cli.run_options import Json
from undrift.errors import InputError


def synth(
    kind: Annotated[str, typer.Argument(help="abrupt, gradual, seasonal or recurring drift.")],
    out: Annotated[Path, typer.Argument(help="File to write: .csv (also .csv.gz) or .parquet.")],
    task: Annotated[str, typer.Option("--task", help="regression, or classification.")] = "regression",
    rows: Annotated[int, typer.Option("--rows", "-n", help="Rows.")] = 10_000,
    features: Annotated[int, typer.Option("--features", "-d", help="Features.")] = 5,
    noise: Annotated[float, typer.Option("--noise", help="Deviation of the noise in labels.")] = 0.5,
    period: Annotated[
        float | None, typer.Option("--period", help="Rows between changes, or of a season [default: a tenth].")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another stream.")] = 0,
    truth: Annotated[
        Path | None, typer.Option("--truth", help="Also write the true coefficients of every row to this file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    json: Json = False,
) -> int:
    """Write a stream whose drift is known: columns x1, x2, ..., y.

    With --truth, a second file has the coefficients that were true in each row, and what someone who knew them would
    have said.
    """
    from undrift.run.tables import ENDINGS, write_table
    from undrift.streams import synthetic

    for path in (out, truth):
        if path is not None and not path.name.lower().endswith(ENDINGS):
            raise InputError(f"{path}: streams are written as {', '.join(ENDINGS)}; name the file so")
        if path is not None and os.path.lexists(path) and not force:
            raise InputError(f"{path}: there is a file already; replace it with --force, or name another one")
    stream = synthetic(kind, task=task, rounds=rows, dim=features, noise=noise, period=period, seed=seed)
    names = [f"x{j + 1}" for j in range(features)]
    labels = stream.y if task == "regression" else stream.y.astype(int)
    write_table(out, dict(zip(names, stream.Z.T, strict=True)) | {"y": labels})
    if truth is not None:
        write_table(truth, dict(zip(names, stream.u.T, strict=True)) | {"yhat": stream.clean})
    if json:
        print_json({"file": str(out), "truth": None if truth is None else str(truth), "rows": rows, "kind": kind})
    else:
        print(printable(f"{out}: {rows:,} rows of {kind} drift; try: undrift run {out} --target y"))
    return 0
