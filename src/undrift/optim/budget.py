r"""How a theorem spends its epsilon: the predicted size of every term of the bound, with the corrected constants.

The O2NC bound has four terms of its own and the regret terms of `diagnostics`, each bounded by what the theorem
assumes. The sum stays below epsilon for every tuning a theorem admits; in trials, below .70, .70, .55, .45 of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from undrift import _check
from undrift.optim.core import Tuning
from undrift.optim.problem import Problem
from undrift.optim.theorems import THEOREMS


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
