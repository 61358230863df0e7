"""rates: the number of steps that `tune` prescribes has the exponents of the paper, and the remark after Theorem 5."""

import math

import numpy as np
import pytest

from undrift.optim import Problem, budget, tune
from undrift.optim.theorems import THEOREMS

SMALL = (1e-2, 1e-3, 1e-4)
"""Targets epsilon at which the horizon's largest term has taken over, in gradient units."""


def exponent(steps, x):
    """Slope of log steps over log x, between the first and the last."""
    return math.log(steps[-1] / steps[0]) / math.log(x[-1] / x[0])


@pytest.mark.parametrize("key", THEOREMS)
def test_steps_grow_like_epsilon_to_the_minus_seven_halves(key):
    """c fixed: 1 / (1 - beta1) is epsilon^-2, F* sqrt(c) / epsilon^1.5 the rest."""
    steps = [tune(Problem(1.0, 0.5, 1.0, 1.0, epsilon), key).steps for epsilon in SMALL]
    assert exponent(steps, SMALL) == pytest.approx(-3.5, abs=0.01)


@pytest.mark.parametrize("key", THEOREMS)
def test_steps_grow_like_epsilon_to_the_minus_three_where_the_start_is_cheap(key):
    """F* or c so small that the warm-up decides: (G + sigma) / (epsilon (1 - beta1))."""
    steps = [tune(Problem(1.0, 0.5, 1e-12, 1e-12, epsilon), key, nu=1.0).steps for epsilon in SMALL]
    assert exponent(steps, SMALL) == pytest.approx(-3.0, abs=0.01)


@pytest.mark.parametrize("key", THEOREMS)
def test_smooth_functions_need_epsilon_to_the_minus_four(key):
    """c = L^2 / epsilon turns epsilon^-7/2 into epsilon^-4, second-order smooth ones stay at epsilon^-7/2."""
    smooth = [tune(Problem.smooth(1.0, 0.5, 1.0, 1.0, target), key).steps for target in SMALL]
    second = [tune(Problem.second_order_smooth(1.0, 0.5, 1.0, 1.0, target), key).steps for target in SMALL]
    assert exponent(smooth, SMALL) == pytest.approx(-4.0, abs=0.01)
    assert exponent(second, SMALL) == pytest.approx(-3.5, abs=0.01)


@pytest.mark.parametrize("key", ["clipped/margin", "clip-free/margin"])
def test_a_narrow_margin_costs_one_over_one_minus_rho(key):
    """1 - beta1 shrinks by 1 - rho^2, about 2 (1 - rho)."""
    narrow = (1e-2, 1e-3, 1e-4)
    steps = [tune(Problem(1.0, 0.5, 1.0, 1.0, 1e-2), key, rho=1.0 - gap).steps for gap in narrow]
    assert exponent(steps, narrow) == pytest.approx(-1.0, abs=0.01)


@pytest.mark.parametrize("key", THEOREMS)
@pytest.mark.parametrize("unit", [1e-3, 7.0, 1e4])
def test_steps_do_not_depend_on_the_unit_of_gradients(key, unit):
    """Losses in other units change G, sigma, F*, c, epsilon and nu alike; no number of steps may notice."""
    numbers = np.array([1.3, 0.4, 2.0, 3.0, 0.05])
    plain, scaled = (tune(Problem(*(s * numbers)), key, nu=s * 0.01) for s in (1.0, unit))
    assert scaled.steps == pytest.approx(plain.steps, rel=1e-6)
    assert scaled.gap1 == pytest.approx(plain.gap1, rel=1e-6)


def test_the_remark_after_theorem_5_has_the_wrong_power():
    """Without its condition on beta2 the stability term is sqrt(1 - beta1) G^2 / nu, which must stay below epsilon.

    The printed 1 - beta1 = (epsilon nu)^2 / (G + sigma)^3 changes with the unit of gradients, and breaks that by
    sqrt(G + sigma) where G + sigma > 1; (G + sigma)^4 balances it.
    """
    for G in (0.01, 1.0, 100.0):
        epsilon, nu = 0.1 * G, 0.01 * G
        printed, corrected = ((epsilon * nu) ** 2 / G**power for power in (3, 4))
        assert math.sqrt(corrected) * G**2 / nu == pytest.approx(epsilon, rel=1e-12)
        assert corrected == pytest.approx(1e-6, rel=1e-12)  # the same in every unit
        assert printed == pytest.approx(1e-6 * G, rel=1e-12)
        assert (math.sqrt(printed) * G**2 / nu <= epsilon * (1.0 + 1e-12)) == (G <= 1.0)


def test_with_the_condition_on_beta2_the_factor_is_gone():
    """1 - beta2 <= nu / (G + sigma) makes the same term at most sqrt(1 - beta1) (G + sigma), whatever nu."""
    shares = []
    for nu in (1.0, 1e-3, 1e-6):
        problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.1)
        tuning = tune(problem, "clipped/nu", nu=nu)
        shares.append(budget(tuning, problem).stability / (math.sqrt(tuning.gap1) * problem.scale))
    assert max(shares) < 4.0
