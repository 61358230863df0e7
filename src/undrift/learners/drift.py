r"""DriftVAW: online least squares that may drift, with a price on movement in place of a discount.

Its certificate rests on a lower bound on what every path pays, whatever was rounded on the way (`least_path_cost`). A
path pays $\sum_tf_t(u_t)+\frac\lambda2|u_1|^2+\tau\sum_t|u_{t+1}-u_t|^2$. As $\frac12r^2\ge sr-\frac12s^2$ for every
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

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Rounds, Vector
from undrift.errors import ModelFileError
from undrift.kernels.definitions import DriftCount, DriftEvent
from undrift.learners.base import Columns, Learner
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, RowContext
from undrift.learners.vaw import HINTS, exact_stability
from undrift.template import Template


class DriftVAW(Learner):
    r"""Linear regression whose coefficients may drift: a path pays $\tau$ for every squared step.

    It follows the best *path* so far: before each round the least squares solution of
    $\frac\lambda2|u_1|^2+\tau\sum_s|u_{s+1}-u_s|^2+\frac12\sum_{s<t}(u_s\cdot z_s-y_s)^2$ (a Kalman filter of a random
    walk), and predicts with its last point, pulled towards a hint where it knows little.

    Parameters
    ----------
    tau
        Price $\tau > 0$ of squared movement, in losses per squared coefficient: large values hardly drift
        ($\tau\to\infty$ is `DiscountedVAW(beta=1)`), small ones follow every label.
    reg
        Ridge $\lambda > 0$ on the first point, in squared feature units.
    hint
        As in `DiscountedVAW`: "zero", "last" or "ridge".

    Notes
    -----
    Guarantee `drift`: for **every** path, with the exact prices $L_t$,
    $\sum f_t(x_t)-f_t(u_t)\le\frac\lambda2|u_1|^2+\tau\sum|u_{t+1}-u_t|^2+\sum L_t$, an equality at the best path.
    The covariance is kept as a triangular factor, which stays definite: O(d^3) time a round (d^3 / 6 rotated numbers
    for the movement, d^2 for the row), O(d^2) memory. A row whose leverage exceeds 1e12, say one a million times
    $\sqrt\lambda$, makes it start afresh; `restarts` counts them.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.arange(400)
    >>> Z = np.column_stack([np.ones(400), np.sin(t)])
    >>> y = 1.0 + (0.01 * t) * Z[:, 1]             # the slope drifts
    >>> model = DriftVAW(tau=10.0, hint="ridge")
    >>> trace = model.play(Z, y)
    >>> np.round(model.coef, 1).tolist()
    [1.0, 3.9]
    """

    supports = WEIGHT_AND_TIME

    def __init__(self, tau: float = 1e4, *, reg: float = 1.0, hint: str = "zero") -> None:
        self.tau = _check.interval(self, "tau", tau, "[1e-100, 1e100]")
        self.reg = _check.interval(self, "reg", reg, "[1e-100, 1e100]")
        self.hint = _check.choice(self, "hint", hint, HINTS)
        super().__init__(tau=tau, reg=reg, hint=hint)
        self._regs, self._steps = np.array([self.reg]), np.array([0.5 / self.tau])
        self._last = np.zeros(1)

    @property
    @thread_lock.hold_shared
    def coef(self) -> Vector:
        """The last point of the best path so far; zeros before any data."""
        return np.zeros(0) if self.dim is None else self._leader[0].copy()

    @property
    @thread_lock.hold_shared
    def lower_bound(self) -> float:
        r"""The least value, over all paths, of $\sum f_s(u_s)+\frac\lambda2|u_1|^2+\tau\sum|u_{s+1}-u_s|^2$ so far.

        No drifting linear model, whatever it knew in advance, lost less than this minus what its path pays, to
        rounding: 1e-9 of the squared labels where columns are nearly the same and leverages large.
        """
        return 0.0 if self.dim is None else float(self._counts[0, DriftCount.LEAST])

    @property
    @thread_lock.hold_shared
    def restarts(self) -> int:
        """How often a row of huge leverage made it start afresh; 0 on any sane data."""
        return 0 if self.dim is None else int(self._counts[0, DriftCount.RESTARTS])

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these rows and labels: a step in the time dt costs tau / dt."""
        with np.errstate(divide="ignore"):
            price = self.tau if context.elapsed is None else self.tau / context.elapsed[1:]
        return Template(
            1.0,
            weights=context.weight,
            movement=price,
            loss=self.loss,
            least_cost=least_path_cost(self.reg, self.tau, Z, y, context),
            replayed=self.clone().play(Z, y, weight=context.weight, elapsed=context.elapsed),
        )

    def _begin(self, dim: int) -> None:
        self._factor = np.eye(dim)[None, :, :] / np.sqrt(self.reg)
        self._leader = np.zeros((1, dim))
        self._counts = np.zeros((1, len(DriftCount)))

    def _min_array_size(self, dim: int) -> int:
        return dim * dim

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        m, h = np.empty((len(Z), 1)), np.empty((len(Z), 1))
        status = kernels.drift_predict(
            self._factor, self._leader, self._regs, self._steps, self.rounds, Z, m, h, elapsed
        )
        _check.raise_on_status(self, status, Z.shape[1])
        return answer(m, h, hints(self.hint, m, self._last))[:, 0]

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        m, h, event = (np.empty((len(y), 1)) for _ in range(3))
        state = (self._factor, self._leader, self._counts, self._regs, self._steps)
        status = kernels.drift_play(*state, self.rounds, Z, y, m, h, event, context.weight, context.elapsed)
        _check.raise_on_status(self, status, Z.shape[1])
        guess = hints(self.hint, m, np.concatenate((self._last, y[:-1])))
        yhat = answer(m, h, guess)
        stability = prices(m, h, guess, event, yhat, y, context.weight)
        self._last[0] = y[-1]
        potential = np.where(event[:, 0] == DriftEvent.LEARNED, 0.0, self.reg)
        if not self.rounds:
            potential[0] = self.reg
        return Columns(yhat[:, 0], stability[:, 0], potential)

    def _settle(self, record: Vector, y: float, context: RowContext, *, newest: bool) -> None:
        last = float(self._last[0])
        super()._settle(record, y, context, newest=newest)
        if not newest:
            self._last[0] = last  # the last label is that of the row served last

    def _arrays(self) -> Arrays:
        return {
            "factor": self._factor,
            "leader": self._leader,
            "counts": self._counts,
            "last": self._last,
        }

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        R = self._factor[0]
        if not (np.diagonal(R) > 0.0).all() or np.tril(R, -1).any():
            raise ModelFileError(f"{_check.name_of(self)}: the saved factor of the covariance is not upper triangular")


def hints(hint: str, m: Matrix, last: Vector) -> Matrix:
    """Return the hint of each round, one column, as wide as m."""
    if hint == "ridge":
        return m
    return np.broadcast_to((last if hint == "last" else np.zeros(1))[:, None], m.shape)


def answer(m: Matrix, h: Matrix, guess: Matrix) -> Matrix:
    """Return the predictions with these hints: the leader, pulled towards the hint where it knows little."""
    yhat, paper_price = np.empty_like(m), np.empty_like(m)
    kernels.hinted_predictions(m, h, np.ascontiguousarray(guess), np.zeros(len(m)), yhat, paper_price)
    return yhat


def prices(
    m: Matrix, h: Matrix, guess: Matrix, event: Matrix, yhat: Matrix, y: Vector, weight: Vector | None = None
) -> Matrix:
    """Return the exact price of each round; a row that was ignored costs its loss."""
    label, counts = y[:, None], None if weight is None else weight[:, None]
    lost = 0.5 * (yhat - label) ** 2 * (1.0 if counts is None else counts)
    return np.where(event == DriftEvent.IGNORED, lost, exact_stability(m, h, guess, label, counts))


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
