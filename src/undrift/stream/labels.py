"""LabelCode: labels as a table has them, and as a model learns them.

A number is a number. Of two classes the negative one is 0 and the positive one 1; several classes are numbered in order
of appearance, and new ones may come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from undrift._typing import Vector
from undrift.errors import DataError
from undrift.stream.cells import Cells, Lines, parse_texts
from undrift.stream.first_rows import RowOrigin
from undrift.stream.schema import Schema, require_short
from undrift.stream.task import MOST_CLASSES

FLAG_PAIRS = (("0", "1"), ("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
"""Pairs of labels that mean the same: data frames and Parquet hold flags as 0 and 1, JSON and Python as false and true,
and CSV files as their writers spell them: pandas False and True, spreadsheets and R FALSE and TRUE."""
UNKNOWN = ""
"""Name of one of two classes before its first label came; no label is empty."""


def code_of_two(classes: Sequence[str]) -> dict[str, float]:
    """Return the numbers of two labels by their texts, those of flags however they are spelled.

    >>> code_of_two(["no", "yes"]), code_of_two(["0", "1"])["True"]
    ({'no': 0.0, 'yes': 1.0}, 1.0)
    """
    code = {label: float(k) for k, label in enumerate(classes) if label}
    own = next((pair for pair in FLAG_PAIRS if {*pair} == {*classes}), None)
    if own is not None:
        places = [code[flag] for flag in own]
        code |= {flag: k for pair in FLAG_PAIRS for flag, k in zip(pair, places, strict=True)}
    return code


class LabelCode:
    """The classes of a target, from texts to numbers and back.

    Parameters
    ----------
    schema
        What the target is, and the classes of the first rows.
    target
        Its column, for errors.
    """

    def __init__(self, schema: Schema, target: str) -> None:
        self.task, self.target = schema.task, target
        self.classes = None if schema.classes is None else [] if self.several else list(schema.classes)
        """The two classes, the negative one first, or several in order of appearance; None for numbers."""

    @property
    def several(self) -> bool:
        """Whether there may be any number of classes."""
        return self.task == "multiclass"

    def copy(self) -> LabelCode:
        """Return the same code, which learns other classes from here on."""
        twin = object.__new__(LabelCode)
        twin.task, twin.target = self.task, self.target
        twin.classes = None if self.classes is None else list(self.classes)
        return twin

    def encode(self, cells: Cells, lines: Lines, origin: RowOrigin) -> Vector:
        """Return the numbers of classes, NaN where missing; refuse a class too many where it stands."""
        assert self.classes is not None  # numbers are read as they are
        encode = self._encode_several if self.several else self._encode_two
        return encode(self.classes, parse_texts(cells, origin.na), lines, origin)

    def _encode_two(self, classes: list[str], labels: Sequence[str | None], lines: Lines, origin: RowOrigin) -> Vector:
        code: dict[str | None, float] = {None: math.nan}
        code.update(code_of_two(classes).items())
        for row, label in enumerate(labels):
            if label in code:
                continue
            if UNKNOWN not in classes:
                raise DataError(
                    f"{origin.at(int(lines[row]))}: the target '{self.target}' is {label!r}, a third class after "
                    f"{classes[0]!r} and {classes[1]!r}; {origin.choose('task', 'multiclass')} to learn classes as "
                    f"they come, or {origin.choose('task', 'regression')} if it is a number"
                )
            k = classes.index(UNKNOWN)
            classes[k], code[label] = str(label), float(k)
        return np.array([code[label] for label in labels])

    def _encode_several(
        self, classes: list[str], labels: Sequence[str | None], lines: Lines, origin: RowOrigin
    ) -> Vector:
        code: dict[str | None, float] = {None: math.nan} | {label: float(k) for k, label in enumerate(classes)}
        for row, label in enumerate(labels):
            if label is None or label in code:
                continue
            require_short(origin, int(lines[row]), self.target, label)
            if len(classes) == MOST_CLASSES:
                raise DataError(
                    f"{origin.at(int(lines[row]))}: the target '{self.target}' is {label!r:.60}, one class more than "
                    f"the {MOST_CLASSES} allowed; join rare classes, or {origin.choose('task', 'regression')} if it "
                    "is a number"
                )
            code[label] = float(len(classes))
            classes.append(label)
        return np.array([code[label] for label in labels])

    def decode(self, numbers: Vector) -> list[str | None]:
        """Return labels as they stand in the source, None where there is none."""
        classes = self.classes or []
        return [None if k != k else classes[int(k)] for k in numbers.tolist()]
