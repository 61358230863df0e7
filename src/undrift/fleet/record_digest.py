"""RecordDigest: tells whether records are the ones that were learned before, however they are cut into batches."""

from __future__ import annotations

import hashlib

import numpy as np

from undrift.fleet.record_batch import RecordBatch

ROWS_PER_UPDATE = 65_536
"""Records digested at a time."""


class RecordDigest:
    """A running digest over keys, orders, features and labels.

    Examples
    --------
    >>> batch = RecordBatch(["a", 1], np.arange(2), np.ones((2, 3)), np.zeros(2), np.arange(2))
    >>> whole, parts = RecordDigest(), RecordDigest()
    >>> whole.update(batch)
    >>> parts.update(batch.rows(0, 1))
    >>> parts.update(batch.rows(1, 2))
    >>> whole.value() == parts.value()
    True
    """

    def __init__(self) -> None:
        self._names, self._numbers = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)

    def update(self, batch: RecordBatch) -> None:
        """Add the records of a batch."""
        for a in range(0, len(batch), ROWS_PER_UPDATE):
            self._update(batch.rows(a, min(a + ROWS_PER_UPDATE, len(batch))))

    def _update(self, batch: RecordBatch) -> None:
        words = list(map(repr, batch.keys))
        for i, why in batch.bad.items():
            words[i] += f" {why!r}"
        self._names.update("".join(f"{word}\n" for word in words).encode("utf-8", "backslashreplace"))
        rows = np.empty((len(batch), 3 + batch.Z.shape[1]), np.int64)  # a record's numbers side by side, to the bit
        rows[:, 0], rows[:, 1] = batch.order, batch.label_of
        rows[:, 2] = np.ascontiguousarray(batch.y).view(np.int64)
        rows[:, 3:] = np.ascontiguousarray(batch.Z).view(np.int64)
        self._numbers.update(rows.data)

    def value(self) -> bytes:
        """Return the digest of all records so far."""
        return self._names.digest() + self._numbers.digest()
