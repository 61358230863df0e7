"""Certificates in words: whom the run is held against, and the one sentence to take away."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from undrift.report.words import count, number, percent
from undrift.run import RunData

TERMS = {
    "start": "getting started",
    "stability": "learning from each row",
    "variation": "the rival's changes",
    "potential_drift": "fading of the pull towards 0",
    "excess": "our mix over its leading part (measured)",
}
"""The terms of a bound, in plain words."""
USEFUL = 0.5
"""A certificate that allows more than this share of the rival's loss on top of it is not quoted first."""


@dataclass(frozen=True)
class Proof:
    """One certificate, ready to be read."""

    name: str
    """The comparator's key."""
    rival: str
    """The comparator in words."""
    leaf: str
    """The part of the model the certificate goes through."""
    refused: str | None
    """Why there is no certificate, or None."""
    regret: float
    """Measured: our loss minus the rival's."""
    bound: float
    """Proven: the regret cannot exceed this."""
    terms: dict[str, float]
    """The bound, term by term."""
    rival_loss: float
    """The rival's loss."""
    own_loss: float
    """Ours on the same rounds."""
    rounds: int
    """Rounds it covers."""
    refit_every: float | None
    """Rounds between the rival's changes, or None."""

    @property
    def slack(self) -> float:
        """Bound minus regret."""
        return self.bound - self.regret

    @property
    def holds(self) -> bool:
        """Whether the regret is below the bound, to rounding."""
        return self.slack >= -1e-12 * self._size

    @property
    def _size(self) -> float:
        """Sum of the sizes of terms and losses: what rounding is measured against."""
        return math.fsum((*(abs(term) for term in self.terms.values()), abs(self.rival_loss), abs(self.own_loss)))

    def above(self, loss: float) -> float:
        """Return a loss difference as a share of the rival's loss; infinite where that is nothing but rounding."""
        if self.rival_loss > 1e-12 * self._size:
            return loss / self.rival_loss
        return 0.0 if loss == 0.0 else math.copysign(math.inf, loss)


def proofs(data: RunData) -> list[Proof]:
    """Return the run's certificates."""
    return [_proof(one) for one in data.certificates]


def _proof(one: Any) -> Proof:
    def value(key: str) -> float:
        found = one.get(key)
        return math.nan if found is None else float(found)

    every = one.get("refit_every")
    name = str(one.get("name", ""))
    return Proof(
        name,
        _rival(name, every),
        str(one.get("leaf") or ""),
        one.get("refused") or None,
        value("regret"),
        value("bound"),
        {term: value(term) for term in TERMS},
        value("comparator_loss"),
        value("own_loss"),
        int(one.get("rounds") or 0),
        None if every is None else float(every),
    )


def _rival(name: str, every: float | None) -> str:
    if every is not None:
        return f"the best linear predictor refitted every {number(every, 3)} rows on average"
    if "fixed" in name:
        return "the best linear predictor that never changes"
    if "smooth" in name:
        return "a smoothly drifting linear predictor fitted in hindsight"
    return f"the comparator “{name}”"


def leading(found: list[Proof]) -> Proof | None:
    """Return the certificate to quote: the refitted comparator's if it says something, or else the strongest."""
    given = [one for one in found if one.refused is None]
    refitted = [one for one in given if one.refit_every is not None and one.above(one.bound) <= USEFUL]
    return refitted[0] if refitted else min(given, key=lambda one: one.above(one.bound), default=None)


def verdict(one: Proof) -> str:
    """Return the sentence a reader takes away.

    >>> terms = dict.fromkeys(TERMS, 0.0) | {"stability": 12.0}
    >>> rival = _rival("20 pieces", 500)
    >>> verdict(Proof("20 pieces", rival, "", None, 3.0, 12.0, terms, 100.0, 103.0, 10000, 500))
    'certified within 12% of the best linear predictor refitted every 500 rows on average'
    """
    if not one.holds:
        return f"the certificate against {one.rival} does not hold; please report this as a bug"
    share = one.above(one.bound)
    if share < 0.0:
        return f"certified at least {percent(-share)} better than {one.rival}"
    if not math.isfinite(share):
        return f"certified within a loss of {number(one.bound)} of {one.rival}, which loses nothing"
    if share >= 1.0:
        return f"certified within {number(1.0 + share)} times the loss of {one.rival}"
    return f"certified within {percent(share)} of {one.rival}"


def more(share: float) -> str:
    """Return how a loss compares with another.

    >>> more(0.12), more(-0.5)
    ('12% more', '50% less')
    """
    return f"{percent(abs(share))} {'more' if share >= 0.0 else 'less'}"


def explained(one: Proof, rounds: int) -> str:
    """Return what the verdict means: measured, proven, and on how many rows."""
    part = "" if one.rounds in (0, rounds) else f" This covers {count(one.rounds, 'row')} of {rounds:,}."
    regret, bound = one.above(one.regret), one.above(one.bound)
    limit = f"allows at most {more(bound)}" if bound >= 0.0 else f"guarantees at least {more(bound)}"
    return (
        f"Measured, undrift's total loss was {more(regret)} than that rival's; what is proven for this run {limit}. "
        f"The rival was chosen in hindsight, knowing every label; undrift knew only the past.{part}"
    )
