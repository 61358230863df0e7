"""Decorators that guard the methods of an object which several threads may use, with one readers-writer lock.

Methods that only read the object (predictions) hold the lock shared, methods that change it hold it exclusively. The
object keeps the lock (`kernels.Lock`) as `_exclusive_lock` and its shared side as `_shared_lock`. Threads get the lock
in the order in which they asked for it, so that neither predictions nor learning can starve. A method that holds the
lock may call other methods of the same object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Readable(Protocol):
    """An object whose reading can be guarded: it has the shared side of a lock."""

    @property
    def _shared_lock(self) -> AbstractContextManager[None]: ...


class Changeable(Protocol):
    """An object whose changes can be guarded: it has a lock."""

    @property
    def _exclusive_lock(self) -> AbstractContextManager[None]: ...


Reader = TypeVar("Reader", bound=Readable)
Self = TypeVar("Self", bound=Changeable)
Given = ParamSpec("Given")
Result = TypeVar("Result")
Owner = TypeVar("Owner")
Method = Callable[Concatenate[Owner, Given], Result]


def hold_shared(method: Method[Reader, Given, Result]) -> Method[Reader, Given, Result]:
    """Let `method` run at the same time as others that hold the lock shared, but not while the object changes."""

    @functools.wraps(method)
    def call(self: Reader, /, *args: Given.args, **more: Given.kwargs) -> Result:
        with self._shared_lock:
            return method(self, *args, **more)

    return call


def hold_exclusive(method: Method[Self, Given, Result]) -> Method[Self, Given, Result]:
    """Let `method` run while no other thread reads or changes the object."""

    @functools.wraps(method)
    def call(self: Self, /, *args: Given.args, **more: Given.kwargs) -> Result:
        with self._exclusive_lock:
            return method(self, *args, **more)

    return call
