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
from undrift.errors import ModelFileError
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.losses import log_softmax, softplus
from undrift.online.class_level import ClassLevel

if TYPE_CHECKING:
    from undrift.online.classifier import OnlineClassifier


class ServedClasses(NamedTuple):
    """What was known about a row of several classes when it was served."""

    log_probabilities: Vector
    """Of the C classes there were, in the order of their numbers."""
    log_odds: Vector
    """Of the E estimators there were: of each class against the rest, or the one estimator's."""
    answers: Matrix
    """Log-probabilities of the candidates (N, C); none (0, C) of one or two classes."""
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
        self._level = ClassLevel(max(classes, 3))  # counts alone before the third class

    @property
    def rounds(self) -> int:
        """Labels learned."""
        return self._level.rounds

    @property
    def weights(self) -> Vector:
        """Weights of the candidates: level 2 by memory, the log-odds as they are, base rates, the last class again."""
        return self._level.weights

    @property
    def losses(self) -> Vector:
        """Sum of each candidate's losses over the rounds of the last mixer."""
        return self._level.losses

    def cost(self) -> Vector:
        """Return a bound on the losses in the rounds of the last mixer minus each candidate's.

        These are the rounds since the third class came whose class was known when they were served. Served predictions
        also keep a share for classes not seen yet, and of late labels are as old as these; what that lost is added.
        """
        return self._level.cost()

    def combination(self) -> Vector:
        """Return the coefficient of each class's log-odds in its logit, of the memory of level 2 that leads (K,)."""
        return self._level.combination()

    def count(self, each: Vector, last: float) -> None:
        """Take over what was counted before the classes had numbers."""
        self._level.set_counts(np.pad(each, (0, 3 - len(each))), int(last))

    def add_features(self, count: int) -> None:
        """Append features that were 0 in every row so far."""
        for one in self.estimators:
            one._grow(count)
            one.dim = (one.dim or 0) + count

    def predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        """Return log-probabilities (rows, K) of rows that might come next, after this time; nothing changes."""
        if not self.classes:
            return np.empty((len(Z), 0))
        scores = np.column_stack([np.atleast_1d(one._predict(Z, elapsed)) for one in self.estimators])
        if self.classes <= 2:
            return self._of_two(scores[:, 0])
        return self._level.predict(scores * self._signs, elapsed)

    def play(self, Z: Matrix, y: Vector, rows: RowContext = ORDINARY) -> Matrix:
        """Close rounds; return log-probabilities (rounds, classes at the end), a class's share before it appeared."""
        parts, at = [], 0
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
        K, record = self.classes, self._level.serve(scores[0] * self._signs, elapsed)
        return ServedClasses(record[:K], record[K : 2 * K], record[2 * K :].reshape(-1, K), serials, Z[0].copy())

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
        record = np.concatenate((served.log_probabilities, served.log_odds, served.answers.ravel()))
        self._level.settle(record if len(served.answers) else np.empty(0), int(y), weight, elapsed)

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
        return {"level": self._level.arrays(), "several": {"signs": np.array(self._signs)}}

    def load_arrays(self, arrays: dict[str, Arrays]) -> None:
        """Take over saved arrays; refuse what does not fit."""
        self._level = ClassLevel(max(self.classes, 3))
        try:
            self._signs = [float(one) for one in arrays["several"]["signs"]]
            self._level.load_arrays(arrays["level"])
        except (KeyError, TypeError, ValueError):
            raise ModelFileError("OnlineClassifier: the saved arrays of several classes cannot be used") from None
        if len(self._signs) != len(self.estimators) or not set(self._signs) <= {-1.0, 1.0}:
            raise ModelFileError("OnlineClassifier: the saved arrays of several classes cannot be used")

    def _play_known(self, Z: Matrix, y: Vector, rows: RowContext) -> Matrix:
        """Close rounds whose labels are classes that are known."""
        scores = [one._close_rounds(Z, self._signs_of(k, y), rows) for k, one in enumerate(self.estimators)]
        rounds = self.rounds + np.arange(float(len(y)))
        if self.classes <= 2:
            for label in y:
                self._level.count(int(label))
            return self._of_two(scores[0], rounds)
        return self._level.play(np.column_stack(scores) * self._signs, y, rows.weight, rows.elapsed)

    def _play_unlabelled(self, Z: Matrix, missing: Vector, rows: RowContext) -> Matrix:
        """Serve rows whose labels never come: running means of features advance, nothing else does."""
        scores = np.column_stack([one._close_rounds(Z, missing, rows) for one in self.estimators])
        if self.classes <= 2:
            return self._of_two(scores[:, 0])
        return self._level.predict(scores * self._signs, rows.times(len(missing)))

    def _play_new(self, Z: Matrix, rows: RowContext) -> Matrix:
        """Close the round in which a class appears that was never seen."""
        out = self.predict(Z, rows.times(1).item())
        before = self.classes
        self._add_class()
        for k, one in enumerate(self.estimators):
            one._close_rounds(Z, np.array([self._sign_for(k, float(before))]), rows)
        self._level.count(before)
        return out

    def _add_class(self) -> None:
        """Make room for another class."""
        self.classes += 1
        if self.classes == 3:
            both = self.estimators[0]
            other = both.copy()
            other.two_classes_only = True
            self.estimators, self._signs = [other, both], [-self._signs[0], self._signs[0]]
        if self.classes >= 3:
            self.estimators.append(self._make())
            self._signs.append(1.0)
        if self.classes > 3:
            self._level.add_class()

    def _sign_for(self, k: int, y: float) -> float:
        """Return the label that estimator k hears when class y comes."""
        if self.classes <= 2:
            return self._signs[0] if y == 1.0 else -self._signs[0]
        return self._signs[k] if y == k else -self._signs[k]

    def _signs_of(self, k: int, y: Vector) -> Vector:
        sign, mine = self._signs[k], 1.0 if self.classes <= 2 else float(k)
        return np.where(np.isnan(y), np.nan, np.where(y == mine, sign, -sign))

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
