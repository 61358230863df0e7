"""Requests to stop: long work looks for one between steps, and waits end at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Interrupted(Exception):
    """The user asked to stop; everything so far is saved."""


class StopRequest:
    """Whether the user asked to stop.

    Parameters
    ----------
    asked
        A function that says so; None: nobody asked before `request` is called.

    Examples
    --------
    >>> stop = StopRequest()
    >>> stop.request()
    >>> stop()
    True
    """

    def __init__(self, asked: Callable[[], bool] | None = None) -> None:
        self._function, self._requested, self._interruptible = asked, False, False

    def __call__(self) -> bool:
        """Whether to stop before the next step."""
        return self._requested or (self._function is not None and self._function())

    def request(self) -> None:
        """Request to stop, from a signal handler; inside `interruptible` Interrupted is raised there and then."""
        self._requested = True
        if self._interruptible:
            self._interruptible = False
            raise Interrupted

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Allow `request` to raise inside this block, because nothing in it can be left half done."""
        if self._requested:
            raise Interrupted
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False
