r"""The level over the estimators of several classes: softmax regression over their log-odds, baselines, one mixer.

Class k of K has log-odds $s_k$ against the rest. The regression gives it the logit $(c+c_k)s_k+d_k$; the coefficients
are learned at three speeds of forgetting and begin at $c=1$, $c_k=d_k=0$. The last mixer averages the probabilities
of these memories, of the log-odds as they are, of the base rates, of "same as last time" and of predictions made
elsewhere. A share $1/(t+1)$ of the probability is kept for a class not seen yet.
"""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble.mixer import weights_of
from undrift.errors import ModelFileError
from undrift.kernels.definitions import (
    CLASS_CANDIDATES,
    CLASS_LEVEL,
    CLASS_MEMORIES,
    CLASS_MEMORY,
    CLASS_RECORD,
    CLASS_RIDGE,
    CLASS_SCALE,
    FIRST_SHARE,
    ClassNumber,
    SoftmaxNumber,
)

CANDIDATES = (
    "level 2, short memory",
    "level 2, long memory",
    "level 2, never forgets",
    "each class against the rest",
    "base rates",
    "same as last time",
)
"""Names of what the last mixer chooses from, without predictions made elsewhere."""
LEAST_RIDGE = 1e-3
"""The coefficients of a class that is added have a ridge of at least this share of the first one."""


class ClassLevel:
    r"""Softmax regression over the log-odds of each class against the rest, baselines, and the last mixer.

    Parameters
    ----------
    classes
        Number of classes, 3 or more; `add_class` adds one.
    given
        Number of predictions made elsewhere, each K probabilities a row. A missing one (any NaN) counts as the mixture
        of the others in that row.

    Notes
    -----
    The log-losses of what was served exceed those of every candidate by at most `cost()`. O(K^3) time a row and O(K^2)
    memory. Blocks, cut anywhere, and single rows give the same bits.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> S = rng.normal(size=(500, 3))
    >>> y = np.argmax(3.0 * S + rng.gumbel(size=(500, 3)), axis=1)
    >>> level = ClassLevel(3)
    >>> level.play(S, y).shape, int(np.argmax(level.predict(np.array([[0.0, 2.0, 1.0]]))))
    ((500, 3), 1)
    >>> level.combination().round().tolist()  # of three classes a common slope counts, which is 3
    [3.0, 3.0, 3.0]
    """

    def __init__(self, classes: int, given: int = 0) -> None:
        self.classes = _check.integer(self, "classes", classes, 3)
        self.given = _check.integer(self, "given", given, 0)
        self._allocate()
        for memory in self._memories():
            n = 2 * self.classes + 1
            memory["covariance"].reshape(n, n)[...] = np.eye(n) / CLASS_RIDGE
            memory["leader"][-1] = 1.0 / CLASS_SCALE
            memory["pull"][-1] = CLASS_RIDGE / CLASS_SCALE
            memory["numbers"][SoftmaxNumber.RIDGE] = CLASS_RIDGE
        self._part("log_weights")[...] = -np.log(CLASS_CANDIDATES + self.given)

    @property
    def candidates(self) -> list[str]:
        """Names of the candidates; those of predictions made elsewhere, which follow, are the caller's to know."""
        return list(CANDIDATES)

    @property
    def rounds(self) -> int:
        """Labels counted."""
        return int(self._part("numbers")[ClassNumber.ROUNDS])

    @property
    def counts(self) -> Vector:
        """How often each class was seen (K,)."""
        return self._part("counts").copy()

    @property
    def weights(self) -> Vector:
        """Weights of the candidates for the coming round; they sum to 1."""
        return weights_of(self._part("log_weights"))

    @property
    def losses(self) -> Vector:
        """Sum of each candidate's log-losses over the rounds of the last mixer."""
        return self._part("losses").copy()

    def cost(self) -> Vector:
        """Return a bound on the log-losses of what was served minus each candidate's, over the same rounds.

        These are the rounds whose class was known when they were served. What the share for classes not seen yet has
        cost is part of it, and what late labels have cost. A missing candidate has the mixture's loss.
        """
        numbers, members = self._part("numbers"), CLASS_CANDIDATES + self.given
        bound = np.log(members) + FIRST_SHARE * np.log1p(numbers[ClassNumber.MIXED]) + numbers[ClassNumber.EXCESS]
        return np.full(members, bound)

    def combination(self) -> Vector:
        """Return the coefficient c + c_k of each class's log-odds in its logit, of the memory that leads (K,)."""
        leader = self._memories()[int(np.argmax(self.weights[:CLASS_MEMORIES]))]["leader"]
        return np.asarray(CLASS_SCALE * (leader[-1] + leader[: self.classes]))

    def predict(self, S: Matrix, elapsed: float | Vector = 1.0, given: Matrix | None = None) -> Matrix:
        """Return log-probabilities (n, K) from log-odds (n, K) of rows that might come next, after this time.

        `given` are predictions made elsewhere (n, G, K), NaN where one is missing; without it all are. The
        probabilities sum to 1 less the share kept for a class not seen yet. Nothing changes.
        """
        logs = np.empty((len(S), self.classes))
        self._fill(S, elapsed, given, logs)
        return logs

    def serve(self, s: Vector, elapsed: float = 1.0, given: Matrix | None = None) -> Vector:
        """Return the record of one row, from which `settle` learns: first its log-probabilities (K,); nothing changes.

        Arguments as in `predict`, of one row.
        """
        record = np.empty((1, self._record_size))
        self._fill(s.reshape(1, -1), elapsed, None if given is None else given[None], record)
        return record.reshape(-1)

    def settle(self, record: Vector, y: int, weight: float = 1.0, elapsed: float = 1.0) -> None:
        """Learn the class of a row from its record; one made when there were fewer classes only counts the class.

        The row counts `weight` times in the regression, and came the time `elapsed` after the row before.
        """
        status = kernels.class_level_settle(self._state, self.classes, record, int(y), weight, elapsed)
        _check.raise_on_status(self, status, self.classes)

    def play(
        self,
        S: Matrix,
        y: Vector,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
        given: Matrix | None = None,
    ) -> Matrix:
        """Close rounds with log-odds (n, K) and class numbers; return the log-probabilities (n, K).

        Row by row `serve`, then `settle`, give the same bits.
        """
        n = len(S)
        logs, ones = np.empty((n, self.classes)), np.ones(n)
        status = kernels.class_level_play(
            self._state,
            np.ascontiguousarray(S),
            np.asarray(y, np.float64),
            ones if weight is None else weight,
            ones if elapsed is None else elapsed,
            self._flatten_given(given, n),
            logs,
        )
        _check.raise_on_status(self, status, self.classes)
        return logs

    def count(self, label: int) -> None:
        """Count the class of a row from which nothing else is learned, as when it is the first of its class."""
        self.settle(np.empty(0), label)

    def set_counts(self, counts: Vector, last: int, stayed: float = 0.0, changed: float = 0.0) -> None:
        """Take over how often each class was seen, the last one, and how often it was the one before or another."""
        numbers = self._part("numbers")
        self._part("counts")[...] = counts
        numbers[[ClassNumber.ROUNDS, ClassNumber.LAST]] = np.sum(counts), last
        numbers[[ClassNumber.STAYED, ClassNumber.CHANGED]] = stayed, changed

    def add_class(self) -> None:
        """Make room for another class, about which nothing is known: the ridge alone holds its coefficients."""
        K, old, parts = self.classes, self._memories(), {name: self._part(name) for name in ("log_weights", "losses")}
        counts, numbers = self._part("counts"), self._part("numbers")
        self.classes += 1
        self._allocate()
        n = 2 * K + 1
        kept = np.concatenate((np.arange(K), np.arange(K + 1, 2 * K + 1), [2 * K + 2]))  # where parameters lie now
        added = [K, 2 * K + 1]
        for before, after in zip(old, self._memories(), strict=True):
            ridge = float(before["numbers"][SoftmaxNumber.RIDGE])
            least = max(ridge, LEAST_RIDGE * CLASS_RIDGE)
            for name in ("information", "covariance"):
                after[name].reshape(n + 2, n + 2)[np.ix_(kept, kept)] = before[name].reshape(n, n)
            after["information"].reshape(n + 2, n + 2)[added, added] = least - ridge  # what the ridge lacks there
            after["covariance"].reshape(n + 2, n + 2)[added, added] = 1.0 / least
            after["pull"][kept], after["leader"][kept] = before["pull"], before["leader"]
            after["numbers"][...] = before["numbers"]
        for name, values in parts.items():
            self._part(name)[...] = values
        self._part("counts")[:K], self._part("numbers")[...] = counts, numbers

    def arrays(self) -> Arrays:
        """Return the state by name, the very array."""
        return {"state": self._state}

    def load_arrays(self, arrays: Arrays) -> None:
        """Take over a saved state; refuse what does not fit."""
        saved = arrays.get("state")
        if saved is None or saved.shape != self._state.shape or not np.isfinite(saved).all():
            raise ModelFileError("ClassLevel: the saved state does not fit the number of classes")
        before = self._state.copy()
        self._state[...] = saved
        if not self._is_sound():
            self._state[...] = before
            raise ModelFileError("ClassLevel: the saved state cannot be that of any rows")

    def _is_sound(self) -> bool:
        """Whether counts are counts, and the matrices could be those of a regression."""
        numbers, counts, n = self._part("numbers"), self._part("counts"), 2 * self.classes + 1
        if not (numbers[: ClassNumber.EXCESS] >= 0.0).all() or not (counts >= 0.0).all():
            return False
        if not float(numbers[ClassNumber.LAST]).is_integer() or not numbers[ClassNumber.LAST] < self.classes:
            return False
        return all(
            (memory["covariance"][:: n + 1] > 0.0).all()
            and (memory["information"][:: n + 1] >= 0.0).all()
            and (memory["numbers"] >= 0.0).all()
            for memory in self._memories()
        )

    def _fill(self, S: Matrix, elapsed: float | Vector, given: Matrix | None, out: Matrix) -> None:
        """Fill log-probabilities or whole records of rows that might come next."""
        times = np.full(len(S), elapsed, np.float64)
        offered = self._flatten_given(given, len(S))
        status = kernels.class_level_predict(self._state, np.ascontiguousarray(S), times, offered, out)
        _check.raise_on_status(self, status, self.classes)

    def _flatten_given(self, given: Matrix | None, rows: int) -> Matrix:
        """Return predictions made elsewhere as the kernels take them (n, G K)."""
        width = self.given * self.classes
        if given is None:
            return np.full((rows, width), np.nan)
        return np.ascontiguousarray(given, np.float64).reshape(rows, width)

    def _allocate(self) -> None:
        """Make an empty state for the number of classes, and note what depends on it."""
        K, n, members = self.classes, 2 * self.classes + 1, CLASS_CANDIDATES + self.given
        size = CLASS_MEMORIES * CLASS_MEMORY.size(square=n * n, parameters=n)
        dimensions = {"memories_size": size, "candidates": members, "classes": K}
        self._state = np.zeros(CLASS_LEVEL.size(**dimensions))
        self._slices = CLASS_LEVEL.slices(**dimensions)
        self._record_size = CLASS_RECORD.size(classes=K, answers_size=members * K)

    def _part(self, name: str) -> Vector:
        """Return a part of the state, a view."""
        return self._state[self._slices[name]]

    def _memories(self) -> list[Arrays]:
        """Return the parts of each memory, views."""
        n = 2 * self.classes + 1
        memories = self._part("memories").reshape(CLASS_MEMORIES, -1)
        return [CLASS_MEMORY.split(memory, square=n * n, parameters=n) for memory in memories]
