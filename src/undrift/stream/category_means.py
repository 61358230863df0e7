"""Categories of any number: of each text of a column, how far the target lay from its usual value in earlier rows.

A column with more texts than features can be made of them is learned by two numbers a row, made from labels that were
known by then. Of each text it keeps the mean distance of the target from its usual value, once over its last few rows
and once over many, both pulled towards 0 as long as the text has few rows. A text that was never seen is 0 in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from undrift._typing import Matrix, Vector

HALF_LIVES = (8.0, 64.0)
"""Memories in rows of a text: a row that is followed by so many others of its text counts half."""
PRIORS = (1.0, 3.0, 10.0, 30.0)
"""Strengths of the pull towards 0, in rows; the one that has predicted best lately is used."""
USUAL_HALF_LIFE, JUDGED_HALF_LIFE = 128.0, 693.0
"""Memories in rows of the column: of the usual value of the target, and of what the strengths are judged by."""
MOST_CATEGORIES = 10_000
"""Texts of a column that are remembered; with more, the one that was not learned for the longest time is forgotten."""
MOST_WAITING = 100_000
"""Rows whose label may still come, where labels come in any order; the label of an older one is not counted here."""
MOST_OWN = 256
"""Changes of a `SharedDict` that copies do not share."""
NO_CATEGORY = ""
"""Stands for a row that has no text to learn, though none is missing; no text is empty."""

Key = TypeVar("Key")
Value = TypeVar("Value")
_KEPT = [0.5 ** (1.0 / half_life) for half_life in HALF_LIVES]
_USUAL_KEPT, _JUDGED_KEPT = 0.5 ** (1.0 / USUAL_HALF_LIFE), 0.5 ** (1.0 / JUDGED_HALF_LIFE)
_RAREST = 1e-3
"""Smallest and, from 1, largest usual share of a class that log-odds are taken of."""


class SharedDict(Generic[Key, Value]):
    """A dict, those set last at the end, that is copied in little time however large it is; no value is None.

    Copies share what was there before the last changes, which nobody changes any more.
    """

    def __init__(self, items: Mapping[Key, Value] | None = None) -> None:
        self._shared: dict[Key, Value] = dict(items or {})
        self._own: dict[Key, Value | None] = {}
        """What was set since, None for what was removed."""
        self._size = len(self._shared)

    def copy(self) -> SharedDict[Key, Value]:
        """Return the same items, which change on their own."""
        twin: SharedDict[Key, Value] = SharedDict()
        twin._shared, twin._own, twin._size = self._shared, dict(self._own), self._size
        return twin

    def __len__(self) -> int:
        return self._size

    def get(self, key: Key) -> Value | None:
        """Return a value, None if there is none."""
        return self._own[key] if key in self._own else self._shared.get(key)

    def put(self, key: Key, value: Value) -> None:
        """Set a value, at the end."""
        self._size += self.get(key) is None
        self._change(key, value)

    def remove(self, key: Key) -> None:
        """Remove a value that is there."""
        self._size -= 1
        self._change(key, None)

    def _change(self, key: Key, value: Value | None) -> None:
        self._own.pop(key, None)
        self._own[key] = value
        if len(self._own) > MOST_OWN:
            items = dict(self._shared)
            for changed in self._own:
                items.pop(changed, None)
            items.update((changed, new) for changed, new in self._own.items() if new is not None)
            self._shared, self._own = items, {}

    def items(self) -> Iterator[tuple[Key, Value]]:
        """Yield keys and values, the oldest first."""
        yield from (item for item in self._shared.items() if item[0] not in self._own)
        yield from ((key, value) for key, value in self._own.items() if value is not None)

    def oldest(self) -> Key:
        """Return the key that was set before all others."""
        return next(self.items())[0]


class _ColumnMeans:
    """The texts of one column: weight and sum of distances for each memory, those learned last at the end."""

    def __init__(self) -> None:
        self.sums: SharedDict[str, list[float]] = SharedDict()
        self.errors = [[0.0] * len(PRIORS) for _ in HALF_LIVES]
        """Squared errors of each strength by memory, fading."""

    def copy(self) -> _ColumnMeans:
        """Return the same means, which learn on their own; lists are replaced when they change, so they are shared."""
        twin = _ColumnMeans()
        twin.sums, twin.errors = self.sums.copy(), list(self.errors)
        return twin

    def distances(self, text: str) -> list[tuple[float, float]]:
        """Return for each memory the mean distance of a text, pulled towards 0, and the rows it rests on."""
        sums = self.sums.get(text)
        if sums is None:
            return [(0.0, 0.0)] * len(HALF_LIVES)
        out = []
        for k, errors in enumerate(self.errors):
            weight = sums[2 * k] + PRIORS[errors.index(min(errors))]
            out.append((sums[2 * k + 1] / weight, weight))
        return out

    def learn(self, text: str, distance: float) -> None:
        """Take in how far the target was from its usual value in a row of a text."""
        sums = list(self.sums.get(text) or [0.0] * (2 * len(HALF_LIVES)))
        for k, kept in enumerate(_KEPT):
            weight, total = sums[2 * k], sums[2 * k + 1]
            self.errors[k] = [
                _JUDGED_KEPT * error + (distance - total / (weight + prior)) ** 2
                for error, prior in zip(self.errors[k], PRIORS, strict=True)
            ]
            sums[2 * k], sums[2 * k + 1] = kept * weight + 1.0, kept * total + distance
        self.sums.put(text, sums)
        if len(self.sums) > MOST_CATEGORIES:
            self.sums.remove(self.sums.oldest())


class CategoryMeans:
    """Columns of categories as numbers, from the labels of earlier rows.

    Parameters
    ----------
    binary
        Whether labels are two classes, 0 and 1; the numbers are then differences of log-odds.
    delay
        Labels that come with their rows become known so many rows late.

    Examples
    --------
    >>> means = CategoryMeans(binary=False)
    >>> means.begin("shop")
    >>> texts = ["a", "b"] * 50
    >>> Z = means.encode(0, {"shop": texts}, np.array([1.0, 3.0] * 50))
    >>> bool(Z[-2, 0] < -0.8 and Z[-1, 0] > 0.8)
    True
    """

    features = len(HALF_LIVES)
    """Numbers that a column becomes."""

    def __init__(self, *, binary: bool, delay: int = 0) -> None:
        self._binary, self._delay = binary, delay
        self._columns: dict[str, _ColumnMeans] = {}
        self._waiting: SharedDict[int, tuple[dict[str, str], float | None]] = SharedDict()
        self._usual = (0.0, 0.0)

    def copy(self) -> CategoryMeans:
        """Return the same means, which learn on their own."""
        twin = CategoryMeans(binary=self._binary, delay=self._delay)
        twin._columns = {name: column.copy() for name, column in self._columns.items()}
        twin._waiting, twin._usual = self._waiting.copy(), self._usual
        return twin

    def begin(self, name: str) -> None:
        """Take a column in from here on."""
        self._columns[name] = _ColumnMeans()

    def predict(self, cells: Mapping[str, Sequence[str | None]]) -> Matrix:
        """Return the numbers of rows, column by column, NaN where a text is missing; nothing changes."""
        rows = zip(*cells.values(), strict=True)
        out = [
            [number for name, text in zip(cells, row, strict=True) for number in self._numbers(name, text)]
            for row in rows
        ]
        return np.array(out, dtype=np.float64).reshape(-1, self.features * len(cells))

    def encode(self, rows_before: int, cells: Mapping[str, Sequence[str | None]], y: Vector | None) -> Matrix:
        """Return the same of rows that have come, and learn their labels when they are known.

        Without `y`, labels come one by one, by `know_label`.
        """
        n = len(next(iter(cells.values()), ()))
        out = np.empty((n, self.features * len(cells)))
        for i, row in enumerate(zip(*cells.values(), strict=True)):
            texts = dict(zip(cells, row, strict=True))
            out[i] = [number for name, text in texts.items() for number in self._numbers(name, text)]
            number = rows_before + i + 1
            known = {name: text for name, text in texts.items() if text}
            self._waiting.put(number, (known, None if y is None else float(y[i])))
            _, due = self._waiting.get(number - self._delay) or (None, None)
            if due is not None:
                self.know_label(number - self._delay, due)
            if len(self._waiting) > self._delay + MOST_WAITING:
                self._waiting.remove(self._waiting.oldest())
        return out

    def know_label(self, row: int, y: float) -> None:
        """Take in the label of a row that waits for it, by its number from 1 on; NaN says that it never comes."""
        waiting = self._waiting.get(row)
        if waiting is None:
            return
        self._waiting.remove(row)
        if math.isnan(y):
            return
        weight, total = self._usual
        usual = total / weight if weight else y
        for name, text in waiting[0].items():
            if name in self._columns:
                self._columns[name].learn(text, y - usual)
        self._usual = (_USUAL_KEPT * weight + 1.0, _USUAL_KEPT * total + y)

    def _numbers(self, name: str, text: str | None) -> list[float]:
        if text is None:
            return [math.nan] * self.features
        distances = self._columns[name].distances(text)
        if not self._binary:
            return [distance for distance, _ in distances]
        weight, total = self._usual
        share = total / weight if weight else 0.5
        usual = _log_odds(min(max(share, _RAREST), 1.0 - _RAREST))
        out = []
        for distance, rows in distances:
            least = 0.5 / (rows + 1.0)  # no share of so few rows is surer than that
            one = min(max(share + distance, least), 1.0 - least)
            out.append(_log_odds(one) - usual if rows else 0.0)
        return out

    def state(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        columns = [
            [name, [[text, *sums] for text, sums in column.sums.items()], column.errors]
            for name, column in self._columns.items()
        ]
        waiting = [
            [row, texts, y is not None, None if y is None or math.isnan(y) else y]
            for row, (texts, y) in self._waiting.items()
        ]
        return {"columns": columns, "usual": list(self._usual), "waiting": waiting}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` left off."""
        self._columns = {}
        for name, sums_of_texts, errors in state["columns"]:
            column = self._columns[str(name)] = _ColumnMeans()
            column.sums = SharedDict({str(text): [float(number) for number in sums] for text, *sums in sums_of_texts})
            column.errors = [[float(number) for number in memory] for memory in errors]
        weight, total = state["usual"]
        self._usual = (float(weight), float(total))
        self._waiting = SharedDict(
            {
                int(row): (dict(texts), (math.nan if y is None else float(y)) if known else None)
                for row, texts, known, y in state["waiting"]
            }
        )


def _log_odds(share: float) -> float:
    return math.log(share / (1.0 - share))
