r"""What a certificate needs to know about a learner, shipped by us or not.

A learner is certifiable when, for every t and u it allows,

$$\sum_{s\le t}\beta^{t-s}\,(f_s(x_s)-f_s(u)) \le \Phi_t(u)+\sum_{s\le t}\beta^{t-s}L_s,\qquad
  \Phi_t(u)=\tfrac12 w_t|u|^2+\text{floors}.$$

$L_t$ is the trace's `stability`, $w_t$ its `potential`. Everything is in present-day units: nothing grows like
$\beta^{-t}$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.discount import Discount
from undrift.errors import InputError
from undrift.losses import Loss
from undrift.regret._input import Rounds, memory
from undrift.regret.quadratic import Observations
from undrift.trace import Trace


@dataclass(frozen=True, init=False)
class Template:
    r"""The promise of a learner: its discount, its loss, and whom it may be compared with.

    Parameters
    ----------
    beta
        The discount of the promise, in (0, 1], a number or a `Discount`.
    loss
        The loss it is stated for; None: whichever loss is asked for.
    limit
        Largest $|u_t\cdot z_s|$, $s\le t$, it covers; infinite for squared loss, $BR$ for AIOLI.
    floors
        Pseudo-observations that entered the learner's state, hence $\Phi_t$: raised pivots. None: none.
    lost
        What rounds that the learner had to ignore cost, beyond its stability (T,). None: nothing.

    Examples
    --------
    >>> Template(beta=0.99).discount.beta
    0.99
    """

    discount: Discount
    loss: Loss | None
    limit: float
    floors: Observations | None
    lost: Vector | None

    def __init__(
        self,
        beta: float | Discount,
        *,
        loss: Loss | None = None,
        limit: float = math.inf,
        floors: Observations | None = None,
        lost: Vector | None = None,
    ) -> None:
        object.__setattr__(self, "discount", memory(self, beta))
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "limit", _check.interval(self, "limit", limit, "[0, inf]"))
        object.__setattr__(self, "floors", floors)
        object.__setattr__(self, "lost", lost)


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


def checked_trace(who: object, trace: Trace, rounds: int, discount: Discount) -> tuple[Vector, Vector, Vector]:
    """Return predictions, stability and potential of a whole, matching trace, or say why it does not serve."""
    label = _check.name_of(who)
    if len(trace) != rounds:
        raise InputError(f"{label}: the trace must cover the {rounds} rounds given, it has {len(trace)}")
    if trace.first != 0:
        raise InputError(
            f"{label}: the trace is a fragment that starts after round {trace.first}; play the stream from its first "
            "round with a fresh learner"
        )
    if trace.stability is None or trace.potential is None:
        raise InputError(
            f"{label}: the trace of {trace.learner or 'this learner'} has no stability and potential, so no promise "
            "covers it; use a learner with a guarantee, or a Trace that carries both columns"
        )
    for name, own in (("beta", discount.beta), ("half_life", discount.half_life)):
        theirs = trace.parameters.get(name)
        if isinstance(theirs, (int, float)) and not math.isclose(theirs, own, rel_tol=1e-14):
            raise InputError(f"{label}: the template has {name}={own:g}, the trace was played with {name}={theirs:g}")
    yhat = _check.finite_array(who, "yhat", trace.yhat, (rounds,))
    stability = _check.finite_array(who, "stability", trace.stability, (rounds,))
    potential = _check.finite_array(who, "potential", trace.potential, (rounds,))
    return yhat, stability, potential
