"""Exit codes, and printing: tables and progress for people, one JSON object for programs; files written whole."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from undrift import store
from undrift.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    from undrift.run import Progress

_COMMAND = re.compile(r"undrift [a-z-]+: ")


def format_number(x: float | None, digits: int = 4) -> str:
    """Return a number as a table shows it.

    >>> format_number(0.000124561), format_number(3.0), format_number(None), format_number(1234567.0)
    ('1.246e-04', '3', '-', '1.235e+06')
    """
    if x is None or math.isnan(x):
        return "-"
    if x == 0.0 or 1e-3 <= abs(x) < 1e5 or math.isinf(x):
        return f"{x:.{digits}g}"
    return f"{x:.{digits - 1}e}"


def printable(text: str) -> str:
    r"""Return a text on one line, with what a terminal would act on shown instead; names from files may hold anything.

    >>> printable("a\nb\x1b[31m")
    'a\\nb\\x1b[31m'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def format_beta(gap: float) -> str:
    """Return a discount with as many nines as it has, from 1 - beta.

    >>> format_beta(0.1), format_beta(0.000976), format_beta(1e-12)
    ('0.9', '0.999024', '1 - 1.000e-12')
    """
    if gap < 1e-9:
        return f"1 - {gap:.3e}"
    return f"{1.0 - gap:.{max(1, 3 - math.floor(math.log10(gap)))}f}".rstrip("0")


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table to stdout, as wide as it needs when nobody is watching."""
    from rich import box
    from rich.table import Table

    heading = None if title is None else printable(title)
    grid = Table(box=box.SIMPLE_HEAD, title=heading, title_justify="left", pad_edge=False)
    for header in headers:
        grid.add_column(printable(header), overflow="fold")  # two long names must not look alike because they are cut
    for row in rows:
        grid.add_row(*(printable(cell) for cell in row))
    console(sys.stdout).print(grid)


def console(file: TextIO) -> Console:
    """Return a console that prints every text as it is: names from files may look like markup or emoji codes."""
    from rich.console import Console

    width = None if file.isatty() else 160
    return Console(file=file, width=width, markup=False, emoji=False, highlight=False)


def print_error(what: object) -> None:
    """Print a sentence on stderr, on one line; undrift speaks unless the sentence begins with one of its commands."""
    text = printable(str(what))
    print(text if _COMMAND.match(text) else f"undrift: {text}", file=sys.stderr)


def print_interrupted(left: str) -> None:
    """Print on stderr that the user stopped a command, and what is left of its work."""
    print_error(f"interrupted; {left}")


def print_json(value: object) -> None:
    """Print one JSON object to stdout; what is not a finite number is null."""
    print(format_json(value))


def format_json(value: object, indent: int | None = 2, separators: tuple[str, str] | None = None) -> str:
    """Return JSON; what is not a finite number is null."""
    return json.dumps(_finite(value), indent=indent, separators=separators, allow_nan=False)


def write_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    try:
        store.replace(path, content)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another file") from None


def _finite(value: object) -> object:
    """Return a value for JSON, None in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


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


class ProgressBar:
    """Show how far a run is, on a terminal only; print nothing if `quiet`."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self._bar: RichProgress | None = None

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
            )
            self._bar = RichProgress(*columns, console=console(sys.stderr), transient=True)
            self._task = self._bar.add_task("reading", total=None)
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def update(self, progress: Progress) -> None:
        """Show where the run is."""
        if self._bar is not None:
            text = f"{progress.rows:,} rows, error lately {progress.latest_error:.4g}"
            total = None if progress.fraction is None else 1.0
            self._bar.update(self._task, description=text, completed=progress.fraction, total=total)

    def show(self, doing: str, done: float) -> None:
        """Show what is being done, and which share of it is."""
        if self._bar is not None:
            self._bar.update(self._task, description=doing, completed=done, total=1.0)

    def log(self, text: str) -> None:
        """Print a line on stderr."""
        if self.quiet:
            return
        if self._bar is None:
            print(printable(text), file=sys.stderr)
        else:
            self._bar.console.print(printable(text))

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
