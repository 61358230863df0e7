"""A run's certificates in sentences: which comparator, what was measured, what is proven."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from undrift.report.formatting import capitalize, number, percent, plural
from undrift.run import RunData
from undrift.run.finish.certificates import proven_share
from undrift.run.play.state import NOT_CERTIFIED

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
    """The comparator in words, as the run stored them."""
    kind: str
    """All comparators of its kind, in words."""
    leaf: str
    """The part of the model the certificate goes through."""
    refusal: str | None
    """Why there is no certificate, or None."""
    regret: float
    """Measured: our loss minus the comparator's."""
    bound: float
    """Promised: the regret against this comparator cannot exceed this."""
    hindsight: float
    """Proven once the run was over: the regret against all comparators of the kind with coefficients no larger than
    this one's; NaN where that is not known."""
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
        """Whether the regret is below both bounds, to rounding."""
        return all(bound - self.regret >= -1e-12 * self._scale for bound in self.bounds)

    @property
    def bounds(self) -> list[float]:
        """The bounds there are: the promised one, and what was proven in hindsight."""
        return [self.bound] if math.isnan(self.hindsight) else [self.bound, self.hindsight]

    @property
    def proven(self) -> float:
        """How far the loss was at most above that of any comparator of the kind, as a share; infinite if unknown."""
        return math.inf if math.isnan(self.hindsight) else proven_share(self.own_loss, self.hindsight)

    @property
    def vacuous(self) -> bool:
        """Whether the promise is worthless: no regret is larger than the loss itself."""
        return self.bound >= self.own_loss * (1.0 - 1e-9)

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
    every, name, after = stored.get("refit_every"), str(stored.get("name", "")), stored.get("hindsight")
    return CertificateSummary(
        name=name,
        comparator=str(stored.get("words") or f"the comparator “{name}”"),  # runs of older versions have no words
        kind=str(stored.get("kind") or "any of its kind"),
        leaf=str(stored.get("leaf") or ""),
        refusal=stored.get("refused") or None,
        hindsight=float(after["bound"]) if after else math.nan,
        terms={term: numbers.pop(term) for term in TERMS},
        rounds=int(stored.get("rounds") or 0),
        refit_every=None if every is None else float(every),
        **numbers,
    )


def select_given(certificates: list[CertificateSummary]) -> list[CertificateSummary]:
    """Return the certificates that were not refused."""
    return [one for one in certificates if one.refusal is None]


def choose_leading(certificates: list[CertificateSummary]) -> CertificateSummary | None:
    """Return the certificate to quote: the refitted comparator's if it says something, or else the strongest."""
    given = select_given(certificates)
    best = {one.name: one.relative(min(one.bounds)) for one in given}
    refitted = (one for one in given if one.refit_every is not None and best[one.name] <= USEFUL_SHARE)
    return next(refitted, min(given, key=lambda one: best[one.name], default=None))


def comparison(one: CertificateSummary) -> str:
    """Return what was measured, as a sentence without its end.

    >>> terms = dict.fromkeys(TERMS, 0.0) | {"stability": 12.0}
    >>> words = ("20 pieces", "a line refitted every 500 rows", "any line that changes at the same rows")
    >>> one = CertificateSummary(*words, "", None, 3.0, 12.0, 3.5, terms, 100.0, 103.0, 10000, 500)
    >>> comparison(one)
    'the total loss was 3% above that of a line refitted every 500 rows, which knew every label'
    >>> proof(one).split("; ")[0]
    'at most 3.52% above that of any line that changes at the same rows, with coefficients no larger'
    >>> proof(one).split("; ")[1]
    'its method promised at most 12% above'
    """
    share = one.relative(one.regret)
    if not math.isfinite(share):
        return f"the total loss was {number(one.own_loss)}; {one.comparator}, which knew every label, lost nothing"
    return f"the total loss was {above_or_below(share)} that of {one.comparator}, which knew every label"


def proof(one: CertificateSummary) -> str:
    """Return what is proven beyond that: against all comparators of the kind, and by the method's own promise."""
    if not one.holds:
        return "nothing: a certificate does not hold; please report this as a bug"
    promised = one.relative(one.bound)
    if not math.isfinite(promised):
        return f"it cannot have lost more than {number(max(one.bounds))} beyond that"
    promise = "the a-priori bound is vacuous here" if one.vacuous else f"its method promised {_limit(promised)}"
    if not math.isfinite(one.proven):
        return promise
    return f"{_limit(one.proven, f'that of {one.kind}, with coefficients no larger')}; {promise}"


def _limit(share: float, whose: str = "") -> str:
    """Return a bound on a share in words.

    >>> _limit(0.12), _limit(-0.031, "that of any line")
    ('at most 12% above', 'at least 3.1% below that of any line')
    """
    limit = f"at least {percent(-share)} below" if share < 0.0 else f"at most {percent(share)} above"
    return f"{limit} {whose}".rstrip()


def above_or_below(share: float) -> str:
    """Return how a loss compares with another.

    >>> above_or_below(0.12), above_or_below(-0.5)
    ('12% above', '50% below')
    """
    return f"{percent(abs(share))} {'above' if share >= 0.0 else 'below'}"


def explanation(one: CertificateSummary, rounds: int) -> str:
    """Return what the comparison and the proof mean: who knew what, what in them is measured, on how many rows."""
    part = "" if one.rounds in (0, rounds) else f" This covers {plural(one.rounds, 'row')} of {rounds:,}."
    mixing = one.relative(one.terms["excess"])
    measured = f" What mixing cost beyond its leading part is measured: {percent(mixing)}." if mixing == mixing else ""
    return (
        "The first number is measured. The second is proven for this run: no predictor of that kind whose coefficients "
        "are no larger than this rival's and move no more would have left undrift further behind; others may have. "
        f"The third follows from undrift's method alone and is for this rival.{measured} Rivals were chosen in "
        f"hindsight, knowing every label; undrift knew only the past.{part}"
    )


def select_reasons(notes: Sequence[str]) -> list[str]:
    """Return the notes that say why a run has no certificates."""
    return [note for note in notes if note.startswith(NOT_CERTIFIED)]


def section_text(certificates: list[CertificateSummary], data: RunData) -> dict[str, object]:
    """Return the sentences of the page's section about certificates."""
    leading = choose_leading(certificates)
    return {
        "claim": f"{capitalize(comparison(leading))}." if leading else "",
        "proof": f"Proven: {proof(leading)}." if leading else "",
        "explanation": explanation(leading, data.rounds) if leading else "",
        "reasons": [] if leading else select_reasons(data.notes),
        "other_claims": [
            f"{capitalize(comparison(one))}. Proven: {proof(one)}."
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
        "… against any of its kind, no larger (proven)": [one.hindsight for one in given],
        "… by the method's promise": [one.bound for one in given],
    }
    rows |= {f"in the promise: {text}": [one.terms[term] for one in given] for term, text in TERMS.items()}
    negligible = [1e-9 * (abs(one.comparator_loss) + abs(one.own_loss)) for one in given]
    return [
        [name, *(number(x if abs(x) > least else 0.0, 4) for x, least in zip(values, negligible, strict=True))]
        for name, values in rows.items()
    ]
