"""`undrift demo`: the main job, on a stream that ships with the package."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.run import carried_out
from undrift.cli.run_options import Json, Quiet

SETTINGS = {"target": "departures", "calendar": True, "lag": [1, 24, 168]}


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run; replaced if it is one.")] = Path(
        "undrift-demo"
    ),
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")] = True,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Predict how many flights leave New York in the next hour, through all of 2013, and report how that went.

    The same as: undrift run nyc_departures.csv.gz --target departures --calendar --lag 1,24,168
    """
    with as_file(files("undrift") / "data" / "nyc_departures.csv.gz") as path:
        return carried_out(str(path), out, dict(SETTINGS), False, True, report, True, quiet, json)
