r"""What a certificate needs to know about a learner, shipped by us or not.

A learner is certifiable when, for every t and u it allows,

$$\sum_{s\le t}\beta^{t-s}\,(f_s(x_s)-f_s(u)) \le \Phi_t(u)+\sum_{s\le t}\beta^{t-s}L_s,\qquad
  \Phi_t(u)=\tfrac12 w_t|u|^2+\text{floors}.$$

$L_t$ is the trace's `stability`, $w_t$ its `potential`. Everything is in present-day units: nothing grows like
$\beta^{-t}$.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from undrift import _check
from undrift._internal.discount import Discount, as_discount
from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import InputError
from undrift.losses import Loss
from undrift.trace import Trace

ALIKE = 1e-6
"""Columns that agree to this share of their size are the same run; kernel levels differ far less."""


class Observations(NamedTuple):
    r"""Weighted quadratic losses $\frac w2(r\cdot u-v)^2$, in order of rounds."""

    round: Rounds
    """Round of each observation, from 0, never decreasing (n,)."""
    row: Matrix
    """r (n, d)."""
    target: Vector
    """v (n,)."""
    weight: Vector
    """w >= 0, in the units of its own round (n,)."""

    def between(self, begin: int, end: int) -> Observations:
        """Return the observations number begin to end - 1."""
        span = slice(begin, end)
        return Observations(self.round[span], self.row[span], self.target[span], self.weight[span])

    def value(self, u: Matrix) -> Vector:
        """Return the loss of each observation at the comparator of its own round; u is (T, d)."""
        miss = np.einsum("nd,nd->n", self.row, u[self.round]) - self.target
        return np.asarray(0.5 * self.weight * miss * miss)


class Tangents(NamedTuple):
    r"""What a learner driven by gradients keeps of the losses: $f_t+g_t\cdot u-a_t+\frac\gamma2(g_t\cdot u-a_t)^2$."""

    gradient: Matrix
    """g (T, d)."""
    at: Vector
    """a, the gradient times the learner's own point (T,)."""
    value: Vector
    """f, the learner's losses (T,)."""
    curvature: float
    """gamma >= 0."""
    leaders: Matrix
    """The points after each round, at which all that is kept is least, but for rounding (T, d)."""


def no_observations(dim: int) -> Observations:
    """Return no observations at all."""
    return Observations(np.zeros(0, dtype=np.int64), np.zeros((0, dim)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Template:
    r"""The promise of a learner: its discount, its loss, and whom it may be compared with.

    Parameters
    ----------
    beta
        The discount of the promise, in (0, 1], a number or a `Discount`.
    betas
        A discount for each round in place of the constant one (T,): what was seen before round t counts $\beta_t$ times
        as much from then on. 0 is a fresh start; the first number does not matter. None: `beta` in every round.
    weights
        How often each round's loss counts (T,): the promise then is about these losses. None: once.
    movement
        Price $\tau$ of squared movement, or of each step (T - 1,): the promise then is, for every path u,
        $\sum_tf_t(x_t)-f_t(u_t)\le\sum_tL_t+\sum_t\frac{w_t}2|u_t|^2+\tau\sum_t|u_{t+1}-u_t|^2$; movement into a round
        with $w_t>0$, where the learner started afresh, is free. None: the promise with the discount.
    loss
        The loss it is stated for; None: whichever loss is asked for.
    limit
        Largest $|u_t\cdot z_s|$, $s\le t$, it covers; infinite for squared loss, $BR$ for AIOLI.
    floors
        Pseudo-observations that entered the learner's state, hence $\Phi_t$: raised pivots. None: none.
    surrogates
        The quadratic losses that the learner keeps in place of the true ones, up to constants. None: the losses.
    tangents
        What a learner driven by gradients keeps in place of the losses: comparators are charged by these. None: by the
        losses.
    bound
        Largest $|u_t|$ it covers; infinite by default.
    blur
        Price of residuals that the learner took for rounding and dropped: a comparator u misses, in round t, at most
        $\sum_jb_{tj}u_j^2$ of squared residual (T, d). None: nothing was dropped.
    least_cost
        With `movement`: what no path pays less than, rounding included. The prices of the rounds must add up to the
        learner's loss less this; what rounding in its state took from them is added. None: they are believed.
    restart_cost
        What rounds that the learner had to ignore and fresh starts cost, beyond its stability (T,). None: nothing.
    replayed
        The run as a fresh learner of the same parameters plays it; a trace is compared with it. None: it is believed.

    Examples
    --------
    >>> Template(beta=0.99).discount.beta
    0.99
    """

    beta: InitVar[float | Discount]
    _: KW_ONLY
    betas: Vector | None = None
    weights: Vector | None = None
    movement: float | Vector | None = None
    loss: Loss | None = None
    limit: float = math.inf
    floors: Observations | None = None
    surrogates: Observations | None = None
    tangents: Tangents | None = None
    bound: float = math.inf
    blur: Matrix | None = None
    least_cost: float | None = None
    restart_cost: Vector | None = None
    replayed: Trace | None = None
    discount: Discount = field(init=False)

    def __post_init__(self, beta: float | Discount) -> None:
        object.__setattr__(self, "discount", as_discount("Template", beta))
        _check.interval("Template", "limit", self.limit, "[0, inf]")
        if self.betas is not None and not ((self.betas >= 0.0) & (self.betas <= 1.0)).all():
            raise InputError(f"Template: betas must be in [0, 1], got {self.betas.min():g} to {self.betas.max():g}")

    def fits(self, trace: Trace, Z: Matrix, y: Vector) -> bool:
        """Whether the learner of this promise can have left this trace on these rows and labels."""
        mine = self.replayed
        if mine is None or mine.stability is None or trace.stability is None:
            return True
        return alike(trace.yhat, mine.yhat, y) and alike(trace.stability, mine.stability, y * y)


def alike(a: Vector, b: Vector, unit: Vector) -> bool:
    """Whether two columns agree to a millionth of their size or of the size of `unit`."""
    size = max(float(np.abs(b).max(initial=0.0)), float(np.abs(unit).max(initial=0.0)))
    return bool((np.abs(a - b) <= ALIKE * size).all())


@runtime_checkable
class Certifiable(Protocol):
    """A learner that can say, for a stream it played from its first round, which promise covers the run."""

    def template(self, Z: Matrix, y: Vector) -> Template:
        """Return the promise for this run, floors included; the learner itself is unchanged."""
        ...


@dataclass(frozen=True, eq=False)
class Leaf:
    """One certifiable learner inside a composite, with the stream as that learner saw it."""

    name: str
    """How the certificate calls it."""
    learner: object
    """A certifiable learner or a `Template`."""
    Z: Matrix
    """Rows in the leaf's own coordinates (n, d')."""
    y: Vector
    """Labels in the leaf's own units (n,)."""
    trace: Trace
    """The leaf's own predictions, stability and potential over those rounds."""
    comparator: Matrix | None = None
    """The caller's comparator in the leaf's coordinates (n, d'), when it has one; None: the leaf cannot express it."""
    rounds: Rounds | None = None
    """Which rounds of the composite the leaf played (n,); None: all of them. The others count as measured."""
    unit: float = 1.0
    """Loss of the composite per loss of the leaf: s^2 when the leaf's labels are y / s under squared loss."""
    labels: Vector | None = None
    """The true labels (n,), in the leaf's units, where it learned from others: comparators are scored with them."""


@runtime_checkable
class Composite(Protocol):
    """A pipeline made of certifiable leaves: a mixture, two levels, a scaler before a learner."""

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the leaves over the rounds (Z, y), the comparator translated where that is exact."""
        ...


@runtime_checkable
class Designed(Composite, Protocol):
    """A composite that prepares raw rows itself: comparators live in its design, not in the rows it was given."""

    def design(self, Z: Any, y: Any) -> tuple[Any, ...]:
        """Return the rows and labels comparators are for, first of all, of the rounds that count."""
        ...
