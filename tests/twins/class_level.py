r"""NumPy twin of the kernels of `ClassLevel`: softmax regression over log-odds, baselines, and the last mixer.

Class k of K has the log-odds $s_k$, cut and scaled, and the logit $s_k(c_k+c)+d_k$: a row has a design $X$ (K, n) with
three numbers for each class, n = 2 K + 1. Each memory is the regression of `tests/twins/softmax.py` with the design
$Q^\top X$, Q a basis of the vectors that sum to 0, and begins at $c=1$ where the other one begins at 0. Copies of a row
beyond the first are a second round without forgetting, expanded where they are least.
"""

from __future__ import annotations

import numpy as np

from tests.twins.constants import (
    CLASS_LEAST_DISCOUNT,
    CLASS_LEAST_GIVEN,
    CLASS_LEAST_LOG_WEIGHT,
    CLASS_LONG_MEMORY,
    CLASS_MISSING,
    CLASS_MOST_LOG_ODDS,
    CLASS_REACH,
    CLASS_SHORT_MEMORY,
    SOFTMAX_FRESH_AGE,
    SOFTMAX_FRESH_LEVERAGE,
    SOFTMAX_LEAST_RIDGE,
    SOFTMAX_LEAST_SHARE,
)
from tests.twins.reference import invalid_input
from tests.twins.softmax import equal_prices, least_loss, softmax
from undrift._typing import Arrays, Matrix, Vector
from undrift.kernels.definitions import (
    CLASS_CANDIDATES,
    CLASS_LEVEL,
    CLASS_MEMORIES,
    CLASS_MEMORY,
    CLASS_RECORD,
    CLASS_RIDGE,
    CLASS_SCALE,
    FIRST_SHARE,
    LEVERAGE_LIMIT,
    ClassNumber,
)
from undrift.kernels.definitions import SoftmaxNumber as N
from undrift.learners.softmax import class_basis, class_curvature


def class_level_play(
    state: Vector, S: Matrix, y: Vector, weight: Vector, elapsed: Vector, given: Matrix, logs: Matrix
) -> int:
    """Close rounds with the log-odds S (rounds, K) and class numbers y; fill the log-probabilities.

    `given` are predictions made elsewhere (rounds, G K), NaN where missing. Returns as `invalid_input`.
    """
    bad = invalid_input(S, np.zeros(0))
    if bad:
        return bad
    level = _Level(state, S.shape[1])
    for t in range(len(S)):
        record = level.serve(S[t], float(elapsed[t]), given[t])
        logs[t] = record[: S.shape[1]]
        level.settle(record, int(y[t]), float(weight[t]), float(elapsed[t]))
    return 0


def class_level_predict(state: Vector, S: Matrix, elapsed: Vector, given: Matrix, records: Matrix) -> int:
    """Fill records of rows that might come next, or their first K numbers, the log-probabilities."""
    bad = invalid_input(S, np.zeros(0))
    if bad:
        return bad
    level = _Level(state, S.shape[1])
    for t in range(len(S)):
        records[t] = level.serve(S[t], float(elapsed[t]), given[t])[: records.shape[1]]
    return 0


def class_level_settle(state: Vector, classes: int, record: Vector, y: int, weight: float, elapsed: float) -> int:
    """Learn a row from its record; one made for another number of classes only counts the label."""
    level = _Level(state, classes)
    if len(record) != level.record_size:
        level.count(y)
        return 0
    bad = invalid_input(record[None], np.zeros(0))
    if not bad:
        level.settle(record, y, weight, elapsed)
    return bad


class _Level:
    def __init__(self, state: Vector, K: int) -> None:
        n = 2 * K + 1
        size = CLASS_MEMORIES * CLASS_MEMORY.size(square=n * n, parameters=n)
        given = (len(state) - CLASS_LEVEL.size(memories_size=size, candidates=CLASS_CANDIDATES, classes=K)) // 2
        self.K, self.members = K, CLASS_CANDIDATES + given
        self.parts = CLASS_LEVEL.split(state, memories_size=size, candidates=self.members, classes=K)
        self.memories = [
            CLASS_MEMORY.split(one, square=n * n, parameters=n)
            for one in self.parts["memories"].reshape(CLASS_MEMORIES, -1)
        ]
        for one in self.memories:
            one["information"], one["covariance"] = (one[key].reshape(n, n) for key in ("information", "covariance"))
        self.record_size = CLASS_RECORD.size(classes=K, answers_size=self.members * K)

    def serve(self, S: Vector, elapsed: float, given: Vector) -> Vector:
        K, numbers = self.K, self.parts["numbers"]
        answers = np.full((self.members, K), CLASS_MISSING)
        for i, memory in enumerate(self.memories):
            answers[i] = _Round(memory, S, discount(i, elapsed)).logits
        answers[3], answers[4] = S, np.log(self.parts["counts"] + 1.0)
        answers[5] = np.log((numbers[ClassNumber.CHANGED] + 1.0) / (K - 1.0))
        answers[5, int(numbers[ClassNumber.LAST])] = np.log(numbers[ClassNumber.STAYED] + 1.0)
        for i, p in enumerate(given.reshape(-1, K)):
            if not np.isnan(p).any():
                answers[CLASS_CANDIDATES + i] = np.log(np.clip(p, CLASS_LEAST_GIVEN, 1.0))
        for one in answers:
            if not (one == CLASS_MISSING).all():
                one -= np.logaddexp.reduce(one)
        mixed = self.mix(answers)
        t = numbers[ClassNumber.ROUNDS]
        mixed += np.log1p(-1.0 / (t + 1.0 if t else 2.0)) - np.logaddexp.reduce(mixed)
        return np.concatenate((mixed, S, answers.ravel()))

    def mix(self, answers: Matrix) -> Vector:
        there = answers[:, 0] != CLASS_MISSING
        weights = self.parts["log_weights"][there] - np.logaddexp.reduce(self.parts["log_weights"][there])
        return np.asarray(np.logaddexp.reduce(weights[:, None] + answers[there], axis=0))

    def settle(self, record: Vector, y: int, weight: float, elapsed: float) -> None:
        K, numbers, log_weights = self.K, self.parts["numbers"], self.parts["log_weights"]
        for i, memory in enumerate(self.memories):
            _Round(memory, record[K : 2 * K], discount(i, elapsed)).learn(y, weight)
        answers = record[2 * K :].reshape(-1, K)
        mixed = self.mix(answers)[y]
        told = np.where(answers[:, 0] == CLASS_MISSING, mixed, answers[:, y])
        self.parts["losses"] -= told
        after = log_weights + told
        after -= np.logaddexp.reduce(after)
        numbers[ClassNumber.MIXED] += 1.0
        share = FIRST_SHARE / (numbers[ClassNumber.MIXED] + 1.0)
        after = np.logaddexp(np.log1p(-share) + after, np.log(share / self.members))
        log_weights[...] = np.maximum(after, CLASS_LEAST_LOG_WEIGHT)
        numbers[ClassNumber.EXCESS] += mixed - record[y]
        self.count(y)

    def count(self, y: int) -> None:
        numbers = self.parts["numbers"]
        if numbers[ClassNumber.ROUNDS]:
            numbers[ClassNumber.STAYED if y == numbers[ClassNumber.LAST] else ClassNumber.CHANGED] += 1.0
        numbers[ClassNumber.ROUNDS] += 1.0
        numbers[ClassNumber.LAST] = y
        self.parts["counts"][y] += 1.0


class _Round:
    """A row and one memory: its prediction, made at once, and what it learns."""

    def __init__(self, memory: Arrays, S: Vector, beta: float) -> None:
        self.memory, K = memory, len(S)
        s = CLASS_SCALE * np.clip(S, -CLASS_MOST_LOG_ODDS, CLASS_MOST_LOG_ODDS)
        self.X = np.hstack([np.diag(s), np.eye(K), s[:, None]])
        self.Q, self.k, self.beta = class_basis(K), class_curvature(K, CLASS_REACH), beta
        self.fresh = not self.leverage(memory["covariance"] / beta) <= LEVERAGE_LIMIT
        self.P, self.x = memory["covariance"] / beta, memory["leader"]
        if self.fresh:
            self.P, self.x, self.beta = np.eye(len(self.x)) / CLASS_RIDGE, np.zeros(len(self.x)), 1.0
            self.x[-1] = 1.0 / CLASS_SCALE
        m0, M0 = self.project()
        self.logits = self.Q @ (m0 - M0 @ equal_prices(m0, M0, self.k, self.Q))

    def leverage(self, P: Matrix) -> float:
        return float(np.trace(self.Q.T @ self.X @ P @ self.X.T @ self.Q))

    def project(self) -> tuple[Vector, Matrix]:
        design = self.Q.T @ self.X
        return design @ self.x, design @ self.P @ design.T

    def learn(self, y: int, weight: float) -> None:
        if self.fresh:
            restart(self.memory)
        self.memory["numbers"][N.AGE] += 1.0
        self.add(self.logits, y, min(weight, 1.0))
        if weight > 1.0:
            self.P, self.x, self.beta = self.memory["covariance"].copy(), self.memory["leader"], 1.0
            m0, M0 = self.project()
            u = least_loss(m0, M0, self.Q, weight - 1.0, self.Q[y])
            self.add(self.Q @ (m0 - M0 @ u), y, weight - 1.0)

    def add(self, b: Vector, y: int, copies: float) -> None:
        """Add the quadratic of `copies` losses with the label y around the logits b."""
        memory, X, beta, K = self.memory, self.X, self.beta, len(b)
        A, P, numbers, n = memory["information"], memory["covariance"], memory["numbers"], X.shape[1]
        p = softmax(b)
        H = copies * self.k * (np.diag(p) - np.outer(p, p))
        A[...] = beta * A + X.T @ H @ X
        memory["pull"][...] = beta * memory["pull"] + X.T @ (H @ b - copies * (p - np.eye(K)[y]))
        most, ridge, M0 = float(np.diagonal(A).max()), beta * numbers[N.RIDGE], X @ self.P @ X.T
        least = max(SOFTMAX_LEAST_RIDGE * CLASS_RIDGE, SOFTMAX_LEAST_SHARE * most)
        far = float(np.max(np.diagonal(H) * np.diagonal(M0))) > SOFTMAX_FRESH_LEVERAGE
        if ridge < least or far or numbers[N.AGE] >= SOFTMAX_FRESH_AGE:
            ridge = 2.0 * least if ridge < least else ridge
            whole = A + ridge * np.eye(n)
            whole[K : 2 * K, K : 2 * K] += max(most, ridge) / K  # a common offset changes no probability
            P[...] = np.linalg.inv(whole)
            numbers[N.AGE] = 0.0
        else:
            P[...] = self.P - self.P @ X.T @ H @ np.linalg.solve(np.eye(K) + M0 @ H, X @ self.P)
        numbers[N.RIDGE] = ridge
        memory["leader"][...] = P @ memory["pull"]


def restart(memory: Arrays) -> None:
    """Begin again with the log-odds as they are."""
    memory["information"][...], memory["covariance"][...] = 0.0, np.eye(len(memory["pull"])) / CLASS_RIDGE
    memory["pull"][...], memory["leader"][...] = 0.0, 0.0
    memory["pull"][-1], memory["leader"][-1] = CLASS_RIDGE / CLASS_SCALE, 1.0 / CLASS_SCALE
    memory["numbers"][N.RIDGE], memory["numbers"][N.AGE] = CLASS_RIDGE, 0.0
    memory["numbers"][N.RESTARTS] += 1.0


def discount(memory: int, elapsed: float) -> float:
    """Return what is left of a memory's past after this time."""
    half_life = (CLASS_SHORT_MEMORY, CLASS_LONG_MEMORY, np.inf)[memory]
    return float(max(2.0 ** (-elapsed / half_life), CLASS_LEAST_DISCOUNT))
