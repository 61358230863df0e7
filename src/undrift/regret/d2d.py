r"""The modular reduction: four terms, in present-day units, that dynamic regret cannot exceed.

$$\sum_t f_t(x_t)-f_t(u_t)\le \underbrace{\Phi_1(u_1)}_{\text{start}}+\underbrace{\sum_t L_t}_{\text{stability}}
+\underbrace{\beta\sum_{t<T}F_t(u_{t+1})-F_t(u_t)}_{\text{variation}}
+\underbrace{\sum_{t<T}\Phi_{t+1}(u_{t+1})-\beta\Phi_t(u_{t+1})}_{\text{potential drift}}$$

with $F_t=\Phi_t+\sum_{s\le t}\beta^{t-s}f_s$. Key `d2d`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.discount import Discount
from undrift.losses import Loss, Squared
from undrift.regret._input import margins, moves
from undrift.regret.blocked_moves import moves_total
from undrift.regret.quadratic import merge, quadratic_jumps, squared_losses
from undrift.template import Observations, no_observations

TOLERANCE = 1e-12
"""A slack this far below zero, as a share of `scale`, is rounding."""


@dataclass(frozen=True)
class Certificate:
    """Measured dynamic regret of a run beside the bound that covers it, term by term.

    Examples
    --------
    >>> c = Certificate(regret=2.0, start=1.0, stability=1.5, variation=0.5, potential_drift=0.0,
    ...                 incurred=10.0, comparator_loss=8.0)
    >>> c.bound, c.slack, c.ratio, c.holds
    (3.0, 1.0, 1.375, True)
    """

    regret: float
    """The learner's loss minus the comparator's."""
    start: float
    """Distance of the first comparator from where the learner began."""
    stability: float
    """Price of the rounds: how much each label moved the learner."""
    variation: float
    """Price of the comparator's moves, weighed on the losses the learner still remembered."""
    potential_drift: float
    """Price of a changing regularisation; raised pivots are counted here."""
    incurred: float
    """The learner's total loss."""
    comparator_loss: float
    """The comparator's total loss."""
    variation_error: float = 0.0
    """The part of `variation` that stands for rounds outside a window; already included."""
    excess: float = 0.0
    """Composites: the measured loss over the leaf's; 0 for a single learner."""
    floors: int = 0
    """Raised pivots counted in the terms."""
    leaf: str = ""
    """Composites: the leaf this certificate goes through."""

    @property
    def bound(self) -> float:
        """The sum of the terms: the regret cannot be larger."""
        return math.fsum((self.start, self.stability, self.variation, self.potential_drift, self.excess))

    @property
    def slack(self) -> float:
        """Bound minus regret."""
        return math.fsum((self.start, self.stability, self.variation, self.potential_drift, self.excess, -self.regret))

    @property
    def ratio(self) -> float:
        """(comparator loss + bound) / comparator loss: the loss is certified within this factor of the comparator's."""
        certified = self.comparator_loss + self.bound
        if self.comparator_loss > 0.0:
            return certified / self.comparator_loss
        return math.inf if certified > 0.0 else 1.0

    @property
    def scale(self) -> float:
        """Sum of the sizes of terms and losses: what rounding is measured against."""
        terms = (self.start, self.stability, self.variation, self.potential_drift, self.excess)
        return math.fsum((*(abs(term) for term in terms), abs(self.incurred), abs(self.comparator_loss)))

    @property
    def holds(self) -> bool:
        """Whether the regret is below the bound, to rounding."""
        return self.slack >= -TOLERANCE * self.scale


def d2d_terms(
    Z: Matrix,
    y: Vector,
    u: Matrix,
    yhat: Vector,
    stability: Vector,
    potential: Vector,
    discount: Discount,
    loss: Loss,
    floors: Observations | None = None,
) -> Certificate:
    """Return the four terms for checked input: arrays of T rounds, the comparator one row a round.

    Notes
    -----
    Key `d2d`. Squared loss: O(T d^2) by sufficient statistics. Logistic loss: T evaluations for each move while moves
    are few; many are taken in blocks of rounds, O(T^1.5) or less, with the bound on what that leaves open added to
    `variation` and shown as `variation_error`.
    """
    incurred, theirs = loss.value(yhat, y), loss.value(margins(Z, u), y)
    raised = no_observations(Z.shape[1]) if floors is None else floors
    at = moves(u)
    norm = np.einsum("td,td->t", u, u)
    # Phi_t(u_{t+1}) - Phi_t(u_t), isotropic part; floors ride along with the losses.
    ridge = 0.5 * potential[at] * np.einsum("td,td->t", u[at + 1] - u[at], u[at + 1] + u[at])
    error = 0.0
    history: list[Vector] = []
    if not discount.beta:
        pass  # no memory: nothing the comparator leaves behind is remembered
    elif isinstance(loss, Squared):
        history = [quadratic_jumps(merge(squared_losses(Z, y), raised), u, at, discount)]
    else:
        total = moves_total(Z, y, u, at, discount, loss)
        error = discount.beta * total.error
        history = [np.array([total.value])]
        if len(raised.round):
            history.append(quadratic_jumps(raised, u, at, discount))
    moving = math.fsum(np.concatenate([ridge, *history]).tolist())
    lifted = raised.value(u)
    drift = 0.5 * (potential[1:] - discount.beta * potential[:-1]) * norm[1:]
    return Certificate(
        regret=math.fsum([*incurred.tolist(), *(-theirs).tolist()]),
        start=math.fsum([*(0.5 * potential[:1] * norm[:1]).tolist(), *lifted[raised.round == 0].tolist()]),
        stability=math.fsum(stability.tolist()),
        variation=discount.beta * moving + error,
        potential_drift=math.fsum([*drift.tolist(), *lifted[raised.round > 0].tolist()]),
        incurred=math.fsum(incurred.tolist()),
        comparator_loss=math.fsum(theirs.tolist()),
        variation_error=error,
        floors=len(raised.round),
    )
