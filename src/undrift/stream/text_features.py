"""Texts as features: one of 0 and 1 for each text of a column, and means of the target where there are too many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.stream.category_means import NO_CATEGORY, CategoryMeans
from undrift.stream.cells import Lines
from undrift.stream.first_rows import RowOrigin
from undrift.stream.schema import LONGEST_TEXT, Schema, has_means, require_short, text_limit
from undrift.stream.settings import Settings

Texts = Mapping[str, Sequence[str | None]]
"""The cells of text columns by name, None where missing."""


class TextFeatures:
    """The features of the text columns; more of them come as new texts do.

    Parameters
    ----------
    settings
        Those of the stream.
    schema
        What each column is.
    taken
        Names of the features before these.
    """

    def __init__(self, settings: Settings, schema: Schema, taken: Sequence[str]) -> None:
        self._taken = list(taken)
        self.names: list[str] = []
        """Names of the features."""
        self.texts: dict[str, list[str]] = {name: [] for name in schema.text_columns}
        """Columns, and their texts that have a feature."""
        self._limits = {name: text_limit(settings, len(values)) for name, values in schema.texts}
        self._places: dict[tuple[str, str], int] = {}
        self._mean_places: dict[str, int] = {}
        self._has_means = has_means(schema.task)
        self._means = CategoryMeans(binary=schema.task == "classification", delay=settings.delay)
        for name, values in schema.texts:
            for value in values:
                self._add_text(name, value)
        for name in schema.many_texts:
            self._begin_means(name)

    def copy(self) -> TextFeatures:
        """Return the same features, which grow on their own; names and places are shared until then."""
        twin = object.__new__(TextFeatures)
        vars(twin).update(vars(self))
        if self._mean_places:
            twin._means = self._means.copy()
        return twin

    def _unshare(self) -> None:
        """Copy what grows."""
        self._means = self._means.copy()
        self.names, self._places, self._mean_places = list(self.names), dict(self._places), dict(self._mean_places)
        self.texts, self._limits = {name: list(texts) for name, texts in self.texts.items()}, dict(self._limits)

    def has_changed(self, start: TextFeatures) -> bool:
        """Whether texts came since the start that later rows depend on; this began as a copy of `start`."""
        return bool(self._mean_places) or self.names is not start.names

    def extend(self, settings: Settings, taken: Sequence[str], names: Sequence[str]) -> None:
        """Take in text columns that came up now, and names of other features before these."""
        self._unshare()
        self._taken = list(taken)
        for name in names:
            self.texts[name] = []
            self._limits[name] = text_limit(settings, 0)

    @property
    def means(self) -> list[int]:
        """Which features are means of the target."""
        return [j for name in self._mean_places for j in self._own_means(name)]

    def groups(self) -> dict[str, list[str]]:
        """Return the features that each column is made into."""
        return {column: [self.names[j] for j in self._own(column)] for column in self.texts}

    def column_of(self, feature: str) -> str:
        """Return the column that a feature is made of."""
        return next(column for column, names in self.groups().items() if feature in names)

    def add_features(self, origin: RowOrigin, lines: Lines, columns: Texts) -> tuple[dict[str, int], list[int]]:
        """Make features of the texts that came up now, in the order in which rows bring them.

        Return the row from which on a column is learned by means, which is the one that brings the first text too many,
        and the row that brought each new feature.
        """
        begun: dict[str, int] = {}
        brought: list[int] = []
        fresh = self._new_texts(columns)
        if fresh:
            self._unshare()
        for row, name, text in fresh:
            if name in begun:
                continue
            if len(self.texts[name]) < self._limits[name]:
                require_short(origin, int(lines[row]), name, text)
                self._add_text(name, text)
                brought.append(row)
            elif self._has_means:
                self._begin_means(name)
                begun[name] = row
                brought += [row] * CategoryMeans.features
        return begun, brought

    def _new_texts(self, columns: Texts) -> list[tuple[int, str, str]]:
        """Return the first row, the column and the text of each text that has no feature, row by row."""
        fresh = []
        for k, (name, cells) in enumerate(columns.items()):
            if name in self._mean_places:
                continue
            unknown = {text for text in {*cells} if text is not None and (name, text) not in self._places}
            for row, text in enumerate(cells if unknown else ()):
                if text in unknown:
                    unknown.discard(text)
                    fresh.append((row, k, name, str(text)))
        return [(row, name, text) for row, _, name, text in sorted(fresh)]

    def categories(self, columns: Texts, begun: Mapping[str, int]) -> dict[str, list[str | None]]:
        """Return the texts of the columns that are learned by means."""
        return {
            name: [
                None if text is None else text[:LONGEST_TEXT] if row >= begun.get(name, 0) else NO_CATEGORY
                for row, text in enumerate(columns[name])
            ]
            for name in self._mean_places
        }

    def fill_texts(self, columns: Texts, out: Matrix) -> dict[str, list[int]]:
        """Write the features of texts; a missing text is missing in all features of its column. Return such rows."""
        out[...] = 0.0
        missing = {}
        for name, cells in columns.items():
            places = {text: self._places[name, text] for text in self.texts[name]}
            at = np.array([-1 if text is None else places.get(text, -2) for text in cells], dtype=np.int64)
            rows = np.flatnonzero(at >= 0)
            out[rows, at[rows]] = 1.0
            holes = np.flatnonzero(at == -1).tolist()
            if holes:
                out[np.ix_(holes, self._own(name))] = math.nan
                missing[name] = holes
        return missing

    def first_mean_row(self, begun: Mapping[str, int]) -> int:
        """Return the row of a batch from which on labels are learned by means, however rows are cut into batches."""
        goes_on = any(name not in begun for name in self._mean_places)
        return 0 if goes_on else min(begun.values(), default=0)

    def fill_means(self, rows_before: int, categories: Texts, y: Vector | None, out: Matrix) -> None:
        """Write the means of categories into their features, and learn the labels `y` when they are known.

        Without `y`, labels come one by one, by `know_label`.
        """
        if categories:
            out[:, self.means] = self._means.encode(rows_before, categories, y)

    def predict_means(self, categories: Texts, out: Matrix) -> None:
        """Write the means of categories into their features; nothing changes."""
        if categories:
            out[:, self.means] = self._means.predict(categories)

    def know_label(self, row: int, y: float) -> None:
        """Take in the label of a row, by its number from 1 on."""
        self._means.know_label(row, y)

    def _add_text(self, name: str, text: str) -> None:
        self.texts[name].append(text)
        self._places[name, text] = len(self.names)
        self._add_name(f"{name}={text}")

    def _begin_means(self, name: str) -> None:
        self._means.begin(name)
        self._mean_places[name] = len(self.names)
        for what in ("recent mean", "mean"):
            self._add_name(f"{name}: {what}")

    def _own(self, name: str) -> list[int]:
        return [*(self._places[name, text] for text in self.texts[name]), *self._own_means(name)]

    def _own_means(self, name: str) -> range:
        first = self._mean_places.get(name)
        return range(0) if first is None else range(first, first + CategoryMeans.features)

    def _add_name(self, name: str) -> None:
        self.names.append(unused_name(name, [*self._taken, *self.names]))

    def state(self) -> dict[str, Any]:
        """Return what the next rows depend on, as JSON values."""
        before = len(self._taken)
        values: dict[str, Any] = {"texts": {name: list(texts) for name, texts in self.texts.items()}}
        values["places"] = [[name, text, before + place] for (name, text), place in self._places.items()]
        values["mean_places"] = {name: before + place for name, place in self._mean_places.items()}
        if self._mean_places:
            values["means"] = self._means.state()
        return values

    def resume(self, names: Sequence[str], values: Mapping[str, Any]) -> None:
        """Go on where `state` left off; `names` are those of the features then."""
        self._means = self._means.copy()
        before = len(self._taken)
        if {*values["texts"]} != {*self.texts}:
            raise ValueError("columns of texts cannot be used")
        self.names = list(names)
        self.texts = {name: list(texts) for name, texts in values["texts"].items()}
        self._places = {(name, text): place - before for name, text, place in values["places"]}
        self._mean_places = {name: place - before for name, place in values.get("mean_places", {}).items()}
        places = [
            *self._places.values(),
            *(k + j for k in self._mean_places.values() for j in range(CategoryMeans.features)),
        ]
        if sorted(places) != [*range(len(self.names))]:
            raise ValueError("places of features cannot be used")
        if {*self._places} != {(name, text) for name, texts in self.texts.items() for text in texts}:
            raise ValueError("texts of features cannot be used")
        if "means" in values:
            self._means.resume(values["means"])


def unused_name(name: str, taken: Sequence[str]) -> str:
    """Return a name for a made feature that no other has."""
    while name in taken:
        name += " (made)"
    return name
