"""DriftVAW: online least squares that may drift, with a price on movement in place of a discount."""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import ModelFileError
from undrift.kernels.definitions import DriftCount, DriftEvent
from undrift.learners.base import Columns, Learner
from undrift.learners.drift_dual import least_path_cost
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
