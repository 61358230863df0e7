"""Served predictions: what a learner answered for a row whose label comes later, and the records it keeps of them.

A row is *served* when its prediction is made, and *settled* when its label is learned. What was known at serving is
kept as a record of plain numbers, so that settling can learn from what was really served, however late the label is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import numpy as np

from undrift import _check
from undrift._internal import html
from undrift._typing import Arrays, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import RecordPart
from undrift.learners.intervals import (
    LEVELS,
    PLACES,
    QUANTILES,
    Interval,
    Limits,
    check_level,
    check_quantile_levels,
    cut,
    interval_levels,
    quantiles_at,
    read_quantiles,
)
from undrift.learners.row_context import ORDINARY, WEIGHT_LIMIT, RowContext

PREFIX = "pending."
"""Names of the arrays in which records are saved begin with this."""
WEIGHTS = f"{PREFIX}weights"
"""Weight of each record's label and the time before its row; left out where all are 1."""
DELAYS = f"{PREFIX}delays"
"""Delay of each record's scheduled label, -1 where it has none of its own; left out where none has."""
SHOWN_LEVEL = 0.9
"""The level of the interval that is printed, ..."""
SHOWN_LOGITS = 6
"""... and how many numbers of a prediction of several classes."""
MOST_ROWS = 2**53
"""Serial numbers are exact in float64 up to here."""
NO_LABEL, SCHEDULED, SCHEDULED_WITHOUT_LABEL = 0.0, 1.0, 2.0
"""What a saved record says about its label: not known, known but to be settled later, known to be missing."""


class ServedPrediction:
    """The answer of `Learner.ask` to a row that has come; give it back to `Learner.tell` with the label.

    Also what `peek` answered to a row that may come, whose serial number is 0.
    """

    __slots__ = ("_limits", "_quantiles_at", "fingerprint", "known", "record", "rounds", "serial", "yhat")

    def __init__(
        self,
        yhat: Any,
        known: bool,
        serial: int,
        record: Vector,
        fingerprint: str,
        rounds: int = 0,
        quantiles_at: int | None = None,
        limits: Limits = (None, None),
    ) -> None:
        self.yhat = yhat
        """The prediction: a number, log-odds of the label +1 for two classes, an array of logits for more of them."""
        self.known = known
        """Whether any label had been learned before; if not, the prediction is a placeholder."""
        self.serial = serial
        """The row's number among all rows served, from 1 on; 0 of a row that was peeked at."""
        self.record = record
        """What settling needs, in the learner's own layout."""
        self.fingerprint = fingerprint
        """Tells apart learners of other classes, parameters or record layouts."""
        self.rounds = rounds
        """How many labels were known, of a row that was peeked at."""
        self._quantiles_at, self._limits = quantiles_at, limits  # where the record has quantiles, and their bounds

    def interval(self, level: float = 0.9) -> Interval:
        """Return the interval at this level as it was served, infinite where there was none."""
        if (at := self._quantiles_at) is not None and level in PLACES and self.record.item(RecordPart.BOUNDED):
            low, high = PLACES[level]
            return Interval(
                cut(self.record.item(at + low), self._limits), cut(self.record.item(at + high), self._limits)
            )
        return Interval(*self._read(interval_levels(check_level(self, level))))

    def bounds(self, level: float = 0.9) -> tuple[float | None, float | None]:
        """Return the ends of the interval at this level as it was served, None where there was none."""
        if self._quantiles_at is None or not self.record.item(RecordPart.BOUNDED):
            return None, None
        low, high = self.interval(level)
        return float(low), float(high)

    def quantile(self, level: float = 0.5) -> float:
        """Return the quantile at this level as it was served."""
        return self._read(check_quantile_levels(self, [level]))[0]

    @property
    def intervals(self) -> dict[float, Interval]:
        """Intervals as served, by the levels that are followed; none of learners that have no intervals."""
        return {} if self._quantiles_at is None else {level: self.interval(level) for level in LEVELS.tolist()}

    @property
    def quantiles(self) -> dict[float, float]:
        """Quantiles as served, by level: the ends of these intervals, and the median."""
        if self._quantiles_at is None:
            return {}
        return dict(zip(QUANTILES.tolist(), self._read(QUANTILES), strict=True))

    def _read(self, levels: Vector) -> list[float]:
        if self._quantiles_at is None:
            raise InputError("ServedPrediction: this learner has no intervals; use OnlineRegressor")
        tracked = read_quantiles(self.record[None], self._quantiles_at)
        return [float(value) for value in quantiles_at(tracked, levels, self._limits)[0]]

    def __repr__(self) -> str:
        return f"<ServedPrediction: {'; '.join(f'{name} {text}' for name, text in self._facts().items())}>"

    def _repr_html_(self) -> str:
        return html.facts_table("ServedPrediction", self._facts())

    def _facts(self) -> dict[str, str]:
        """Return what was answered, in short."""
        numbers = np.atleast_1d(self.yhat)
        shown = ", ".join(f"{x:.4g}" for x in numbers[:SHOWN_LOGITS])
        more = len(numbers) - SHOWN_LOGITS
        facts = {"yhat": f"{shown} and {more} more" if more > 0 else shown}
        if self._quantiles_at is not None:
            low, high = self.interval(SHOWN_LEVEL)
            facts[f"{SHOWN_LEVEL:.0%} interval"] = f"from {low:.4g} to {high:.4g}"
        return facts | {"serial": f"{self.serial:,}"} | ({} if self.known else {"learned": "nothing yet"})


class PendingRecords:
    """The records of rows that were served and not yet settled, by serial number, oldest first."""

    def __init__(self) -> None:
        self.unlearned = 0
        """Rows asked and never learned: those that wait, and those that were closed without a label."""
        self.late_excess = 0.0
        """Loss of served predictions beyond what the weights at settling would have lost with the same answers."""
        self._records: dict[int, Vector] = {}
        self._labels: dict[int, float] = {}
        self._weights: dict[int, float] = {}  # of scheduled labels, where they are not 1,
        self._elapsed: dict[int, float] = {}  # and the time before a row, where it is not 1
        self._delays: dict[int, int] = {}  # rows after which a scheduled label is due, where it has a delay of its own

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, serial: int) -> bool:
        return serial in self._records

    def __getitem__(self, serial: int) -> Vector:
        return self._records[serial]

    def __iter__(self) -> Iterator[int]:
        return iter(self._records)

    @property
    def unlabelled(self) -> int:
        """How many rows wait for a label that is not known yet."""
        return len(self._records) - len(self._labels)

    def list_unlabelled(self) -> Iterator[int]:
        """Yield their serial numbers, oldest first."""
        return (serial for serial in self._records if serial not in self._labels)

    def lacks_label(self, serial: int) -> bool:
        """Whether a row waits for a label that is not known yet."""
        return serial in self._records and serial not in self._labels

    @property
    def scheduled(self) -> bool:
        """Whether labels are known that are to be settled later."""
        return bool(self._labels)

    def add(self, serial: int, record: Vector, elapsed: float = 1.0) -> None:
        """Keep the record of a row that was served, a time `elapsed` after the one before."""
        if elapsed != 1.0:
            self._elapsed[serial] = elapsed
        self.unlearned += 1
        self._records[serial] = record

    def schedule(self, serial: int, label: float, weight: float = 1.0, delay: int | None = None) -> None:
        """Keep a label, NaN for a missing one, until it is due; it will count `weight` times.

        It is due when `delay` further rows were served; by default when whoever settles labels says so.
        """
        self._labels[serial] = label
        if delay is not None:
            self._delays[serial] = delay
        if weight != 1.0:
            self._weights[serial] = weight

    def weight(self, serial: int) -> float:
        """Return how often a scheduled label counts."""
        return self._weights.get(serial, 1.0)

    def time_before(self, serial: int) -> float:
        """Return the time before the row."""
        return self._elapsed.get(serial, 1.0)

    def context(self, serial: int, weight: float) -> RowContext:
        """Return the context in which a record is settled, with a label of this weight."""
        elapsed = self.time_before(serial)
        return ORDINARY if weight == elapsed == 1.0 else RowContext(np.array([weight]), np.array([elapsed]))

    def due(self, served: int, delay: int = 0) -> list[tuple[int, float]]:
        """Return the scheduled labels to be settled when so many rows were served, oldest first.

        `delay` is that of labels without one of their own.
        """
        if not self._delays:
            return list(takewhile(lambda item: item[0] + delay <= served, self._labels.items()))
        late = self._delays
        return [(serial, y) for serial, y in self._labels.items() if serial + late.get(serial, delay) <= served]

    @property
    def scheduled_labels(self) -> dict[int, float]:
        """All labels that are to be settled later, by serial number; NaN for missing ones."""
        return dict(self._labels)

    def relabel(self, number: Callable[[float], float]) -> None:
        """Give each scheduled label, unless it is missing, another number."""
        self._labels.update({serial: y if np.isnan(y) else number(y) for serial, y in self._labels.items()})

    @property
    def has_delays(self) -> bool:
        """Whether some scheduled label has a delay of its own."""
        return bool(self._delays)

    def close(self, serial: int) -> None:
        """Forget a record whose label never comes; the record itself last, so that it waits until all is done."""
        for numbers in self._by_serial():
            numbers.pop(serial, None)
        del self._records[serial]

    def discard(self, serial: int) -> None:
        """Forget a record, if it waits."""
        if serial in self._records:
            self.close(serial)

    def release(self, serial: int) -> Vector:
        """Return a record that is kept elsewhere until its label is known, and keep it here no longer."""
        return self._records.pop(serial)

    def adopt(self, serial: int, record: Vector) -> None:
        """Keep a record again that was released."""
        self._records[serial] = record

    def settle(self, serial: int) -> None:
        """Forget a record whose label was learned."""
        self.unlearned -= 1
        self.close(serial)

    def facts(self, serial: int) -> tuple[dict[str, float], list[float | None]]:
        """Return the totals and what is known about a record that waits, for `put_back`."""
        totals = {"unlearned": self.unlearned, "late_excess": self.late_excess}
        return totals, [numbers.get(serial) for numbers in self._by_serial()]

    def _by_serial(self) -> tuple[dict[int, Any], ...]:
        """Return what is known about records, by serial number."""
        return self._labels, self._weights, self._elapsed, self._delays

    def put_back(self, serial: int, totals: dict[str, float], numbers: list[float | None]) -> None:
        """Undo what was begun about a record that still waits."""
        vars(self).update(totals)
        for kept, number in zip(self._by_serial(), numbers, strict=True):
            if number is not None and serial not in kept:
                kept[serial] = number

    def is_newest(self, serial: int, served: int) -> bool:
        """Whether all rows served after this one, of `served` in all, wait too, so that its label is the last one."""
        oldest = next(iter(self._records)) == serial  # as it is when labels come in order
        later = len(self._records) - 1 if oldest else sum(one > serial for one in self._records)
        return later == served - serial

    def check(self, who: object, served: ServedPrediction, fingerprint: str, newest: int) -> int:
        """Return the serial number of a record that waits here, of `newest` rows served; refuse all others."""
        serial = served.serial
        if serial in self and served.fingerprint == fingerprint and serial <= newest:
            kept = self[serial]
            if kept is served.record or kept.tobytes() == served.record.tobytes():
                return serial
        name = _check.name_of(who)
        if not serial:
            raise InputError(f"{name}: a row that was peeked at is learned by learn(z, y, served=...), not told")
        if served.fingerprint == fingerprint and serial <= newest and serial not in self:
            raise InputError(f"{name}: row {serial} was told or closed before; each row has one label")
        raise InputError(f"{name}: tell was given the record of another model or layout; pass its row to learn")

    def arrays(self) -> Arrays:
        """Return everything as named float64 arrays; none if every row asked was learned on time."""
        if not self.unlearned and not self.late_excess:
            return {}
        heads = [(serial, *self._label_code(serial), len(record)) for serial, record in self._records.items()]
        arrays = {
            f"{PREFIX}totals": np.array([self.unlearned, self.late_excess], np.float64),
            f"{PREFIX}heads": np.array(heads, np.float64).reshape(-1, 4),
            f"{PREFIX}records": np.concatenate([np.empty(0), *self._records.values()]),
        }
        if self._weights or self._elapsed:
            both = [(self.weight(serial), self.time_before(serial)) for serial in self._records]
            arrays[WEIGHTS] = np.array(both, np.float64).reshape(-1, 2)
        if self._delays:
            arrays[DELAYS] = np.array([self._delays.get(serial, -1) for serial in self._records], np.float64)
        return arrays

    def _label_code(self, serial: int) -> tuple[float, float]:
        label = self._labels.get(serial)
        if label is None:
            return NO_LABEL, 0.0
        return (SCHEDULED_WITHOUT_LABEL, 0.0) if np.isnan(label) else (SCHEDULED, label)

    @classmethod
    def from_arrays(cls, who: object, arrays: Arrays, rounds: int, fits: Callable[[Vector], bool]) -> PendingRecords:
        """Return what `arrays` described; refuse what no learner writes.

        `rounds` are the learner's, `fits` says whether numbers can be a record of it.
        """
        pending = cls()
        if not arrays:
            return pending
        try:
            totals, heads, records = (arrays[f"{PREFIX}{name}"] for name in ("totals", "heads", "records"))
            weights, delays = arrays.get(WEIGHTS, np.ones((len(heads), 2))), arrays.get(DELAYS, -np.ones(len(heads)))
            require(
                len(arrays) == 3 + (WEIGHTS in arrays) + (DELAYS in arrays)
                and totals.shape == (2,)
                and heads.shape[1:] == (4,)
            )
            require(records.ndim == 1 and weights.shape == (len(heads), 2) and delays.shape == (len(heads),))
            require(all(one.dtype == np.float64 for one in (totals, heads, records, weights, delays)))
            require(bool(((delays >= -1.0) & (delays <= MOST_ROWS) & (delays % 1.0 == 0.0)).all()))
            require(bool(((weights >= 0.0) & (weights <= WEIGHT_LIMIT)).all()))
            require(bool(np.isfinite(totals).all() and np.isfinite(heads).all()))
            serials, codes, labels, sizes = heads.T
            whole = np.concatenate((totals[:1], serials, codes, sizes))
            require(bool((whole % 1.0 == 0.0).all() and (whole >= 0.0).all() and (whole <= MOST_ROWS).all()))
            require(bool((np.diff(serials, prepend=0.0) > 0.0).all() and (codes <= SCHEDULED_WITHOUT_LABEL).all()))
            require(sizes.sum() == len(records) and len(heads) <= totals[0])
            require(not len(heads) or serials[-1] <= rounds + totals[0])
            require(bool((np.abs(labels) <= _check.LIMIT).all()))
            at = 0
            rest = np.column_stack([weights, delays]).tolist()
            for (serial, code, label, size), (weight, elapsed, delay) in zip(heads.tolist(), rest, strict=True):
                record = records[at : at + int(size)].copy()
                require(fits(record))
                pending.add(int(serial), record, elapsed)
                if code != NO_LABEL:
                    own = None if delay < 0.0 else int(delay)
                    pending.schedule(int(serial), label if code == SCHEDULED else np.nan, weight, own)
                at += int(size)
        except (ValueError, KeyError, IndexError):
            raise ModelFileError(f"{_check.name_of(who)}: the saved records of unsettled rows cannot be used") from None
        pending.unlearned, pending.late_excess = int(totals[0]), float(totals[1])
        return pending


def require(fine: bool) -> None:
    """Raise ValueError for numbers of a file that cannot be: whoever reads the file says of what."""
    if not fine:
        raise ValueError
