r"""The four convergence theorems as clauses, horizons and parameter formulas, decided exactly.

All four share $D$, $\gamma$ and the form of the clauses; a `Theorem` holds what differs. `S` is $G+\sigma$,
`q` is $1-\beta_1^2$, and every number is a `Fraction` of the floats it came from, so a clause is true or false without
rounding. Where the statement and its proof differ, the theory pages say which was taken: clip-free Adam's mu is part of
`clip-free/nu` too, and `clipped/margin` asks for $\sqrt c$, not $\sqrt{48c}$.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from undrift import _check
from undrift.errors import ConditionError, InputError
from undrift.optim import exact
from undrift.optim.problem import POSITIVE, Problem


class Setting(NamedTuple):
    """The three numbers a theorem judges, exactly."""

    gap1: Fraction
    gap2: Fraction
    nu: Fraction

    @property
    def q(self) -> Fraction:
        """1 - beta1^2."""
        return self.gap1 * (2 - self.gap1)

    @property
    def rho(self) -> Fraction:
        """|2 beta2 - 1 - beta1^2| / (1 - beta1^2)."""
        return abs(1 - 2 * self.gap2 / self.q)


class Clause(NamedTuple):
    """One inequality of a theorem, with the numbers on both sides."""

    name: str
    """What is bounded: beta1, nu, "beta2 by nu", "beta2 by beta1", "margin low", "margin high", epsilon or steps."""
    holds: bool
    """Whether it is satisfied; decided exactly, not from the rounded numbers beside it."""
    value: float
    """Left side."""
    limit: float
    """Right side."""
    margin: float
    """ln of how far inside: positive inside, negative outside, -0.7 is twice too much."""
    text: str
    """The inequality in words."""


def at_most(name: str, value: Fraction, limit: Fraction, text: str, *, strict: bool = False) -> Clause:
    """Clause value <= limit (or <)."""
    holds = value < limit if strict else value <= limit
    margin = exact.log_ratio(max(limit, Fraction(0)), value)
    return Clause(name, holds, exact.nearest_float(value), exact.nearest_float(limit), margin, text)


def at_least(name: str, value: Fraction, limit: Fraction, text: str) -> Clause:
    """Clause value >= limit."""
    margin = exact.log_ratio(value, limit)
    return Clause(name, value >= limit, exact.nearest_float(value), exact.nearest_float(limit), margin, text)


@dataclass(frozen=True, slots=True)
class Theorem:
    """One of the four."""

    key: str
    """Name used everywhere."""
    item: str
    """Where the paper has it."""
    clips: bool
    """Clipped Adam, or clip-free with the composite loss."""
    by_margin: bool
    """Whether beta2 is asked to keep a margin from beta1^2 and 1, rather than to be large next to nu."""
    spread: int
    """48 or 96 in D = (1 - beta1) sqrt(epsilon / (48 c))."""
    power: int
    """beta2 >= beta1^power; 2 for the margin theorems, strictly."""
    start: int
    """Factor of F* sqrt(.. c) / epsilon^1.5 in the horizon."""
    start_spread: int
    """Number under that root."""
    warm_up: int
    """Factor of (G + sigma) / epsilon in the horizon."""

    @property
    def factor(self) -> int:
        """16 or 64: 1 - beta1 <= (epsilon / (factor (G + sigma)))^2, times 1 - rho^2 for the margin theorems."""
        return 64 if self.by_margin else 16

    def gap1_limit(self, epsilon: Fraction, S: Fraction, rho: Fraction) -> Fraction:
        """Largest 1 - beta1."""
        wide = 1 - rho * rho if self.by_margin else Fraction(1)
        return (epsilon / (self.factor * S)) ** 2 * max(wide, Fraction(0))

    def smallest_epsilon_squared(self, at: Setting, S: Fraction, rho: Fraction) -> Fraction | None:
        """Square of the smallest epsilon that beta1 allows; None when no epsilon does."""
        wide = 1 - rho * rho if self.by_margin else Fraction(1)
        return None if wide <= 0 else (self.factor * S) ** 2 * at.gap1 / wide

    def structure(self, at: Setting, S: Fraction, rho: Fraction | None) -> list[Clause]:
        """Clauses on nu and beta2, which no choice of epsilon or T repairs."""
        clauses = [at_most("nu", at.nu, S, "nu <= G + sigma")]
        if not self.by_margin:
            clauses.append(at_most("beta2 by nu", at.gap2, at.nu / S, "1 - beta2 <= nu / (G + sigma)"))
            limit = 1 - (1 - at.gap1) ** self.power
            clauses.append(at_most("beta2 by beta1", at.gap2, limit, f"1 - beta2 <= 1 - beta1^{self.power}"))
        elif rho is None:
            clauses.append(at_most("beta2 by beta1", at.gap2, at.q, "1 - beta2 < 1 - beta1^2", strict=True))
        else:
            m = (1 - rho) / 2 * at.q
            clauses.append(at_least("margin high", at.gap2, m, "1 - beta2 >= m = (1 - rho)/2 (1 - beta1^2)"))
            clauses.append(at_most("margin low", at.gap2, at.q - m, "1 - beta2 <= 1 - beta1^2 - m"))
        return clauses

    def gap1_clause(self, at: Setting, epsilon: Fraction, S: Fraction, rho: Fraction) -> Clause:
        """Clause on beta1 for a target epsilon."""
        text = f"1 - beta1 <= (epsilon / ({self.factor} (G + sigma)))^2"
        if self.by_margin:
            text = f"1 - beta1 <= (epsilon sqrt(1 - rho^2) / ({self.factor} (G + sigma)))^2"
        return at_most("beta1", at.gap1, self.gap1_limit(epsilon, S, rho), text)

    def horizon(self, at: Setting, problem: Problem, epsilon: Fraction, rho: Fraction) -> int:
        """Smallest T the theorem allows."""
        G, S = Fraction(problem.lipschitz), Fraction(problem.scale)
        start = (self.start * Fraction(problem.gap)) ** 2 * self.start_spread * Fraction(problem.c)
        terms = [
            exact.ceil_sqrt(start / (epsilon**3 * at.gap1**2)),
            _ceil(self.warm_up * S / (epsilon * at.gap1)),
            _ceil(exact.ln(Fraction(2)) / at.gap2),
        ]
        if self.by_margin:
            damping = Fraction(0) if self.clips else (1 - at.gap1) * epsilon / (4 * exact.sqrt(at.gap1))
            growth = exact.ln(1 + (damping + G) / at.nu)
            terms.append(_ceil(32 * G * growth / (epsilon * exact.sqrt(at.gap1 * (1 - rho * rho)))))
        return max(terms)


def _ceil(x: Fraction) -> int:
    return -(-x.numerator // x.denominator)


THEOREMS: Final = {
    theorem.key: theorem
    for theorem in (
        Theorem("clipped/nu", "Theorem 5", True, False, 48, 4, 16, 48, 16),
        Theorem("clipped/margin", "Theorem 6", True, True, 48, 2, 32, 1, 16),
        Theorem("clip-free/nu", "Theorem 7", False, False, 96, 2, 16, 96, 48),
        Theorem("clip-free/margin", "Theorem 8", False, True, 96, 2, 32, 96, 48),
    )
}
"""The four theorems by key."""


def one_minus_beta(who: str, name: str, beta: float | None, one_minus: float | None) -> float | None:
    """Return 1 - beta in (0, 1) from either form, or None if neither was given."""
    if beta is not None and one_minus is not None:
        raise InputError(f"{who}: give beta{name} or gap{name} (1 - beta{name}), not both")
    if beta is not None:
        return 1.0 - _check.interval(who, f"beta{name}", beta, "(0, 1)")
    if one_minus is not None:
        return check_below_one(who, name, _check.interval(who, f"gap{name}", one_minus, "(0, 1)"))
    return None


def check_below_one(who: str, name: str, one_minus: float) -> float:
    """Return 1 - beta, or refuse it if beta itself rounds to 1 in float64."""
    if 1.0 - one_minus == 1.0:
        raise ConditionError(
            f"{who}: beta{name} = 1 - {one_minus:.3g} rounds to 1 in float64; 1 - beta{name} must be at least 1.2e-16, "
            "which a larger epsilon allows"
        )
    return one_minus


def exact_setting(
    who: str, beta1: float | None, beta2: float | None, nu: float, gap1: float | None, gap2: float | None
) -> Setting:
    """Return the three numbers as exact fractions; each beta must be given in one of the two forms."""
    return Setting(
        Fraction(_require(who, "1", one_minus_beta(who, "1", beta1, gap1))),
        Fraction(_require(who, "2", one_minus_beta(who, "2", beta2, gap2))),
        Fraction(_check.interval(who, "nu", nu, POSITIVE)),
    )


def _require(who: str, name: str, value: float | None) -> float:
    if value is None:
        raise InputError(f"{who}: beta{name} is missing; give beta{name} or gap{name} (1 - beta{name})")
    return value


def rho(
    beta1: float | None = None, beta2: float | None = None, *, gap1: float | None = None, gap2: float | None = None
) -> float:
    r"""Return $\rho = \lvert 2\beta_2 - 1 - \beta_1^2\rvert / (1 - \beta_1^2)$.

    It says how far beta2 is from the middle of $[\beta_1^2, 1]$; below 1 exactly when beta2 lies strictly inside. The
    margin theorems pay $1/\sqrt{1-\rho^2}$. `gap1` and `gap2` give 1 - beta in place of beta, without rounding it.

    Examples
    --------
    >>> [round(rho(*betas), 5) for betas in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))]
    [0.98947, 0.47368, 0.02564]
    """
    return float(exact_setting("rho", beta1, beta2, 1.0, gap1, gap2).rho)


def amplification(
    beta1: float | None = None, beta2: float | None = None, *, gap1: float | None = None, gap2: float | None = None
) -> float:
    r"""Return $1/\sqrt{1-\rho^2}$, the factor of the margin theorems; infinite from $\rho = 1$ on.

    Examples
    --------
    >>> [round(amplification(*betas), 4) for betas in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))]
    [6.9102, 1.1355, 1.0003]
    """
    at = exact_setting("amplification", beta1, beta2, 1.0, gap1, gap2)
    wide = 1 - at.rho**2
    return math.inf if wide <= 0 else 1.0 / math.sqrt(wide)
