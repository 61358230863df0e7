"""KnownColumns: columns that are known in advance as features of a forecaster, whatever they hold.

A number is a feature. A column of texts has room for a feature for each of its first texts, in the order in which rows
bring them; that of the very first is 0, as the others are compared with it, so that two texts are one column of 0 and
1. From the first text too many on, means of the target stand for all of them, as in a stream
(`undrift.stream.text_features`). What is made of a row depends on the rows before it alone, so that files may be cut
anywhere, and later ones may bring new texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import DataError
from undrift.forecast.forecast_input import MOST_COLUMNS
from undrift.stream.category_means import CategoryMeans
from undrift.stream.cells import parse_texts
from undrift.stream.first_rows import FirstRows, RowOrigin
from undrift.stream.schema import Schema, column_kind
from undrift.stream.settings import FEW_TEXTS, ForecastSettings
from undrift.stream.text_features import TextFeatures

ROOM = FEW_TEXTS + CategoryMeans.features
"""Features of a column of texts, used or not."""
Cube = NDArray[np.float64]


def read_known_column(first: FirstRows, name: str, *, text: bool | None) -> tuple[Vector, list[str] | None]:
    """Return a column as numbers, NaN where missing; of texts, their places among those of the file, and these.

    `text` says whether it held texts in the first file; None: this is the first.
    """
    if not (column_kind(first, name) == "text" if text is None else text):
        return first.numbers(name), None
    cells = parse_texts(first.columns[name], first.na)
    texts = [one for one in dict.fromkeys(cells) if one is not None]
    place = {one: float(k) for k, one in enumerate(texts)}
    return np.array([math.nan if cell is None else place[cell] for cell in cells]), texts


class KnownColumns:
    """The features of one forecaster's columns that are known in advance.

    Parameters
    ----------
    settings
        Which columns, and whether features say where a cell was missing.
    texts
        Those that hold texts.
    """

    def __init__(self, settings: ForecastSettings, texts: Sequence[str]) -> None:
        self._names, self._horizon = settings.known, settings.horizon
        self._texts = [name for name in self._names if name in texts]
        self._indicators = settings.missing == "indicators"
        self.width = len(self._names) * (1 + self._indicators) + (ROOM - 1) * len(self._texts)
        if self.width > MOST_COLUMNS:
            raise DataError(
                f"undrift forecast: columns known in advance make {self.width} features ({ROOM} for each column of "
                f"texts), more than {MOST_COLUMNS}; name fewer of them with --known"
            )
        schema = Schema("regression", None, None, "iso", False, (), tuple((name, ()) for name in self._texts))
        self._features = TextFeatures(settings.reading(), schema, [])
        self._last: dict[str, Any] = {}
        """The last known cell of each column."""
        self._rows = 0

    def windows(self, origin: RowOrigin, known: Matrix, texts: Mapping[str, Sequence[str]], y: Matrix) -> Cube:
        """Return what is known at each row of itself and the next steps (rows, H + 1, features), and go on.

        Parameters
        ----------
        origin
            Where the rows come from, for errors.
        known
            The cells of rows that have come, and of those still to come (rows, columns), NaN where missing; of texts
            their places in `texts`.
        texts
            The texts of columns that hold some.
        y
            The values of the rows that have come (rows, series).
        """
        rows, missing = len(y), np.isnan(known)
        columns = {name: known[:, k].tolist() for k, name in enumerate(self._names)}
        for name in self._texts:
            columns[name] = [None if cell != cell else texts[name][int(cell)] for cell in columns[name]]
        for name, cells in columns.items():
            before = self._last.get(name, None if name in self._texts else 0.0)
            for t, cell in enumerate(cells):
                before = cells[t] = before if cell is None or cell != cell else cell
        if rows:
            self._last = {name: cells[rows - 1] for name, cells in columns.items()}
        parts = [np.array([columns[name] for name in self._names if name not in self._texts]).T.reshape(len(known), -1)]
        come = {name: columns[name][:rows] for name in self._texts}
        begun, _ = self._features.add_features(origin, np.arange(rows), come)
        ahead = self._features.copy()  # texts of rows to come get their features when the rows come
        ahead.add_features(origin, np.arange(len(known)), {name: columns[name] for name in self._texts})
        made = np.zeros((len(known), ROOM * len(self._texts)))
        ahead.fill_texts({name: columns[name] for name in self._texts}, made[:, : len(ahead.names)])
        made[:, [ahead.names.index(own[0]) for own in ahead.groups().values() if own]] = 0.0  # of the first texts
        parts += [np.nan_to_num(made), *([missing.astype(np.float64)] if self._indicators else [])]
        at = np.minimum(np.arange(rows)[:, None] + np.arange(self._horizon + 1), max(len(known) - 1, 0))
        out: Cube = np.concatenate(parts, axis=1)[at]
        if self._features.means:
            self._add_means(out, at, begun, columns, y, parts[0].shape[1])
        self._rows += rows
        return out

    def _add_means(
        self, out: Cube, at: NDArray[np.int64], begun: Mapping[str, int], columns: Mapping[str, Any], y: Matrix,
        first: int,
    ) -> None:  # fmt: skip
        """Write the means of the target, as they are known at each row; its values are averaged over series."""
        categories = self._features.categories(columns, begun)
        places = [first + j for j in self._features.means]
        there = ~np.isnan(y)
        mean = np.where(there.any(axis=1), np.nansum(y, axis=1) / np.maximum(there.sum(axis=1), 1), np.nan)
        made = np.zeros((max(1, self._horizon), len(self._features.names)))
        for i in range(self._features.first_mean_row(begun), len(out)):
            now = {name: cells[i : i + 1] for name, cells in categories.items()}
            self._features.fill_means(self._rows + i, now, mean[i : i + 1], made[:1])
            out[i, 0, places] = np.nan_to_num(made[0, self._features.means])
            self._features.predict_means(
                {name: [cells[t] for t in at[i, 1:]] for name, cells in categories.items()}, made
            )
            out[i, 1:, places] = np.nan_to_num(made[:, self._features.means]).T

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""
        made = {"names": self._features.names, **self._features.state()} if self._texts else None
        return {"last": self._last, "rows": self._rows, "texts": made}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` left off."""
        self._last, self._rows = dict(state["last"]), int(state["rows"])
        if self._texts:
            self._features.resume(state["texts"]["names"], state["texts"])
