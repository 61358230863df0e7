"""The planner: epsilon to all parameters and T; the inverse one, T to the best epsilon; and how epsilon is spent."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from undrift import _check
from undrift.errors import ConditionError, InputError
from undrift.optim import exact
from undrift.optim.core import Tuning
from undrift.optim.problem import POSITIVE, Problem
from undrift.optim.theorems import THEOREMS, Setting, Theorem, check_below_one, one_minus_beta


def tune(
    problem: Problem,
    theorem: str = "clipped/nu",
    nu: float | None = None,
    rho: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    *,
    gap1: float | None = None,
    gap2: float | None = None,
) -> Tuning:
    r"""Return parameters and a number of steps with which a theorem promises the problem's epsilon.

    Parameters
    ----------
    problem
        G, sigma, F*, c and the target epsilon.
    theorem
        "clipped/nu", "clipped/margin", "clip-free/nu" or "clip-free/margin".
    nu
        Damping in (0, G + sigma]; by default $(G+\sigma)(1-\beta_1^2)$, which just admits $\beta_2 = \beta_1^2$.
    rho
        Margin theorems: width in [0, 1) of the allowed beta2; 0, the default, is the cheapest. Larger brings beta2
        closer to 1 at $1/(1-\rho^2)$ times the steps.
    beta1, beta2
        Fix a discount; by default the smallest beta1 and beta2 allowed (margin: the largest beta2 that rho admits).
    gap1, gap2
        1 - beta1 and 1 - beta2 in their place, exact where a float64 beta is not.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin`, `clip-free/nu`, `clip-free/margin`. Numbers are rounded towards the inside of
    each clause, and onto float64 betas: `conditions` accepts what this returns, by beta and by 1 - beta. A choice
    no theorem covers raises `ConditionError`.

    Examples
    --------
    >>> tuning = tune(Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=1.0, epsilon=0.25), "clipped/nu")
    >>> tuning.steps
    7119453
    >>> f"{tuning.gap1:.4g} {tuning.clip_norm:.4g} {tuning.gamma:.4g}"
    '0.0001246 8.989e-06 0.0008054'
    """
    who = "tune"
    which = THEOREMS[_check.choice(who, "theorem", theorem, tuple(THEOREMS))]
    if problem.epsilon is None:
        raise InputError(f"{who}: problem.epsilon is missing; give it, or a number of steps to best_epsilon")
    if nu is not None:
        nu = _check.interval(who, "nu", nu, POSITIVE)
    if rho is not None:
        if not which.by_margin:
            raise InputError(f"{who}: rho belongs to the margin theorems, not to {theorem}; leave it out")
        rho = _check.interval(who, "rho", rho, "[0, 1)")
    one, two = (
        one_minus_beta(who, "1", beta1, gap1),
        one_minus_beta(who, "2", beta2, gap2),
    )
    epsilon, S = Fraction(problem.epsilon), Fraction(problem.scale)
    if which.by_margin:
        one, two, rho = _margin_gaps(which, epsilon, S, one, two, rho)
    else:
        one, two, nu = _nu_gaps(which, epsilon, S, one, two, nu)
    if nu is None:
        nu = exact.nearest_float(S * Fraction(one) * (2 - Fraction(one)))
    at = Setting(Fraction(one), Fraction(two), Fraction(nu))
    exact_rho = Fraction(rho) if rho is not None else at.rho
    for clause in [
        *which.structure(at, S, None if rho is None else exact_rho),
        which.gap1_clause(at, epsilon, S, exact_rho),
    ]:
        if not clause.holds:
            raise ConditionError(
                f"{who}: {theorem} needs {clause.text}, which is {clause.limit:.6g} here, got {clause.value:.6g}"
            )
    return _parameters(which, at, problem, exact_rho, rho)


def best_epsilon(
    problem: Problem,
    theorem: str,
    steps: int,
    nu: float | None = None,
    rho: float | None = None,
    beta1: float | None = None,
    beta2: float | None = None,
    *,
    gap1: float | None = None,
    gap2: float | None = None,
) -> Tuning:
    """Return the tuning with the smallest epsilon that a theorem can promise within `steps` rounds.

    The problem's own epsilon is not used; every other argument is as in `tune`.

    Examples
    --------
    >>> problem = Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=1.0)
    >>> round(best_epsilon(problem, "clipped/nu", 7119453).epsilon, 7)
    0.25
    """
    steps = _check.integer("best_epsilon", "steps", steps, 1)

    def plan(epsilon: float) -> Tuning:
        wanted = replace(problem, epsilon=epsilon)
        return tune(wanted, theorem, nu, rho, beta1, beta2, gap1=gap1, gap2=gap2)

    best = plan(problem.scale)  # raises when no epsilon at all is covered
    if best.steps is None or best.steps > steps:
        raise ConditionError(
            f"best_epsilon: {theorem} needs at least {best.steps} steps even for epsilon = lipschitz + noise = "
            f"{problem.scale:g}, got {steps}"
        )
    low, high = 0.0, problem.scale
    while True:
        middle = math.sqrt(low * high) if low else high / 2
        if not low < middle < high:
            return best
        try:
            candidate = plan(middle)
        except (ConditionError, InputError):
            candidate = None  # too small for the given beta1, or for float64
        if candidate is not None and candidate.steps is not None and candidate.steps <= steps:
            best, high = candidate, middle
        else:
            low = middle


def _gap1(which: Theorem, epsilon: Fraction, S: Fraction, rho: Fraction) -> float:
    """Largest 1 - beta1 of a float64 beta1."""
    limit = which.gap1_limit(epsilon, S, rho)
    return check_below_one("tune", "1", exact.gap_at_most(limit) or exact.nearest_float(limit))


def _nu_gaps(
    which: Theorem, epsilon: Fraction, S: Fraction, one: float | None, two: float | None, nu: float | None
) -> tuple[float, float, float]:
    if one is None:
        one = _gap1(which, epsilon, S, Fraction(0))
    beta1 = 1 - Fraction(one)
    if nu is None:
        wanted = Fraction(two) if two is not None else 1 - beta1 * beta1
        nu = exact.ceil_float(S * wanted)
    if two is None:
        limit = min(Fraction(nu) / S, 1 - beta1**which.power)
        two = check_below_one("tune", "2", exact.gap_at_most(limit) or float(limit))
    return one, two, nu


def _margin_gaps(
    which: Theorem, epsilon: Fraction, S: Fraction, one: float | None, two: float | None, rho: float | None
) -> tuple[float, float, float | None]:
    given = one is not None
    if one is None and (two is None or rho is not None):
        rho = 0.0 if rho is None else rho
        one = _gap1(which, epsilon, S, Fraction(rho))
    elif one is None:
        assert two is not None  # the branch above took the other case
        one = _largest_gap1(which, epsilon, S, two)
    check_below_one("tune", "1", one)
    q = Fraction(one) * (2 - Fraction(one))
    if two is None:
        if rho is None:
            rho = 0.0
        two = exact.gap_at_least((1 - Fraction(rho)) / 2 * q)
        while (
            Fraction(two) > q - (1 - Fraction(rho)) / 2 * q and rho < 1.0
        ):  # no float64 beta2 that close to the middle
            rho = max(2.0 * rho, 2.0**-52)
            if not given:
                one = _gap1(which, epsilon, S, Fraction(rho))
            q = Fraction(one) * (2 - Fraction(one))
            two = exact.gap_at_least((1 - Fraction(rho)) / 2 * q)
        check_below_one("tune", "2", two)
    return one, two, rho


def _largest_gap1(which: Theorem, epsilon: Fraction, S: Fraction, two: float) -> float:
    """Largest 1 - beta1 whose clause holds at this beta2, with rho left free: bisection on y = gap2 / (1 - beta1^2)."""

    def gap1(y: float) -> float:
        return float(which.gap1_limit(epsilon, S, 1 - 2 * Fraction(y)))

    low, high = 0.0, 2.0 / 3.0  # gap2 grows with y up to 2/3, where it is largest
    if gap1(high) * (2.0 - gap1(high)) * high < two:
        raise ConditionError(
            f"tune: {which.key} admits no beta1 with 1 - beta2 = {two:.6g}; it must be at most about "
            f"{gap1(high) * (2.0 - gap1(high)) * high:.6g} for this epsilon"
        )
    while low < (middle := (low + high) / 2) < high:
        if gap1(middle) * (2.0 - gap1(middle)) * middle < two:
            low = middle
        else:
            high = middle
    one = exact.gap_at_most(Fraction(gap1(high)))
    while True:  # to the inside, exactly
        at = Setting(Fraction(one), Fraction(two), S)
        if at.gap1 <= which.gap1_limit(epsilon, S, at.rho):
            return one
        one -= 2.0**-53


def _parameters(which: Theorem, at: Setting, problem: Problem, rho: Fraction, given_rho: float | None) -> Tuning:
    """Fill in D, gamma, mu and T."""
    assert problem.epsilon is not None  # tune has checked
    gap1 = float(at.gap1)
    clip_norm = gap1 * math.sqrt(problem.epsilon / problem.c / which.spread)
    gamma = (1.0 - gap1) * clip_norm / math.sqrt(gap1)
    mu = 0.0 if which.clips else 24.0 * problem.c * clip_norm / gap1 / gap1
    return Tuning(
        gamma=gamma,
        gap1=gap1,
        gap2=float(at.gap2),
        nu=float(at.nu),
        clip_norm=clip_norm,
        clips=which.clips,
        mu=mu,
        steps=which.horizon(at, problem, Fraction(problem.epsilon), rho),
        theorem=which.key,
        epsilon=problem.epsilon,
        rho=given_rho,
        c=problem.c,
        noise=problem.noise,
        lipschitz=problem.lipschitz,
    )


class Budget(NamedTuple):
    """Upper bounds on the terms of E|grad F|_c, in gradient units; their sum is at most epsilon."""

    start: float
    """F* / (D T): the way down from x0."""
    warm_up: float
    """(2 G + sigma) / ((1 - beta1) T)."""
    noise: float
    """sigma sqrt(1 - beta1)."""
    spread: float
    """12 c D^2 / (1 - beta1)^2: distance between the iterates that are averaged."""
    stability: float
    """Price of moving."""
    deviation: float
    """Price of step sizes that change; margin theorems only."""
    regularizer: float
    """Price of beta2 below beta1^2; `clipped/nu` only."""
    comparator: float
    """Price of following a comparator of length D."""

    @property
    def total(self) -> float:
        """Sum of the terms."""
        return math.fsum(self)


def budget(tuning: Tuning, problem: Problem) -> Budget:
    """Return the predicted split for a tuning that carries its theorem and its steps. Key: that of the theorem.

    The O2NC bound has four terms of its own and the regret terms of `diagnostics`, each bounded by what the theorem
    assumes, with the corrected constants. The sum stays below epsilon for every tuning a theorem admits; in trials,
    below .70, .70, .55, .45 of it.

    >>> from undrift.optim.plan import tune
    >>> problem = Problem(1.2, 0.2, 1.0, 1.0, epsilon=0.25)
    >>> split = budget(tune(problem, "clipped/nu"), problem)
    >>> round(split.spread, 4), round(split.total, 3)
    (0.0625, 0.121)
    """
    which = THEOREMS[_check.choice("budget", "tuning.theorem", tuning.theorem, tuple(THEOREMS))]
    T = _check.integer("budget", "tuning.steps", tuning.steps, 1)
    D = _check.interval("budget", "tuning.clip_norm", tuning.clip_norm, "(0, inf)")
    om1, om2, nu = tuning.gap1, tuning.gap2, tuning.nu
    b1, b2, r = 1.0 - om1, 1.0 - om2, math.sqrt(om1)
    G, sigma = problem.lipschitz, problem.noise
    q = om1 * (2.0 - om1)
    segments = om2 / math.log(2.0) + 1.0 / T  # K / T of the self-confident lemmas
    root = 2.0 * 2.0 ** (0.5 / b2) * math.sqrt(segments / om2) * G
    deviation = regularizer = 0.0
    if which.by_margin:
        stability = b1 * r * root
        growth = math.log1p((tuning.gamma * tuning.mu + G) / nu) / T - math.log1p(-om1)
        deviation = b1 * r * G * growth * math.sqrt(b2 / ((q - om2) * om2))
    else:
        stability = 0.5 * r * (segments * G * G / nu + root)
        if which.clips:
            regularizer = max(om2 - q, 0.0) / (b1 + math.sqrt(b2)) * G / (2.0 * b1 * r)
    return Budget(
        start=problem.gap / (D * T),
        warm_up=(2.0 * G + sigma) / (om1 * T),
        noise=sigma * r,
        spread=12.0 * problem.c * (D / om1) ** 2,
        stability=stability,
        deviation=deviation,
        regularizer=regularizer,
        comparator=(G + nu) / (2.0 * b1 * r) * (1.0 / T + om1 * (1.0 - 1.0 / T)),
    )
