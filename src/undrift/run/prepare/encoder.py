"""Rows as the model sees them: numbers, one column for each text, the calendar, labels of earlier rows."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import DataError
from undrift.run.prepare.columns import ColumnRoles, not_a_number, require_short
from undrift.run.prepare.problems import DataProblems
from undrift.run.read.cells import LIMIT, UnreadableCell, parse_numbers, parse_texts, parse_times
from undrift.run.read.rows import Lines, RowBatch, Times
from undrift.run.read.source import Source

DAY, WEEK, YEAR = 24.0, 7.0, 365.2425
UNIT = {"hour": DAY, "weekday": WEEK, "year": YEAR}


class EncodedRows(NamedTuple):
    """Some rows, in order."""

    line: Lines
    """Where they stand (n,)."""
    time: Times | None
    """When they were (n,)."""
    Z: Matrix
    """Features (n, features), NaN where missing."""
    y: Vector
    """Labels (n,), 0 and 1 for two classes, NaN where missing."""


class Encoder:
    """Turns batches into rows; remembers texts, late labels and what was wrong."""

    def __init__(self, source: Source, plan: ColumnRoles) -> None:
        self.source, self.plan, self.settings = source, plan, source.settings
        self.na = frozenset(self.settings.na)
        self.problems = DataProblems()
        self.classes = list(plan.classes) if plan.classes is not None else None
        self.texts = {name: list(values) for name, values in plan.texts}
        self.features = list(plan.numbers)
        for name in (*self._calendar_names(), *self._lag_names()):
            self.features.append(self._unused(name))
        self._fixed = fixed = len(self.features)
        self._places: dict[tuple[str, str], int] = {}
        for name, values in plan.texts:
            for value in values:
                self._place(name, value)
        self.late = np.full(max(self.settings.lag, default=0), math.nan)
        self.low, self.high = np.full(fixed, math.inf), np.full(fixed, -math.inf)
        self.digests = [""] * fixed
        self.rows, self.latest = 0, "NaT"

    def encode(self, batch: RowBatch) -> EncodedRows:
        """Return the rows of a batch."""
        line = batch.lines
        y = self._labels(batch)
        instants = self._times(batch)
        count = len(line)
        columns = [self._numbers(batch, name) for name in self.plan.numbers]
        hot = self._hot(batch)
        Z = np.empty((count, len(self.features)))
        for j, column in enumerate(columns):
            Z[:, j] = column
        if self.settings.calendar and instants is not None:
            self._calendar(instants, Z[:, len(columns) : self.lags.start])
        Z[:, self._fixed :] = hot
        keep = self._kept(batch, Z, line)
        if keep is not None:
            line, y, Z = line[keep], y[keep], Z[keep]
            instants = None if instants is None else instants[keep]
        self._lags(y, Z)
        self._watch(Z[:, : self._fixed])
        self.rows += len(line)
        return EncodedRows(line, instants, Z, y)

    @property
    def lags(self) -> range:
        """Where the labels of earlier rows stand among the features."""
        return range(self._fixed - len(self.settings.lag), self._fixed)

    def _at(self, batch: RowBatch, row: int) -> str:
        return self.source.at(int(batch.lines[row]))

    def _column(self, batch: RowBatch, name: str) -> Any:
        return batch.columns.get(name, [None] * len(batch.lines))

    def _numbers(self, batch: RowBatch, name: str) -> Vector:
        try:
            column = parse_numbers(self._column(batch, name), self.na)
        except UnreadableCell as bad:
            raise not_a_number(self.source, int(batch.lines[bad.row]), name, bad.cell) from None
        return self._finite(batch, name, column)

    def _finite(self, batch: RowBatch, name: str, column: Vector) -> Vector:
        """Count what is missing; make infinite numbers and those beyond the limit missing too."""
        odd = ~(np.abs(column) <= LIMIT)
        if odd.any():
            holes = np.isnan(column)
            self.problems.add("missing", name, batch.lines[holes])
            column = self._in_range(batch, name, column, odd & ~holes)
        return column

    def _in_range(self, batch: RowBatch, name: str, column: Vector, wild: NDArray[np.bool_]) -> Vector:
        """Return a column whose wild numbers are missing; say which they were."""
        if not wild.any():
            return column
        if self.settings.missing == "refuse":
            row = int(np.argmax(wild))
            raise DataError(
                f"{self._at(batch, row)}: '{name}' is {column[row]:g}, where numbers up to {LIMIT:g} in size are "
                "allowed; correct it, write the column in larger units, or pass --missing fill"
            )
        endless = np.isinf(column)
        self.problems.add("infinite", name, batch.lines[wild & endless])
        self.problems.add("too large", name, batch.lines[wild & ~endless])
        return np.where(wild, math.nan, column)

    def _labels(self, batch: RowBatch) -> Vector:
        name = self.settings.target
        cells = self._column(batch, name)
        if self.classes is None:
            try:
                y = parse_numbers(cells, self.na)
            except UnreadableCell as bad:
                raise not_a_number(self.source, int(batch.lines[bad.row]), name, bad.cell) from None
            y = self._in_range(batch, name, y, np.abs(y) > LIMIT)
        else:
            y = self._classes(batch, parse_texts(cells, self.na))
        holes = np.isnan(y)
        if holes.any():
            if self.settings.missing == "refuse":
                row = int(np.argmax(holes))
                raise DataError(f"{self._at(batch, row)}: the target '{name}' is missing; fill it in, or drop the row")
            self.problems.add("unlabelled", name, batch.lines[holes])
        return y

    def _classes(self, batch: RowBatch, labels: list[str | None]) -> Vector:
        assert self.classes is not None  # called for two classes only
        negative, positive = self.classes
        code: dict[str | None, float] = {None: math.nan, negative: 0.0, positive: 1.0}
        try:
            return np.array([code[label] for label in labels])
        except KeyError:
            row = next(row for row, label in enumerate(labels) if label not in code)
        if negative == "":
            self.classes[0] = str(labels[row])
            return self._classes(batch, labels)
        raise DataError(
            f"{self._at(batch, row)}: the target '{self.settings.target}' is {labels[row]!r}, a third class after "
            f"{negative!r} and {positive!r}; join classes, or pass --task regression if it is a number"
        )

    def _times(self, batch: RowBatch) -> Times | None:
        name = self.plan.time
        if name is None:
            return None
        try:
            instants = parse_times(self._column(batch, name), self.plan.clock, self.na)
        except UnreadableCell as bad:
            raise DataError(
                f"{self._at(batch, bad.row)}: '{name}' should be a time, got {bad.cell!r:.60}; correct it, "
                f"or leave the column out with --drop '{name}'"
            ) from None
        self.problems.add("missing", name, batch.lines[np.isnat(instants)])
        before = np.concatenate((np.array([self.latest], dtype="datetime64[us]"), instants[:-1]))
        self.problems.add("time goes back", name, batch.lines[instants < before])  # never where one is missing
        self.latest = str(instants[-1])
        return instants

    def _hot(self, batch: RowBatch) -> Matrix:
        """Return one column for each text seen so far; a missing text is missing in all of them."""
        columns = {name: parse_texts(self._column(batch, name), self.na) for name in self.texts}
        for name, cells in columns.items():
            for row, text in enumerate(cells):
                if text is not None and (name, text) not in self._places:
                    self._admit(batch, row, name, text)
        hot = np.zeros((len(batch.lines), len(self.features) - self._fixed))
        for name, cells in columns.items():
            for row, text in enumerate(cells):
                place = None if text is None else self._places.get((name, text))
                if place is not None:
                    hot[row, place - self._fixed] = 1.0
            holes = [row for row, text in enumerate(cells) if text is None]
            if holes:
                own = [self._places[name, text] - self._fixed for text in self.texts[name]]
                hot[np.ix_(holes, own)] = math.nan
                self.problems.add("missing", name, batch.lines[holes])
        return hot

    def _admit(self, batch: RowBatch, row: int, name: str, text: str) -> None:
        require_short(self.source, int(batch.lines[row]), name, text)
        if len(self.texts[name]) >= self.settings.categories:
            raise DataError(
                f"{self._at(batch, row)}: '{name}' is {text!r:.60}, one text more than the {self.settings.categories} "
                f"allowed; leave it out with --drop '{name}', or raise --categories"
            )
        self.texts[name].append(text)
        self._place(name, text)

    def _place(self, name: str, text: str) -> None:
        """Give a text a feature of its own."""
        self._places[name, text] = len(self.features)
        self.features.append(self._unused(f"{name}={text}"))

    def _unused(self, name: str) -> str:
        """Return a name for a made feature that no other has."""
        while name in self.features:
            name += " (made)"
        return name

    def _kept(self, batch: RowBatch, Z: Matrix, line: Lines) -> NDArray[np.bool_] | None:
        """Return which rows stay; None: all."""
        if self.settings.missing not in ("skip", "refuse"):
            return None
        holes = np.isnan(np.delete(Z, self.lags, axis=1))
        bad = holes.any(axis=1)
        if not bad.any():
            return None
        if self.settings.missing == "refuse":
            row = int(np.argmax(bad))
            names = np.delete(np.array(self.features, dtype=object), self.lags)
            name = str(names[int(np.argmax(holes[row]))]).split("=")[0]
            raise DataError(
                f"{self._at(batch, row)}: '{name}' is missing; fill it in, drop the row, or pass --missing=skip"
            )
        self.problems.add("skipped", None, line[bad])
        return np.asarray(~bad)

    def _calendar_names(self) -> list[str]:
        if not self.settings.calendar or self.plan.time is None:
            return []
        waves = [
            f"{part} {wave}"
            for part in (*(["hour", "half day"] if self.plan.hours else []), "weekday", "year")
            for wave in ("sin", "cos")
        ]
        return [*waves, "weekend"]

    def _calendar(self, instants: Times, out: Matrix) -> None:
        """Fill in where in the day, the week and the year each row is; NaN where its time is missing."""
        days = instants.astype("datetime64[D]")
        hour = (instants - days) / np.timedelta64(1, "h")
        weekday = (days.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
        year = (days - instants.astype("datetime64[Y]").astype("datetime64[D]")) / np.timedelta64(1, "D")
        turns = [hour / DAY, 2.0 * hour / DAY] if self.plan.hours else []
        turns += [(weekday + hour / DAY) / WEEK, year / YEAR]
        for k, turn in enumerate(turns):
            out[:, 2 * k], out[:, 2 * k + 1] = np.sin(2.0 * math.pi * turn), np.cos(2.0 * math.pi * turn)
        out[:, -1] = weekday >= 5
        out[np.isnat(instants)] = math.nan

    def _lag_names(self) -> list[str]:
        return [f"{self.settings.target} {lag} row{'s' if lag > 1 else ''} ago" for lag in self.settings.lag]

    def _lags(self, y: Vector, Z: Matrix) -> None:
        if not self.settings.lag:
            return
        series = np.concatenate((self.late, y))
        longest = len(self.late)
        for k, lag in zip(self.lags, self.settings.lag, strict=True):
            Z[:, k] = series[longest - lag : len(series) - lag]
        self.late = series[len(series) - longest :]

    def _watch(self, Z: Matrix) -> None:
        """Follow which columns never move and which are the same."""
        if not len(Z):
            return
        with np.errstate(invalid="ignore"):
            np.fmin(self.low, np.fmin.reduce(Z, axis=0), out=self.low)
            np.fmax(self.high, np.fmax.reduce(Z, axis=0), out=self.high)
        for j, column in enumerate(np.ascontiguousarray(Z.T) + 0.0):
            self.digests[j] = hashlib.blake2b(self.digests[j].encode() + column.tobytes(), digest_size=16).hexdigest()

    def findings(self) -> list[Mapping[str, Any]]:
        """Return every problem found so far, those of whole columns included."""
        found = DataProblems(self.problems.entries())
        first: dict[str, str] = {}
        for name, low, high, digest in zip(self.features, self.low, self.high, self.digests, strict=False):
            if low > high:
                found.whole("all missing", name, self.rows, "it never had a value")
            elif low == high:
                found.whole("dead column", name, self.rows, f"it is {low:g} in every row")
            elif digest in first:
                found.whole("duplicate column", name, self.rows, f"the same numbers as '{first[digest]}'")
            first.setdefault(digest, name)
        return found.entries()

    def carry(self) -> tuple[dict[str, Any], dict[str, Vector]]:
        """Return what the next batch depends on: words and arrays."""
        words = {"rows": self.rows, "texts": self.texts, "features": self.features, "digests": self.digests}
        words |= {"classes": self.classes, "problems": self.problems.entries(), "latest": self.latest}
        words["places"] = [[name, text, place] for (name, text), place in self._places.items()]
        return words, {"late": self.late, "low": self.low, "high": self.high}

    def resume(self, words: Mapping[str, Any], arrays: Mapping[str, Vector]) -> None:
        """Go on where `carry` left off."""
        self.rows, self.digests, self.classes = words["rows"], list(words["digests"]), words["classes"]
        self.latest = words["latest"]
        self.texts = {name: list(values) for name, values in words["texts"].items()}
        self.features = list(words["features"])
        self._places = {(name, text): place for name, text, place in words["places"]}
        self.problems = DataProblems(words["problems"])
        self.late, self.low, self.high = (arrays[name].copy() for name in ("late", "low", "high"))
