"""Where a run comes from: versions, the kernels' level, the machine, and the file with its digest."""

from __future__ import annotations

import datetime as dt
import platform
from typing import Any

import undrift
from undrift import kernels
from undrift.run.read.source import Source


def make_provenance(source: Source, command: str) -> dict[str, Any]:
    """Return the provenance of a run that begins now."""
    return {
        "undrift": undrift.__version__,
        "kernels": kernels.level(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "source": {
            "path": source.name,
            "absolute": None if source.stdin else str(source.path.absolute()),
            "size": source.size,
            "sha256": source.digest(),
        },
        "command": command,
        "started": now(),
        "finished": None,
        "seconds": 0.0,
    }


def now() -> str:
    """Return the time in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
