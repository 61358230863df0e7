r"""The modular reduction, in present-day units: what a learner can have lost, whatever the comparator did.

With $F_t=\Phi_t+\sum_{s\le t}\beta^{t-s}f_s$, a learner that keeps its promise has lost at most

$$\sum_tf_t(x_t)\le\sum_tL_t+(1-\beta)\sum_tF_t(u_t)+\beta F_T(u_T).$$

With a discount $\beta_t$ for every round, 0 for a fresh start, $F_t=\Phi_t+\sum_{s\le t}\beta_{s+1}\dots\beta_tf_s$ and
the factors are $1-\beta_{t+1}$, and 1 in the last round.

Nothing is subtracted here, so nothing cancels: this form gives the bound, the slack and whether the certificate holds.
The regret's bound is this less the comparator's loss, and equals the four terms of Theorem 1, which are shown beside
it: $\Phi_1(u_1)$ (start), $\sum_tL_t$ (stability), $\beta\sum_{t<T}F_t(u_{t+1})-F_t(u_t)$ (variation) and
$\sum_{t<T}\Phi_{t+1}(u_{t+1})-\beta\Phi_t(u_{t+1})$ (potential drift). Key `d2d`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from undrift._internal import html
from undrift._internal.discount import discounted_sums, forgetting_rates
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, Squared
from undrift.regret._input import add_exactly, add_sizes, margins, moves
from undrift.regret.quadratic import (
    least_values,
    merge,
    quadratic_values,
    squared_losses,
    squares_growth,
    tangent_values,
)
from undrift.regret.remembered import remembered_loss
from undrift.template import Template, no_observations

TOLERANCE = 1e-12
"""A slack this far below zero, as a share of `scale`, is rounding."""
ROUNDING = 4.0 * float(np.finfo(np.float64).eps)
"""Roundings in a product u.z, as a share of its terms' sizes, for each feature."""


@dataclass(frozen=True)
class Certificate:
    """Measured dynamic regret of a run beside the bound that covers it.

    Examples
    --------
    >>> c = Certificate(certified=11.0, incurred=10.0, comparator_loss=8.0, regret=2.0, start=1.0, stability=1.5,
    ...                 variation=0.5, potential_drift=0.0, scale=30.0)
    >>> c.bound, c.slack, c.ratio, c.holds
    (3.0, 1.0, 1.375, True)
    """

    certified: float
    """What the learner can have lost at most: everything else follows from it."""
    incurred: float
    """The learner's total loss."""
    comparator_loss: float
    """The comparator's total loss."""
    regret: float
    """The learner's loss minus the comparator's."""
    start: float
    """Distance of the first comparator from where the learner began."""
    stability: float
    """Price of the rounds: how much each label moved the learner. May be negative: where hints were good."""
    variation: float
    """Price of the comparator's moves, weighed on the losses the learner still remembered."""
    potential_drift: float
    """Price of a changing regularisation; raised pivots and the rounding below are counted here."""
    scale: float
    """Sum of the sizes of the terms of `certified` and of the loss: what rounding is measured against."""
    variation_error: float = 0.0
    """The part of `variation` that stands for rounds outside a window; already included."""
    rounding: float = 0.0
    """The part of `potential_drift` that stands for residuals which the learner took for rounding, and for the rounding
    of the comparator's predictions here."""
    excess: float = 0.0
    """Composites: the measured loss over the leaf's; 0 for a single learner."""
    floors: int = 0
    """Raised pivots counted in the terms."""
    leaf: str = ""
    """Composites: the leaf this certificate goes through."""
    leaves_left_out: int = 0
    """Composites: leaves that were not tried, because all of them together would have taken too long."""

    @property
    def bound(self) -> float:
        """The regret cannot be larger: start + stability + variation + potential drift + excess."""
        return self.certified - self.comparator_loss

    @property
    def slack(self) -> float:
        """Bound minus regret."""
        return self.certified - self.incurred

    @property
    def ratio(self) -> float:
        """Certified / comparator loss: the loss is certified within this factor of the comparator's."""
        if self.comparator_loss > 0.0:
            return self.certified / self.comparator_loss
        return math.inf if self.certified > 0.0 else 1.0

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: losses are not negative, so no regret is larger than the loss incurred."""
        return self.bound >= self.incurred * (1.0 - 1e-9)

    def _repr_html_(self) -> str:
        terms = ("start", "stability", "variation", "potential_drift", "excess")
        facts = {
            "loss": f"{self.incurred:.6g}",
            "the comparator's loss": f"{self.comparator_loss:.6g}",
            "regret, measured": f"{self.regret:.6g}",
            "regret, at most": f"{self.bound:.6g}" + ("" if self.holds else ", which does not hold"),
            **{f"of this: {name.replace('_', ' ')}": f"{getattr(self, name):.6g}" for name in terms},
        }
        return html.facts_table("Certificate", facts | ({"through": self.leaf} if self.leaf else {}))

    @property
    def holds(self) -> bool:
        """Whether the regret is below the bound, to rounding."""
        return self.slack >= -TOLERANCE * self.scale


def add_certificates(parts: Sequence[Certificate]) -> Certificate:
    """Return the certificate of a run whose stretches are certified one by one: every number is the sum of theirs.

    A quantity that cannot be added up is refused, so that no field of a certificate is lost on the way.

    >>> zeros = dict.fromkeys(("regret", "start", "stability", "variation", "potential_drift"), 0.0)
    >>> stretch = Certificate(certified=3.0, incurred=2.0, comparator_loss=1.0, scale=9.0, floors=1, **zeros)
    >>> total = add_certificates([stretch, stretch])
    >>> total.certified, total.bound, total.scale, total.floors
    (6.0, 4.0, 18.0, 2)
    """
    return Certificate(**{one.name: _add([getattr(part, one.name) for part in parts]) for one in fields(Certificate)})


def _add(values: list[Any]) -> Any:
    """Return the sum of numbers, or the names of all leaves in order, each once."""
    if all(isinstance(value, str) for value in values):
        return ", then ".join(dict.fromkeys(values))
    if all(type(value) is int for value in values):
        return sum(values)
    if all(isinstance(value, float) for value in values):
        return math.fsum(values)
    raise TypeError(f"certificates cannot be added: {values[0]!r} is neither a number nor the name of a leaf")


def d2d_terms(
    Z: Matrix, y: Vector, u: Matrix, yhat: Vector, stability: Vector, potential: Vector, template: Template, loss: Loss
) -> Certificate:
    """Return the certificate for checked input: arrays of T rounds, the comparator one row a round.

    Notes
    -----
    Key `d2d`. Squared loss: O(T d^2) by sufficient statistics. Logistic loss: T evaluations for each move while moves
    are few; many are taken in blocks of rounds, O(T^1.5) or less, with the bound on what that leaves open added to
    `variation` and shown as `variation_error`. Other losses: T evaluations for each move.
    """
    rates = forgetting_rates(template.discount, len(y), template.betas)
    counts = np.ones(len(y)) if template.weights is None else template.weights
    incurred, theirs = counts * loss.value(yhat, y), counts * loss.value(margins(Z, u), y)
    raised = no_observations(Z.shape[1]) if template.floors is None else template.floors
    ridge = 0.5 * potential * np.einsum("td,td->t", u, u)
    error = 0.0
    if template.tangents is not None:
        charged, squares = tangent_values(template.tangents, u, rates, counts), quadratic_values(raised, u, rates)
        remembered, roundings = [_weigh(charged.value, rates), _weigh(squares, rates)], charged.error
    elif isinstance(loss, Squared):
        squares = quadratic_values(merge(squared_losses(Z, y, counts), raised), u, rates)
        remembered, roundings = [_weigh(squares, rates)], _rounding(Z, y, u, squares + ridge, template, loss, rates)
    else:
        squares = quadratic_values(raised, u, rates)
        losses = remembered_loss(Z, y, u, template.discount, loss, template.betas, template.weights)
        remembered, error = [np.array(losses), _weigh(squares, rates)], losses.error
        roundings = _rounding(Z, y, u, squares + ridge, template, loss, rates)
    rounding = add_exactly(_weigh(roundings, rates))
    if template.tangents is not None:  # what rounding in the learner's state took from the prices of the rounds
        least = least_values(template.tangents, potential, rates, counts, template.bound)
        rounding += max(0.0, add_exactly(incurred, -stability, -_weigh(least, rates)))
    terms = [stability, _weigh(ridge, rates), *remembered, np.array([rounding])]
    certified = add_exactly(*terms)
    lifted = raised.value(u)
    first, later = lifted[raised.round == 0], lifted[raised.round > 0]
    # Phi_{t+1} - beta Phi_t, isotropic part, at the comparator of round t + 1
    faded = 0.5 * (potential[1:] - np.exp(-rates[1:]) * potential[:-1]) * np.einsum("td,td->t", u[1:], u[1:])
    start = add_exactly(ridge[:1], first)
    drift = add_exactly(faded, later, np.array([rounding]))
    spent, compared = add_exactly(stability), add_exactly(theirs)
    moving = math.fsum([certified, -spent, -compared, -start, -drift]) if len(moves(u)) else error
    return Certificate(
        certified=certified,
        incurred=add_exactly(incurred),
        comparator_loss=compared,
        regret=add_exactly(incurred, -theirs),
        start=start,
        stability=spent,
        variation=moving,
        potential_drift=drift,
        scale=add_sizes(*terms, incurred),
        variation_error=error,
        rounding=rounding,
        floors=len(raised.round),
    )


def _weigh(values: Vector, rates: Vector) -> Vector:
    """Return (1 - beta_{t+1}) values_t for every round but the last, whose value counts in full."""
    return np.append(-np.expm1(-rates[1:]) * values[:-1], values[-1:])


def _rounding(
    Z: Matrix, y: Vector, u: Matrix, squares: Vector, template: Template, loss: Loss, rates: Vector
) -> Vector:
    r"""Bound what rounding can add to what past rounds lose at each round's comparator.

    A row that is off by e changes the residual of a comparator by e.u. In the norm whose square is a sum of squares S,
    all such changes together are at most sqrt(Q), where Q is the discounted sum of (e.u)^2 / 2: S grows by at most
    2 sqrt(S Q) + Q. Residuals that the learner dropped as rounding are such changes (`template.blur`), and so is the
    rounding of u.z itself, at most `ROUNDING` d sum_j |u_j z_j|; other losses change by their slope times that.
    """
    share, counts = Z.shape[1] * ROUNDING, np.ones(len(y)) if template.weights is None else template.weights
    if isinstance(loss, Squared):
        blur = Z.shape[1] * share**2 * Z * Z * counts[:, None] + (0.0 if template.blur is None else template.blur)
        return squares_growth(squares, blur, u, rates)
    steep = np.abs(loss.slope(margins(Z, u), y)).max(initial=1.0)
    out = share * steep * np.einsum("td,td->t", discounted_sums(np.abs(Z) * counts[:, None], rates), np.abs(u))
    if template.blur is None or template.surrogates is None:
        return np.asarray(out)
    kept = squares + quadratic_values(template.surrogates, u, rates)
    return np.asarray(out + squares_growth(kept, template.blur, u, rates))
