"""NumPy twin of an online estimator's blocks of rows: serving and settling, row after row."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import RecordPart as R


class EstimatorBlocks(ABC):
    """Rounds of many rows, of one estimator or of several; a row's `weight` and `elapsed` are 1 where None is given."""

    @property
    @abstractmethod
    def record_size(self) -> int:
        """How many numbers a record has."""

    @property
    @abstractmethod
    def quantiles_at(self) -> int:
        """Where the quantiles begin in it."""

    @abstractmethod
    def read_quantiles(self, numbers: Vector, bounded: bool) -> Vector:
        """Return the quantiles that were served."""

    @abstractmethod
    def serve(self, state: Vector, z: Vector, record: Vector, commit: bool, elapsed: float = 1.0) -> int:
        """Fill the record of a row."""

    @abstractmethod
    def settle(self, state: Vector, record: Vector, y: float) -> int:
        """Learn from a record and its label."""

    @abstractmethod
    def _refuse(self, Z: Matrix, y: Vector) -> int:
        """Return 0, or where a number is that may not be used."""

    def play(
        self,
        state: Vector,
        Z: Matrix,
        y: Vector,
        yhat: Vector,
        quantiles: Matrix,
        known: Vector,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
    ) -> int:
        """Serve and settle row by row; `quantiles` (see `read_quantiles`) and `known` may have no rows."""
        if bad := self._refuse(Z, y):
            return bad
        record = np.empty(self.record_size)
        for t in range(len(Z)):
            self._serve_weighted(state, Z, record, t, weight, elapsed)
            self.settle(state, record, float(y[t]))
            yhat[t] = record[R.YHAT]
            if len(known):
                known[t] = record[R.KNOWN]
            if len(quantiles):
                quantiles[t] = self.read_quantiles(record[self.quantiles_at :], bool(record[R.BOUNDED]))
        return 0

    def play_late(
        self,
        state: Vector,
        Z: Matrix,
        y: Vector,
        records: Matrix,
        pending: int,
        delay: int,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
    ) -> int:
        """Serve row t, then settle what was served `delay` rows before it.

        `records` begins with `pending` earlier records, whose labels are the first of `y`, and receives those of `Z`.
        """
        if bad := self._refuse(Z, y):
            return bad
        for t in range(pending, pending + len(Z)):
            self._serve_weighted(state, Z, records[t], t - pending, weight, elapsed)
            if t >= delay:
                self.settle(state, records[t - delay], float(y[t - delay]))
        return 0

    def play_keys(
        self, states: Matrix, slots: NDArray[np.int64], Z: Matrix, y: Vector, yhat: Vector, known: Vector
    ) -> int:
        """Play rows of many estimators: row i belongs to the state `states[slots[i]]`."""
        if bad := self._refuse(Z, y):
            return bad
        for i, slot in enumerate(slots.tolist()):
            here = slice(i, i + 1)
            self.play(states[slot], Z[here], y[here], yhat[here], np.empty((0, 0)), known[here])
        return 0

    def _serve_weighted(
        self, state: Vector, Z: Matrix, record: Vector, t: int, weight: Vector | None, elapsed: Vector | None
    ) -> None:
        """Serve row t, and let its record say how often it counts."""
        self.serve(state, Z[t], record, True, 1.0 if elapsed is None else float(elapsed[t]))
        record[R.WEIGHT] = 1.0 if weight is None else weight[t]
