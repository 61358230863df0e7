"""ClassLabels: labels of classes as they are given, texts, whole numbers or booleans, and the numbers a core learns.

Labels 0 and 1, -1 and +1, False and True are -1 and +1 to the core of two classes. Other labels, and a third one, have
the numbers 0, 1, 2, ... in order of appearance, for the core of several classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.learners.class_learner import MOST_CLASSES

Label = bool | int | float | str
"""A label as it was given."""
NUMPY_NUMBERS = frozenset(np.dtype(code).type for code in "bhilqBHILQefd")
"""Types of NumPy's real numbers; by their base classes a time span is a number, too."""


class ClassLabels:
    """What the labels of one classifier are called."""

    def __init__(self) -> None:
        self.names: tuple[Label, Label] = (0, 1)
        """The labels -1 and +1 of two classes as they are given."""
        self.seen: list[Label] | None = None
        """All labels by class number, once there are others; None before."""
        self._order: list[int] | None = None

    def quick(self, y: object) -> float | None:
        """Return one label as the core of two classes learns it if there is nothing to check or to remember."""
        if self.seen is not None:
            return None
        negative = self.names[0]
        if isinstance(y, (bool, np.bool_)):
            return (1.0 if y else -1.0) if negative is False else None
        number = plain_number(y)
        return None if number is None else 1.0 if number == 1 else -1.0 if number == negative else None

    def find(self, y: Any) -> int | None:
        """Return the class number of one text or number, if it is known; else None."""
        if type(y) in NUMPY_NUMBERS or type(y) is np.str_:
            y = y.item()
        plain = self.seen is not None and (type(y) is str or type(y) is int or type(y) is float)
        return self.seen.index(y) if plain and y in self.seen else None  # type: ignore[union-attr,operator]  # it is there

    def note(self, y: object) -> None:
        """Remember how labels of two classes, which were checked, are called."""
        given = label_array(y)
        if given.dtype.kind == "b" or getattr(getattr(y, "dtype", None), "kind", "") == "b":
            self.names = (False, True)
        elif np.any(given == -1):
            self.names = (-1, 1)

    def number(self, labels: Sequence[Any]) -> Vector:
        """Return class numbers of checked labels, NaN where missing; new ones get the next numbers."""
        assert self.seen is not None
        for label in labels:
            if label == label and label not in self.seen:  # NaN is not itself
                self.seen.append(label)
        place = {label: k for k, label in enumerate(self.seen)}
        return np.array([place[label] if label == label else np.nan for label in labels], dtype=np.float64)

    def order(self, count: int) -> list[int]:
        """Return the first `count` class numbers in the order of their labels: numbers by size, texts by alphabet."""
        if self._order is None or len(self._order) != count:  # numbers never change
            assert self.seen is not None
            self._order = sorted(range(count), key=self.seen.__getitem__)
        return self._order


def plain_number(y: object) -> float | int | None:
    """Return a label that is one number of Python or NumPy as Python's own, if it may be learned; else None."""
    if type(y) in NUMPY_NUMBERS:
        y = y.item()  # type: ignore[attr-defined]  # every scalar of NumPy has it
    plain = type(y) is float or type(y) is int
    return y if plain and -_check.LIMIT <= y <= _check.LIMIT else None  # type: ignore[operator,return-value]  # numbers


def check_labels(who: object, y: Any, count: int, seen: Sequence[Label]) -> list[Any]:
    """Return labels of any kind as Python's own texts, numbers and booleans, NaN where missing.

    They must be of one kind with those `seen` before.
    """
    name, values = _check.name_of(who), label_array(y).astype(object)
    if values.ndim > 1 or values.size != count:
        raise InputError(f"{name}: y must have one label for each of the {count} rows, got shape {values.shape}")
    labels: list[Any] = []
    kinds = {isinstance(one, str) for one in seen}
    for one in values.ravel():
        label = one.item() if isinstance(one, np.generic) else one
        missing = _is_missing(label)
        whole = missing or isinstance(label, str) or (isinstance(label, (bool, int, float)) and label % 1 == 0)
        if not whole:
            raise InputError(f"{name}: labels must be texts, whole numbers or booleans, got {_check.describe(one)}")
        if not missing:
            kinds.add(isinstance(label, str))
        labels.append(np.nan if missing else int(label) if isinstance(label, float) else label)
    if len(kinds) > 1:
        raise InputError(f"{name}: labels must be all texts or all numbers, got both; write the numbers as texts")
    if len(set(labels)) > MOST_CLASSES:
        raise InputError(f"{name}: y must have at most {MOST_CLASSES} classes; use OnlineRegressor for numbers")
    return labels


def label_array(y: Any) -> NDArray[Any]:
    """Return labels of any kind as an array; what is masked or NA among numbers, and masked texts, are NaN."""
    if isinstance(y, np.ma.MaskedArray) and y.dtype.kind not in "fiub":
        return np.asarray(np.ma.filled(y.astype(object), np.nan))
    if _check.is_nullable(y) and not isinstance(y, np.ndarray):
        return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(_check.fill_masked(y))


def _is_missing(label: object) -> bool:
    """Whether a label never came: None, NaN, or pandas' NA, which is equal to nothing and unequal to nothing."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def fit_two_classes(y: object, before: list[Label]) -> bool:
    """Whether the round of two classes learns these labels, with those before, or refuses them."""
    try:
        given = label_array(y)
    except ValueError:
        return True
    if given.dtype.kind in "UO":
        return not any(isinstance(one, str) for one in given.flat)
    if given.dtype.kind not in "iuf" or given.ndim > 1:
        return True
    known = np.unique(given[~np.isnan(given)]).astype(np.float64)  # no float16 or float32 reaches the limit below
    if (np.abs(known) > _check.LIMIT).any() or (known != np.floor(known)).any():
        return True
    labels = {int(one) for one in known} | {int(one) for one in before}
    return labels <= {-1, 0, 1} and len(labels) <= 2 and not {-1, 0} <= labels
