r"""Verdicts: which theorem covers a (beta1, beta2, nu), at what epsilon, after how many steps.

`nearest` finds the closest covered choice, in the logarithms of (1 - beta1, 1 - beta2, nu); `regions` the part of the
(beta1, beta2) plane that each theorem covers, as curves over $1-\beta_1$: for a fixed $1-\beta_1$ it is an interval of
$1-\beta_2$, so a picture needs two curves per theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.optim import exact
from undrift.optim.core import COVERED_NORM, NORMS, Tuning
from undrift.optim.problem import Problem
from undrift.optim.theorems import THEOREMS, Clause, Setting, Theorem, at_least, at_most, exact_setting

WELL_KNOWN: Final = {
    "PyTorch default": (0.9, 0.999),
    "language models": (0.9, 0.95),
    "equal betas": (0.95, 0.95),
    "first Transformer": (0.9, 0.98),
    "GANs": (0.5, 0.999),
}
"""Settings people use, to be marked on the map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one theorem says about one choice of (beta1, beta2, nu)."""

    theorem: str
    """Key: clipped/nu, clipped/margin, clip-free/nu or clip-free/margin."""
    holds: bool
    """Every clause is satisfied, at an epsilon that means something."""
    clauses: tuple[Clause, ...]
    """All of its clauses, with both sides."""
    margin: float
    """Smallest clause margin: ln of how far inside; negative when a clause fails."""
    rho: float
    """Position of beta2 between beta1^2 and 1; 0 in the middle, 1 and more is outside."""
    amplification: float
    """1 / sqrt(1 - rho^2); infinite from rho = 1 on."""
    epsilon: float
    """Smallest epsilon the theorem can promise with this beta1 (and rho), in gradient units."""
    vacuous: bool
    """Whether even that exceeds G + sigma, the value every point has."""
    scale: float
    """G + sigma, or 1 when no problem was given: epsilon and nu are then in units of it."""
    target: float
    """The epsilon the clauses were checked at: the problem's, or else the smallest."""
    steps: int | None
    """Rounds T for the target; None when a clause fails or no problem was given."""
    nearest: Nearest | None
    """Closest covered (beta1, beta2, nu); the choice itself when it is covered; None if out of float range."""
    norm: str = COVERED_NORM
    """Norm scope of the second moment and the clip that the theorem is about."""

    @property
    def failing(self) -> Clause | None:
        """The clause that is furthest from being satisfied, or None."""
        failed = [clause for clause in self.clauses if not clause.holds]
        return min(failed, key=lambda clause: clause.margin) if failed else None

    @property
    def status(self) -> str:
        """Return "covered", "vacuous" (only the size of epsilon is wrong) or "not covered"."""
        if self.holds:
            return "covered"
        return "vacuous" if {c.name for c in self.clauses if not c.holds} <= {"epsilon"} else "not covered"

    def __str__(self) -> str:
        size = f"smallest epsilon {self.epsilon / self.scale:.3g} (G + sigma)"
        if self.vacuous:
            size += ", vacuous"
        if self.holds:
            return f"{self.theorem}: holds; {size}"
        worst = self.failing
        assert worst is not None  # a verdict that does not hold has a failing clause
        return f"{self.theorem}: {worst.text} fails ({worst.value:.3g} against {worst.limit:.3g}); {size}"


def conditions(
    beta1: float | None = None,
    beta2: float | None = None,
    nu: float = 1e-8,
    problem: Problem | None = None,
    *,
    gap1: float | None = None,
    gap2: float | None = None,
    rho: float | None = None,
    steps: int | None = None,
) -> list[Verdict]:
    """Return one verdict per theorem for a choice of (beta1, beta2, nu).

    Parameters
    ----------
    beta1, beta2
        Discounts of the first and second moment, in (0, 1).
    gap1, gap2
        1 - beta1 and 1 - beta2 in their place, exact where a float64 beta is not.
    nu
        Damping (torch's eps), > 0; in units of G + sigma when no problem is given.
    problem
        What is known: G, sigma, F*, c, and the target epsilon. Without a target the smallest one is used.
    rho
        Margin parameter in [0, 1) the margin theorems are read with; by default the smallest that admits beta2.
    steps
        Planned number of rounds; adds the clause on T. Needs a problem.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin`, `clip-free/nu`, `clip-free/margin`. Clauses are decided in exact arithmetic.
    The theorems need Exp(1) random scaling, the averaged iterate as output, and one norm over all parameters.

    Examples
    --------
    >>> for verdict in conditions(0.9, 0.999, nu=1e-3):
    ...     print(verdict)
    clipped/nu: epsilon <= G + sigma fails (5.06 against 1); smallest epsilon 5.06 (G + sigma), vacuous
    clipped/margin: epsilon <= G + sigma fails (140 against 1); smallest epsilon 140 (G + sigma), vacuous
    clip-free/nu: epsilon <= G + sigma fails (5.06 against 1); smallest epsilon 5.06 (G + sigma), vacuous
    clip-free/margin: epsilon <= G + sigma fails (140 against 1); smallest epsilon 140 (G + sigma), vacuous
    """
    at = exact_setting("conditions", beta1, beta2, nu, gap1, gap2)
    if rho is not None:
        rho = _check.interval("conditions", "rho", rho, "[0, 1)")
    if steps is not None:
        steps = _check.integer("conditions", "steps", steps, 1)
        if problem is None:
            raise InputError("conditions: steps need a problem; give problem=Problem(...) or leave steps out")
    return [_verdict(theorem, at, problem, rho, steps) for theorem in THEOREMS.values()]


def judge(tuning: Tuning, problem: Problem) -> Verdict:
    """Return the verdict of a tuning's own theorem on that tuning, its steps included; what `tune` returns holds.

    Examples
    --------
    >>> from undrift.optim.plan import tune
    >>> problem = Problem(1.0, 0.5, 1.0, 1.0, epsilon=0.5)
    >>> judge(tune(problem, "clip-free/margin"), problem).holds
    True
    """
    key = _check.choice("judge", "tuning.theorem", tuning.theorem, tuple(THEOREMS))
    at = exact_setting("judge", None, None, tuning.nu, tuning.gap1, tuning.gap2)
    return _verdict(THEOREMS[key], at, problem, tuning.rho, tuning.steps)


def covered_norm(norm: str) -> str:
    """Say whether the theorems cover a norm scope.

    >>> covered_norm("tensor")
    'one per tensor: not covered by a theorem'
    """
    return NORMS[_check.choice("covered_norm", "norm", norm, tuple(NORMS))]


def _verdict(
    theorem: Theorem, at: Setting, problem: Problem | None, given_rho: float | None, steps: int | None
) -> Verdict:
    S = Fraction(problem.scale) if problem else Fraction(1)
    rho = at.rho if given_rho is None else Fraction(given_rho)
    square = theorem.smallest_epsilon_squared(at, S, rho)
    smallest = float("inf") if square is None else exact.ceil_sqrt_float(square)
    wanted = problem.epsilon if problem else None
    clauses = theorem.structure(at, S, None if given_rho is None else rho)
    if wanted is not None:
        clauses.append(theorem.gap1_clause(at, Fraction(wanted), S, rho))
    elif square is not None:
        clauses.append(at_most("epsilon", Fraction(smallest), S, "epsilon <= G + sigma"))
    target = smallest if wanted is None else wanted
    holds = all(clause.holds for clause in clauses)
    needed = theorem.horizon(at, problem, Fraction(target), rho) if problem and holds else None
    if steps is not None and needed is not None:
        clauses.append(at_least("steps", Fraction(steps), Fraction(needed), "T >= the horizon of the theorem"))
        holds = clauses[-1].holds
    wide = 1 - rho * rho
    return Verdict(
        theorem=theorem.key,
        holds=holds,
        clauses=tuple(clauses),
        margin=min(clause.margin for clause in clauses),
        rho=exact.nearest_float(rho),
        amplification=float("inf") if wide <= 0 else exact.nearest_float(1 / exact.sqrt(wide)),
        epsilon=smallest,
        vacuous=smallest > S,
        scale=float(S),
        target=target,
        steps=needed,
        nearest=nearest(theorem, at, S, S if wanted is None else Fraction(wanted)),
    )


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


class Region(NamedTuple):
    """Where a theorem holds over a grid of 1 - beta1: `low` <= 1 - beta2 <= `high`; NaN where it holds for no beta2."""

    theorem: str
    """Key."""
    gap1: Vector
    """Grid of 1 - beta1."""
    low: Vector
    """Smallest 1 - beta2; 0 for the nu theorems."""
    high: Vector
    """Largest 1 - beta2."""
    allowed: Vector
    """Largest 1 - beta2 when the size of epsilon is left out of account: between `high` and this, vacuous."""


def regions(gap1: ArrayLike, nu: float = 1e-3, epsilon: float = 1.0) -> list[Region]:
    """Return the four regions; `nu` and `epsilon` in units of G + sigma, epsilon in (0, 1], 1 being "not vacuous".

    >>> both = regions([0.001, 0.1], nu=1e-3)
    >>> both[0].high
    array([0.001,   nan])
    """
    grid = _check.finite_array("regions", "gap1", gap1, (None,))
    if not ((grid > 0.0) & (grid < 1.0)).all():
        raise InputError("regions: gap1 must be in (0, 1) everywhere, got a value outside")
    nu = _check.interval("regions", "nu", nu, "(0, inf)")
    epsilon = _check.interval("regions", "epsilon", epsilon, "(0, 1]")
    found = []
    for theorem in THEOREMS.values():
        limit = (epsilon / theorem.factor) ** 2
        inside = grid <= limit
        q = grid * (2.0 - grid)
        if theorem.by_margin:
            # gap1 <= limit * 4 y (1 - y) with y = gap2 / q
            half = np.sqrt(np.where(inside, 1.0 - grid / limit, np.nan))
            low, high, allowed = q * (1.0 - half) / 2.0, q * (1.0 + half) / 2.0, q
        else:
            allowed = np.minimum(min(nu, 1.0), -np.expm1(theorem.power * np.log1p(-grid)))
            low, high = np.where(inside, 0.0, np.nan), np.where(inside, allowed, np.nan)
        found.append(Region(theorem.key, grid, low, high, allowed))
    return found


def rho_contour(gap1: ArrayLike, rho: float) -> tuple[Vector, Vector]:
    """Return the two values of 1 - beta2 at which rho is reached: the one nearer beta2 = 1, and the one nearer beta1^2.

    Examples
    --------
    >>> [float(side[0]) for side in rho_contour([0.5], 0.0)]
    [0.375, 0.375]
    """
    grid = _check.finite_array("rho_contour", "gap1", gap1, (None,))
    width = _check.interval("rho_contour", "rho", rho, "[0, 1]")
    q = grid * (2.0 - grid)
    return q * (1.0 - width) / 2.0, q * (1.0 + width) / 2.0
