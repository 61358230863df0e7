"""NamedRows: rows with names come in any order, and new names may appear later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.learners import Learner
from undrift.online.rows import Rows, is_named, matrix, names_in, refuse_slips


class ArrivingRows(NamedTuple):
    """Rows to learn."""

    values: Matrix
    """Numbers (n, columns), NaN where missing."""
    names: list[str] | None
    """Names of the columns, new ones last; None for arrays before any name was given."""
    single: bool
    """Whether one row was given, not a block."""


class NamedRows(Learner):
    """The part of an online estimator that knows its columns by name."""

    names: list[str] | None
    """Names of the features, in order of appearance; None while rows had none."""

    def _rows_to_predict(self, z: Rows) -> tuple[Matrix, bool]:
        """Return rows in the order of the columns known so far, and whether there was one only."""
        if not is_named(z):
            return self._rows(z)
        names = names_in(self, z)
        known = self.names if self.names is not None else names
        self._refuse_first_names()
        if not known:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        refuse_slips(self, z, known, learned=False)
        extra = set(names) - set(known)
        Z = matrix(self, z, [*known, *sorted(extra)])[:, : len(known)]
        return _check.within_limit(self, "z", np.ascontiguousarray(Z), nan=True), isinstance(z, Mapping)

    def _rows_to_learn(self, z: Rows) -> ArrivingRows:
        """Return rows with their columns; arrays after named rows are taken in the order of the names."""
        if not is_named(z):
            if isinstance(z, (list, tuple)) and not len(z):
                return ArrivingRows(np.empty((0, self.dim or self.least_dim)), self.names, False)
            Z, single = self._rows(z)
            return ArrivingRows(Z, self.names, single)
        self._refuse_first_names()
        known = self.names or []
        named = names_in(self, z)
        refuse_slips(self, z, known, learned=True)
        names = [*known, *(name for name in named if name not in set(known))]
        if not names:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        values = _check.within_limit(self, "z", matrix(self, z, names), nan=True)
        return ArrivingRows(values, names, isinstance(z, Mapping))

    def _refuse_first_names(self) -> None:
        if self.dim is not None and self.names is None:
            raise InputError(f"{_check.name_of(self)}: rows had no names so far; pass arrays of {self.dim} features")

    def _admit(self, names: list[str] | None) -> None:
        """Make room for names that are new."""
        count = 0 if names is None or self.dim is None else len(names) - self.dim
        if names is not None:
            self.names = names
        if count and self.dim is not None:
            self._grow(count)
            self.dim += count

    def _grow(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        raise NotImplementedError
