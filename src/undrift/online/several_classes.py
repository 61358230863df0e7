r"""Several classes: one online estimator for each class against the rest, level 2 over their log-odds, one mixer.

Classes are numbered in order of appearance, and another one may appear at any time. Of one or two classes a single
estimator takes care. From the third on, each class has one; those of the first two begin with everything that was
learned so far, because "second or first" is both "second or not" and "first or not". A share $1/(t+1)$ of the
probability is kept for a class not seen yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble import MixableProbabilities
from undrift.errors import ModelFileError
from undrift.learners.row_weights import RowWeights
from undrift.losses import log_softmax, softplus

if TYPE_CHECKING:
    from undrift.online.classifier import OnlineClassifier


from undrift import _check, kernels
from undrift._internal.discount import Discount, make_discount
from undrift.kernels.definitions import SoftmaxNumber
from undrift.learners.softmax import LEAST_DISCOUNT, class_basis, class_curvature

REACH = 2.0
"""Logits of the corrections that level 2 is careful about."""
RIDGE = 10.0
"""How firmly it begins with the log-odds as they are, in rows."""
MOST_LOG_ODDS = 30.0
SCALE = 0.5
"""Log-odds are cut at the one and counted in units of the inverse of the other."""
HALF_LIVES = (300.0, 3000.0, None)
"""Memories of level 2."""
CANDIDATES = (
    "level 2, short memory",
    "level 2, long memory",
    "level 2, never forgets",
    "each class against the rest",
    "base rates",
    "same as last time",
)
"""Names of what the last mixer chooses from: level 2 by memory, then the log-odds as they are, how often each class
came, and the last class again."""
BESIDE = len(CANDIDATES) - len(HALF_LIVES)
"""Candidates beside level 2."""


class ClassLevel2:
    """Logits a_k = c s_k + c_k s_k + d_k from the log-odds s_k of each class, the coefficients learned and forgotten.

    It begins at a_k = s_k. A class that is added begins there too.
    """

    def __init__(self, half_life: float | None, classes: int) -> None:
        self._discount = Discount(1.0, 0.0) if half_life is None else make_discount(self, None, half_life)
        self._set_classes(classes)
        n = 1 + 2 * classes
        self._information, self._covariance = np.zeros((n, n)), np.eye(n) / RIDGE
        self._leader = np.zeros(n)
        self._leader[0] = 1.0 / SCALE
        self._pull = RIDGE * self._leader
        self._numbers = np.zeros(len(SoftmaxNumber))
        self._numbers[SoftmaxNumber.RIDGE] = RIDGE

    def _set_classes(self, classes: int) -> None:
        self.classes, self._basis = classes, class_basis(classes)
        self._curvature = class_curvature(classes, REACH)

    def arrays(self) -> Arrays:
        """Return the state by name, the very arrays."""
        return {
            "information": self._information,
            "covariance": self._covariance,
            "pull": self._pull,
            "leader": self._leader,
            "numbers": self._numbers,
        }

    def add_class(self) -> None:
        """Make room for another class, about which nothing is known: the ridge alone holds its coefficients."""
        n, ridge = len(self._pull), max(float(self._numbers[SoftmaxNumber.RIDGE]), 1e-3 * RIDGE)
        information, covariance = np.zeros((n + 2, n + 2)), np.eye(n + 2) / ridge
        information[:n, :n], covariance[:n, :n] = self._information, self._covariance
        information[n:, n:] = np.eye(2) * (ridge - self._numbers[SoftmaxNumber.RIDGE])  # what the ridge lacks there
        self._information, self._covariance = information, covariance
        self._pull, self._leader = np.append(self._pull, [0.0, 0.0]), np.append(self._leader, [0.0, 0.0])
        self._set_classes(self.classes + 1)

    def own_coefficients(self) -> Vector:
        """Return the coefficient c + c_k of each class's log-odds in its logit (K,)."""
        return np.asarray(SCALE * (self._leader[0] + self._leader[1::2]))

    def predict(self, designs: Matrix, elapsed: float | Vector = 1.0) -> Matrix:
        """Return logits (rows, K) from the `designs` of rows that might come next, after this time."""
        logits = np.empty((len(designs), self.classes))
        times = np.broadcast_to(np.asarray(elapsed, np.float64), len(designs))
        for time in [float(elapsed)] if np.ndim(elapsed) == 0 else np.unique(times).tolist():
            some, beta = times == time, float(self._discounts(np.array([time]))[0])
            part = np.empty((int(some.sum()), self.classes))
            state = (self._covariance, self._leader, self._basis, self._curvature, RIDGE, beta)
            _check.raise_on_status(self, kernels.softmax_predict(*state, designs[some], part), len(self._pull))
            logits[some] = part
        return logits

    def _discounts(self, elapsed: Vector) -> Vector:
        """Return beta^dt, but no less than a float64 ridge can stand."""
        return np.maximum(RowWeights(np.ones(len(elapsed)), elapsed).discounts(self._discount), LEAST_DISCOUNT)

    def play(self, designs: Matrix, y: Vector, rows: RowWeights) -> Matrix:
        """Close rounds with the `designs` of log-odds and class numbers; return the logits."""
        logits, columns = np.empty((len(y), self.classes)), np.empty((2, len(y)))
        status = kernels.softmax_play(
            self._information,
            self._covariance,
            self._pull,
            self._leader,
            self._numbers,
            self._basis,
            self._curvature,
            RIDGE,
            self._discounts(rows.elapsed),
            rows.weight,
            designs,
            y,
            logits,
            columns[0],
            columns[1],
        )
        _check.raise_on_status(self, status, len(self._pull))
        return logits

    def designs(self, S: Matrix) -> Matrix:
        """Return the designs of log-odds (rows, K), each (K - 1, 1 + 2 K), as the kernels take them.

        They are the same for all memories. Sums go from class to class, so that a row alone gives the same bits.
        """
        K, Q = self.classes, self._basis.T
        along = SCALE * np.clip(S, -MOST_LOG_ODDS, MOST_LOG_ODDS)[:, None, :] * Q
        designs = np.zeros((len(S), K - 1, 1 + 2 * K))
        designs[:, :, 1::2], designs[:, :, 2::2] = along, Q
        for k in range(K):
            designs[:, :, 0] += along[:, :, k]
        return designs.reshape(len(S), (K - 1) * (1 + 2 * K))


class ServedClasses(NamedTuple):
    """What was known about a row of several classes when it was served."""

    log_probabilities: Vector
    """Of the C classes there were, in the order of their numbers."""
    log_odds: Vector
    """Of the E estimators there were: of each class against the rest, or the one estimator's."""
    answers: Matrix
    """Logits of the candidates (N, C); none (0, C) of one or two classes."""
    serials: list[int]
    """Serial numbers by which the estimators know the row (E)."""
    row: Vector
    """The row itself, for the estimator of a class that appears with it."""

    def flatten(self) -> Vector:
        """Return everything as one vector."""
        C, N, E = len(self.log_probabilities), len(self.answers), len(self.log_odds)
        head = np.array([C, N, E, *self.serials], np.float64)
        return np.concatenate((head, self.log_probabilities, self.log_odds, self.answers.ravel(), self.row))

    @classmethod
    def from_vector(cls, record: Vector) -> ServedClasses:
        """Return what `flatten` wrote; ValueError for anything else."""
        if len(record) < 3 or not ((record[:3] >= 0.0) & (record[:3] <= 1e6)).all():
            raise ValueError
        C, N, E = (int(one) for one in record[:3])
        ends = np.cumsum([3, E, C, E, N * C])
        if ends[-1] > len(record) or not np.isfinite(record[: ends[-1]]).all():
            raise ValueError
        _, serials, logs, odds, answers, row = np.split(record, ends)
        return cls(logs, odds, answers.reshape(N, C), [int(one) for one in serials], row)


class SeveralClasses:
    """The stages of K classes; rows are arrays, labels class numbers, NaN for a label that never comes."""

    def __init__(
        self, make: Callable[[], OnlineClassifier], first: OnlineClassifier, classes: int, sign: float
    ) -> None:
        self._make = make
        self.estimators, self.classes = [first], classes
        self._signs = [sign]  # the label that each estimator hears when its class comes
        self._level2: list[ClassLevel2] = []
        self._mixer = MixableProbabilities(growing=True)
        self._mixer.begin(np.ones(len(HALF_LIVES) + BESIDE))
        self._counts = np.zeros(classes)
        self._numbers = np.zeros(5)  # rounds, last class, stayed, changed, loss beyond the last mixer's

    @property
    def rounds(self) -> int:
        """Labels learned."""
        return int(self._numbers[0])

    @property
    def weights(self) -> Vector:
        """Weights of the candidates: level 2 by memory, the log-odds as they are, base rates, the last class again."""
        return self._mixer.weights

    @property
    def losses(self) -> Vector:
        """Sum of each candidate's losses over the rounds of the last mixer."""
        return self._mixer.losses

    def cost(self) -> Vector:
        """Return a bound on the losses in the rounds of the last mixer minus each candidate's.

        These are the rounds since the third class came whose class was known when they were served. Served predictions
        also keep a share for classes not seen yet, and of late labels are as old as these; what that lost is added.
        """
        return np.asarray(self._mixer.cost() + self._numbers[4])

    def combination(self) -> Vector:
        """Return the coefficient of each class's log-odds in its logit, of the memory of level 2 that leads (K,)."""
        leading = int(np.argmax(self.weights[: len(self._level2)]))
        return self._level2[leading].own_coefficients()

    def count(self, labels: int, each: Vector, last: float) -> None:
        """Take over what was counted before the classes had numbers."""
        self._numbers[:2], self._counts[...] = (labels, last), each

    def add_features(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        for one in self.estimators:
            one._grow(count)
            one.dim = (one.dim or 0) + count

    def predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        """Return log-probabilities (rows, K) of rows that might come next, after this time; nothing changes."""
        if not self.classes:
            return np.empty((len(Z), 0))
        scores = np.column_stack([np.atleast_1d(one._predict_at(Z, elapsed)) for one in self.estimators])
        if self.classes <= 2:
            return self._of_two(scores[:, 0])
        S = scores * self._signs
        return self._keep_share(self._mixer.predict(self._answers(S, elapsed)))

    def play(self, Z: Matrix, y: Vector, rows: RowWeights | None = None) -> Matrix:
        """Close rounds; return log-probabilities (rounds, classes at the end), a class's share before it appeared."""
        parts, at = [], 0
        rows = rows or RowWeights(np.ones(len(y)), np.ones(len(y)))
        while at < len(y):
            if y[at] >= self.classes:
                parts.append(self._play_new(Z[at : at + 1], rows.between(at, at + 1)))
                at += 1
                continue
            missing = bool(np.isnan(y[at]))
            other = (~np.isnan(y[at:]) if missing else np.isnan(y[at:])) | (y[at:] >= self.classes)
            end = at + int(np.argmax(other)) if other.any() else len(y)
            some = rows.between(at, end)
            play = self._play_unlabelled if missing else self._play_known
            parts.append(play(Z[at:end], y[at:end], some))
            at = end
        out = np.empty((len(y), self.classes))
        row = 0
        for part in parts:
            out[row : row + len(part)] = widen(part, self.classes)
            row += len(part)
        return out

    def serve(self, Z: Matrix, elapsed: float = 1.0) -> ServedClasses:
        """Serve one row that has come after this time."""
        served = [one.ask(Z[0], elapsed=elapsed) for one in self.estimators]
        serials, scores = [one.serial for one in served], np.array([[one.yhat for one in served]])
        if self.classes <= 2:
            return ServedClasses(
                self._of_two(scores[:, 0])[0], scores[0], np.empty((0, self.classes)), serials, Z[0].copy()
            )
        S = scores * self._signs
        answers = self._answers(S, elapsed)
        return ServedClasses(self._keep_share(self._mixer.predict(answers))[0], S[0], answers[0], serials, Z[0].copy())

    def settle(self, served: ServedClasses, y: float, weight: float = 1.0, elapsed: float = 1.0) -> None:
        """Learn the label of a served row; NaN closes it. Classes that came since did not see it, and skip it.

        The row counts `weight` times in the memories, and came the time `elapsed` after the one before.
        """
        while y >= self.classes:
            self._add_class()
            if self.classes > 2:
                row = np.zeros(self.estimators[0].dim or len(served.row))
                row[: len(served.row)] = served.row
                self.estimators[-1].play(row[None], [1.0], weight=[weight], elapsed=[elapsed])
        for k, serial in enumerate(self._serials_now(served)):
            label = float("nan") if np.isnan(y) else self._sign_for(k, y)
            self.estimators[k].tell(self.estimators[k].find_pending(serial), label, weight=weight)
        if np.isnan(y):
            return
        if len(served.answers) and served.answers.shape[1] == self.classes:
            labels = np.array([y])
            designs = self._level2[0].designs(served.log_odds[None])
            for one in self._level2:
                one.play(designs, labels, RowWeights(np.array([weight]), np.array([elapsed])))
            mixed = self._mixer.play(served.answers[None], labels)[0, int(y)]
            self._numbers[4] += mixed - served.log_probabilities[int(y)]
        self._count(y)

    def _serials_now(self, served: ServedClasses) -> list[int]:
        """Return the row's serial number in each estimator that knows it: one that served it may be two by now."""
        split = len(served.serials) == 1 and self.classes > 2
        return served.serials * 2 if split else served.serials

    def release(self, served: ServedClasses) -> Vector:
        """Return what the estimators keep of a row, each after its length; they keep it no longer."""
        kept = [self.estimators[k]._release_record(serial) for k, serial in enumerate(served.serials)]
        return np.concatenate([np.empty(0), *(part for one in kept for part in ([len(one)], one))])

    def adopt(self, served: ServedClasses, kept: Vector) -> None:
        """Let the estimators keep a row again that `release` gave away; refuse numbers that are no records."""
        records, at = [], 0
        for _ in served.serials:
            size = int(kept[at]) if at < len(kept) and 0.0 <= kept[at] < len(kept) else 0
            records.append(kept[at + 1 : at + 1 + size])
            at += 1 + size
        both = len(self._serials_now(served)) > len(records)
        for k, serial in enumerate(self._serials_now(served)):
            self.estimators[k]._adopt_record(serial, records[0 if both else k])

    def arrays(self) -> dict[str, Arrays | dict[str, Vector]]:
        """Return the state by part."""
        level2 = {f"level2.{i}": one.arrays() for i, one in enumerate(self._level2)}
        numbers = {"counts": self._counts, "numbers": self._numbers, "signs": np.array(self._signs)}
        return {**level2, "mixer": self._mixer.arrays(), "several": numbers}

    def load_arrays(self, arrays: dict[str, Arrays]) -> None:
        """Take over saved arrays; refuse what does not fit."""
        if self.classes > 2:
            self._level2 = [ClassLevel2(one, self.classes) for one in HALF_LIVES]
        own = self.arrays()
        try:
            self._signs = [float(one) for one in arrays["several"]["signs"]]
            for part, named in own.items():
                for name, array in named.items():
                    saved = arrays[part][name]
                    if saved.shape != array.shape or not np.isfinite(saved).all():
                        raise KeyError(name)
                    array[...] = saved
        except (KeyError, ValueError):
            raise ModelFileError("OnlineClassifier: the saved arrays of several classes cannot be used") from None
        if len(self._signs) != len(self.estimators) or not set(self._signs) <= {-1.0, 1.0}:
            raise ModelFileError("OnlineClassifier: the saved arrays of several classes cannot be used")

    def _play_known(self, Z: Matrix, y: Vector, rows: RowWeights) -> Matrix:
        """Close rounds whose labels are classes that are known."""
        scores = [one._close_rounds(Z, self._signs_of(k, y), rows) for k, one in enumerate(self.estimators)]
        rounds = self.rounds + np.arange(float(len(y)))
        if self.classes <= 2:
            for one in y:
                self._count(one)
            return self._of_two(scores[0], rounds)
        S = np.column_stack(scores) * self._signs
        E = np.empty((len(y), len(self._level2) + BESIDE, self.classes))
        designs = self._level2[0].designs(S)
        for i, one in enumerate(self._level2):
            E[:, i] = one.play(designs, y, rows)
        E[:, -3] = S
        for t, label in enumerate(y):
            E[t, -2], E[t, -1] = self._baselines()
            self._count(label)
        mixed, at = self._mixer.play(E, y), (np.arange(len(y)), y.astype(np.int64))
        kept = self._keep_share(mixed, rounds)
        for loss in mixed[at] - kept[at]:  # one after the other, as they come row by row
            self._numbers[4] += loss
        return kept

    def _play_unlabelled(self, Z: Matrix, missing: Vector, rows: RowWeights) -> Matrix:
        """Serve rows whose labels never come: running means of features advance, nothing else does."""
        scores = np.column_stack([one._close_rounds(Z, missing, rows) for one in self.estimators])
        if self.classes <= 2:
            return self._of_two(scores[:, 0])
        S = scores * self._signs
        return self._keep_share(self._mixer.predict(self._answers(S, rows.elapsed)))

    def _play_new(self, Z: Matrix, rows: RowWeights) -> Matrix:
        """Close the round in which a class appears that was never seen."""
        out = self.predict(Z, float(rows.elapsed[0]))
        before = self.classes
        self._add_class()
        for k, one in enumerate(self.estimators):
            one._close_rounds(Z, np.array([self._sign_for(k, float(before))]), rows)
        self._count(float(before))
        return out

    def _add_class(self) -> None:
        """Make room for another class."""
        self.classes += 1
        self._counts = np.append(self._counts, 0.0)
        if self.classes == 3:
            both = self.estimators[0]
            other = both.copy()
            other.two_classes_only = True
            self.estimators, self._signs = [other, both], [-self._signs[0], self._signs[0]]
        if self.classes >= 3:
            self.estimators.append(self._make())
            self._signs.append(1.0)
        if self.classes == 3:
            self._level2 = [ClassLevel2(one, 3) for one in HALF_LIVES]
        else:
            for one in self._level2:
                one.add_class()

    def _sign_for(self, k: int, y: float) -> float:
        """Return the label that estimator k hears when class y comes."""
        if self.classes <= 2:
            return self._signs[0] if y == 1.0 else -self._signs[0]
        return self._signs[k] if y == k else -self._signs[k]

    def _signs_of(self, k: int, y: Vector) -> Vector:
        sign, mine = self._signs[k], 1.0 if self.classes <= 2 else float(k)
        return np.where(np.isnan(y), np.nan, np.where(y == mine, sign, -sign))

    def _count(self, y: float) -> None:
        if self._numbers[0]:
            self._numbers[2 if y == self._numbers[1] else 3] += 1.0
        self._numbers[0] += 1.0
        self._numbers[1] = y
        self._counts[int(y)] += 1.0

    def _baselines(self) -> tuple[Vector, Vector]:
        """Return logits of how often each class came, and of the last class coming again as often as it did."""
        K, (_, last, stayed, changed, _) = self.classes, self._numbers
        base = np.log(self._counts + 1.0)
        stay = np.full(K, np.log((changed + 1.0) / (K - 1.0)))
        stay[int(last)] = np.log(stayed + 1.0)
        return base, stay

    def _answers(self, S: Matrix, elapsed: float | Vector) -> Matrix:
        """Return the candidates' logits (rows, N, K), all rows as if they came next, after this time."""
        designs, E = self._level2[0].designs(S), np.empty((len(S), len(self._level2) + BESIDE, self.classes))
        for i, one in enumerate(self._level2):
            E[:, i] = one.predict(designs, elapsed)
        E[:, -3] = S
        E[:, -2], E[:, -1] = self._baselines()
        return E

    def _of_two(self, score: Vector, rounds: Vector | None = None) -> Matrix:
        """Return log-probabilities of one or two classes from the one estimator's log-odds."""
        s = self._signs[0] * score
        both = np.stack([-softplus(s), -softplus(-s)], axis=1)
        if self.classes < 2:
            both = np.zeros((len(score), self.classes))
        return self._keep_share(both, rounds)

    def _keep_share(self, logs: Matrix, rounds: Vector | None = None) -> Matrix:
        """Return log-probabilities less a share 1 / (t + 1) for a class not seen yet, t labels being known."""
        if not logs.shape[1]:
            return logs
        t = np.asarray(self.rounds if rounds is None else rounds, dtype=np.float64)
        return log_softmax(logs) + np.reshape(np.log1p(-1.0 / (t + 1.0 + (t == 0.0))), (-1, 1))


def widen(logs: Matrix, classes: int) -> Matrix:
    """Return log-probabilities with a column for each class that appeared later: what was kept for it."""
    if logs.shape[1] == classes:
        return logs
    kept = np.maximum(1.0 - np.sum(np.exp(logs), axis=1, keepdims=True), 1e-300)
    return np.hstack([logs, np.repeat(np.log(kept), classes - logs.shape[1], axis=1)])
