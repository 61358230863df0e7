r"""ClassCore: several classes by one core for each class against the rest, and the softmax level over their log-odds.

Classes are numbered in order of appearance, and another one may appear at any time. Of one or two classes a single core
takes care. From the third on, each class has one; those of the first two begin with everything that was learned so far,
because "second or first" is both "second or not" and "first or not". A share $1/(t+1)$ of the probability is kept for a
class not seen yet. It does what `Core` does, with class numbers for labels and log-probabilities for predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from undrift import _check, store
from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble.class_level import ClassLevel
from undrift.errors import ModelFileError
from undrift.kernels.definitions import EstimatorNumber, RecordPart
from undrift.learners.base import MOST_ROUNDS
from undrift.learners.class_learner import MOST_CLASSES
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.learners.serializable import below_prefix, fill_arrays, merge_parts, number_items, with_prefix
from undrift.online.columns import FeatureColumns
from undrift.online.core import Core, CoreAnswers
from undrift.online.labels import ClassLabels
from undrift.online.plan import PlanSettings

NO_WIDTH = -1.0
"""What the record of several cores has where that of one says how many features there were."""


class ClassRecord(NamedTuple):
    """What was known about a row of three classes or more when it was served; of fewer, the one core has a record."""

    serial: int
    """Its place among all rows served, from 1 on."""
    elapsed: float
    """The time since the row before."""
    log_probabilities: Vector
    """Of the classes there were, in the order of their numbers."""
    level: Vector
    """The record of the softmax level; empty of a row that was served while classes were two at most."""
    records: list[Vector]
    """Those of the cores there were."""

    def flatten(self) -> Vector:
        """Return everything as one vector, whose second number is none of a record of one core."""
        sizes = [len(self.log_probabilities), len(self.level), len(self.records), *map(len, self.records)]
        head = [self.serial, NO_WIDTH, self.elapsed, *sizes]
        return np.concatenate((head, self.log_probabilities, self.level, *self.records))

    @classmethod
    def from_vector(cls, record: Vector) -> ClassRecord:
        """Return what `flatten` wrote; ValueError for anything else."""
        head, total = record[:6].tolist(), len(record)
        if total < 6 or head[1] != NO_WIDTH or not all(0.0 <= size <= total for size in head[3:]):
            raise ValueError
        count, level, cores = (int(size) for size in head[3:])
        parts, begin = [], 6 + cores
        for size in (count, level, *record[6:begin].tolist()):
            if not 0.0 <= size <= total:
                raise ValueError
            end = begin + int(size)
            parts.append(record[begin:end])
            begin = end
        if begin != total:
            raise ValueError
        return cls(int(head[0]), head[2], parts[0], parts[1], parts[2:])

    @staticmethod
    def read_logs(record: Vector) -> Vector:
        """Return the log-probabilities in what `flatten` wrote."""
        begin = 6 + int(record.item(5))
        return record[begin : begin + int(record.item(3))]


class ClassCore:
    """K classes; rows are arrays, labels class numbers, NaN for a label that never comes."""

    def __init__(self, settings: PlanSettings, columns: FeatureColumns, code: ClassLabels, core: Core) -> None:
        self.settings, self._columns, self._code = settings, columns, code
        self.cores = [core]
        numbers = core.plan.layout.view(core.state, "numbers")
        numbers[[EstimatorNumber.NEGATIVE_LABEL, EstimatorNumber.BOOLEAN_LABELS]] = 0.0  # `code` has the names now
        # Labels of two classes keep their signs: class 0 is +1 if it is called so.
        self._signs = np.array([-1.0 if code.seen == [code.names[1]] else 1.0])
        """The label that each core learns when its class comes; of a single one, when class 1 comes."""
        self._counts, self._numbers = np.zeros(0), np.zeros(4)  # labels by class; served, closed, learned, last class
        self.level: ClassLevel | None = None
        """Softmax regression over the log-odds, from the third class on; before, the one core does everything."""

    @property
    def classes(self) -> int:
        """How many classes were seen."""
        if self.level is not None:
            return len(self._counts)
        which = EstimatorNumber.NEGATIVE, EstimatorNumber.POSITIVE
        return sum(self.cores[0].number(number) > 0.0 for number in which)

    @property
    def single(self) -> Core | None:
        """The one core of up to two classes; None from the third on."""
        return self.cores[0] if self.level is None else None

    @property
    def record_size(self) -> int:
        """Numbers of a record, while there is one core; 0 later."""
        return self.cores[0].record_size if self.level is None else 0

    @property
    def dim(self) -> int:
        """Features of a row, without predictions that come with it."""
        return self.cores[0].dim

    @property
    def rounds(self) -> int:
        """Labels learned."""
        return self.cores[0].rounds if self.level is None else int(self._numbers[2])

    @property
    def served(self) -> int:
        """Rows served: the serial number of the last one."""
        return self.cores[0].served if self.level is None else int(self._numbers[0])

    def counts(self) -> tuple[float, ...]:
        """Return how many rows were served, learned, and closed without a label."""
        served, closed, learned, _ = self._numbers.tolist()
        return self.cores[0].counts() if self.level is None else (served, learned, closed)

    # ---- rounds ------------------------------------------------------------------------------------------------

    def predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        """Return log-probabilities (rows, K) of rows that might come next, after this time; nothing changes."""
        if not self.classes:
            return np.empty((len(Z), 0))
        scores = [core.predict(self._rows_of(Z, k), elapsed) for k, core in enumerate(self.cores)]
        return self._combine(np.column_stack(scores), Z, elapsed)

    def serve(self, Z: Matrix, elapsed: float = 1.0, *, commit: bool = True) -> Vector:
        """Return the record of one row (1, d); with `commit` it has really come."""
        records = [core.serve(self._rows_of(Z, k), elapsed, commit=commit) for k, core in enumerate(self.cores)]
        if self.level is None:
            return records[0]
        scores, given = np.array([record[RecordPart.YHAT] for record in records]), self._given_probabilities(Z)
        level = self.level.serve(scores * self._signs, elapsed, None if given is None else given[0])
        serial = self.served + 1
        self._numbers[0] += commit
        return ClassRecord(serial, elapsed, level[: self.classes], level, records).flatten()

    def settle(self, record: Vector, y: float, weight: float = 1.0) -> None:
        """Learn a label from the record of its row; NaN closes it. Classes that appeared since skip it."""
        self._settle(self._parse(record), y, weight)

    def settle_peeked(
        self, Z: Matrix, record: Vector, rounds: int, y: float, weight: float = 1.0, elapsed: float = 1.0
    ) -> None:
        """Learn a row (1, d) that has come now from the record made of it before, when `rounds` labels were known."""
        self._settle(self._parse(record, elapsed), y, weight, Z, rounds)

    def _settle(self, served: ClassRecord, y: float, weight: float, Z: Matrix | None = None, rounds: int = 0) -> None:
        """Learn a label from what was served; `Z` is a row that was peeked at after `rounds` labels."""
        if Z is None:
            self._make_room(y)
        rows = [] if Z is None else self._admit(Z, y)
        # The core that served the row may be two by now.
        records = served.records * 2 if len(served.records) == 1 and self.level is not None else served.records
        for k, core in enumerate(self.cores):
            label = self.label_for(y, k)
            if k < len(records) and Z is None:
                core.settle(records[k], label, weight)
            elif k < len(records) and Z is not None:
                known = core.rounds - (self.rounds - rounds)  # as late as it is, whatever the core has skipped
                core.settle_peeked(rows[k], records[k], known, label, weight, served.elapsed)
            elif k == y and self._counts[k] == 0.0:  # the row in which its class appears
                row = core.read_row(records[0]) if Z is None else rows[k]
                core.play(row, np.ones(1), RowContext(np.array([weight]), np.array([served.elapsed])))
        if self.level is None:
            return
        self._numbers[0] += Z is not None
        if np.isnan(y):
            self._numbers[1] += 1.0
            return
        self.level.settle(served.level, int(y), weight, served.elapsed)
        self._count(np.array([y]))

    def _parse(self, record: Vector, elapsed: float = 1.0) -> ClassRecord:
        """Return a record of several cores, or that of one; without any nothing was known, and the row comes now."""
        if len(record) and record[1] == NO_WIDTH:
            return ClassRecord.from_vector(record)
        none = np.empty(0)
        if not len(record):
            return ClassRecord(0, elapsed, none, none, [record])
        return ClassRecord(int(record[RecordPart.SERIAL]), float(record[RecordPart.ELAPSED]), none, none, [record])

    def _read_logs(self, record: Vector) -> Vector:
        """Return the log-probabilities that were served, by class number."""
        if record.item(1) == NO_WIDTH:
            return ClassRecord.read_logs(record)
        served = record.item(RecordPart.YHAT), record.item(RecordPart.ROUNDS)
        return self._of_two(*served, int(record.item(RecordPart.CLASSES)))

    def play(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> CoreAnswers:
        """Close rounds; log-probabilities are (rounds, classes at the end), a class's share before it appeared."""
        parts, at, known = [], 0, self.rounds + np.cumsum(~np.isnan(y)) - ~np.isnan(y) > 0
        while at < len(y):
            new, missing = bool(y[at] >= self.classes), bool(np.isnan(y[at]))
            other = (~np.isnan(y[at:]) if missing else np.isnan(y[at:])) | (y[at:] >= self.classes)
            end = at + 1 if new else at + int(np.argmax(other)) if other.any() else len(y)
            parts.append(self._play_alike(Z[at:end], y[at:end], context.between(at, end), new))
            at = end
        logs = [np.empty((0, self.classes)), *(widen(part, self.classes) for part in parts)]
        return CoreAnswers(np.concatenate(logs), known)

    def _play_alike(self, Z: Matrix, y: Vector, context: RowContext, new: bool) -> Matrix:
        """Close rounds whose labels are classes that are known, or all missing, or one row with a class that is new."""
        missing, rounds = bool(np.isnan(y[0])), self.rounds + np.arange(float(len(y)))
        if new:
            out = self.predict(Z, float(context.times(1)[0]))
        rows = self._admit(Z, float(y[0]))
        labels = [self._labels_for(k, y) for k in range(len(self.cores))]
        scores = [core.play(rows[k], labels[k], context).yhat for k, core in enumerate(self.cores)]
        if self.level is None:
            return out if new else self._of_two(scores[0], self.rounds if missing else rounds)
        self._numbers[0] += len(y)
        if missing:
            self._numbers[1] += len(y)
            return self._combine(np.column_stack(scores), Z, context.times(len(y)))
        if new:
            self.level.count(int(y[0]))
        else:
            S = np.column_stack(scores) * self._signs
            out = self.level.play(S, y, context.weight, context.elapsed, self._given_probabilities(Z))
        self._count(y)
        return out

    def _combine(self, scores: Matrix, Z: Matrix, elapsed: float | Vector) -> Matrix:
        """Return log-probabilities from the log-odds of each core, all rows as if they came next."""
        if self.level is None:
            return self._of_two(scores[:, 0], self.rounds)
        return self.level.predict(scores * self._signs, elapsed, self._given_probabilities(Z))

    def read_score(self, score: float) -> Vector:
        """Return log-probabilities of two classes at most from the one core's log-odds of the next row."""
        return self._of_two(score, self.rounds)

    def _of_two(self, score: float | Vector, rounds: float | Vector, classes: int | None = None) -> Matrix:
        """Return log-probabilities of one or two classes (K,) or (n, K) from the one core's log-odds.

        A share of them is kept for a class not seen yet, by how many labels were known.
        """
        s = self._signs[0 if self.level is None else 1] * score
        count = self.classes if classes is None else classes
        share = np.log1p(-1.0 / (rounds + 1.0 + (rounds == 0.0)))
        if count < 2:
            return np.asarray(np.zeros((*np.shape(s), count)) + np.reshape(share, (-1,) * np.ndim(s) + (1,)))
        return np.array([share - np.logaddexp(0.0, s), share - np.logaddexp(0.0, -s)]).T

    # ---- classes -----------------------------------------------------------------------------------------------

    def _make_room(self, y: float) -> None:
        """Add classes until there is one of this number; the core of two has room for them."""
        if self.level is None and y >= 2.0:
            self._split()
        while self.level is not None and y >= len(self._counts):
            self._add_core()
            self.level.add_class()

    def _split(self) -> None:
        """Give each of the first two classes a core of its own, and begin with a third."""
        core, sign = self.cores[0], self._signs[0]
        numbers = {which: core.number(which) for which in EstimatorNumber}
        counts = np.array([numbers[EstimatorNumber.NEGATIVE], numbers[EstimatorNumber.POSITIVE]])
        self._counts = counts if sign > 0.0 else counts[::-1].copy()
        served, learned, closed = core.counts()
        self._numbers[...] = served, closed, learned, float(numbers[EstimatorNumber.LAST] == sign)
        self.cores, self._signs = [core.copy(), core], np.array([-sign, sign])
        self._add_core()
        level = ClassLevel(3, len(self._columns.groups) if self._columns.by_label else 0)
        both = numbers[EstimatorNumber.STAYED], numbers[EstimatorNumber.CHANGED]
        level.set_counts(self._counts, int(self._numbers[3]), *both)
        self.level = level

    def _add_core(self) -> None:
        self.cores.append(Core(self.settings, self.dim))
        self._signs, self._counts = np.append(self._signs, 1.0), np.append(self._counts, 0.0)

    def label_for(self, y: float, k: int = 0) -> float:
        """Return the label (-1 or +1) that core k learns for class y; NaN for none."""
        mine = 1.0 if self.level is None else float(k)
        return float(self._signs[k] if y == mine else -self._signs[k]) if y == y else y

    def _labels_for(self, k: int, y: Vector) -> Vector:
        """Return the same for several rows."""
        sign, mine = self._signs[k], 1.0 if self.level is None else float(k)
        return np.where(np.isnan(y), np.nan, np.where(y == mine, sign, -sign))

    def _count(self, y: Vector) -> None:
        self._numbers[2:] = self._numbers[2] + len(y), y[-1]
        self._counts += np.bincount(y.astype(np.int64), minlength=len(self._counts))

    # ---- predictions made elsewhere ----------------------------------------------------------------------------

    def _rows_of(self, Z: Matrix, k: int) -> Matrix:
        """Return rows as core k takes them: each candidate gives the probability of the core's label +1."""
        if not self._columns.given or Z.shape[1] == self.dim:
            return Z
        p = self._probabilities(Z, max(self.classes, 2))
        mine = 1 if self.level is None else k
        given = p[:, :, mine] if self._signs[k] > 0.0 else 1.0 - p[:, :, mine]
        return np.column_stack([Z[:, : self.dim], given])

    def _admit(self, Z: Matrix, y: float) -> list[Matrix]:
        """Add classes until there is one of number `y`; return rows as each core takes them.

        They are as before the class appeared, when they were served; its own core is given the features alone.
        """
        rows = [self._rows_of(Z, k) for k in range(len(self.cores))]
        self._make_room(y)
        rows = rows * 2 if len(rows) == 1 and self.level is not None else rows
        return rows + [Z[:, : self.dim]] * (len(self.cores) - len(rows))

    def _given_probabilities(self, Z: Matrix) -> Matrix | None:
        """Return what candidates give each class (rows, candidates, K); None where there are none."""
        if not self._columns.given or Z.shape[1] == self.dim:
            return None
        return self._probabilities(Z, self.classes)

    def _probabilities(self, Z: Matrix, classes: int) -> Matrix:
        """Return the candidates' probabilities of the first classes; those without a column share what is left."""
        named = self._code.seen or []  # a block numbers its labels in advance
        seen = [str(label) for label in named[: self.classes]]
        out = np.empty((len(Z), len(self._columns.groups), classes))
        for g, places in enumerate(self._columns.groups):
            columns = Z[:, self.dim :][:, list(places.values())]
            rest = np.maximum(1.0 - columns.sum(axis=1), 0.0)
            lacking = [k for k in range(classes) if k >= len(seen) or seen[k] not in places]
            other = [place for label, place in places.items() if label not in seen]  # labels that never came so far
            left = rest + Z[:, self.dim :][:, other].sum(axis=1)
            for k in range(classes):
                known = k < len(seen) and seen[k] in places
                out[:, g, k] = Z[:, self.dim + places[seen[k]]] if known else left / len(lacking)
        return out

    # ---- records -----------------------------------------------------------------------------------------------

    def fits(self, record: Vector) -> bool:
        """Whether numbers of a file can be a record of this core."""
        if len(record) > 1 and record[1] != NO_WIDTH:
            return self.cores[0].fits(record)
        if not np.isfinite(record[:6]).all():
            return False
        try:
            served = ClassRecord.from_vector(record)
        except ValueError:
            return False
        known = 3 <= len(served.records) <= len(self.cores) and len(served.log_probabilities) <= self.classes
        known = known and bool(np.isfinite(served.log_probabilities).all() and np.isfinite(served.level).all())
        return known and all(core.fits(own) for core, own in zip(self.cores, served.records, strict=False))

    def read(self, record: Vector) -> tuple[Vector, bool, None]:
        """Return the log-probabilities that were served in the order of labels, whether any was known, no quantiles."""
        logs = self._read_logs(record)
        return logs[self._code.order(len(logs))], len(logs) > 0, None

    def read_rows(self, records: Sequence[Vector] | Matrix, context: RowContext) -> CoreAnswers:
        """Return what was served for rows, by class number."""
        logs = [self._read_logs(record) for record in records]
        wide = [widen(one[None], self.classes) for one in logs]
        return CoreAnswers(np.concatenate(wide), np.array([len(one) > 0 for one in logs]))

    # ---- growth and files --------------------------------------------------------------------------------------

    def grow(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        for core in self.cores:
            core.grow(count)

    def facts(self) -> store.Header:
        """Return what the header of a file says beside the arrays."""
        labels = number_items(self._code.seen or [])
        return {
            "classes": self.classes,
            "labels": labels,
            "began": number_items(core.plan.began for core in self.cores),
        }

    @classmethod
    def from_facts(
        cls, settings: PlanSettings, columns: FeatureColumns, code: ClassLabels, header: store.Header, dim: int
    ) -> ClassCore:
        """Return a blank one as a saved header describes it; refuse one that does not fit."""
        classes, began = header.get("classes"), header.get("began")
        count = len(code.seen or [])
        if not isinstance(classes, int) or not isinstance(began, dict) or not 0 <= classes <= count <= MOST_CLASSES:
            raise ModelFileError(f"{columns.who}: the saved classes cannot be used")
        if len(began) != (1 if classes <= 2 else classes):
            raise ModelFileError(f"{columns.who}: the saved classes cannot be used")
        cores = [Core.from_facts(columns.who, settings, {"began": began.get(str(k))}, dim) for k in range(len(began))]
        found = cls(settings, columns, code, cores[0])
        found.cores, found._signs = cores, np.ones(len(cores))
        if classes > 2:
            found._counts = np.zeros(classes)
            found.level = ClassLevel(classes, len(columns.groups) if columns.by_label else 0)
        return found

    def _own_arrays(self) -> Arrays:
        more = {} if self.level is None else {"numbers": self._numbers, "counts": self._counts}
        return {"signs": self._signs, **more}

    def arrays(self) -> Arrays:
        """Return the state by name."""
        level = {} if self.level is None else with_prefix("level.", self.level.arrays())
        cores = merge_parts("core", [core.arrays() for core in self.cores])
        return with_prefix("classes.", self._own_arrays()) | level | cores

    def load_arrays(self, who: object, arrays: Arrays) -> None:
        """Take over what `arrays` returned; refuse what does not fit."""
        name, classes = _check.name_of(who), self.classes
        own, saved = self._own_arrays(), below_prefix("classes.", arrays)
        if saved.keys() != own.keys():
            raise ModelFileError(f"{name}: the saved classes cannot be used")
        fill_arrays(name, own, saved)
        for k, core in enumerate(self.cores):
            core.load_arrays(who, below_prefix(f"core{k}.", arrays))
        served, closed, learned, last = self._numbers.tolist()
        whole = all(number % 1.0 == 0.0 and 0.0 <= number <= MOST_ROUNDS for number in (served, closed, learned, last))
        fits = whole and learned + closed <= served and last < max(classes, 1) and self._counts.sum() == learned
        if not fits or not (self._counts >= 0.0).all() or not (np.abs(self._signs) == 1.0).all():
            raise ModelFileError(f"{name}: the saved classes cannot be used")
        if self.level is not None:
            self.level.load_arrays(below_prefix("level.", arrays))


def widen(logs: Matrix, classes: int) -> Matrix:
    """Return log-probabilities with a column for each class that appeared later: what was kept for it."""
    if logs.shape[1] == classes:
        return logs
    kept = np.maximum(1.0 - np.sum(np.exp(logs), axis=1, keepdims=True), 1e-300)
    return np.hstack([logs, np.repeat(np.log(kept), classes - logs.shape[1], axis=1)])
