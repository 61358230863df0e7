"""NamedRows: rows with names come in any order, and new names may appear later; given candidates are set apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.learners import Learner
from undrift.online.rows import Rows, is_named, matrix, names_in, names_of_rows, read_series, refuse_slips


def check_candidates(who: object, candidates: object) -> list[str] | list[int] | None:
    """Return column names, or column numbers, of candidates; None for none."""
    if candidates is None:
        return None
    listed = list(candidates) if isinstance(candidates, (list, tuple)) else []
    names = [one for one in listed if isinstance(one, str)]
    numbers = [one for one in listed if isinstance(one, int) and not isinstance(one, bool) and one >= 0]
    if not listed or len(set(listed)) < len(listed) or max(len(names), len(numbers)) < len(listed):
        raise InputError(
            f"{_check.name_of(who)}: candidates must be a list of different column names, or of column numbers from 0, "
            f"got {_check.describe(candidates)}"
        )
    return names or numbers


class GivenCandidates:
    """The candidates of one estimator: which columns they are, and rows with these columns last."""

    def __init__(self, who: object, columns: Sequence[str] | Sequence[int] | None, binary: bool) -> None:
        self.who, self.binary = _check.name_of(who), binary
        self.names = [one for one in columns or () if isinstance(one, str)]
        self.numbers = [one for one in columns or () if isinstance(one, int)]

    def __len__(self) -> int:
        return len(self.names) + len(self.numbers)

    @property
    def labels(self) -> tuple[str, ...]:
        """What they are called among the candidates of the last mixer."""
        return (*self.names, *(f"column {one}" for one in self.numbers))

    def put_last(self, Z: Matrix) -> Matrix:
        """Return the rows of an array with the numbered columns at the end."""
        if self.numbers and Z.shape[1] <= max(self.numbers):
            raise InputError(
                f"{self.who}: candidates name column {max(self.numbers)}, counted from 0, but rows have {Z.shape[1]}"
            )
        others = [j for j in range(Z.shape[1]) if j not in set(self.numbers)]
        return self.check(np.ascontiguousarray(Z[:, [*others, *self.numbers]])) if self.numbers else self.check(Z)

    def silence(self, z: Rows, Z: Matrix) -> Matrix:
        """Return named rows in which a candidate that a row lacks is missing; a feature that it lacks would be 0."""
        each = [set(names) for names in names_of_rows(z)]
        for k, name in enumerate(self.names):
            lacking = [name not in names for names in each]
            Z[
                np.array(lacking) if len(lacking) == len(Z) else slice(None) if lacking[0] else slice(0), k - len(self)
            ] = np.nan
        return self.check(Z)

    def check(self, Z: Matrix) -> Matrix:
        """Return the rows if the candidates' columns, the last ones, hold probabilities where they must."""
        given = Z[:, Z.shape[1] - len(self) :]
        bad = self.binary & ((given < 0.0) | (given > 1.0))
        if bad.any():
            t, k = (int(one) for one in np.argwhere(bad)[0])
            raise InputError(
                f"{self.who}: candidate '{self.labels[k]}' must be a probability of the second class, in [0, 1], got "
                f"{given[t, k]:g} in row {t}"
            )
        return Z

    def refuse_names(self, z: Rows) -> None:
        """Refuse named rows for candidates that are column numbers."""
        if self.numbers:
            kind = "a mapping" if isinstance(z, Mapping) else "rows with names"
            raise InputError(
                f"{self.who}: candidates are column numbers, but rows have names ({kind}); name the columns"
            )


class ArrivingRows(NamedTuple):
    """Rows to learn."""

    values: Matrix
    """Numbers (n, features and then candidates made elsewhere), NaN where missing."""
    names: list[str] | None
    """Names of the features, new ones last; None for arrays before any name was given."""
    single: bool
    """Whether one row was given, not a block."""


class NamedRows(Learner):
    """The part of an online estimator that knows its columns by name."""

    names: list[str] | None
    """Names of the features, in order of appearance; None while rows had none."""
    _given: GivenCandidates

    def _rows_to_predict(self, z: Rows) -> tuple[Matrix, bool]:
        """Return rows in the order of the columns known so far, and whether there was one only."""
        z = read_series(z)
        if not is_named(z):
            return self._rows(z)
        self._given.refuse_names(z)
        given = self._given.names
        names = [name for name in names_in(self, z) if name not in given]
        known = self.names if self.names is not None else names
        self._refuse_first_names()
        if not known:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        refuse_slips(self, z, [*known, *given], learned=False)
        extra = set(names) - set(known)
        Z = matrix(self, z, [*known, *given, *sorted(extra)])[:, : len(known) + len(given)]
        Z = self._given.silence(z, np.ascontiguousarray(Z)) if given else np.ascontiguousarray(Z)
        return _check.within_limit(self, "z", Z, nan=True), isinstance(z, Mapping)

    def _rows_to_learn(self, z: Rows) -> ArrivingRows:
        """Return rows with their columns; arrays after named rows are taken in the order of the names."""
        z = read_series(z)
        if not is_named(z):
            if isinstance(z, (list, tuple)) and not len(z):
                width = (self.dim or self.least_dim) + len(self._given)
                return ArrivingRows(np.empty((0, width)), self.names, False)
            Z, single = self._rows(z)
            return ArrivingRows(Z, self.names, single)
        self._given.refuse_names(z)
        self._refuse_first_names()
        known, given = self.names or [], self._given.names
        named = [name for name in names_in(self, z) if name not in given]
        refuse_slips(self, z, [*known, *given], learned=True)
        names = [*known, *(name for name in named if name not in set(known))]
        if not names:
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        values = _check.within_limit(self, "z", matrix(self, z, [*names, *given]), nan=True)
        values = self._given.silence(z, values) if given else values
        return ArrivingRows(values, names, isinstance(z, Mapping))

    def _rows(self, z: ArrayLike) -> tuple[Matrix, bool]:
        """Return the checked rows of an array, candidates made elsewhere last, and whether `z` was a single one."""
        if not len(self._given):
            return super()._rows(z)
        if self._given.names and self.names is None:
            raise InputError(f"{_check.name_of(self)}: candidates have names, but rows have none; pass rows with names")
        width = None if self.dim is None else self.dim + len(self._given)
        Z = self._given.put_last(_check.rows(self, z, width, nan=True))
        if Z.shape[1] <= len(self._given):
            raise InputError(f"{_check.name_of(self)}: z must have at least one feature, got none")
        return Z, len(Z) == 1 and np.ndim(_check.fill_masked(z)) == 1

    def _fix_width(self, dim: int) -> None:
        """Set up the arrays when the first row comes; `dim` counts candidates made elsewhere too."""
        super()._fix_width(dim - len(self._given))

    def _predictor(self, Z: Matrix) -> Self:
        """Return self, or before the first round a fresh learner of the width of `Z` to predict with."""
        return super()._predictor(Z[:, : Z.shape[1] - len(self._given)])

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
