"""FeatureColumns: rows as people have them become arrays in a fixed order of columns.

Rows are arrays, mappings, lists of mappings, data frames, `Table`s; NaN is a hole. Named rows come in any order, and
new names may appear later. Predictions made elsewhere, which come with the rows, are set apart: they are the last
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift import _check
from undrift._internal.rows import (
    Rows,
    Table,
    is_named,
    names_in,
    names_of_rows,
    read_matrix,
    read_series,
    refuse_slips,
)
from undrift._typing import Matrix
from undrift.errors import InputError

Candidates = Sequence[str] | Sequence[int] | Mapping[str, Mapping[Any, str | int]]
"""Columns with predictions made elsewhere: names or numbers; of several classes, a column for each label, by name."""


class ArrivingRows(NamedTuple):
    """Checked rows."""

    values: Matrix
    """Numbers (n, features and then predictions made elsewhere), NaN where missing."""
    names: list[str] | None
    """Names of the features, new ones last; None for arrays before any name was given."""
    single: bool
    """Whether one row was given, not a block."""


class FeatureColumns:
    """What the columns of an estimator's rows are: named or numbered features, then predictions made elsewhere."""

    def __init__(self, who: object, candidates: Candidates | None, binary: bool) -> None:
        self.who, self._binary = _check.name_of(who), binary
        self.names: list[str] | None = None
        """Names of the features, in order of appearance; None while rows had none."""
        self.by_label = isinstance(candidates, Mapping)
        """Whether each candidate has a column for every label."""
        self.candidates = _check_candidates(self.who, candidates)
        """What the candidates are called."""
        self.groups: list[dict[str, int]] = []
        """Where among the given columns each candidate has the prediction of each label; one place "" otherwise."""
        flat: list[str | int] = []
        for columns in _columns_of(candidates):
            self.groups.append({label: len(flat) + k for k, label in enumerate(columns)})
            flat += columns.values()
        self._given_names = [column for column in flat if isinstance(column, str)]
        self._given_numbers = [column for column in flat if isinstance(column, int)]
        self.given = len(flat)
        """How many columns hold predictions made elsewhere."""

    def read(self, z: Rows, dim: int | None, *, learned: bool) -> ArrivingRows:
        """Return checked rows in the order of the columns; with `learned` they have come, and new names are added last.

        Otherwise names that are not known are left out. `dim` is the number of features known so far.
        """
        if isinstance(z, Table) and z.columns == self.names and not self.given:  # as the rows of a stream are
            return ArrivingRows(_check.rows(self.who, z.values, len(z.columns), nan=True), self.names, False)
        z = read_series(z)
        if not is_named(z):
            return self._read_array(z, dim, learned)
        if self._given_numbers:
            kind = "a mapping" if isinstance(z, Mapping) else "rows with names"
            raise InputError(
                f"{self.who}: candidates are column numbers, but rows have names ({kind}); name the columns"
            )
        if dim is not None and self.names is None:
            raise InputError(f"{self.who}: rows had no names so far; pass arrays of {dim} features")
        given = self._given_names
        named = [name for name in names_in(self.who, z) if name not in given]
        known = self.names or ([] if learned else named)
        refuse_slips(self.who, z, [*known, *given], learned=learned)
        new = [name for name in named if name not in set(known)]
        names = [*known, *new] if learned else known
        if not names:
            raise InputError(f"{self.who}: z must have at least one feature, got none")
        left_out = [] if learned else new
        values = read_matrix(self.who, z, [*names, *given, *left_out])[:, : len(names) + len(given)]
        values = self._mark_missing(z, np.ascontiguousarray(values))
        return ArrivingRows(_check.within_limit(self.who, "z", values, nan=True), names, isinstance(z, Mapping))

    def _read_array(self, z: Rows, dim: int | None, learned: bool) -> ArrivingRows:
        if learned and isinstance(z, (list, tuple)) and not len(z):
            return ArrivingRows(np.empty((0, (dim or 1) + self.given)), self.names, False)
        if self._given_names and self.names is None:
            raise InputError(f"{self.who}: candidates have names, but rows have none; pass rows with names")
        Z = _check.rows(self.who, z, None if dim is None else dim + self.given, nan=True)
        if Z.shape[1] <= self.given:
            raise InputError(f"{self.who}: z must have at least one feature, got none")
        single = len(Z) == 1 and np.ndim(_check.fill_masked(z)) == 1
        if numbers := self._given_numbers:
            if Z.shape[1] <= max(numbers):
                raise InputError(
                    f"{self.who}: candidates name column {max(numbers)}, counted from 0, but rows have {Z.shape[1]}"
                )
            others = [j for j in range(Z.shape[1]) if j not in set(numbers)]
            Z = np.ascontiguousarray(Z[:, [*others, *numbers]])
        return ArrivingRows(self._check_given(Z), self.names, single)

    def _mark_missing(self, z: Rows, Z: Matrix) -> Matrix:
        """Return named rows in which a candidate that a row lacks is missing; a feature that it lacks would be 0."""
        if not self.given:
            return Z
        each = [set(names) for names in names_of_rows(z)]
        for k, name in enumerate(self._given_names):
            lacking = np.array([name not in names for names in each])
            if lacking.any():  # rows that have all of them may be read-only
                Z[lacking if len(lacking) == len(Z) else slice(None), k - self.given] = np.nan
        return self._check_given(Z)

    def _check_given(self, Z: Matrix) -> Matrix:
        """Return the rows if the given columns, the last ones, hold probabilities where they must."""
        given = Z[:, Z.shape[1] - self.given :]
        bad = self._binary & ((given < 0.0) | (given > 1.0))
        if bad.any():
            t, k = (int(place) for place in np.argwhere(bad)[0])
            column = (self._given_names or [f"column {number}" for number in self._given_numbers])[k]
            what = "a probability" if self.by_label else "a probability of the second class"
            raise InputError(
                f"{self.who}: candidate '{column}' must be {what}, in [0, 1], got {given[t, k]:g} in row {t}"
            )
        return Z


def _check_candidates(who: str, candidates: object) -> tuple[str, ...]:
    """Return what candidates are called; refuse what names no different columns."""
    if candidates is None:
        return ()
    columns = _columns_of(candidates)
    flat = [column for group in columns for column in group.values()]
    texts = sum(isinstance(column, str) for column in flat)
    numbers = sum(isinstance(column, int) and not isinstance(column, bool) and column >= 0 for column in flat)
    whole = not isinstance(candidates, Mapping) or len(columns) == len(candidates)
    if not flat or not whole or len(set(flat)) < len(flat) or max(texts, numbers) < len(flat):
        raise InputError(
            f"{who}: candidates must be a list of different column names, or of column numbers from 0, or for several "
            f"classes a dict of dicts from label to column, got {_check.describe(candidates)}"
        )
    if isinstance(candidates, Mapping):
        return tuple(candidates)
    return tuple(column if isinstance(column, str) else f"column {column}" for column in flat)


def _columns_of(candidates: Any) -> list[dict[str, Any]]:
    """Return the columns of each candidate by label, "" where it has one column."""
    if isinstance(candidates, Mapping):
        each = list(candidates.values())
        return [{str(label): column for label, column in one.items()} for one in each if isinstance(one, Mapping)]
    return [{"": column} for column in candidates] if isinstance(candidates, (list, tuple)) else []
