"""`undrift run --live`: predictions as JSON lines, each as soon as its row comes."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from undrift.cli.exit_codes import ExitCode
from undrift.cli.output import printable
from undrift.errors import DataError, InputError
from undrift.events import Event

NOT_LIVE = {
    "lag": (), "delay": 0, "weight": None, "elapsed": False, "calendar": False, "missing": "auto", "time_format": None,
    "delimiter": None,
}  # fmt: skip
"""Settings of runs over files that rows from a pipe have no use for, and their defaults."""


def run_live(path: str, values: dict[str, Any], *, id_column: str | None, quiet: bool) -> int:
    """Print a prediction for each row of a pipe or a file of JSON lines before its label is learned."""
    from undrift.run.play.live import play_live
    from undrift.run.read.source import Source
    from undrift.run.settings import Settings

    settings = Settings.from_dict({**values, "format": "ndjson"} if values.get("format", "auto") == "auto" else values)
    for name, default in NOT_LIVE.items():
        if getattr(settings, name) != default:
            raise InputError(
                f"--{name.replace('_', '-')}: not for rows as they come; leave it out, or leave out --live"
            )
    if settings.format != "ndjson":
        raise InputError(f"--live reads one JSON object a line, not {settings.format}; leave out --format")
    bad = changes = rows = 0

    def complain(error: DataError) -> None:
        nonlocal bad
        bad += 1
        if not quiet:
            print(printable(f"undrift: {error}; left out"), file=sys.stderr, flush=True)

    def tell(event: Event) -> None:
        nonlocal changes
        changes += 1
        _print({"event": str(event.kind), "line": event.row, "feature": event.feature, "sentence": event.sentence})

    lines = Source(path, settings).lines()
    try:
        for said in play_live(
            lines, settings, id_column=id_column, complain=complain, on_event=tell if settings.alert else None
        ):
            _print(said.as_dict())
            rows += 1
            if rows == settings.limit:
                break
    except BrokenPipeError:  # the reader has enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it ends
        return ExitCode.FINE
    if bad:
        return ExitCode.BAD_DATA
    return ExitCode.CHANGE_FOUND if changes else ExitCode.FINE


def _print(values: dict[str, Any]) -> None:
    print(json.dumps(values, allow_nan=False), flush=True)
