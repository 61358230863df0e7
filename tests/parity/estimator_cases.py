"""Streams and plans the estimator's parity tests share, and how the kernel and its twin run them."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from tests.twins import estimator as reference_estimator
from undrift import kernels
from undrift.kernels.definitions import EstimatorNumber, RecordPart
from undrift.online.plan import EstimatorPlan

Array = NDArray[np.float64]
BETAS = np.array([0.8, 0.97, 1.0])
COLUMNS = 18
"""Fewer columns than estimators have: the twin is slow."""


class Case(NamedTuple):
    """An estimator and a stream for it."""

    binary: bool
    waves: int = 0
    indicators: bool = False
    dim: int = 3
    began: int = 3
    rows: int = 40
    kind: str = "plain"
    delay: int = 0
    two: bool = False
    """Two memories, which lie in memory one by one, in place of three, which lie in lanes."""
    expanded: bool = False
    """With hinges and products."""
    columns: int = COLUMNS
    """The most that a family with context or expansions may have."""
    given: int = 0
    """Answers made elsewhere that come with every row, some missing; all but the last are combined in the end."""
    loss: float | None = None
    """Level of the pinball loss by which they are combined; None: the loss of the task."""
    begin: int = 0
    """The first rows that are played by the compiled kernel for both, where only later ones are of interest."""


def plan(case: Case, twin: bool = False) -> EstimatorPlan:
    """Return the plan of a case, over the compiled kernel or over its twin."""
    settings: dict[str, Any] = {"betas": BETAS[1:] if case.two else BETAS, "seed": 1}
    for name in ("binary", "waves", "indicators", "dim", "began", "expanded", "columns"):
        settings[name] = getattr(case, name)
    names = tuple(f"given {k}" for k in range(case.given))
    settings |= {"offered": names[:-1], "given": names[-1:], "loss": case.loss}
    if not twin:
        return EstimatorPlan(**settings)
    with mock.patch.object(kernels, "Estimator", reference_estimator.Estimator):
        return EstimatorPlan(**settings)


def draw_case(case: Case) -> tuple[Array, Array]:
    """Draw the rows and labels of a case."""
    rng = np.random.default_rng([case.rows, case.dim, len(case.kind)])
    n, kind = case.rows, case.kind
    Z = rng.normal(size=(n, case.dim)) * np.logspace(-2, 2, case.dim) + np.linspace(0.0, 1e3, case.dim)
    signal = 50.0 * Z[:, 0] + 0.02 * Z[:, -1] + np.sin(np.arange(n) / 9.0)
    y = signal + 0.3 * rng.normal(size=n)
    if case.binary:
        y = np.where(y > np.median(y), 1.0, -1.0)
    if kind == "holes":
        Z[rng.random(Z.shape) < 0.2] = np.nan
        Z[: n // 3, 0] = np.nan  # never seen so far
    if kind == "unlabelled":
        y[rng.random(n) < 0.2] = np.nan
        y[[0, 2, 4]] = np.nan
    if kind == "constant":
        Z[: n // 2, 0], Z[:, 1] = 7.3, -0.1
        y[: n // 4] = y[0]
    if kind == "outliers":
        Z[n // 2, 0], Z[n // 2 + 3 : n // 2 + 8, 1], Z[3, 2] = 1e6, -1e9, 1e12
    if kind == "season":
        y += np.where(np.arange(n) % 7 == 3, 4.0, 0.0) * rng.normal(size=n)
    if kind == "spikes" and not case.binary:
        y[[5, n // 2]], y[n // 2 + 5 : n // 2 + 9] = [-200.0, 400.0], 100.0
    if case.given:
        answers = np.nan_to_num(y)[:, None] + rng.normal(scale=np.linspace(0.5, 5.0, case.given), size=(n, case.given))
        answers = np.clip(0.5 + answers / 4.0, 0.0, 1.0) if case.binary else answers
        answers[rng.random(answers.shape) < 0.2] = np.nan
        if kind == "tiny":  # the squares of regrets are lost in float64
            y, answers = 1e-84 * y, 1e-84 * answers
        Z = np.column_stack([Z, answers])
    return Z, y


class Outcome(NamedTuple):
    """All numbers of a run."""

    state: Array
    records: Array
    """(rows, record_size)"""


def run_late(case: Case, which: EstimatorPlan) -> Outcome:
    """Serve every row and settle it `delay` rows later."""
    Z, y = draw_case(case)
    state, Z, y = first_state(case), Z[case.begin :], y[case.begin :]
    records = np.full((len(Z), which.kernel.record_size), np.nan)
    assert which.kernel.play_late(state, Z, y, records, 0, case.delay) == 0
    return Outcome(state, records)


def run_weighted(case: Case, which: EstimatorPlan) -> Outcome:
    """The same with rows that count other than once, and come after other times than 1."""
    Z, y = draw_case(case)
    rng = np.random.default_rng(6)
    weight = np.where(rng.random(len(y)) < 0.4, 1.0, rng.choice([0.0, 0.5, 3.0], len(y)))
    elapsed = np.where(rng.random(len(y)) < 0.4, 1.0, rng.choice([0.0, 0.5, 4.0], len(y)))
    state, records = which.blank(), np.full((len(Z), which.kernel.record_size), np.nan)
    assert which.kernel.play_late(state, Z, y, records, 0, case.delay, weight, elapsed) == 0
    return Outcome(state, records)


def first_state(case: Case) -> Array:
    """Return the state after the rows that are played for both, the same at every level."""
    which, (Z, y) = plan(case), draw_case(case)
    state, yhat, none = which.blank(), np.empty(case.begin), np.empty((0, which.quantiles))
    with kernels.use_level("portable"):
        assert which.kernel.play(state, Z[: case.begin], y[: case.begin], yhat, none, np.empty(0)) == 0
    return state


def run_shuffled(case: Case, which: EstimatorPlan) -> Outcome:
    """Serve rows in order, and settle the waiting ones in any order; some are never settled."""
    Z, y = draw_case(case)
    rng = np.random.default_rng(5)
    state, records = which.blank(), np.full((len(Z), which.kernel.record_size), np.nan)
    waiting: list[int] = []
    for t in range(len(Z)):
        assert which.kernel.serve(state, Z[t], records[t], True) == 0
        waiting.append(t)
        while len(waiting) > 1 and rng.random() < 0.55:
            due = waiting.pop(int(rng.integers(len(waiting))))
            assert which.kernel.settle(state, records[due], float(y[due])) == 0
    return Outcome(state, records)


def run_peeked(case: Case, which: EstimatorPlan) -> Outcome:
    """Make records without commitment, three rows ahead of their labels; the rows count as come with the label."""
    (Z, y), delay = draw_case(case), 3
    state, records = which.blank(), np.zeros((len(y), which.kernel.record_size))
    for t in range(len(y)):
        assert which.kernel.serve(state, Z[t], records[t], False) == 0
        if t >= delay:
            due, numbers = t - delay, which.layout.view(state, "numbers")
            assert which.kernel.advance(state, Z[due]) == 0
            assert numbers[EstimatorNumber.SERVED] == due + 1
            records[due, RecordPart.SERIAL], records[due, RecordPart.UNCOUNTED] = due + 1, delay
            assert which.kernel.settle(state, records[due], y[due]) == 0
    return Outcome(state, records)
