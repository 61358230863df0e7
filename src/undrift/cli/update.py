"""`undrift update`: new rows for a folder that an earlier command left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undrift.cli import run_options as options
from undrift.cli.output import print_error


def update(
    folder: Annotated[Path, typer.Argument(help="Folder of undrift forecast.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="File with new rows, or the old file with rows added.", show_default=False)
    ],
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Learn the new rows of FILE where an earlier command stopped: nothing twice, the same bits as one long file.

    Rows that were learned before are skipped and counted; a file that was learned already is refused.
    """
    from undrift.cli.forecast import show
    from undrift.report import render_forecast
    from undrift.run import update_forecast

    log = None if quiet else print_error
    result = update_forecast(folder, file, log=log, report=render_forecast if report else None)
    show(result, report=report, json=json)
    return 0
