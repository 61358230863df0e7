"""Core: one compiled estimator, its state vector, the plan that says what the parts are, and the forests beside it.

A core takes checked rows and labels as numbers and knows nothing of names, locks or files. A row is served, which gives
a record of plain numbers, and settled from its record when the label is known. With forests, the row as they see it is
the end of its record. State and records grow when features are added that were 0 so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift import _check, store
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import ModelFileError
from undrift.kernels import layout
from undrift.kernels.definitions import EstimatorNumber, LabelContext, RecordPart
from undrift.learners.base import MOST_ROUNDS
from undrift.learners.intervals import read_quantiles
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.learners.serializable import fill_arrays
from undrift.online.memories import BETAS
from undrift.online.plan import EstimatorPlan, PlanSettings, make_plan
from undrift.trees.forests import PREFIX as FORESTS_PREFIX
from undrift.trees.forests import Forests

NO_LABEL = np.array([np.nan])


class CoreAnswers(NamedTuple):
    """What a core answered to rows."""

    yhat: Any
    """Predictions (n,): numbers, or log-odds of the label +1; log-probabilities (n, K) of several classes."""
    known: Any
    """Whether any label had been learned before each of them (n,)."""
    tracked: Matrix | None = None
    """The quantiles that are followed (n, 17), where they were asked for."""


class Core:
    """One compiled estimator of numbers, or of two classes called -1 and +1."""

    def __init__(self, settings: PlanSettings, dim: int, began: int | None = None) -> None:
        self.settings, forests = settings, settings.forests
        self.forests = None if forests is None else Forests(forests, dim, settings.binary, settings.seed)
        plan = make_plan(settings, dim, dim if began is None else began)
        self._take_over(plan, plan.blank())

    def _take_over(self, plan: EstimatorPlan, state: Vector) -> None:
        self.plan, self.state = plan, state
        self.record_size = plan.kernel.record_size + (0 if self.forests is None else self.forests.width)
        self._quantiles_at = plan.kernel.quantiles_at if plan.quantiles else None
        numbers = plan.layout.starts["numbers"]
        self._closed_at = numbers + EstimatorNumber.ROUNDS, numbers + EstimatorNumber.UNLABELLED

    @property
    def single(self) -> Core:
        """The one core there is."""
        return self

    @property
    def dim(self) -> int:
        """Features of a row, without predictions that come with it."""
        return self.plan.dim

    def number(self, which: EstimatorNumber) -> float:
        """Return one of the single numbers of the state."""
        return float(self.state[self.plan.layout.starts["numbers"] + which])

    @property
    def rounds(self) -> int:
        """Labels learned."""
        return int(self.number(EstimatorNumber.ROUNDS))

    @property
    def served(self) -> int:
        """Rows served: the serial number of the last one."""
        return int(self.number(EstimatorNumber.SERVED))

    def count_closed(self) -> float:
        """Return how many rows were settled, with a label or without."""
        learned, unlabelled = self._closed_at
        return self.state.item(learned) + self.state.item(unlabelled)

    def counts(self) -> tuple[float, ...]:
        """Return how many rows were served, learned, and closed without a label: every call changes one of them."""
        which = EstimatorNumber.SERVED, EstimatorNumber.ROUNDS, EstimatorNumber.UNLABELLED
        return tuple(self.number(number) for number in which)

    # ---- rounds ------------------------------------------------------------------------------------------------

    def predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        """Return predictions of rows that might come next, after this time; nothing changes."""
        yhat, rows = np.empty(len(Z)), self._add_answers(Z)[0]
        self._check(self.plan.kernel.predict_rows(self.state, rows, yhat, elapsed))
        return yhat

    def predict_quantiles(self, Z: Matrix, elapsed: float = 1.0) -> tuple[Vector, Matrix]:
        """Return predictions, and the quantiles that are followed (n, 17), of rows that might come next."""
        records = np.zeros((len(Z), self.record_size))
        for t in range(len(Z)):
            records[t] = self.serve(Z[t : t + 1], elapsed, commit=False)
        return records[:, RecordPart.YHAT].copy(), read_quantiles(records, self.plan.kernel.quantiles_at)

    def serve(self, Z: Matrix, elapsed: float = 1.0, *, commit: bool = True) -> Vector:
        """Return the record of one row (1, d); with `commit` it has really come."""
        record, (rows, X) = np.zeros(self.record_size), self._add_answers(Z, commit=commit)
        size = self.plan.kernel.record_size
        self._check(self.plan.kernel.serve(self.state, rows[0], record[:size], commit, elapsed))
        if X is not None:
            record[size:] = X[0]
        return record

    def settle(self, record: Vector, y: float, weight: float = 1.0) -> None:
        """Learn a label, NaN if it never comes, from the record of its row, which counts `weight` times."""
        record = self.widen(record)
        if record.item(RecordPart.WEIGHT) != weight:
            record = record.copy()
            record[RecordPart.WEIGHT] = weight
        newest = self.forests is not None and record.item(RecordPart.SERIAL) > self.number(EstimatorNumber.LAST_SERIAL)
        size = self.plan.kernel.record_size
        self._check(self.plan.kernel.settle(self.state, record[:size], y))
        if self.forests is not None:
            self.forests.settle(record[size:], y, weight, newest=newest)

    def settle_peeked(
        self, Z: Matrix, record: Vector, rounds: int, y: float, weight: float = 1.0, elapsed: float = 1.0
    ) -> None:
        """Learn a row (1, d) that has come now from the record made of it before, when `rounds` labels were known.

        What depends on features alone advances now. Without a record nothing was known, and there is nothing to judge;
        the row comes a time `elapsed` after the one before.
        """
        if not len(record):
            record = self.serve(Z, elapsed)
            record[[RecordPart.KNOWN, RecordPart.BOUNDED]] = 0.0
        else:
            narrow, size = int(record[RecordPart.WIDTH]), self.plan.kernel.record_size
            seen = len(record) - self.plan_of(record).kernel.record_size  # by forests
            rows, X = self._add_answers(Z, commit=True)
            self._check(self.plan.kernel.advance(self.state, rows[0]))
            record = self.widen(record).copy()
            _add_new_features(record, narrow, Z[0, : self.dim])
            record[RecordPart.SERIAL] = self.served
            if X is not None:
                record[size + seen :] = X[0, seen:]
        record[RecordPart.UNCOUNTED] = self.rounds - rounds
        self.settle(record, y, weight)

    def play(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> CoreAnswers:
        """Serve and settle rows at once; with `context.levels` the answers hold quantiles."""
        yhat, known = np.empty(len(y)), np.empty(len(y))
        tracked = np.empty((0 if context.levels is None else len(y), self.plan.quantiles))
        at = 0
        while at < len(y):
            end = len(y) if self.forests is None else at + self.forests.cut(y[at:])  # up to where forests change
            now = slice(at, end)
            rows, X = self._add_answers(Z[now], y[now], commit=True)
            weight, elapsed = context.between(at, end)[:2]
            self._check(
                self.plan.kernel.play(self.state, rows, y[now], yhat[now], tracked[now], known[now], weight, elapsed)
            )
            if self.forests is not None and X is not None:
                self.forests.learn(X, y[now], weight)
            at = end
        return CoreAnswers(yhat, known > 0.0, None if context.levels is None else tracked)

    def play_late(self, Z: Matrix, labels: Vector, waiting: Matrix, context: RowContext) -> Matrix:
        """Serve rows, and settle each `context.delay` rows later; return the records, those of `waiting` rows first.

        `labels` are those of the rows that wait, which are as many as the delay at most, and of these.
        """
        assert isinstance(context.delay, int)
        before, delay, size = len(waiting), context.delay, self.plan.kernel.record_size
        records = np.concatenate((waiting, np.zeros((len(Z), self.record_size))))
        own = records if self.forests is None else np.ascontiguousarray(records[:, :size])
        due = np.concatenate((np.full(delay - before, np.nan), labels))[: len(Z)]  # what is settled after each row
        at = 0
        while at < len(Z):
            end = len(Z) if self.forests is None else at + self.forests.cut(due[at:])
            rows, X = self._add_answers(Z[at:end], due[at:end], commit=True)
            first = max(0, before + at - delay)
            part, open_rows = slice(first, before + end), before + at - first
            both = context.between(at, end)[:2]
            self._check(self.plan.kernel.play_late(self.state, rows, labels[part], own[part], open_rows, delay, *both))
            if self.forests is not None:
                records[before + at : before + end, size:] = X
                settled = slice(first, max(first, before + end - delay))
                self.forests.learn(records[settled, size:], labels[settled], own[settled, RecordPart.WEIGHT])
            at = end
        if self.forests is not None:
            records[:, :size] = own
        return records

    def _add_answers(
        self, Z: Matrix, labels: Vector = NO_LABEL, *, commit: bool = False
    ) -> tuple[Matrix, Matrix | None]:
        """Return rows with all that the stages are given beside the features, and the rows as forests see them.

        With `commit` the rows have come, and `labels` become known after them.
        """
        if Z.shape[1] == self.dim and self.settings.offered:  # features alone: nothing was predicted elsewhere
            Z = np.column_stack([Z, np.full((len(Z), len(self.settings.offered)), np.nan)])
        if self.forests is None:
            return Z, None
        features = np.ascontiguousarray(Z[:, : self.dim])
        X = self.forests.serve(features, labels) if commit else self.forests.view(features)
        return np.column_stack([Z, self.forests.answer(X)]), X

    def _check(self, status: int) -> None:
        if status:
            who = "OnlineClassifier" if self.settings.binary else "OnlineRegressor"
            _check.raise_on_status(who, status, self.dim + len(self.plan.given))

    # ---- records -----------------------------------------------------------------------------------------------

    def plan_at(self, width: int) -> EstimatorPlan:
        """Return the plan as it was when rows had this width: until the end of the warm-up the core grows with them."""
        return make_plan(self.settings, width, min(width, self.plan.began))

    def widen(self, record: Vector) -> Vector:
        """Return a record as it would be with the features that were added since, all of them 0."""
        width = int(record.item(RecordPart.WIDTH))
        if width == self.dim:
            return record
        old = self.plan_at(width)
        size = old.kernel.record_size
        wide = widen_record(record[:size], old, self.plan)
        return wide if self.forests is None else np.concatenate((wide, self.forests.widen(record[size:])))

    def fits(self, record: Vector) -> bool:
        """Whether numbers of a file can be a record of this core."""
        width = int(record[RecordPart.WIDTH]) if len(record) > len(RecordPart) else -1
        if not 1 <= width <= self.dim or (size := self.plan_at(width).kernel.record_size) > len(record):
            return False
        context = record[size:]
        context_fits = not len(context) if self.forests is None else self.forests.fits(context)
        return context_fits and bool(np.isfinite(record[:size]).all())

    def read(self, record: Vector) -> tuple[float, bool, int | None]:
        """Return the prediction that was served, whether any label was known, and where the record has quantiles."""
        at = self._quantiles_at
        if at is not None and record.item(RecordPart.WIDTH) != self.plan.dim:
            at = self.plan_of(record).kernel.quantiles_at
        return record.item(RecordPart.YHAT), record.item(RecordPart.KNOWN) > 0.0, at

    def read_rows(self, records: Sequence[Vector] | Matrix, context: RowContext) -> CoreAnswers:
        """Return what was served for rows, with quantiles if `context.levels` asks for some."""
        every = np.asarray(records)
        tracked = None if context.levels is None else read_quantiles(every, self.plan.kernel.quantiles_at)
        return CoreAnswers(every[:, RecordPart.YHAT].copy(), every[:, RecordPart.KNOWN] > 0.0, tracked)

    def plan_of(self, record: Vector) -> EstimatorPlan:
        """Return the plan by which a record was written, which says where its parts are."""
        width = int(record[RecordPart.WIDTH])
        return self.plan if width == self.dim else self.plan_at(width)

    def read_row(self, record: Vector) -> Matrix:
        """Return the row (1, d) of a record as it came, NaN where a value was missing, with features added since."""
        width, begin = int(record[RecordPart.WIDTH]), len(RecordPart)
        row, holes = record[begin : begin + width], record[begin + width : begin + 2 * width]
        out = np.zeros((1, self.dim))
        out[0, :width] = np.where(holes > 0.0, np.nan, row)
        return out

    # ---- growth and files --------------------------------------------------------------------------------------

    def grow(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        began = self.plan.began + count if self.rounds < self.plan.warmup else self.plan.began
        plan = make_plan(self.settings, self.dim + count, began)
        if self.forests is not None:
            self.forests.grow(count)
        self._take_over(plan, grow_state(self.state, self.plan, plan, self.rounds))

    def facts(self) -> store.Header:
        """Return what the header of a file says beside the arrays."""
        return {"began": self.plan.began}

    @classmethod
    def from_facts(cls, who: object, settings: PlanSettings, header: store.Header, dim: int) -> Core:
        """Return a blank core as a saved header describes it; refuse one that does not fit."""
        began = header.get("began")
        if not isinstance(began, int) or not 1 <= began <= dim:
            raise ModelFileError(f"{_check.name_of(who)}: the saved number of features cannot be used")
        return cls(settings, dim, began)

    def copy(self) -> Core:
        """Return a core with the same state, sharing nothing."""
        other = Core(self.settings, self.dim, self.plan.began)
        other.load_arrays("copy", {name: array.copy() for name, array in self.arrays().items()})
        return other

    def arrays(self) -> Arrays:
        """Return the state by name, the very arrays where nothing has to be put together."""
        return self.plan.layout.arrays(self.state) | ({} if self.forests is None else self.forests.arrays())

    def load_arrays(self, who: object, arrays: Arrays) -> None:
        """Take over what `arrays` returned; refuse what does not fit."""
        name, own = _check.name_of(who), self.plan.layout.arrays(self.state)
        saved = {part: array for part, array in arrays.items() if not part.startswith(FORESTS_PREFIX)}
        for part in sorted(own.keys() ^ saved.keys()):
            what = "lack" if part in own else "hold an unknown"
            raise ModelFileError(f"{name}: the saved arrays {what} {part!r:.60}")
        fill_arrays(name, own, saved)
        if not self._counts_are_whole():
            raise ModelFileError(f"{name}: the saved counts cannot be used")
        trees = {part: array for part, array in arrays.items() if part not in saved}
        if self.forests is not None:
            self.forests = Forests(self.forests.plan, self.dim, self.settings.binary, self.settings.seed)
            self.forests.load_arrays(trees, self.rounds)
        elif trees:
            raise ModelFileError(f"{name}: the saved arrays hold forests, which this model does not")

    def _counts_are_whole(self) -> bool:
        """Whether the numbers by which rows are counted can be counts: the kernels index with them."""
        which = EstimatorNumber.ROUNDS, EstimatorNumber.SKIPPED, EstimatorNumber.UNLABELLED, EstimatorNumber.SERVED
        rounds, skipped, unlabelled, served = counts = [self.number(number) for number in which]
        whole = all(count % 1.0 == 0.0 and 0.0 <= count <= MOST_ROUNDS for count in counts)
        return whole and skipped <= rounds and rounds + unlabelled <= served


def least_array_size(settings: PlanSettings, dim: int) -> int:
    """Return how many numbers a saved core has at least: one linear family's memories, a constant and the features."""
    memories = len(BETAS) if settings.betas is None else len(settings.betas)
    return memories * layout.length(1 + dim * (2 if settings.indicators else 1))


def _add_new_features(record: Vector, narrow: int, row: Vector) -> None:
    """Put the row's values of features that were unknown when it was predicted into its widened record."""
    dim, new, begin = len(row), row[narrow:], len(RecordPart)
    hole = np.isnan(new)
    record[begin + narrow : begin + dim] = np.where(hole, 0.0, new)
    record[begin + dim + narrow : begin + 2 * dim] = np.where(hole, 2.0, 0.0)


TINY = 1e-150


def grow_state(state: Vector, old: EstimatorPlan, new: EstimatorPlan, rounds: int) -> Vector:
    """Return the state with the features that the new plan has more, all of them 0 in every row so far.

    During the warm-up the stages learn the rows so far again, now with these features; afterwards a feature that was 0
    has left no trace but its ridge, so that the memories can be widened exactly.
    """
    grown = new.blank()
    for before, after in zip(old.arms, new.arms, strict=True):
        _grow_arm(state, grown, before, after, rounds)
    if 0 < rounds < old.warmup:
        new.kernel.refit(grown)
    return grown


def _grow_arm(state: Vector, grown: Vector, old: EstimatorPlan, new: EstimatorPlan, rounds: int) -> None:
    """Carry the parts of one arm over into the grown state."""
    kept = [old.candidates.index(name) for name in new.candidates]  # wide rows have fewer families
    for name in old.parts():
        if name not in new.parts():
            continue
        before, after = old.view(state, name), new.view(grown, name)
        shape = before.shape
        stage = name.rpartition(".")[0]  # of a stage's parts; names of families may have dots
        if name.endswith(".information"):
            if stage == "level 2":
                after[...] = before if rounds >= old.warmup else after
            elif rounds >= old.warmup:
                one, more = old.family_plans[stage], new.family_plans[stage].dim - old.family_plans[stage].dim
                strength = np.maximum(one.betas**rounds, TINY)
                after[...] = layout.add_features(before, one.dim, more, strength)
        elif stage == "last" and name != "last.mixer":
            after[...] = before[..., kept]
        elif name in ("errors", "family_losses"):
            after[...] = before[[old.families.index(family) for family in new.families]]
        elif name.endswith(".columns"):
            after[...] = before if shape == after.shape else after
        elif name == "means":
            after[:, : shape[1]] = before[: len(after)]
        elif shape == after.shape:
            after[...] = before
        elif stage == "spread":  # which sees no features at all where rows are wide
            kept_columns = tuple(slice(min(shape[0], len(after))) for _ in shape)
            after[kept_columns] = before[kept_columns]
        else:
            after[..., : shape[-1]] = before
    new.view(grown, "seen")[old.dim :] = 1.0
    new.view(grown, "mean_rows")[old.inputs :] = new.view(grown, "numbers")[EstimatorNumber.SERVED]
    new.view(grown, "known")[:, old.width :] = 1.0 if rounds < old.warmup else 0.0


def widen_record(record: Vector, old: EstimatorPlan, new: EstimatorPlan) -> Vector:
    """Return a record that was served by the old plan as the new one, with more features, has them.

    Features that were added are 0, and so are their differences. Answers of families that wider rows do not have, and
    running means that they leave out, are left out here too.
    """
    if old.dim == new.dim:
        return record
    head, row, holes, labels, errors, differences, spoke, rest = np.split(
        record,
        np.cumsum([
            len(RecordPart), old.dim, old.dim, len(LabelContext), len(old.families), len(old.spans) * old.inputs,
            len(old.given),
        ]),
    )  # fmt: skip
    more, wide = np.zeros(new.dim - old.dim), np.zeros((len(new.spans), new.inputs))
    wide[:, : old.inputs] = differences.reshape(len(old.spans), old.inputs)[: len(new.spans)]
    if old.robust is not None and new.robust is not None:
        rest, robust = np.split(rest, [len(rest) - old.robust.kernel.record_size])
        robust = widen_record(robust, old.robust, new.robust)
    else:
        robust = np.empty(0)
    stages = [*old.families, "level 2", "last"]  # answers of the last one: the candidates, which are those of `last`
    answers = dict(zip(stages, np.split(rest, np.cumsum([old.members(name) for name in stages])), strict=False))
    ends = rest[sum(old.members(name) for name in stages) :]
    kept = [old.families.index(name) for name in new.families]
    candidates = answers["last"][[old.candidates.index(name) for name in new.candidates]]
    members = [answers[name] for name in (*new.families, "level 2")]
    out = np.concatenate(
        (head, row, more, holes, more, labels, errors[kept], wide.ravel(), spoke, *members, candidates, ends, robust)
    )
    out[RecordPart.WIDTH] = new.dim
    return out
