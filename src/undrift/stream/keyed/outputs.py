"""Outputs: what became of the records given to a fleet, column by column."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import ModelFileError

Key = Any
"""What names a stream: text or an integer; None where a record had no usable key."""

STATUSES = ("ok", "predicted", "labelled", "duplicate", "late", "gap", "poison", "expired", "error")
"""What can become of a record.

- ok: predicted, then learned.
- predicted: it had no label; it waits for one.
- labelled: the label of an earlier record came, and was learned.
- duplicate: its order was there before; dropped.
- late: its order was given up before it came; dropped.
- gap: no record: the orders before the next one never came.
- poison: it could not be used; `reason` says why; nothing was learned.
- expired: no record: a row without a label was let go to make room.
- error: the model raised (`on_error="report"`); the key is as it was before.
"""
OK, PREDICTED, LABELLED, DUPLICATE, LATE, GAP, POISON, EXPIRED, ERROR = range(len(STATUSES))
ABSENT = -(2**63)
"""The order of a record that had none."""
_DIGEST = 8
"""Bytes of the digest of packed rows."""


Prediction = float | str
"""A number; log-odds of the second of two classes; of several the likeliest label."""
Extras = Mapping[str, float]
"""What is put out beside a prediction, by the name of its column: ends of the interval, quantiles, probabilities."""
OutputRow = tuple[Key, int, Prediction, Prediction, int, str, Extras]
"""A row before it is put into columns: key, order, prediction, target, number of the status, reason, and extras."""
NO_EXTRAS: Extras = {}


class Output(NamedTuple):
    """One row of outputs."""

    key: Key
    """The stream."""
    order: int | None
    """The record's place in it."""
    prediction: Prediction | None
    """Made before the label was used; log-odds for two classes. None before the first label of its key is known."""
    target: Prediction | None
    """The label, if it came."""
    status: str
    """One of `STATUSES`."""
    reason: str
    """Why, where there is something to explain."""


@dataclass(eq=False)
class Outputs:
    """Rows of outputs as columns; NaN stands for a missing number."""

    keys: list[Key]
    order: NDArray[np.int64]
    prediction: Vector
    """Of several classes places in `classes`."""
    target: Vector
    status: NDArray[np.uint8]
    reasons: dict[int, str] = field(default_factory=dict)
    """Row number -> reason, where there is one."""
    extras: dict[str, Vector] = field(default_factory=dict)
    """Ends of intervals (lower, upper), quantiles (q0.1) and probabilities of several classes (p(a)), NaN where there
    is none; only columns of which some row has a number."""
    classes: tuple[str, ...] = ()
    """Several classes, in order of appearance."""

    @classmethod
    def empty(cls) -> Outputs:
        """Return no rows."""
        return cls([], np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.uint8))

    @classmethod
    def from_rows(cls, rows: Sequence[OutputRow]) -> Outputs:
        """Return rows as columns."""
        if not rows:
            return cls.empty()
        keys, order, prediction, target, status, reason, extras = zip(*rows, strict=True)
        classes: dict[str, float] = {}
        if any(type(one) is str for one in (*prediction, *target)):
            for label in chain(target, prediction):
                if type(label) is str:
                    classes.setdefault(label, float(len(classes)))
            places = [[classes.get(one, one) for one in column] for column in (prediction, target)]
            prediction, target = map(tuple, places)
        names = dict.fromkeys(name for one in extras if one for name in one)
        return cls(
            list(keys),
            np.array(order, np.int64),
            np.array(prediction),
            np.array(target),
            np.array(status, np.uint8),
            {i: why for i, why in enumerate(reason) if why},
            {name: np.array([one.get(name, math.nan) for one in extras]) for name in names},
            tuple(classes),
        )

    @classmethod
    def concat(cls, parts: Iterable[Outputs]) -> Outputs:
        """Return the rows of several outputs, one after the other."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else cls.empty()
        starts = np.cumsum([0, *(len(part) for part in filled)])
        unique: dict[Key, Key] = {}  # so that each key is in memory once, however many parts it comes from
        classes = tuple(dict.fromkeys(label for part in filled for label in part.classes))
        names = dict.fromkeys(name for part in filled for name in part.extras)
        return cls(
            [unique.setdefault(key, key) for part in filled for key in part.keys],
            np.concatenate([part.order for part in filled]),
            np.concatenate([part._places(part.prediction, classes) for part in filled]),
            np.concatenate([part._places(part.target, classes) for part in filled]),
            np.concatenate([part.status for part in filled]),
            {int(a) + i: why for a, part in zip(starts, filled, strict=False) for i, why in part.reasons.items()},
            {name: np.concatenate([part.extra(name) for part in filled]) for name in names},
            classes,
        )

    def _places(self, numbers: Vector, classes: tuple[str, ...]) -> Vector:
        """Return places in `self.classes` as places in others that hold them all."""
        if self.classes == classes:
            return numbers
        places = np.array([*(classes.index(label) for label in self.classes), math.nan])
        return places[np.where(np.isnan(numbers), -1.0, numbers).astype(np.int64)]

    def __len__(self) -> int:
        return len(self.keys)

    def extra(self, name: str) -> Vector:
        """Return a column of extras, NaN where there is none."""
        return self.extras[name] if name in self.extras else np.full(len(self), math.nan)

    def intervals(self) -> Matrix:
        """Return the lower and upper ends of the intervals (rows, 2), NaN where there is none."""
        return np.column_stack([self.extra("lower"), self.extra("upper")])

    def __iter__(self) -> Iterator[Output]:
        columns = self.order.tolist(), self.prediction.tolist(), self.target.tolist(), self.status.tolist()
        classes = self.classes
        for i, (key, order, prediction, target, status) in enumerate(zip(self.keys, *columns, strict=True)):
            if classes:
                prediction = classes[int(prediction)] if prediction == prediction else prediction
                target = classes[int(target)] if target == target else target
            yield Output(
                key,
                None if order == ABSENT else order,
                None if prediction != prediction else prediction,
                None if target != target else target,
                STATUSES[status],
                self.reasons.get(i, ""),
            )

    def count(self) -> dict[str, int]:
        """Return how many rows have each status, those that occur."""
        codes, numbers = np.unique(self.status, return_counts=True)
        return {STATUSES[code]: int(n) for code, n in zip(codes, numbers, strict=True)}

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as lists by name, None where something is missing: what data frames are made from."""
        rows = list(self)
        columns = {name: [row[j] for row in rows] for j, name in enumerate(Output._fields)}
        return columns | {
            name: [None if x != x else x for x in values.tolist()] for name, values in self.extras.items()
        }

    def canonical(self) -> list[tuple[str, ...]]:
        """Return the rows in an order of their own and with floats to the bit, so that `==` compares two runs."""
        return canonical(self)

    def split(self, size: int) -> Iterator[Outputs]:
        """Yield the rows, at most `size` at a time."""
        if len(self) <= size:
            yield from [self] if len(self) else []
            return
        numbers = sorted(self.reasons)
        for a in range(0, len(self), size):
            b = a + size
            reasons = {i - a: self.reasons[i] for i in numbers[bisect_left(numbers, a) : bisect_left(numbers, b)]}
            columns = (self.order[a:b], self.prediction[a:b], self.target[a:b], self.status[a:b])
            extras = {name: values[a:b] for name, values in self.extras.items()}
            yield Outputs(self.keys[a:b], *columns, reasons, extras, self.classes)

    def pack(self) -> bytes:
        """Return the rows as data-only bytes: length of the JSON text, the text, the columns, a digest."""
        texts: dict[str, Any] = {"keys": self.keys, "reasons": {str(i): why for i, why in self.reasons.items()}}
        texts |= {"extras": [*self.extras]} if self.extras else {}
        texts |= {"classes": self.classes} if self.classes else {}
        head = json.dumps(texts).encode()
        columns: list[NDArray[Any]] = [self.order, self.prediction, self.target, *self.extras.values(), self.status]
        body = b"".join([len(head).to_bytes(8, "little"), head, *(column.tobytes() for column in columns)])
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    @classmethod
    def unpack(cls, data: bytes) -> Outputs:
        """Return what `pack` wrote."""
        size = int.from_bytes(data[:8], "little")
        body, digest = data[8 + size : -_DIGEST], data[-_DIGEST:]
        try:
            if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != digest:
                raise ValueError
            head = json.loads(data[8 : 8 + size])
            keys, n, names, classes = head["keys"], len(head["keys"]), head.get("extras", []), head.get("classes", [])
            reasons = {int(i): str(why) for i, why in head["reasons"].items()}
            width = 3 + len(names)
            if len(body) != (8 * width + 1) * n or not all(0 <= i < n for i in reasons):
                raise ValueError
            if not isinstance(keys, list) or not {type(key) for key in keys} <= {str, int, NoneType}:
                raise ValueError
            if not {type(text) for text in (*names, *classes)} <= {str} or len({*names}) < len(names):
                raise ValueError
            numbers = np.frombuffer(body[: 8 * width * n], np.int64).reshape(width, n).copy()
            status = np.frombuffer(body[8 * width * n :], np.uint8).copy()
            prediction, target, *extras = numbers[1:].view(np.float64)
            places = np.concatenate((prediction, target))[: 2 * n if classes else 0]
            if (status >= len(STATUSES)).any() or not set(places[~np.isnan(places)]) <= {*range(len(classes))}:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelFileError("Outputs: the saved rows are cut off or damaged") from None
        found = dict(zip(names, extras, strict=True))
        return cls(keys, numbers[0], prediction, target, status, reasons, found, tuple(classes))


def canonical(rows: Iterable[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Return rows of outputs, ours or an engine's, sorted and as text, floats to the bit.

    Examples
    --------
    >>> canonical([("b", 0, 0.5, None, "predicted", ""), ("a", 0, 1.0, 2.0, "ok", "")])[0]
    ("'a'", '0', '0x1.0000000000000p+0', '0x1.0000000000000p+1', 'ok', '')
    """

    def exact(x: Prediction | None) -> str:
        return "-" if x is None else x if isinstance(x, str) else float(x).hex()

    return sorted(
        (repr(key), str(order), exact(prediction), exact(target), status, reason or "")
        for key, order, prediction, target, status, reason in rows
    )
