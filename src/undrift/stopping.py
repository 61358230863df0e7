"""A wish to stop: long work asks for it between steps, and waits can be cut short at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Interrupted(Exception):
    """The user asked to stop; everything so far is saved."""


class Stop:
    """Whether the user asked to stop.

    Parameters
    ----------
    asked
        A function that says so; None: nobody asked before `ask` is called.

    Examples
    --------
    >>> stop = Stop()
    >>> stop.ask()
    >>> stop()
    True
    """

    def __init__(self, asked: Callable[[], bool] | None = None) -> None:
        self._function, self._asked, self._waiting = asked, False, False

    def __call__(self) -> bool:
        """Whether to stop before the next step."""
        return self._asked or (self._function is not None and self._function())

    def ask(self) -> None:
        """Ask to stop, from a signal handler: in `waiting` by raising Interrupted there and then."""
        self._asked = True
        if self._waiting:
            self._waiting = False
            raise Interrupted

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Allow `ask` to raise inside this block, because nothing in it can be left half done."""
        if self._asked:
            raise Interrupted
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False
