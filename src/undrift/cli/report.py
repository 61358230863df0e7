"""`undrift report`: the page about a run as it is now, after a service, an update, or a rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from undrift.cli.output import print_json, printable
from undrift.cli.run_options import Json
from undrift.errors import InputError


def report(
    run: Annotated[Path, typer.Argument(help="Folder of a run that was played, updated or served.")],
    json: Json = False,
) -> int:
    """Write report.html of RUN from what its folder holds: predictions, scores, the model, events, certificates.

    `undrift run` and `update` do this by themselves. A service does not, and a rollback removes the page, which was of
    another version. Certificates are those of `undrift certify`, if rows have come since, none.
    """
    from undrift._internal.state_file import COMMANDS, find_kind
    from undrift.report import render
    from undrift.run import write_report

    kind = find_kind(run)
    if kind not in (None, "run"):
        raise InputError(f"{run}: `{COMMANDS[kind]}` and `undrift update` write the report of a folder of this kind")
    page = write_report(run, render)
    if json:
        print_json({"run": str(run), "report": str(page)})
    else:
        print(printable(str(page)))
    return 0
