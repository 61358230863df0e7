r"""A lower bound on what every path pays, whatever was rounded on the way: what the certificate of `DriftVAW` rests on.

A path pays $\sum_tf_t(u_t)+\frac\lambda2|u_1|^2+\tau\sum_t|u_{t+1}-u_t|^2$. As $\frac12r^2\ge sr-\frac12s^2$ for every
s, for **any** numbers $s_t$, with the sums still to come $S_t=\sum_{k\ge t}s_kz_k$, it pays at least

$$D(s)=-\sum_t\big(\tfrac12s_t^2+s_ty_t\big)-\frac1{2\lambda}|S_1|^2-\frac1{4\tau}\sum_{t>1}|S_t|^2,$$

with equality at the residuals of the best path. Those follow from the gains $K_t$ and errors $e_t$ of the learner,
backwards: $s_t=-e_t/(1+h_t)-K_t\cdot S_{t+1}$. Errors in them, such as rounding in the learner's state, lower D by
their square, and never raise it. Key `drift`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Rounds, Vector
from undrift.kernels.definitions import DriftCount, DriftEvent
from undrift.learners.row_context import ORDINARY, RowContext

EPS = float(np.finfo(np.float64).eps)
REFINEMENTS = 2
"""How often the residuals are corrected by what they miss, while that raises the bound."""
GAIN = 1e-13
"""A correction that raised the bound by less than this share of its terms was the last."""


class _DriftRun(NamedTuple):
    """A run of `DriftVAW`, rows and labels times the roots of their weights."""

    Z: Matrix
    y: Vector
    m: Vector
    """The leader's predictions (T,)."""
    part: Vector
    """1 / (1 + h), and 0 in rounds that were not learned (T,)."""
    gains: Matrix
    """K (T, d)."""
    starts: Rounds
    """Rounds in which it began or started afresh."""

    @property
    def start_flags(self) -> Vector:
        """1 in these rounds, 0 in all others (T,)."""
        flags = np.zeros(len(self.y))
        flags[self.starts] = 1.0
        return flags


def least_path_cost(reg: float, tau: float, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> float:
    """Return a number that no path pays less than, of losses, start and movement, as a `DriftVAW` is priced for it.

    Where the learner starts afresh, a path pays for a new start and not for its step.
    """
    if not len(y):
        return 0.0
    run = _play(reg, tau, Z, y, context)
    slowness = 0.25 / tau * context.times(len(y))
    slowness[run.starts] = 0.5 / reg
    s = _residuals(run, run.y - run.m)
    best, scale = _dual_value(run, s, slowness)
    for _ in range(REFINEMENTS):
        missed = _primal_predictions(run, s, slowness) - run.y - s
        s = s + _residuals(run, _innovations(run, -missed))
        value, _ = _dual_value(run, s, slowness)
        done, best = not value > best + GAIN * scale, max(value, best)
        if done:
            break
    return best


def _play(reg: float, tau: float, Z: Matrix, y: Vector, context: RowContext) -> _DriftRun:
    """Play the rows with a fresh learner and keep its gains."""
    T, d = Z.shape
    m, h, event = (np.empty((T, 1)) for _ in range(3))
    gains = np.empty((T, d))
    state = (np.eye(d)[None] / math.sqrt(reg), np.zeros((1, d)), np.zeros((1, len(DriftCount))), np.array([reg]))
    step, count = np.array([0.5 / tau]), context.weights(T)
    kernels.drift_play(*state, step, 0, Z, y, m, h, event, context.weight, context.elapsed, gains)
    root, learned = np.sqrt(count), event[:, 0] != DriftEvent.IGNORED
    starts = np.union1d([0], np.flatnonzero(event[:, 0] != DriftEvent.LEARNED)).astype(np.int64)
    part = learned / (1.0 + count * h[:, 0])
    return _DriftRun(root[:, None] * Z, root * y, root * m[:, 0], part, gains, starts)


def _residuals(run: _DriftRun, error: Vector) -> Vector:
    """Return the residuals of the best path, backwards from the last round; `error` is what the leader missed."""
    out = np.empty(len(error))
    kernels.drift_residuals(run.Z, run.gains, run.part * error, run.start_flags, out)
    return out


def _innovations(run: _DriftRun, y: Vector) -> Vector:
    """Return by how much the leader misses other labels on the same rows."""
    out = np.empty(len(y))
    kernels.drift_errors(run.Z, run.gains, y, run.start_flags, out)
    return out


def _sums_to_come(run: _DriftRun, terms: Matrix) -> Matrix:
    """Return the sum of each round's terms and of those of all later rounds before the next fresh start."""
    out = np.empty_like(terms)
    for a, b in pairwise([*run.starts.tolist(), len(terms)]):
        out[a:b] = np.cumsum(terms[a:b][::-1], axis=0)[::-1]
    return out


def _primal_predictions(run: _DriftRun, s: Vector, slowness: Vector) -> Vector:
    """Return the predictions of the path that is the best one if s are its residuals: each step is -2 slowness S_t."""
    steps = -2.0 * slowness[:, None] * _sums_to_come(run, s[:, None] * run.Z)
    out = np.empty(len(s))
    for a, b in pairwise([*run.starts.tolist(), len(s)]):
        out[a:b] = np.einsum("td,td->t", np.cumsum(steps[a:b], axis=0), run.Z[a:b])
    return out


def _dual_value(run: _DriftRun, s: Vector, slowness: Vector) -> tuple[float, float]:
    """Return D(s), at most: the rounding of its sums is taken off; and the sum of the sizes of its terms."""
    terms = s[:, None] * run.Z
    to_come = _sums_to_come(run, terms)
    # Each addition is off by half a rounding of its result, each term by half a rounding of its own.
    off = EPS * _sums_to_come(run, np.sum(np.abs(to_come) + np.abs(terms), axis=1)[:, None])[:, 0]
    left = np.linalg.norm(to_come, axis=1) + off
    paid, gained = slowness * left * left, 0.5 * s * s + s * run.y
    value, scale = -math.fsum([*paid.tolist(), *gained.tolist()]), math.fsum([*paid.tolist(), *np.abs(gained).tolist()])
    return value - 8.0 * EPS * scale, scale
