"""A run's certificates in sentences: which comparator, what was measured, what is proven."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from undrift.report.formatting import capitalize, number, percent, plural
from undrift.run import RunData

TERMS = {
    "start": "getting started",
    "stability": "learning from each row",
    "variation": "the rival's changes",
    "potential_drift": "fading of the pull towards 0",
    "excess": "our mix over its leading part (measured)",
}
"""The terms of a bound, in plain words."""
USEFUL_SHARE = 0.5
"""A certificate that allows more than this share of the comparator's loss on top of it is not quoted first."""


@dataclass(frozen=True)
class CertificateSummary:
    """One stored certificate, with its comparator in words. The page calls a comparator a rival."""

    name: str
    """The comparator's name in the run."""
    comparator: str
    """The comparator in words."""
    leaf: str
    """The part of the model the certificate goes through."""
    refusal: str | None
    """Why there is no certificate, or None."""
    regret: float
    """Measured: our loss minus the comparator's."""
    bound: float
    """Proven: the regret cannot exceed this."""
    terms: dict[str, float]
    """The bound, term by term."""
    comparator_loss: float
    """The comparator's loss."""
    own_loss: float
    """Ours on the same rounds."""
    rounds: int
    """Rounds it covers."""
    refit_every: float | None
    """Rounds between the comparator's changes, or None."""

    @property
    def holds(self) -> bool:
        """Whether the regret is below the bound, to rounding."""
        return self.bound - self.regret >= -1e-12 * self._scale

    @property
    def _scale(self) -> float:
        """Sum of the sizes of terms and losses: what rounding is measured against."""
        return math.fsum((*(abs(term) for term in self.terms.values()), abs(self.comparator_loss), abs(self.own_loss)))

    def relative(self, loss: float) -> float:
        """Return a loss difference as a share of the comparator's loss; infinite where that is only rounding."""
        if self.comparator_loss > 1e-12 * self._scale:
            return loss / self.comparator_loss
        return 0.0 if loss == 0.0 else math.copysign(math.inf, loss)


def summarize_certificates(data: RunData) -> list[CertificateSummary]:
    """Return the run's certificates, refused ones included."""
    return [_summarize(stored) for stored in data.certificates]


def _summarize(stored: Any) -> CertificateSummary:
    names = ("regret", "bound", "comparator_loss", "own_loss", *TERMS)
    numbers = {name: math.nan if stored.get(name) is None else float(stored[name]) for name in names}
    every, name = stored.get("refit_every"), str(stored.get("name", ""))
    return CertificateSummary(
        name=name,
        comparator=_comparator_text(name, every),
        leaf=str(stored.get("leaf") or ""),
        refusal=stored.get("refused") or None,
        terms={term: numbers.pop(term) for term in TERMS},
        rounds=int(stored.get("rounds") or 0),
        refit_every=None if every is None else float(every),
        **numbers,
    )


def _comparator_text(name: str, every: float | None) -> str:
    if every is not None:
        return f"the best linear predictor refitted every {number(every, 3)} rows on average"
    if "fixed" in name:
        return "the best linear predictor that never changes"
    if "smooth" in name:
        return "a smoothly drifting linear predictor fitted in hindsight"
    return f"the comparator “{name}”"


def select_given(certificates: list[CertificateSummary]) -> list[CertificateSummary]:
    """Return the certificates that were not refused."""
    return [one for one in certificates if one.refusal is None]


def choose_leading(certificates: list[CertificateSummary]) -> CertificateSummary | None:
    """Return the certificate to quote: the refitted comparator's if it says something, or else the strongest."""
    given = select_given(certificates)
    refitted = (one for one in given if one.refit_every is not None and one.relative(one.bound) <= USEFUL_SHARE)
    return next(refitted, min(given, key=lambda one: one.relative(one.bound), default=None))


def claim(one: CertificateSummary) -> str:
    """Return the sentence a reader takes away.

    >>> terms = dict.fromkeys(TERMS, 0.0) | {"stability": 12.0}
    >>> comparator = _comparator_text("20 pieces", 500)
    >>> claim(CertificateSummary("20 pieces", comparator, "", None, 3.0, 12.0, terms, 100.0, 103.0, 10000, 500))
    'certified within 12% of the best linear predictor refitted every 500 rows on average'
    """
    if not one.holds:
        return f"the certificate against {one.comparator} does not hold; please report this as a bug"
    share = one.relative(one.bound)
    if share < 0.0:
        return f"certified at least {percent(-share)} better than {one.comparator}"
    if not math.isfinite(share):
        return f"certified within a loss of {number(one.bound)} of {one.comparator}, which loses nothing"
    if share >= 1.0:
        return f"certified within {number(1.0 + share)} times the loss of {one.comparator}"
    return f"certified within {percent(share)} of {one.comparator}"


def more_or_less(share: float) -> str:
    """Return how a loss compares with another.

    >>> more_or_less(0.12), more_or_less(-0.5)
    ('12% more', '50% less')
    """
    return f"{percent(abs(share))} {'more' if share >= 0.0 else 'less'}"


def explanation(one: CertificateSummary, rounds: int) -> str:
    """Return what the claim means: measured, proven, and on how many rows."""
    part = "" if one.rounds in (0, rounds) else f" This covers {plural(one.rounds, 'row')} of {rounds:,}."
    regret, bound = one.relative(one.regret), one.relative(one.bound)
    limit = f"allows at most {more_or_less(bound)}" if bound >= 0.0 else f"guarantees at least {more_or_less(bound)}"
    return (
        f"Measured, undrift's total loss was {more_or_less(regret)} than that rival's; what is proven for this run "
        f"{limit}. The rival was chosen in hindsight, knowing every label; undrift knew only the past.{part}"
    )


def section_text(certificates: list[CertificateSummary], rounds: int) -> dict[str, object]:
    """Return the sentences of the page's section about certificates."""
    leading = choose_leading(certificates)
    return {
        "claim": capitalize(claim(leading)) + "." if leading else "",
        "explanation": explanation(leading, rounds) if leading else "",
        "other_claims": [
            f"{capitalize(claim(one))} (measured: {more_or_less(one.relative(one.regret))})."
            for one in select_given(certificates)
            if one is not leading
        ],
        "refusals": [f"{capitalize(one.comparator)}: {one.refusal}" for one in certificates if one.refusal is not None],
        "columns": select_given(certificates),
        "rows": _term_rows(select_given(certificates)),
    }


def _term_rows(given: list[CertificateSummary]) -> list[list[str]]:
    """Return the table of certificates as text: a row for each quantity, a column for each comparator."""
    if not given:
        return []
    rows: dict[str, list[float]] = {
        "rival's loss": [one.comparator_loss for one in given],
        "undrift's loss": [one.own_loss for one in given],
        "regret (measured)": [one.regret for one in given],
        "bound (proven)": [one.bound for one in given],
    }
    rows |= {f"… {text}": [one.terms[term] for one in given] for term, text in TERMS.items()}
    negligible = [1e-9 * (abs(one.comparator_loss) + abs(one.own_loss)) for one in given]
    return [
        [name, *(number(x if abs(x) > least else 0.0, 4) for x, least in zip(values, negligible, strict=True))]
        for name, values in rows.items()
    ]
