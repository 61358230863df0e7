"""Discounted AIOLI: online logistic regression that forgets, without learning rates."""

from __future__ import annotations

from typing import Any

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.kernels.definitions import Hint
from undrift.learners.base import Columns
from undrift.learners.information import InformationLearner
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.losses import logistic, sigmoid
from undrift.template import Observations


class DiscountedAIOLI(InformationLearner):
    r"""Logistic regression on a drifting stream: a row of age $k$ counts $\beta^k$.

    Each past row is replaced by a quadratic that lies below its loss for every $x$ with $|x\cdot z| \le BR$; the
    coming row enters with both labels. Predictions are log-odds of the label +1.

    Parameters
    ----------
    beta
        Discount factor in (0, 1], 0.99 if neither it nor `half_life` is given; 1 never forgets (plain AIOLI).
    half_life
        In place of `beta`: rounds after which a row counts half.
    reg
        Ridge $\lambda > 0$, in squared feature units; it is forgotten like the data.
    bound, radius
        $B$ and $R$: the guarantee is against every $u$ with $|u| \le B$ on rows with $|z| \le R$; both 1 by default.
        Only $1 + BR$ matters. Larger is more careful with confident rows, and follows fast changes better.
    curvature
        In place of the two: $1/(1 + BR)$ in (0, 1].

    Notes
    -----
    Guarantee `aioli`, also of rows with weights: a heavy row moves the log-odds by no more than the logarithm of its
    weight. Labels may be -1 and +1, 0 and 1, or booleans. O(d^2) time a round, O(d^2) memory. Floors as in
    `DiscountedVAW`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> y = rng.random(500) < 1 / (1 + np.exp(-3 * Z[:, 0]))
    >>> model = DiscountedAIOLI(beta=1.0, bound=4.0)
    >>> trace = model.play(Z, y)
    >>> bool(model.predict([2.0, 0.0]) > 3.0)
    True
    """

    binary = True

    def __init__(
        self,
        *,
        beta: float | None = None,
        half_life: float | None = None,
        reg: float = 1.0,
        bound: float | None = None,
        radius: float | None = None,
        curvature: float | None = None,
    ) -> None:
        super().__init__(beta=beta, half_life=half_life, reg=reg, bound=bound, radius=radius, curvature=curvature)
        if curvature is not None:
            if bound is not None or radius is not None:
                raise InputError("DiscountedAIOLI: give curvature, or bound and radius, not both")
            self.curvature = _check.interval(self, "curvature", curvature, "[1e-100, 1]")
        else:
            B = _check.interval(self, "bound", 1.0 if bound is None else bound, "[0, 1e50]")
            R = _check.interval(self, "radius", 1.0 if radius is None else radius, "[0, 1e50]")
            self.curvature = 1.0 / (1.0 + B * R)
        self._inverse_curvature = np.array([1.0 / self.curvature])

    def _make_kernel(self) -> kernels.EnsembleKernel:
        return self._kernel_of_one(self._inverse_curvature, Hint.ZERO, np.zeros(1))

    @property
    def reach(self) -> float:
        """$BR$: the guarantee is against comparators with $|u\\cdot z|$ at most this on the rows so far."""
        return 1.0 / self.curvature - 1.0

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        yhat = np.empty((len(Z), 1))
        status = kernels.aioli_predict(self._state, self._betas, self.rounds, Z, yhat, elapsed=elapsed)
        _check.raise_on_status(self, status, Z.shape[1])
        return yhat[:, 0]

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        weight = context.weight
        if weight is None:
            yhat, printed = self._play_rows(self._state, self.rounds, Z, y, context)
            return Columns(yhat, self._exact_stability(yhat, printed, y), self._potential(len(y), context))
        h, point = np.empty((len(y), 1)), np.empty((len(y), 1))
        yhat, printed = self._play_rows(self._state, self.rounds, Z, y, context, h, point)
        price = self._exact_stability(yhat, printed, y)
        weighted = self._weighted_stability(yhat, h[:, 0], point[:, 0], y, weight)
        return Columns(yhat, np.where(weight == 1.0, price, weighted), self._potential(len(y), context))

    def _play_rows(
        self,
        state: layout.State,
        first: int,
        Z: Matrix,
        y: Vector,
        context: RowContext,
        leverage: Matrix | None = None,
        point: Matrix | None = None,
    ) -> tuple[Vector, Vector]:
        """Close a block of rounds of a state; return the log-odds and the paper's price of each round.

        `leverage` and `point` (rounds, 1) receive the row's leverage and where copies beyond the first are expanded.
        """
        yhat, printed, k = np.empty((len(y), 1)), np.empty((len(y), 1)), self._inverse_curvature
        counts = context.weight, context.elapsed, leverage, point
        status = kernels.aioli_play(state, self._betas, k, first, Z, y, yhat, printed, 1, *counts)
        _check.raise_on_status(self, status, Z.shape[1])
        return yhat[:, 0], printed[:, 0]

    def paper_stability(self, Z: Matrix, y: Vector) -> Vector:
        """Return the paper's price of each round of a run from the first round on."""
        return self._play_rows(layout.fresh(Z.shape[1], np.array([self.reg])), 0, Z, y, ORDINARY)[1]

    def _exact_stability(self, yhat: Vector, printed: Vector, y: Vector) -> Vector:
        r"""Return $\frac\kappa2(\sigma(y\hat y)^2/(1+k\kappa)-\tanh^2(\hat y/2))$: a round's loss less the leader's.

        The paper's $(1+BR)k\kappa/(1+k\kappa)$, which the kernel computes, is an upper bound on it. Where the leverage
        is so large that $\kappa$ cannot be told from the paper's number, a smaller one is subtracted.
        """
        k = self._curvature_at(yhat)
        taken = printed * self.curvature  # k kappa / (1 + k kappa)
        usable = k > 1e-290
        shrunk = np.divide(taken, k, out=np.zeros_like(k), where=usable)  # kappa / (1 + k kappa)
        kappa = shrunk / (np.maximum(1.0 - taken, 0.0) + 8.0 * np.finfo(np.float64).eps)
        exact = 0.5 * (shrunk * sigmoid(y * yhat) ** 2 - kappa * np.tanh(0.5 * yhat) ** 2)
        return np.where(usable, np.minimum(exact, printed), printed)

    def _weighted_stability(self, yhat: Vector, kappa: Vector, point: Vector, y: Vector, weight: Vector) -> Vector:
        r"""Return the price of rounds whose loss counts w times, the prediction being that of any round.

        With $v=\min(w,1)$, $\tau=\tanh(\hat y/2)$ and g the loss's slope, the first copy costs
        $\frac\kappa2((vg-\tau)^2/(1+vk\kappa)-\tau^2)$.
        It leaves a past with its minimum at $m_1$ and the leverage $\kappa_1=\kappa/(1+vk\kappa)$. The other
        $n=\max(w-1,0)$ copies are expanded at p, with slope g and curvature k there, and cost, with $a=p-m_1$,
        $n(\ell(\hat y)-\ell(p))+(ang+\frac12n^2g^2\kappa_1-\frac12a^2nk)/(1+nk\kappa_1)$. Key `aioli`.
        """
        once, copies, tilt = np.minimum(weight, 1.0), np.maximum(weight - 1.0, 0.0), np.tanh(0.5 * yhat)
        pull = once * logistic.slope(yhat, y) - tilt
        left = kappa / (1.0 + once * self._curvature_at(yhat) * kappa)
        moved = point - (yhat - left * pull)
        slope, bend = copies * logistic.slope(point, y), copies * self._curvature_at(point)
        grown = 1.0 + bend * left
        gains = [0.5 * pull**2 * left, copies * logistic.value(yhat, y), 0.5 * slope**2 * left / grown]
        losses = [0.5 * kappa * tilt**2, copies * logistic.value(point, y), 0.5 * moved**2 * bend / grown]
        across = np.abs(slope) * (np.abs(point) + np.abs(yhat) + left * np.abs(pull))
        rounding = 8.0 * np.finfo(np.float64).eps * (sum(gains) + sum(losses) + across)
        return np.asarray(sum(gains) - sum(losses) + moved * slope / grown + rounding)

    def _curvature_at(self, log_odds: Vector) -> Vector:
        """Return the curvature of a surrogate that is expanded there: sigma(a) sigma(-a) / (1 + BR)."""
        return self.curvature * logistic.curvature(log_odds, log_odds)

    def observation_weights(self, yhat: Vector, weight: Vector) -> Vector:
        """Return the curvature of each round's surrogate; of copies beyond the first the largest there can be."""
        copies = np.maximum(weight - 1.0, 0.0)
        return np.minimum(weight, 1.0) * self._curvature_at(yhat) + 0.25 * copies * self.curvature

    def _terms_of_promise(self, Z: Matrix, y: Vector, context: RowContext) -> dict[str, Any]:
        terms = super()._terms_of_promise(Z, y, context)
        if terms["blur"] is not None:
            terms["surrogates"] = self._surrogates(Z, y, context)
        return terms

    def _surrogates(self, Z: Matrix, y: Vector, context: RowContext) -> Observations:
        """Return the quadratics that a fresh learner keeps of the losses."""
        h, at, weight = np.empty((len(y), 1)), np.empty((len(y), 1)), context.weights(len(y))
        state, counts = layout.fresh(Z.shape[1], np.array([self.reg])), RowContext(weight, context.times(len(y)))
        yhat, _ = self._play_rows(state, 0, Z, y, counts, h, at)
        once, copies, point = np.minimum(weight, 1.0), np.maximum(weight - 1.0, 0.0), at[:, 0]
        bend = copies * self._curvature_at(point)
        weight = once * self._curvature_at(yhat) + bend
        slope = -once * logistic.slope(yhat, y) - copies * logistic.slope(point, y) + bend * (point - yhat)
        pull = np.divide(slope, weight, out=np.zeros_like(weight), where=weight > 0.0)
        return Observations(np.arange(len(y)), Z, yhat + pull, weight)
