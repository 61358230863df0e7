"""Exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command returns to the shell; stopped by a signal, it is 128 and the signal's number."""

    FINE = 0
    UNEXPECTED = 1
    USAGE = 2
    BAD_DATA = 3
    CERTIFICATE_FAILED = 4
    CONDITION_NOT_MET = 5
    CHANGE_FOUND = 6
    INTERRUPTED = 130
