"""SavePoint: whatever a call raises, an interrupt included, leaves the learner as it was before the call."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps in enumerations, which take longer than a row
import functools
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SIGINT = int(signal.SIGINT)


class SavePoint:
    """`with SavePoint(learner): ...` puts everything the learner holds back in place if the block raises.

    A signal handler may raise between any two operations of Python, also right after a compiled loop has advanced the
    arrays and before the rounds are counted. Nobody could tell then which rows were learned.

    Arrays, lists, tuples, dicts and undrift's own objects are looked into. A class may say by `derived_work = True`
    that all it holds follows from the rest, and by `fixed_values` which fields hold values that never change.
    With `committed`, nothing is put back once that is true: the call had done everything.
    """

    def __init__(self, owner: Any, *, leave: tuple[str, ...] = (), committed: Callable[[], bool] | None = None) -> None:
        self._committed = committed
        self._arrays: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._fields: list[tuple[Any, dict[str, Any]]] = [(owner, dict(vars(owner)))]
        todo, seen = [value for name, value in vars(owner).items() if name not in leave], {id(owner)}
        while todo:
            found = todo.pop()
            kind: Any = type(found)
            if id(found) in seen or kind in (str, int, float, bool):
                continue
            seen.add(id(found))
            if kind is np.ndarray:
                if found.flags.writeable:
                    self._arrays.append((found, found.copy()))
            elif kind is list:
                self._lists.append((found, found.copy()))
                todo += found
            elif kind is dict:
                self._dicts.append((found, found.copy()))
                todo += found.values()
            elif isinstance(found, tuple):
                todo += found
            elif _is_looked_into(kind):
                self._fields.append((found, dict(vars(found))))
                fixed = getattr(kind, "fixed_values", ())
                todo += [value for name, value in vars(found).items() if name not in fixed]
                for name in fixed:
                    if isinstance(items := vars(found)[name], dict):
                        self._dicts.append((items, items.copy()))

    def restore(self) -> None:
        """Put everything back, and let objects do what follows from it (`_after_restore`)."""
        for array, before in self._arrays:
            array[...] = before
        for values, before_values in self._lists:
            values[:] = before_values
        for items, before_items in self._dicts:
            items.clear()  # they come back in their order
            items.update(before_items)
        for owner, fields in self._fields:
            put_back(owner, fields)
        for owner, _ in self._fields:
            if hasattr(owner, "_after_restore"):
                owner._after_restore()

    def __enter__(self) -> SavePoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not (self._committed and self._committed()):
            self.restore()


class HeldInterrupt:
    """`with HeldInterrupt(): ...` lets Ctrl-C wait for the end of the block; it only ever comes to the main thread."""

    _before: Any = None
    _came: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread() and callable(_signal.getsignal(_SIGINT)):
            self._before = _signal.signal(_SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number, frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            _signal.signal(_SIGINT, self._before)
            if self._came is not None:
                self._before(*self._came)


def put_back(owner: Any, fields: dict[str, Any]) -> None:
    """Give an object the fields it had before."""
    now = vars(owner)
    now.update(fields)
    for name in now.keys() - fields.keys():
        del now[name]


@functools.cache
def _is_looked_into(kind: Any) -> bool:
    """Whether objects of a class, ours or derived from ours, hold state of their own."""
    ours = any(base.__module__.partition(".")[0] == "undrift" for base in kind.__mro__)
    return ours and kind.__dictoffset__ != 0 and not issubclass(kind, type) and not getattr(kind, "derived_work", False)
