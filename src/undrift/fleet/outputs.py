"""Outputs: what became of the records given to a fleet, column by column."""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import ModelFileError
from undrift.learners.intervals import Interval

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


OutputRow = tuple[Key, int, float, float, int, str, Interval]
"""A row before it is put into columns: key, order, prediction, target, number of the status, reason, interval."""
NO_INTERVAL = Interval(math.nan, math.nan)


class Output(NamedTuple):
    """One row of outputs."""

    key: Key
    """The stream."""
    order: int | None
    """The record's place in it."""
    prediction: float | None
    """Made before the label was used; log-odds for two classes. None before the first label of its key is known."""
    target: float | None
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
    target: Vector
    status: NDArray[np.uint8]
    reasons: dict[int, str] = field(default_factory=dict)
    """Row number -> reason, where there is one."""
    ends: Matrix | None = None
    """Lower and upper ends of the intervals (rows, 2), NaN where there is none; None if no row has one."""

    @classmethod
    def empty(cls) -> Outputs:
        """Return no rows."""
        return cls([], np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.uint8))

    @classmethod
    def from_rows(cls, rows: Sequence[OutputRow]) -> Outputs:
        """Return rows as columns."""
        if not rows:
            return cls.empty()
        keys, order, prediction, target, status, reason, intervals = zip(*rows, strict=True)
        ends = None if all(one is NO_INTERVAL for one in intervals) else np.array(intervals)
        return cls(
            list(keys),
            np.array(order, np.int64),
            np.array(prediction),
            np.array(target),
            np.array(status, np.uint8),
            {i: why for i, why in enumerate(reason) if why},
            ends,
        )

    @classmethod
    def concat(cls, parts: Iterable[Outputs]) -> Outputs:
        """Return the rows of several outputs, one after the other."""
        filled = [part for part in parts if len(part)]
        if not filled:
            return cls.empty()
        starts = np.cumsum([0, *(len(part) for part in filled)])
        unique: dict[Key, Key] = {}  # so that each key is in memory once, however many parts it comes from
        return cls(
            [unique.setdefault(key, key) for part in filled for key in part.keys],
            np.concatenate([part.order for part in filled]),
            np.concatenate([part.prediction for part in filled]),
            np.concatenate([part.target for part in filled]),
            np.concatenate([part.status for part in filled]),
            {int(a) + i: why for a, part in zip(starts, filled, strict=False) for i, why in part.reasons.items()},
            None
            if all(part.ends is None for part in filled)
            else np.concatenate([part.intervals() for part in filled]),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def intervals(self) -> Matrix:
        """Return the lower and upper ends of the intervals (rows, 2), NaN where there is none."""
        return np.full((len(self), 2), math.nan) if self.ends is None else self.ends

    def __iter__(self) -> Iterator[Output]:
        columns = self.order.tolist(), self.prediction.tolist(), self.target.tolist(), self.status.tolist()
        for i, (key, order, prediction, target, status) in enumerate(zip(self.keys, *columns, strict=True)):
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
        return {name: [row[j] for row in rows] for j, name in enumerate(Output._fields)}

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
            yield Outputs(self.keys[a:b], *columns, reasons, None if self.ends is None else self.ends[a:b])

    def pack(self) -> bytes:
        """Return the rows as data-only bytes: length of the JSON text, the text, the columns, a digest."""
        head = json.dumps({"keys": self.keys, "reasons": {str(i): why for i, why in self.reasons.items()}}).encode()
        ends = [] if self.ends is None else [*self.ends.T]
        columns = (self.order, self.prediction, self.target, *ends, self.status)
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
            keys, n = head["keys"], len(head["keys"])
            reasons = {int(i): str(why) for i, why in head["reasons"].items()}
            width = 5 if n and len(body) == 41 * n else 3  # columns of 8 bytes: with intervals, or without
            if len(body) != (8 * width + 1) * n or not all(0 <= i < n for i in reasons):
                raise ValueError
            if not isinstance(keys, list) or not {type(key) for key in keys} <= {str, int, NoneType}:
                raise ValueError
            numbers = np.frombuffer(body[: 8 * width * n], np.int64).reshape(width, n).copy()
            status = np.frombuffer(body[8 * width * n :], np.uint8).copy()
            if (status >= len(STATUSES)).any():
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ModelFileError("Outputs: the saved rows are cut off or damaged") from None
        prediction, target, *ends = numbers[1:].view(np.float64)
        return cls(keys, numbers[0], prediction, target, status, reasons, np.column_stack(ends) if ends else None)


def canonical(rows: Iterable[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Return rows of outputs, ours or an engine's, sorted and as text, floats to the bit.

    Examples
    --------
    >>> canonical([("b", 0, 0.5, None, "predicted", ""), ("a", 0, 1.0, 2.0, "ok", "")])[0]
    ("'a'", '0', '0x1.0000000000000p+0', '0x1.0000000000000p+1', 'ok', '')
    """

    def exact(x: float | None) -> str:
        return "-" if x is None else float(x).hex()

    return sorted(
        (repr(key), str(order), exact(prediction), exact(target), status, reason or "")
        for key, order, prediction, target, status, reason in rows
    )
