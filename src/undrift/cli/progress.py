"""A bar on stderr while a run goes on, and Ctrl-C as a wish to stop at the next commit."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from undrift.cli.output import plain

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

    from undrift.run import Progress


class Bar:
    """Shows how far a run is, on a terminal only; `quiet` says nothing at all."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self._asked = quiet, False
        self._bar: RichProgress | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._ask)
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("reading", total=None)
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
        self.release()

    def release(self) -> None:
        """Let Ctrl-C end the process at once again: what is to come can be done again."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self._asked:  # the second Ctrl-C does not wait
            raise KeyboardInterrupt
        self._asked = True

    def stopped(self) -> bool:
        """Whether the user asked to stop."""
        return self._asked

    def update(self, progress: Progress) -> None:
        """Show where the run is."""
        if self._bar is not None:
            text = f"{progress.rows:,} rows, loss lately {progress.lately:.4g}"
            total = None if progress.fraction is None else 1.0
            self._bar.update(self._task, description=text, completed=progress.fraction, total=total)

    def say(self, text: str) -> None:
        """Print a line on stderr."""
        if self.quiet:
            return
        if self._bar is None:
            print(plain(text), file=sys.stderr)
        else:
            self._bar.console.print(plain(text), highlight=False, markup=False)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
