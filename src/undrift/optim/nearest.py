"""The covered (beta1, beta2, nu) closest to a given one, in the logarithms of (1 - beta1, 1 - beta2, nu)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from undrift.optim import exact
from undrift.optim.theorems import Setting, Theorem


class Nearest(NamedTuple):
    """A covered choice and how far it is from the one asked about."""

    gap1: float
    """1 - beta1."""
    gap2: float
    """1 - beta2."""
    nu: float
    """Damping, in gradient units."""
    distance: float
    """Euclidean length of the change of (ln(1 - beta1), ln(1 - beta2), ln nu); 0 when already covered."""

    @property
    def beta1(self) -> float:
        """1 - gap1, rounded."""
        return 1.0 - self.gap1

    @property
    def beta2(self) -> float:
        """1 - gap2, rounded."""
        return 1.0 - self.gap2


def nearest(theorem: Theorem, at: Setting, S: Fraction, epsilon: Fraction) -> Nearest | None:
    """Return the closest choice that `theorem` covers at this epsilon; None when float64 cannot hold it."""
    if _covers(theorem, at, S, epsilon):
        return Nearest(float(at.gap1), float(at.gap2), float(at.nu), 0.0)
    found = (_by_margin if theorem.by_margin else _by_nu)(theorem, at, S, epsilon)
    if found is None or 1.0 - float(found.gap1) == 1.0 or 1.0 - float(found.gap2) == 1.0:
        return None
    moved = [exact.log_ratio(new, old) for new, old in zip(found, at, strict=True)]
    return Nearest(float(found.gap1), float(found.gap2), float(found.nu), math.hypot(*moved))


def _covers(theorem: Theorem, at: Setting, S: Fraction, epsilon: Fraction) -> bool:
    clauses = [*theorem.structure(at, S, None), theorem.gap1_clause(at, epsilon, S, at.rho)]
    return all(clause.holds for clause in clauses)


def _by_nu(theorem: Theorem, at: Setting, S: Fraction, epsilon: Fraction) -> Setting | None:
    """Project on a convex set: with (a, b, n) the logarithms, a <= A, b <= f(a) concave, b <= n <= 0."""
    limit = theorem.gap1_limit(epsilon, S, Fraction(0))
    A, a0, b0 = _log(limit), _log(at.gap1), _log(at.gap2)
    n0 = _log(at.nu / S)

    def best_b(a: float) -> float:
        free = b0
        if b0 > min(n0, 0.0):  # beta2 and nu meet halfway, unless nu has to come down to 1 anyway
            free = (b0 + n0) / 2 if n0 <= 0.0 else min(b0, 0.0)
        return min(free, math.log(-math.expm1(theorem.power * math.log1p(-math.exp(a)))))

    def cost(a: float) -> float:
        b = best_b(a)
        n = min(0.0, max(n0, b))
        return (a - a0) ** 2 + (b - b0) ** 2 + (n - n0) ** 2

    a = A if a0 >= A else _golden(cost, a0, A)
    gap1 = at.gap1 if a == a0 else Fraction(exact.gap_at_most(min(Fraction(math.exp(a)), limit)))
    if gap1 <= 0:
        return None
    b = best_b(a)
    gap2 = at.gap2 if b == b0 else Fraction(math.exp(b))
    border = 1 - (1 - gap1) ** theorem.power
    if gap2 != at.gap2 or gap2 > border:
        gap2 = Fraction(exact.gap_at_most(min(gap2, border)))
    if gap2 <= 0:
        return None
    nu = min(max(at.nu, Fraction(exact.ceil_float(S * gap2))), S)
    return Setting(gap1, gap2, nu)


def _by_margin(theorem: Theorem, at: Setting, S: Fraction, epsilon: Fraction) -> Setting | None:
    """Search the boundary, a curve in y = (1 - beta2) / (1 - beta1^2): gap1 = 4 y (1 - y) times its largest value."""
    top = float(theorem.gap1_limit(epsilon, S, Fraction(0)))
    nu = min(at.nu, S)
    if top <= 0.0:
        return None
    if at.gap2 < at.q and theorem.gap1_clause(at, epsilon, S, at.rho).holds:
        return at._replace(nu=nu)  # only nu was wrong
    a0, b0 = _log(at.gap1), _log(at.gap2)

    def point(z: float) -> tuple[float, float]:
        y, rest = 1.0 / (1.0 + math.exp(-z)), 1.0 / (1.0 + math.exp(z))
        gap1 = 4.0 * y * rest * top
        return gap1, y * gap1 * (2.0 - gap1)

    def cost(z: float) -> float:
        gap1, gap2 = point(z)
        return (math.log(gap1) - a0) ** 2 + (math.log(gap2) - b0) ** 2

    coarse = min((0.5 * k for k in range(-80, 81)), key=cost)
    z = _golden(cost, coarse - 0.5, coarse + 0.5)
    gap1, gap2 = point(z)
    for k in range(-52, -8):  # a little to the inside at the same y: more where y is so close to 1 that 1 - y is coarse
        one, two = Fraction(exact.gap_at_most(Fraction(gap1))), Fraction(exact.gap_at_most(Fraction(gap2)))
        found = Setting(one, two, nu)
        if one > 0 and two > 0 and _covers(theorem, found, S, epsilon):
            return found
        gap1 *= 1.0 - 2.0**k
        gap2 = gap1 * (2.0 - gap1) / (1.0 + math.exp(-z))
    return None


def _golden(cost: Callable[[float], float], low: float, high: float) -> float:
    """Minimise a unimodal function on an interval."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = cost(left), cost(right)
    for _ in range(80):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = cost(right)
    return min((low, high, left, right), key=cost)


def _log(x: Fraction) -> float:
    return exact.log_ratio(x, Fraction(1))
