"""DiscountedNewton: any convex loss, driven by its gradients."""

from __future__ import annotations

import os
from typing import Self

import numpy as np

from undrift import _check
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError
from undrift.learners.base import Columns, DiscountedLearner
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, RowContext
from undrift.losses import Loss, loss_named
from undrift.template import Tangents, Template

LEAST_RIDGE = 1e-8
"""The ridge is forgotten like the data, down to this share of it, ..."""
LEAST_SHARE = 1e-12
"""... and stays above this share of the curvature, so that the system to be solved is never singular in float64."""
EPS = float(np.finfo(np.float64).eps)


class DiscountedNewton(DiscountedLearner):
    r"""Linear prediction under any convex loss, on a drifting stream.

    With its gradient $g_s$ where the learner was, each past loss counts as
    $\hat f_s(u)=f_s(x_s)+g_s\cdot(u-x_s)+\frac\gamma2(g_s\cdot(u-x_s))^2$, times $\beta^k$ at age $k$; the next point
    minimises their sum and a ridge.

    Parameters
    ----------
    loss
        "absolute" (by default), "quantile(0.9)", "huber(1)", "poisson", "log_wealth", "squared", or an
        `undrift.losses.Loss` of your own with `value` and `slope` (such a learner cannot be saved to a file).
    beta, half_life
        Discount, as for the other learners; 0.99 if neither is given.
    gamma
        Curvature $\gamma\ge0$ along gradients, in inverse losses. 0 is for every convex loss: then the ridge grows with
        the gradients, $\lambda\sqrt{\sum\beta^{t-s}|g_s|^2}$, so that steps fit them (self-confident rates). Positive
        values suit exp-concave losses ("log_wealth": 0.5) and need O(d^3) time a round.
    reg
        Ridge $\lambda>0$. With $\gamma=0$ the inverse of the size of good coefficients; else in squared gradients.
    radius
        Largest $|x|$, and of comparators; None: no limit.

    Notes
    -----
    Guarantee `newton`, whatever the loss and $\gamma$: comparators are charged what the $\hat f_s$ say, at most the
    loss itself where that is convex (and, for $\gamma>0$, exp-concave enough). O(d) time a round for $\gamma=0$.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.exponential(size=3000)
    >>> model = DiscountedNewton("quantile(0.9)", half_life=1000, reg=0.3)
    >>> trace = model.play(np.ones((3000, 1)), y)
    >>> bool(0.88 < np.mean(y[1000:] <= trace.yhat[1000:]) < 0.92)
    True
    """

    supports = WEIGHT_AND_TIME
    _ridges = "[1e-50, 1e50]"

    def __init__(
        self,
        loss: str | Loss = "absolute",
        *,
        beta: float | None = None,
        half_life: float | None = None,
        gamma: float = 0.0,
        reg: float = 1.0,
        radius: float | None = None,
    ) -> None:
        if not isinstance(loss, (str, Loss)):
            raise InputError(f"{_check.name_of(self)}: loss must be a name or a Loss, got {_check.describe(loss)}")
        self._loss = loss_named(self, loss) if isinstance(loss, str) else loss
        self._given = loss
        self.gamma = _check.interval(self, "gamma", gamma, "[0, 1e50]")
        self.radius = np.inf if radius is None else _check.interval(self, "radius", radius, "(0, 1e50]")
        super().__init__(beta=beta, half_life=half_life, reg=reg, loss=self._loss.name, gamma=gamma, radius=radius)

    @property
    def loss(self) -> Loss:
        """The loss it is for."""
        return self._loss

    @property
    def coef(self) -> Vector:
        """The point it predicts with; zeros before any data."""
        return np.zeros(0) if self.dim is None else self._x.copy()

    def clone(self) -> Self:
        """Return a fresh learner with the same parameters."""
        return type(self)(**{**self.parameters, "loss": self._given})  # type: ignore[arg-type]  # its own parameters

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a data-only file that `undrift.load` reads; a loss of your own cannot be written."""
        if not isinstance(self._given, str):
            raise InputError(f"{_check.name_of(self)}: a loss of your own cannot be saved; use one of ours by name")
        super().save(path)

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these rows and labels, in terms of the gradients it saw."""
        fresh, leaders = self.clone(), np.empty_like(Z)
        replayed = fresh._close(Z, lambda: fresh._play(Z, y, context, leaders), context)
        slope, lost = self._loss.slope(replayed.yhat, y), self._loss.value(replayed.yhat, y)
        tangents = Tangents(slope[:, None] * Z, slope * replayed.yhat, lost, self.gamma, leaders)
        return Template(
            self.discount,
            betas=None if context.ordinary else context.discounts(self.discount, len(y)),
            weights=context.weight,
            loss=self._loss,
            tangents=tangents,
            bound=self.radius,
            replayed=replayed,
        )

    def _begin(self, dim: int) -> None:
        self._x, self._pull, self._sums = np.zeros(dim), np.zeros(dim), np.zeros(2)  # sums: gradients^2, ridge
        self._hessian = np.zeros((dim, dim) if self.gamma else (0, 0))

    def _arrays(self) -> Arrays:
        return {"point": self._x, "pull": self._pull, "sums": self._sums, "hessian": self._hessian}

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return np.asarray(np.sum(Z * self._x, axis=1))  # the point was chosen after the round before

    def _play(self, Z: Matrix, y: Vector, context: RowContext, leaders: Matrix | None = None) -> Columns:
        """Close rounds; `leaders` is filled with the point after each of them."""
        yhat, stability, potential = np.empty_like(y), np.empty_like(y), np.empty_like(y)
        beta, age = context.discounts(self._discount, len(y)), self.rounds + self._extra_age
        weight, elapsed = context.weights(len(y)), context.times(len(y))
        for t in range(len(y)):
            yhat[t] = np.sum(Z[t : t + 1] * self._x, axis=1)[0]
            g, age = float(self._loss.slope(yhat[t], y[t])) * Z[t], age + float(elapsed[t])
            step = self._newton_step if self.gamma else self._gradient_step
            stability[t] = step(g, float(g @ self._x), float(weight[t]), float(beta[t]), age)
            potential[t] = self._sums[1]
            if leaders is not None:
                leaders[t] = self._x
        return Columns(yhat, stability, potential)

    def _newton_step(self, g: Vector, at: float, weight: float, beta: float, age: float) -> float:
        """Add the round's quadratic, move to the minimiser, and return the round's price, w^2 g'A^-1 g / 2.

        A includes the round itself, `age` is the time passed at its end.
        """
        eye = np.eye(len(g))
        before = beta * (self._hessian + (self._sums[1] or self.reg) * eye)  # no ridge is kept before the first round
        with np.errstate(over="ignore", invalid="ignore"):
            h = float(g @ np.linalg.solve(before, g))
        self._hessian[...] = beta * self._hessian + weight * (self.gamma * np.outer(g, g))
        self._pull[...] = beta * self._pull + weight * ((self.gamma * at - 1.0) * g)
        ridge = self.reg * max(float(self._discount.power(np.array([age]))[0]), LEAST_RIDGE)
        self._sums[1] = max(ridge, LEAST_SHARE * float(np.diagonal(self._hessian).max()))
        self._x[...] = _minimise(self._hessian + self._sums[1] * eye, self._pull, self.radius)
        if not weight:
            return 0.0
        if not 0.0 <= h < np.inf:  # a past forgotten beyond float64: the largest price there is
            return weight * (0.5 / self.gamma)
        return weight * (0.5 / (self.gamma + 1.0 / (weight * h))) if h else 0.0

    def _gradient_step(self, g: Vector, at: float, weight: float, beta: float, age: float) -> float:
        """Add the round's gradient, let the ridge grow with it, move, and return the round's exact price."""
        g, at, old_ridge = weight * g, weight * at, float(self._sums[1])
        old = _least(self._pull, old_ridge, self.radius)
        self._sums[0] = beta * self._sums[0] + float(g @ g)
        self._sums[1] = max(beta * old_ridge, self.reg * float(np.sqrt(self._sums[0])))
        self._pull[...] = beta * self._pull - g
        new = _least(self._pull, float(self._sums[1]), self.radius)
        self._x[...] = _minimise_isotropic(self._pull, float(self._sums[1]), self.radius)
        return at + beta * old - new + 8.0 * EPS * (abs(at) + abs(old) + abs(new))


def _least(pull: Vector, ridge: float, radius: float) -> float:
    """Return the least value of ridge |u|^2 / 2 - pull.u over |u| <= radius."""
    size = float(np.linalg.norm(pull))
    if not size:
        return 0.0
    return -0.5 * size * size / ridge if size <= ridge * radius else radius * (0.5 * ridge * radius - size)


def _minimise_isotropic(pull: Vector, ridge: float, radius: float) -> Vector:
    """Return where that is."""
    size = float(np.linalg.norm(pull))
    return pull * (min(1.0 / ridge, radius / size) if size else 0.0)


def _minimise(A: Matrix, pull: Vector, radius: float) -> Vector:
    """Return the minimiser of u'A u / 2 - pull.u over |u| <= radius: where that binds, (A + k I) u = pull."""
    u = np.linalg.solve(A, pull)
    if float(np.linalg.norm(u)) <= radius:
        return np.asarray(u)
    values, vectors = np.linalg.eigh(A)
    along = (vectors.T @ pull) ** 2
    k, size = 0.0, np.inf
    for _ in range(50):  # Newton's method on 1 / |u(k)|, concave in k: it comes from below and does not overshoot
        size = float(np.sqrt(np.sum(along / (values + k) ** 2)))
        if size <= radius * (1.0 + 1e-12):
            break
        k += (size / radius - 1.0) * size * size / float(np.sum(along / (values + k) ** 3))
    return np.asarray(vectors @ ((vectors.T @ pull) / (values + k))) * min(1.0, radius / size)
