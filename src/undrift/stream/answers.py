"""Answers: predictions of some rows, whatever the task and wherever the rows came from."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift import _check
from undrift._internal import html
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.losses import sigmoid
from undrift.stream.cells import Lines, Times

SHOWN_ROWS = 8
"""Rows that are shown in a notebook, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Predictions of n rows, each made before its label was known."""

    serial: NDArray[np.int64]
    """Numbers among all rows that have come, from 1 on (n,); 0 of rows that were only predicted."""
    line: Lines
    """Where the rows stand (n,)."""
    time: Times | None
    """When they were (n,); None without a column of times."""
    yhat: Vector
    """Predictions (n,), NaN where none is known: numbers; log-odds of the second of two classes; of several the number
    of the likeliest."""
    known: NDArray[np.bool_]
    """Whether any label was known before (n,); a prediction made before is a placeholder."""
    classes: tuple[str, ...] | None = None
    """Labels: of two the negative one first, several in order of appearance; None for numbers."""
    several: Matrix | None = None
    """Probabilities of several classes (n, K), NaN where a class was not known yet; None for two classes."""
    level: float = 0.9
    """Part of the labels that the intervals are made to hold."""
    lower: Vector | None = None
    """Ends of the intervals (n,), NaN where there is none yet; None for classes."""
    upper: Vector | None = None
    levels: tuple[float, ...] = ()
    """Levels of the quantiles."""
    quantiles: Matrix | None = None
    """Quantiles (n, levels), NaN where there is none yet; None where none were asked for."""
    index: Any = None
    """The index of the rows, if they are of a frame of pandas."""

    def __len__(self) -> int:
        return len(self.yhat)

    @property
    def probabilities(self) -> Matrix:
        """Probabilities of `classes` (n, K), NaN where a class, or any label, was not known yet."""
        if self.several is not None:
            return self.several
        both = np.column_stack([sigmoid(-self.yhat), sigmoid(self.yhat)])
        return np.where(self.known[:, None], both, np.nan)

    @property
    def log_p(self) -> Matrix:
        """Log-probabilities of `classes` (n, K)."""
        if self.several is not None:
            with np.errstate(divide="ignore"):
                return np.log(self.several)
        both = np.column_stack([-np.logaddexp(0.0, self.yhat), -np.logaddexp(0.0, -self.yhat)])
        return np.where(self.known[:, None], both, np.nan)

    @property
    def labels(self) -> list[str | None]:
        """The likeliest label of each row; None before any label was known."""
        p = self.probabilities
        if not p.shape[1]:
            return [None] * len(p)
        names = self.classes or ()
        best = np.argmax(np.where(np.isnan(p), -1.0, p), axis=1)
        return [names[k] if known else None for k, known in zip(best.tolist(), self.known.tolist(), strict=True)]

    def columns(self) -> dict[str, Any]:
        """Return the answers as columns for a data frame.

        Of numbers: prediction, lower and upper, and quantiles such as q0.1. Of classes: label, its probability, and one
        column such as p(yes) for each. Times come first if there are any. What is not known is NaN, or None for labels.
        """
        out: dict[str, Any] = {} if self.time is None else {"time": self.time}
        if self.classes is None:
            out["prediction"] = np.where(self.known, self.yhat, np.nan)
            if self.lower is not None and self.upper is not None:
                out |= {"lower": self.lower, "upper": self.upper}
            if self.quantiles is not None:
                out |= {quantile_column(q): self.quantiles[:, k] for k, q in enumerate(self.levels)}
            return out
        p = self.probabilities
        sure = np.max(np.where(np.isnan(p), -1.0, p), axis=1, initial=-1.0)
        out |= {"label": self.labels, "probability": np.where(sure < 0.0, np.nan, sure)}
        return out | {probability_column(name): p[:, k] for k, name in enumerate(self.classes)}

    def to_frame(self, library: Any = None) -> Any:
        """Return the answers as a data frame: of pandas, with the index of the rows, if these came so, else of polars.

        `library` may name any other that narwhals can make.
        """
        import narwhals as nw

        if self.index is None:
            return nw.from_dict(self.columns(), backend=library or "polars").to_native()
        frame = nw.from_dict(self.columns(), backend=library or "pandas").to_native()
        if library in (None, "pandas"):
            frame.index = self.index
        return frame

    def without_intervals(self, rows: NDArray[np.bool_]) -> Answers:
        """Return the same answers without intervals and quantiles in some rows."""
        if self.lower is None or self.upper is None or not rows.any():
            return self
        lower, upper = (np.where(rows, np.nan, end) for end in (self.lower, self.upper))
        quantiles = None if self.quantiles is None else np.where(rows[:, None], np.nan, self.quantiles)
        return replace(self, lower=lower, upper=upper, quantiles=quantiles)

    def __getitem__(self, row: int | str) -> Any:
        """Return the columns of one row as plain values, None for what is not known; or one column by its name."""
        columns = self.columns()
        if isinstance(row, str):
            if row not in columns:
                raise InputError(f"Answers: there is no column '{row:.60}'; there are {', '.join(columns):.200}")
            return columns[row]
        if not hasattr(row, "__index__"):
            raise InputError(
                f"Answers: a row is a number and a column a text, got {_check.describe(row)}; to_frame() takes the rest"
            )
        return {name: _plain(column[operator.index(row)]) for name, column in columns.items()}

    def __repr__(self) -> str:
        if len(self) == 1:
            facts = ", ".join(f"{name} {_short(value)}" for name, value in self[0].items())
            return f"<Answers: {facts}>"
        return f"<Answers: {len(self):,} rows with {', '.join(self.columns())}>"

    def _repr_html_(self) -> str:
        columns = self.columns()
        rows = [
            [_short(_plain(column[row])) for column in columns.values()] for row in range(min(len(self), SHOWN_ROWS))
        ]
        more = f"{len(self):,} rows" + (f", of which {SHOWN_ROWS} are shown" if len(self) > SHOWN_ROWS else "")
        return html.rows_table(f"Answers: {more}", list(columns), rows)


def join_answers(parts: Sequence[Answers]) -> Answers:
    """Return the answers of blocks of rows as those of one; some may know more classes than others."""
    if len(parts) == 1:
        return parts[0]
    widest = max(parts, key=lambda part: len(part.classes or ()))
    K = 0 if widest.several is None else widest.several.shape[1]
    joined: dict[str, Any] = {name: getattr(widest, name) for name in ("classes", "level", "levels")}
    for name in ("serial", "line", "time", "yhat", "known", "several", "lower", "upper", "quantiles"):
        columns = [getattr(part, name) for part in parts]
        if name == "several" and K:
            columns = [np.pad(p, ((0, 0), (0, K - p.shape[1])), constant_values=np.nan) for p in columns]
        joined[name] = None if columns[-1] is None else np.concatenate(columns)
    return Answers(**joined)


def probability_column(label: str) -> str:
    """Return the name of the column with a class's probabilities."""
    return f"p({label})"


def quantile_column(level: float) -> str:
    """Return the name of the column with a quantile.

    >>> quantile_column(0.1)
    'q0.1'
    """
    return f"q{level:g}"


def _plain(value: Any) -> Any:
    """Return an entry of a column as Python has it."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item().isoformat()
    value = value.item() if isinstance(value, np.generic) else value
    return None if value != value else value


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
