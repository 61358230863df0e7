"""`undrift demo`: the main job, on a stream that ships with the package."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.run import run_and_report
from undrift.cli.run_options import Json, Quiet, Report

SETTINGS = {"target": "departures", "calendar": True, "lag": [1, 24, 168]}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; replaced if it is one.")] = Path(
        "undrift-demo"
    ),
    report: Report = True,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict how many flights leave New York in the next hour, through all of 2013, and report how that went.

    The same as: undrift run nyc_departures.csv.gz --target departures --calendar --lag 1,24,168
    """
    with as_file(files("undrift") / "data" / "nyc_departures.csv.gz") as path:
        done = {"resume": False, "force": True, "report": report, "certify": True}
        return run_and_report(str(path), out, dict(SETTINGS), **done, quiet=quiet, json=json)
