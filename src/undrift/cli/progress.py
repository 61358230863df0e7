"""A bar on stderr while a run goes on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from undrift.cli.output import console, printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from undrift.run import Progress


class ProgressBar:
    """Shows how far a run is, on a terminal only; `quiet` says nothing at all."""

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
