"""Serializable: what is a JSON header and named float64 arrays is copied, compared, pickled and saved by them.

Learners, ensembles, `MultiOutputRegressor` and `Forecaster` do all four through two descriptions of themselves: what a
fresh one is made with (`_construction`), and what it has become since (`snapshot`, taken over by `_load_snapshot`).
A file holds both as data, so that the first is read from the header again (`_saved_construction`); copies and pickles
keep the very arguments, which may be of the user's own classes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from undrift import _check, kernels, store
from undrift._typing import Arrays
from undrift.errors import InputError, ModelFileError, UndriftWarning


class Construction(NamedTuple):
    """Arguments of a constructor."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class Serializable:
    """Something that is made with arguments, and that a header and arrays describe whole."""

    unusable: ClassVar[tuple[type[Exception], ...]] = (KeyError, TypeError, InputError)
    """What a header that describes none raises while one is made from it."""

    def _construction(self) -> Construction:
        """Return the arguments that a fresh one with the same parameters is made with."""
        raise NotImplementedError

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        """Return the same from the header of a snapshot."""
        raise NotImplementedError

    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything it is: a JSON header and its arrays, copied."""
        raise NotImplementedError

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        """Take over what a snapshot says, just after construction; refuse what does not fit."""
        raise NotImplementedError

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        """Return what `snapshot` described; refuse what does not fit."""
        try:
            return restore(cls, cls._saved_construction(header), header, arrays)
        except cls.unusable as error:
            raise ModelFileError(f"{cls.__name__}: the saved parameters cannot be used ({error})") from None

    def clone(self) -> Self:
        """Return a fresh one with the same parameters."""
        made_with = self._construction()
        return type(self)(*made_with.positional, **made_with.named)

    def copy(self) -> Self:
        """Return one with the same parameters and state, sharing nothing."""
        return restore(type(self), self._construction(), *self.snapshot())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a data-only file that `undrift.load` reads; whole or not at all."""
        header, arrays = self.snapshot()
        store.write(_check.path(self, path), {**header, "level": kernels.level()}, arrays)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        (header, arrays), (header2, arrays2) = self.snapshot(), other.snapshot()
        same = header == header2 and arrays.keys() == arrays2.keys()
        return same and all(arrays[name].tobytes() == arrays2[name].tobytes() for name in arrays)

    __hash__ = None  # type: ignore[assignment]  # it changes as it learns

    def __reduce__(self) -> tuple[Callable[..., object], tuple[Any, ...]]:
        return restore, (type(self), self._construction(), *self.snapshot())


Made = TypeVar("Made", bound=Serializable)


def restore(cls: type[Made], made_with: Construction, header: store.Header, arrays: Arrays) -> Made:
    """Return one that is made with these arguments and has the state of a snapshot."""
    made = cls(*made_with.positional, **made_with.named)
    made._load_snapshot(header, arrays)
    return made


def read_model(cls: type[Made], path: str | os.PathLike[str]) -> Made:
    """Return the model of class `cls` that `save` wrote to `path`, or say what is wrong with the file."""
    header, arrays = store.read(path)
    level = header.pop("level", None)
    try:
        model = cls._from_snapshot(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    warn_if_level_differs(f"{path} was saved", level, stacklevel=4)
    return model


def warn_if_level_differs(what: str, level: object, stacklevel: int = 3) -> None:
    """Warn, by default with the caller's caller as the place, if `level` is not the kernel level in use.

    Going on is allowed: only the bits are promised within a level, and the last bits are all that differs.
    """
    if level == kernels.level():
        return
    cure = f"; UNDRIFT_KERNELS={level} keeps the bits" if level in kernels.levels() else ""
    warnings.warn(
        f"{what} at kernel level {level}, the level in use is {kernels.level()}: numbers may differ in the last bits "
        f"from a run that stayed at one level{cure}",
        UndriftWarning,
        stacklevel=stacklevel,
    )


def fill_arrays(who: str, own: Arrays, saved: Arrays) -> None:
    """Fill the arrays of a model from saved ones of the same names; refuse shapes and numbers that do not fit."""
    for name, array in own.items():
        if saved[name].shape != array.shape or saved[name].dtype != np.float64:
            raise ModelFileError(f"{who}: the saved array '{name}' has a wrong shape or unusable numbers")
    if own and not np.isfinite(np.concatenate([array.ravel() for array in saved.values()])).all():
        name = next(name for name, array in saved.items() if not np.isfinite(array).all())
        raise ModelFileError(f"{who}: the saved array '{name}' has a wrong shape or unusable numbers")
    for name, array in own.items():
        array[...] = saved[name]


def with_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part as the whole names them."""
    return {prefix + name: array for name, array in arrays.items()}


def below_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays that `with_prefix` named so, as the part names them."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def merge_parts(word: str, parts: Sequence[Arrays]) -> Arrays:
    """Return the arrays of numbered parts as the whole names them: `word`, the number, a dot and their own name."""
    return {f"{word}{k}.{name}": array for k, part in enumerate(parts) for name, array in part.items()}


def number_items(values: Iterable[Any]) -> store.Header:
    """Return values as a header holds a list: by their place."""
    return {str(i): value for i, value in enumerate(values)}


def list_items(saved: dict[str, Any]) -> list[Any]:
    """Return the list that `number_items` put into a header; KeyError if a place is missing."""
    return [saved[str(i)] for i in range(len(saved))]
