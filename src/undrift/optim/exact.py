"""Exact comparisons: the clauses of a theorem decided in rational arithmetic, and floats rounded to the safe side."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

DIGITS = 60
"""Decimal digits of the two irrational functions, ln and sqrt; their ties with a float cannot occur."""


def floor_float(x: Fraction) -> float:
    """Return the largest float that is at most x >= 0.

    >>> floor_float(Fraction(1, 3)) < Fraction(1, 3) < math.nextafter(floor_float(Fraction(1, 3)), 1.0)
    True
    """
    near = nearest_float(x)
    return near if near <= x else math.nextafter(near, 0.0)


def ceil_float(x: Fraction) -> float:
    """Return the smallest float that is at least x >= 0."""
    near = nearest_float(x)
    return near if near >= x else math.nextafter(near, math.inf)


def gap_at_most(x: Fraction) -> float:
    """Return the largest 1 - beta, at most x <= 1/2, whose beta is a float64: 1 - gap and beta then say the same.

    >>> gap = gap_at_most(Fraction(1, 10))
    >>> 1 - Fraction(1.0 - gap) == Fraction(gap) <= Fraction(1, 10)
    True
    """
    return 1.0 - ceil_float(1 - x)


def gap_at_least(x: Fraction) -> float:
    """Return the smallest 1 - beta, at least x <= 1/2, whose beta is a float64."""
    return 1.0 - floor_float(1 - x)


def ceil_sqrt_float(x: Fraction) -> float:
    """Return the smallest float whose square, taken exactly, is at least x >= 0."""
    root = nearest_float(sqrt(x))
    while Fraction(root) ** 2 >= x and root > 0.0:
        root = math.nextafter(root, 0.0)
    while math.isfinite(root) and Fraction(root) ** 2 < x:
        root = math.nextafter(root, math.inf)
    return root


def ceil_sqrt(x: Fraction) -> int:
    """Return the smallest integer whose square is at least x >= 0.

    >>> ceil_sqrt(Fraction(16)), ceil_sqrt(Fraction(161, 10))
    (4, 5)
    """
    n = -(-x.numerator // x.denominator)  # the smallest integer >= x; its root rounded up is the answer
    root = math.isqrt(n)
    return root if root * root == n else root + 1


def ln(x: Fraction) -> Fraction:
    """Return the natural logarithm to 60 digits."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).ln(context))


def log_ratio(x: Fraction, y: Fraction) -> float:
    """Return ln(x / y) with the right sign however close the two are; infinite when one of them is zero.

    >>> log_ratio(Fraction(1), Fraction(1)), log_ratio(Fraction(0), Fraction(1))
    (0.0, -inf)
    """
    if x == y:
        return 0.0
    if x <= 0 or y <= 0:
        return -math.inf if x < y else math.inf
    ratio = x / y
    if Fraction(1, 2) < ratio < 2:
        return math.log1p(nearest_float(ratio - 1))
    return math.log(ratio.numerator) - math.log(ratio.denominator)


def sqrt(x: Fraction) -> Fraction:
    """Return the square root to 60 digits."""
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).sqrt(context))


def nearest_float(x: Fraction) -> float:
    """Return x rounded; infinity where it is too large."""
    try:
        return float(x)
    except OverflowError:
        return math.inf
