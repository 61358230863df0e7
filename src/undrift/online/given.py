"""GivenCandidates: columns that hold predictions made elsewhere, taken out of the rows before features are seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from undrift import _check
from undrift._typing import Matrix
from undrift.errors import InputError
from undrift.online.rows import Rows, names_of_rows


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
        """Return named rows in which a candidate whose name a row lacks says nothing, where a feature would be 0."""
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
