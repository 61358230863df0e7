"""RowBuffer: the last labelled rows of a stream, kept in blocks so that nothing is ever moved."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from undrift._typing import Matrix, Vector

BLOCK = 1024
"""Rows of a block."""


class RowBuffer:
    """Rows, labels and weights by the row's number, from 0 on; old ones are forgotten block by block."""

    fixed_values: ClassVar[tuple[str, ...]] = ("_blocks",)
    """What a save point need not copy: rows up to `count` do not change, and others are not read."""

    def __init__(self, width: int, first: int = 0) -> None:
        self.width, self.first = width, first
        self.total = np.array([first], np.int64)  # in an array, as compiled single rows count too
        self._blocks: dict[int, tuple[Matrix, Vector, Vector]] = {}

    @property
    def count(self) -> int:
        """Rows so far, with those that are not kept any more."""
        return int(self.total[0])

    def block_of_next(self) -> tuple[Matrix, Vector, Vector]:
        """Return the block that the next row belongs to."""
        block = self.count // BLOCK
        if block not in self._blocks:
            self._blocks[block] = np.empty((BLOCK, self.width)), np.empty(BLOCK), np.empty(BLOCK)
        return self._blocks[block]

    def append(self, X: Matrix, y: Vector, weight: Vector) -> None:
        """Keep rows that were labelled now."""
        done = 0
        while done < len(y):
            at = self.count % BLOCK
            more = min(BLOCK - at, len(y) - done)
            for kept, given in zip(self.block_of_next(), (X, y, weight), strict=True):
                kept[at : at + more] = given[done : done + more]
            self.total += more
            done += more

    def read(self, begin: int, end: int, X: Matrix, y: Vector, weight: Vector) -> None:
        """Copy the rows with numbers in [begin, end), their labels and weights."""
        done = 0
        while begin < end:
            block, at = divmod(begin, BLOCK)
            more = min(BLOCK - at, end - begin)
            for kept, room in zip(self._blocks[block], (X, y, weight), strict=True):
                room[done : done + more] = kept[at : at + more]
            begin += more
            done += more

    def skip(self, count: int) -> None:
        """Count rows that are not kept, nor any before them."""
        self.total += count
        self.forget(self.count)

    def forget(self, before: int) -> None:
        """Forget rows with smaller numbers; those of a block that holds later ones, too, when that goes."""
        for block in range(self.first // BLOCK, before // BLOCK):
            self._blocks.pop(block, None)
        self.first = max(self.first, before)

    def widen(self, count: int) -> None:
        """Append columns that were 0 in every row so far."""
        self.width += count
        self._blocks = {
            block: (np.pad(rows, ((0, 0), (0, count))), labels, weights)
            for block, (rows, labels, weights) in self._blocks.items()
        }
