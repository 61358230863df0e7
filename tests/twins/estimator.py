"""NumPy twin of `Estimator`, the round of an online estimator: slow, plain, and the definition of correct.

A row is *served*, which gives a record of plain numbers, and *settled* from that record when its label is known.

    row z ──fill holes──> scale ──> x ──┬─ family 1: memories ──mixer──> mixture 1 ─┬─> level 2: memories ──mixer──┐
    last labels, feature means ─────────┴─ family n: memories ──mixer──> mixture n ─┤                              │
                                             last label, last errors ───────────────┘        level 2, mixtures,    │
    raw  <──last mixer── candidates <──────────────────────────────────────────────────── and naive baselines <────┘
      └──> gate ──> mixer of given answers ──> yhat        (the gate also hears the robust arm: the same, labels cut)

Settling learns from what was *served*: memories learn the row, mixers judge the served answers, level 2 the served
mixtures, intervals the served prediction. So a late label teaches what it would have taught on time, and nothing that
was not known when the row was served is credited to anybody.

The state is one vector; `parts` says where each named part begins and how long it is. Regression has labels y and
squared loss; two classes have labels -1, +1 and logistic loss, all answers being log-odds.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Unpack

import numpy as np

from tests.twins import estimator_context as context
from tests.twins import estimator_rows as preparation
from tests.twins.estimator_blocks import EstimatorBlocks
from tests.twins.estimator_candidates import Answers
from tests.twins.estimator_context import FeatureMeans, ScaledRow
from tests.twins.estimator_gate import Gate
from tests.twins.estimator_intervals import IntervalStages, follow_quantiles, has_interval
from tests.twins.estimator_stages import MixerSettings, Parts, given_answers
from tests.twins.given_mixer import GivenMixer
from tests.twins.mix import softplus
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import INPUT_LIMIT, WARMUP, FamilyDesign, GivenMember, GivenNumber, IntervalState
from undrift.kernels.definitions import EstimatorNumber as N
from undrift.kernels.definitions import LabelContext as L
from undrift.kernels.definitions import RecordPart as R

REFITS = (4, 32, WARMUP)
"""Labels after which scaling is taken from the rows so far, and everything learned again from them."""
ORDINARY = np.ones(2)
"""Weight of a row and the time before it, unless they are given."""
NEVER_SEEN = 2.0
"""In a record's mask of holes: the feature had never been seen, so there was nothing to fill the hole with."""


class TakenRow(NamedTuple):
    """What depends on the features of a row alone."""

    filled: Vector
    """The row, its holes filled; NaN where a feature was never seen."""
    holes: Vector
    """1 where a value was missing."""
    wide: Vector
    """The filled row with its indicators, if there are any."""
    x: Vector
    """The same, scaled."""
    differences: Matrix
    """The features minus their running means (spans, features), in the units of the rows."""
    serial: float
    """The row's serial number."""


class Estimator(IntervalStages, EstimatorBlocks):
    """The round of one kind of estimator; every call brings the state vector of one of them and changes it."""

    robust: Estimator | None = None
    """A second arm over the same rows and the same state vector, which cuts labels that jump too far."""
    gate: Gate | None = None
    given_mixer: GivenMixer | None = None
    given_parts: Parts
    offered = 0
    """How many of the given answers are combined with the prediction in the end."""
    owns_rows = True
    """Whether the rows of the warm-up are cleared here, after the last refit."""

    def set_robust(self, other: Estimator, **settings: Unpack[MixerSettings]) -> None:
        """Put a robust arm beside this one, and a gate between the two."""
        self.robust, self.gate = other, Gate({**settings, "name": "gate"})
        other.owns_rows = False

    def set_offered(self, *, parts: Parts, offered: int, loss: int, level: float) -> None:
        """Combine the first given answers with the prediction, by one of `GivenLoss`."""
        self.offered, self.given_mixer, self.given_parts = offered, GivenMixer(loss, level), parts

    def _given_state(self, state: Vector) -> tuple[Vector, Matrix]:
        """Return the numbers of the mixer of given answers, and its members' sums."""
        (a, n), (b, m) = self.given_parts["given.numbers"], self.given_parts["given.members"]
        return state[a : a + n], state[b : b + m].reshape(-1, len(GivenMember))

    @property
    def context_at(self) -> int:
        """Where the context begins in a record: after its head, the filled row and the mask of holes."""
        return len(R) + 2 * self.dim

    @property
    def answers_at(self) -> int:
        """Where the members' answers begin: after last labels, families' last errors, differences, who spoke."""
        return self.spoke_at + self.given

    @property
    def spoke_at(self) -> int:
        """Where it says which given answers there were."""
        return self.context_at + len(L) + len(self.families) + len(self.spans) * self.inputs

    @property
    def candidates_at(self) -> int:
        """Where the candidates begin."""
        return self.answers_at + sum(stage.members for stage in self.learned) + self.level2.members

    @property
    def quantiles_at(self) -> int:
        """Where the quantiles begin: two of every interval level and the median, in order."""
        return self.candidates_at + self.last.members

    @property
    def record_size(self) -> int:
        """How many numbers a record has."""
        return self.robust_at + (0 if self.robust is None else self.robust.record_size)

    @property
    def robust_at(self) -> int:
        """Where the record of the robust arm begins."""
        return self.quantiles_at + self.interval_numbers

    # ---- serving -----------------------------------------------------------------------------------------------

    def serve(self, state: Vector, z: Vector, record: Vector, commit: bool, elapsed: float = 1.0) -> int:
        """Fill the record of a row that comes after this time; return 0, or the place of a number not to be used.

        With `commit` the row has really come: what depends on features alone (last-seen values, the scale of a column
        that moves for the first time, clip limits) and the serial number advance. Without it nothing changes.
        """
        if bad := self._refuse(z, np.empty(0)):
            return bad
        robust = 0.0
        if self.robust is not None:
            self.robust.serve(state, z[: self.dim], record[self.robust_at :], commit, elapsed)
            robust = float(record[self.robust_at + R.YHAT])
        filled, holes, wide, x, differences, serial = self._take_row(state, z, commit)
        given = given_answers(z[self.dim :], self.binary)
        numbers, labels, errors = (self.part(state, name) for name in ("numbers", "label_context", "errors"))
        hint, known = self.hint(state), numbers[N.ROUNDS] > 0.0
        row = self._scaled_row(state, x, wide, labels, differences, given)._replace(elapsed=elapsed)
        rounds, skipped, unjudged = int(numbers[N.ROUNDS]), int(numbers[N.SKIPPED]), self.is_unjudged(state)
        answers = self.answer(state, row, hint, errors, first=rounds, skipped=skipped, longest=unjudged)
        raw = self.last.mix(state, answers.candidates) if known else 0.0
        if unjudged:  # how well answers hold so many rows later is not known yet: they count half beside the base rate
            raw = 0.5 * (raw + float(answers.candidates[-2]))
        low, high = self.label_range(state)
        bounded = has_interval(self.part(state, "intervals"), low, high, serial - float(numbers[N.LAST_SERIAL]))

        record[[R.SERIAL, R.WIDTH, R.KNOWN, R.BOUNDED]] = serial, self.dim, known, bounded
        record[[R.RAW, R.HINT, R.WEIGHT, R.ELAPSED, R.UNCOUNTED]] = raw, hint, 1.0, elapsed, 0.0
        record[[R.ROUNDS, R.CLASSES]] = numbers[N.ROUNDS], np.sum(numbers[[N.NEGATIVE, N.POSITIVE]] > 0.0)
        self._finish_serving(state, record, given[: self.offered], robust, serial - float(numbers[N.LAST_SERIAL]))
        never = np.isnan(filled)  # records hold numbers only
        seen = [
            np.where(never, 0.0, filled),
            np.where(never, NEVER_SEEN, holes),
            labels,
            errors,
            differences.ravel(),
            ~np.isnan(given),
        ]
        intervals = self.serve_intervals(state, row, float(record[R.YHAT]), answers.candidates)
        own = np.concatenate([*seen, answers.members, answers.candidates, intervals])
        record[len(R) : self.robust_at] = own
        return 0

    def _finish_serving(self, state: Vector, record: Vector, given: Vector, robust: float, late: float) -> None:
        """Let the gate choose between RAW and the robust arm, and combine its answer with given ones."""
        record[[R.ROBUST, R.GATED, R.YHAT]] = record[R.RAW]
        record[[R.BUCKET, R.UNIT]] = 0.0
        if not record[R.KNOWN]:
            return
        if self.gate is not None:
            record[R.ROBUST] = robust
            self.gate.predict(state, record, late)
        record[R.YHAT] = record[R.GATED]
        if self.given_mixer is not None:
            members, (n, sums) = self.given_mixer.gather(given, float(record[R.GATED])), self._given_state(state)
            clipped_and_weights = self.given_mixer.weigh(sums, float(n[GivenNumber.UNIT]), members, own=True)
            record[R.YHAT] = self.given_mixer.combine(*clipped_and_weights)

    def advance(self, state: Vector, z: Vector) -> int:
        """Take notice of a row that has come and was predicted before: what `serve` commits, and no answers."""
        if bad := self._refuse(z, np.empty(0)):
            return bad
        self._take_row(state, z, commit=True)
        if self.robust is not None:
            self.robust.advance(state, z[: self.dim])
        return 0

    def _take_row(self, state: Vector, z: Vector, commit: bool) -> TakenRow:
        """Return what depends on features alone."""
        numbers, value, seen = (self.part(state, name) for name in ("numbers", "value", "seen"))
        z = z[: self.dim]
        filled, holes = preparation.fill_holes(z, value, seen)
        wide = preparation.add_indicators(filled, holes, self.indicators)
        serial = float(numbers[N.SERVED]) + 1.0
        x = preparation.scale_row(self._scaling(state), wide, serial, commit)
        differences = context.take_differences(self._means(state), self._scaling(state), wide, commit)
        if commit:
            preparation.remember_values(z, value, seen, self.part(state, "missing"))
            numbers[N.SERVED] = serial
        return TakenRow(filled, holes, wide, x, differences, serial)

    # ---- settling ----------------------------------------------------------------------------------------------

    def settle(self, state: Vector, record: Vector, y: float) -> int:
        """Learn from a record and its label; NaN closes it without a lesson. Returns as `serve`."""
        if bad := self._refuse(np.empty(0), np.array([y])):
            return bad
        if self.robust is not None:
            other = record[self.robust_at :].copy()
            head = [R.SERIAL, R.KNOWN, R.WEIGHT, R.UNCOUNTED]  # which callers set in the head of a record alone
            other[head] = record[head]
            self.robust.settle(state, other, y)
        numbers = self.part(state, "numbers")
        if math.isnan(y):
            numbers[N.UNLABELLED] += 1.0
            return 0
        rounds, serial = int(numbers[N.ROUNDS]), float(record[R.SERIAL])
        known, late = record[R.KNOWN] != 0.0, float(numbers[N.SERVED]) - serial + 1.0 + float(record[R.UNCOUNTED])
        if rounds == 0 and not self.binary:
            numbers[N.CENTER] = y
        despiked = self.despiked and rounds >= REFITS[0]
        soft = preparation.despike(self.part(state, "despiker"), y) if despiked else y
        # Where nothing was known, there was no hint either. Numbers take what is known by now. Two classes go without
        # hint and last labels: what these say promptly they do not say to a row served so much later.
        hint = float(record[R.HINT]) if known else y if rounds == 0 else 0.0 if self.binary else self.hint(state)

        filled, holes = np.split(record[len(R) : self.context_at].copy(), 2)
        filled[holes == NEVER_SEEN] = np.nan
        since = int(record[R.WIDTH])
        filled[since:], holes[since:] = 0.0, 0.0  # features added since the row was served
        wide = preparation.add_indicators(filled, np.minimum(holes, 1.0), self.indicators)
        served_context = record[self.context_at : self.spoke_at]
        at = self.candidates_at + 1 + len(self.learned)
        given = np.where(record[self.spoke_at : self.answers_at] != 0.0, record[at : at + self.given], np.nan)
        labels, errors, differences = np.split(served_context, np.cumsum([len(L), len(self.families)]))
        if not known:
            now = self.part(state, "label_context").copy()
            labels = np.zeros(len(L)) if self.binary else np.full(len(L), y) if rounds == 0 else now
        weights = record[[R.WEIGHT, R.ELAPSED]]
        if rounds < WARMUP:
            self._remember(state, rounds, wide, y, hint, labels, given, weights)
        x = preparation.rescale_row(self._scaling(state), wide)  # by today's scaling
        row = self._scaled_row(
            state, x, wide, labels, differences.reshape(len(self.spans), self.inputs), given, weights
        )
        answers, candidates = np.split(
            record[self.answers_at : self.quantiles_at], [self.candidates_at - self.answers_at]
        )
        served = Answers(answers, candidates) if known else None
        skipped = int(numbers[N.SKIPPED])
        if self.binary and not known and rounds and late > 1.0 and self.last.view(state, "mixer")[0] == 0.0:
            self.weigh_unserved(state, row, y, rounds)
        misses = self.learn(state, row, soft, hint, errors, served, late, rounds, skipped)
        if known:
            if serial > numbers[N.LAST_SERIAL]:
                self.part(state, "errors")[...] = misses
            self._judge(state, candidates, float(record[R.RAW]), soft, late)
            if self.gate is not None:
                self.gate.learn(state, record, y, late)
            if self.given_mixer is not None:
                members = self.given_mixer.gather(given[: self.offered], float(record[R.GATED]))
                n, sums = self._given_state(state)
                clipped, _ = self.given_mixer.weigh(sums, float(n[GivenNumber.UNIT]), members, own=True)
                self.given_mixer.learn(n, None, sums, clipped, members, float(record[R.YHAT]), y, late)
            parts, intervals = self.interval_parts(state), record[self.quantiles_at : self.robust_at]
            bounded, yhat, uncounted = record[R.BOUNDED] != 0.0, float(record[R.YHAT]), float(record[R.UNCOUNTED])
            if bounded and uncounted > 0.0:  # the row did not know how late its label would be: see has_interval
                bounded = parts.intervals[IntervalState.RESIDUALS] - uncounted >= late
            follow_quantiles(parts, intervals, x, bounded, yhat, y, late)
        else:
            self.last.widen_range(state, soft)
            if self.gate is not None:
                self.gate.mixer.widen_range(state, y)
            numbers[N.SKIPPED] += 1.0
        self._take_label(state, serial, y, soft)
        if rounds + 1 in REFITS:
            self.refit(state)
        return 0

    def _judge(self, state: Vector, candidates: Vector, yhat: float, soft: float, late: float) -> None:
        """Let the last mixer judge the served candidates, of which it made `yhat`, by the label of its arm.

        LATE grows by loss(yhat) - loss(now): what was predicted against what the weights of settling time make of the
        same candidates.
        """
        if self.is_unjudged(state):
            self.last.view(state, "log_weights")[...] = self.last.view(self.blank, "log_weights")
        now = self.last.mix(state, candidates)
        self.last.learn_mixer(state, candidates, soft, late, yhat)
        late_loss = (yhat - now) * (0.5 * (yhat + now) - soft)
        if self.binary:
            late_loss = float(-np.diff(softplus(np.array([-soft * yhat, -soft * now])))[0])
        self.part(state, "numbers")[N.LATE] += late_loss

    def _take_label(self, state: Vector, serial: float, y: float, soft: float) -> None:
        """Update what baselines and hint are made of; the last label is that of the highest serial number settled."""
        n = self.part(state, "numbers")
        newest = serial > n[N.LAST_SERIAL]
        if self.binary:
            if newest and n[N.ROUNDS] > 0.0:
                n[N.STAYED if y == n[N.LAST] else N.CHANGED] += 1.0
            n[N.POSITIVE if y > 0.0 else N.NEGATIVE] += 1.0
        n[N.ROUNDS] += 1.0
        n[N.MEAN] += (y - n[N.MEAN]) / n[N.ROUNDS]
        context.advance_labels(self.part(state, "label_context"), soft, bool(newest), float(n[N.ROUNDS]))
        if newest:
            n[[N.LAST_SERIAL, N.LAST, N.HINT]] = serial, y, soft

    def _scaled_row(
        self,
        state: Vector,
        x: Vector,
        wide: Vector,
        labels: Vector,
        differences: Matrix,
        given: Vector,
        weights: Vector = ORDINARY,
    ) -> ScaledRow:
        """Return a row and its context in the scales of now."""
        numbers, scaling = self.part(state, "numbers"), self._scaling(state)
        center, scale = float(numbers[N.CENTER]), 1.0 if self.binary else float(numbers[N.LABEL_SCALE]) or 1.0
        columns = context.label_columns(labels, center, scale)
        return ScaledRow(x, columns, context.scale_differences(scaling, wide, differences), given, *weights.tolist())

    def _remember(
        self, state: Vector, t: int, wide: Vector, y: float, hint: float, labels: Vector, given: Vector, weights: Vector
    ) -> None:
        """Keep a row of the warm-up, in the order of settling."""
        known = ~np.isnan(wide)
        self._rows(state, "buffer")[t], self._rows(state, "known")[t] = np.where(known, wide, 0.0), known
        self.part(state, "labels")[t], self.part(state, "hints")[t] = y, hint
        self._rows(state, "label_contexts")[t], self._rows(state, "row_weights")[t] = labels, weights
        self._rows(state, "given")[t] = np.column_stack([np.nan_to_num(given), ~np.isnan(given)]).ravel()

    def refit(self, state: Vector) -> None:
        """Take scaling, label centre and label scale from the first rows, and let fresh stages learn these again.

        The rows come in the order they were settled, with their hints and label context as served; the features' means
        are taken along these rows. Mixers judge what the fresh stages answer. The last mixer, the baselines and the
        intervals have judged what was really served: they stay.
        """
        numbers, labels = self.part(state, "numbers"), self.part(state, "label_context")
        rounds = int(numbers[N.ROUNDS])
        soft, hints = self.part(state, "labels")[:rounds].copy(), self.part(state, "hints")
        newest = int(np.flatnonzero(soft == numbers[N.LAST])[-1])  # the row with the last label
        for stage in (*self.learned, self.level2):
            stage.restart(state, self.blank)
        contexts = self._rows(state, "label_contexts")[:rounds]
        if not self.binary:
            numbers[N.CENTER] = preparation.median(soft)
            if self.despiked:
                soft = preparation.fit_despiker(self.part(state, "despiker"), soft)
            numbers[N.LABEL_SCALE] = preparation.spread(soft)
            contexts = np.clip(contexts, np.min(soft), np.max(soft))  # labels as they are seen now, spikes cut
            before = min(max(float(labels[L.BEFORE]), np.min(soft)), np.max(soft))
            labels[...] = 0.0
            for t in range(rounds):
                context.advance_labels(labels, float(soft[t]), False, t + 1.0)
            labels[[L.LAST, L.BEFORE]] = soft[newest], before
        self._choose_columns(state, self._replayed_rows(state, contexts), soft, hints)
        errors = np.zeros(len(self.families))
        self.part(state, "errors")[...] = self.part(state, "family_losses")[...] = 0.0
        for t, row in enumerate(self._replayed_rows(state, contexts)):
            hint = float(hints[t])
            answers = self.answer(state, row, hint, errors, first=t, skipped=1) if t else None
            errors = self.learn(state, row, float(soft[t]), hint, errors, answers, 1.0, t, 1)
            if t == newest:
                self.part(state, "errors")[...] = errors
        numbers[N.SKIPPED] = 1.0  # level 2 has learned all rows but the first
        numbers[N.HINT] = soft[newest]
        if rounds == WARMUP:
            rows = ("buffer", "known", "labels", "row_weights") if self.owns_rows else ()
            for name in (*rows, "hints", "label_contexts", "given"):
                self.part(state, name)[...] = 0.0

    def _replayed_rows(self, state: Vector, contexts: Matrix) -> list[ScaledRow]:
        """Fit the scaling to the rows of the warm-up, and return these by it."""
        rounds, scaling, numbers = len(contexts), self._scaling(state), self.part(state, "numbers")
        rows, known = self._rows(state, "buffer")[:rounds], self._rows(state, "known")[:rounds]
        preparation.fit_scaling(scaling, rows, known)
        means = FeatureMeans(self.spans, np.zeros((len(self.spans), self.inputs)), np.zeros(self.inputs))
        out = []
        for t in range(rounds):
            wide = np.where(known[t] != 0.0, rows[t], np.nan)
            serial = float(numbers[N.SERVED]) - rounds + t + 1.0  # as if the last row were the last one served
            x = preparation.scale_row(scaling, wide, serial, commit=True)
            differences = context.take_differences(means, scaling, wide, commit=True)
            value, spoke = self._rows(state, "given")[t].reshape(-1, 2).T
            given = np.where(spoke != 0.0, value, np.nan)
            weights = self._rows(state, "row_weights")[t]
            out.append(self._scaled_row(state, x, wide, contexts[t], differences, given, weights))
        return out

    def _choose_columns(self, state: Vector, rows: list[ScaledRow], soft: Vector, hints: Vector) -> None:
        """Choose the hinges and products of expanded families, by what a linear family leaves over of the rows."""
        expanded = [family for family in self.learned if family.design == FamilyDesign.EXPANDED]
        if not expanded:
            return
        family, residuals, center = self.learned[self.screening], np.zeros(len(rows)), self._label_center(state)
        for t, row in enumerate(rows):
            if t:
                answers = self.family_answers(state, family, row, float(hints[t]), t)
                residuals[t] = self.misses(np.array([family.mix(state, answers)]), float(soft[t]))[0]
            family.learn_memories(state, t, self.design(state, family, row), float(soft[t]) - center, row)
            if t:
                family.learn_mixer(state, answers, float(soft[t]), 1.0)
            else:
                family.widen_range(state, float(soft[t]))
        family.restart(state, self.blank)
        scale = 1.0 if self.binary else float(self.part(state, "numbers")[N.LABEL_SCALE])
        for family in expanded:
            inputs = np.stack([self.expanded_inputs(family, row) for row in rows])
            inputs[:, : self.inputs][self._rows(state, "known")[: len(rows), : self.inputs] == 0.0] = np.nan
            columns = family.columns(state)
            choice = family.order, family.knots, family.screened, len(columns)
            columns[...] = context.choose_columns(inputs, residuals, *choice, scale)

    def _label_center(self, state: Vector) -> float:
        return 0.0 if self.binary else float(self.part(state, "numbers")[N.CENTER])

    # ---- the state ---------------------------------------------------------------------------------------------

    def _refuse(self, Z: Matrix, y: Vector) -> int:
        """Return 0, 1 + flat index of the first feature that may not be used, or -(1 + index) of such a label."""
        bad = np.abs(Z.ravel()) > INPUT_LIMIT  # NaN is missing, not bad
        if bad.any():
            return 1 + int(np.argmax(bad))
        bad = ~np.isnan(y) & (np.abs(y) != 1.0 if self.binary else np.abs(y) > INPUT_LIMIT)
        return -1 - int(np.argmax(bad)) if bad.any() else 0

    def _rows(self, state: Vector, name: str) -> Matrix:
        return self.part(state, name).reshape(WARMUP, -1)

    def _means(self, state: Vector) -> FeatureMeans:
        means = self.part(state, "means").reshape(len(self.spans), self.inputs)
        return FeatureMeans(self.spans, means, self.part(state, "mean_rows"))

    def _scaling(self, state: Vector) -> preparation.ColumnScaling:
        return preparation.ColumnScaling(*(self.part(state, name) for name in ("center", "scale", "limit", "exceeded")))
