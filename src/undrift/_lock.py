"""Methods of objects that several threads may use: predictions share the object's lock, the rest holds it alone.

An object has one lock (`kernels.Lock`), kept as `_alone`, and its readers' side as `_shared`. Threads get it in the
order they asked, so that neither predictions nor learning starve; a method may call others of the same object.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Locked(Protocol):
    """An object with a lock."""

    @property
    def _alone(self) -> AbstractContextManager[None]: ...

    @property
    def _shared(self) -> AbstractContextManager[None]: ...


Self = TypeVar("Self", bound=Locked)
Given = ParamSpec("Given")
Result = TypeVar("Result")
Method = Callable[Concatenate[Self, Given], Result]


def shared(method: Method[Self, Given, Result]) -> Method[Self, Given, Result]:
    """Share the object's lock with other readers while `method` runs."""

    @functools.wraps(method)
    def call(self: Self, /, *args: Given.args, **more: Given.kwargs) -> Result:
        with self._shared:
            return method(self, *args, **more)

    return call


def alone(method: Method[Self, Given, Result]) -> Method[Self, Given, Result]:
    """Hold the object's lock alone while `method` runs."""

    @functools.wraps(method)
    def call(self: Self, /, *args: Given.args, **more: Given.kwargs) -> Result:
        with self._alone:
            return method(self, *args, **more)

    return call
