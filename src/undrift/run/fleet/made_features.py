"""Features that a fleet makes of other columns: texts as 0 and 1, and the calendar of the times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from undrift.fleet.keys_and_orders import MAX_ORDER
from undrift.fleet.outputs import ABSENT
from undrift.run.fleet.orders import Orders
from undrift.run.fleet.times import TimeColumn
from undrift.run.prepare.calendar import Calendar, fill_calendar
from undrift.run.prepare.columns import LONGEST_TEXT
from undrift.run.prepare.first_rows import FirstRows
from undrift.run.prepare.text_features import unused_name
from undrift.run.read.cells import parse_texts
from undrift.run.read.rows import RowBatch, Times

Columns = dict[str, NDArray[np.float64]]


class MadeFeatures(NamedTuple):
    """What is made of the columns of a file; texts that are not named here are 0 in all features of their column."""

    texts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Text columns, and their texts that have a feature."""
    calendar: Calendar | None = None
    """Which parts of the calendar are features; None: none."""
    names: tuple[str, ...] = ()
    """Names of the features, those of the calendar first."""

    def columns(self, batch: RowBatch, na: frozenset[str], times: Times | None) -> Columns:
        """Return the features of rows by name, NaN where a text or the time is missing."""
        n, made = len(batch.lines), list[NDArray[np.float64]]()
        if self.calendar is not None and times is not None:
            out = np.empty((n, len(self.calendar.names())))
            fill_calendar(times, out, self.calendar)
            made += [*out.T]
        for name, texts in self.texts:
            cells = parse_texts(batch.columns.get(name, [None] * n), na)
            known = np.array([math.nan if cell is None else 0.0 for cell in cells])
            made += [np.where([cell == text for cell in cells], 1.0, known) for text in texts]
        return dict(zip(self.names, made, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"texts": [[name, list(texts)] for name, texts in self.texts], "calendar": self.calendar} | {
            "names": list(self.names)
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_json` gave."""
        texts = tuple((str(name), tuple(str(one) for one in found)) for name, found in values["texts"])
        calendar = None if values["calendar"] is None else Calendar(*(bool(one) for one in values["calendar"]))
        return cls(texts, calendar, tuple(str(one) for one in values["names"]))


def make_features(
    first: FirstRows,
    texts: Sequence[str],
    flags: Mapping[str, str],
    taken: Sequence[str],
    most: int,
    calendar: Calendar | None,
) -> MadeFeatures:
    """Return the features to be made: of each text column its most frequent texts, `most` at most.

    `flags` are text columns of which one text has a feature.
    """
    kept: list[tuple[str, tuple[str, ...]]] = []
    for name in texts:
        if name in flags:
            kept.append((name, (flags[name],)))
            continue
        counts = Counter(cell[:LONGEST_TEXT] for cell in parse_texts(first.columns[name], first.na) if cell is not None)
        kept.append((name, tuple(text for text, _ in counts.most_common(most))))
    names = list(taken)
    for made in [*(() if calendar is None else calendar.names()), *(f"{c}={t}" for c, found in kept for t in found)]:
        names.append(unused_name(made, names))
    return MadeFeatures(tuple(kept), calendar, tuple(names[len(taken) :]))


def instants(time: TimeColumn | None, orders: Orders | None) -> Times | None:
    """Return the times that orders count, NaT where there is none."""
    if time is None or orders is None:
        return None
    counts = np.array([one if type(one) is int and abs(one) <= MAX_ORDER else ABSENT for one in orders], np.int64)
    return counts.view(f"datetime64[{time.unit}]").astype("datetime64[us]")  # what is absent becomes NaT
