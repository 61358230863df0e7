"""The predicted split of epsilon: what a theorem promises is what its terms add up to."""

import math
from dataclasses import replace

import numpy as np
import pytest

from undrift.errors import InputError
from undrift.optim import Problem, Tuning, budget, tune
from undrift.optim.theorems import THEOREMS
from undrift.theory import adam_lemmas as lemmas


@pytest.mark.parametrize("key", THEOREMS)
def test_the_terms_of_every_plan_add_up_to_less_than_epsilon(key):
    rng = np.random.default_rng(2)
    share = {"clipped/nu": 0.70, "clipped/margin": 0.70, "clip-free/nu": 0.55, "clip-free/margin": 0.45}[key]
    for trial in range(400):
        G, sigma = 10.0 ** rng.uniform(-3, 3), rng.integers(2) * 10.0 ** rng.uniform(-3, 3)
        epsilon = (G + sigma) * (10.0 ** rng.uniform(-4, 0) if trial % 2 else 1.0)
        problem = Problem(G, sigma, 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-4, 4), epsilon)
        nu = problem.scale * (10.0 ** rng.uniform(-6, 0) if trial % 3 else 1.0)
        width = {"rho": rng.uniform(0, 0.999)} if THEOREMS[key].by_margin else {}
        split = budget(tune(problem, key, nu=nu, **width), problem)
        assert all(term >= 0.0 for term in split)
        assert split.total <= share * epsilon


def test_a_beta2_below_beta1_squared_costs_its_term():
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.5)
    usual, low = (tune(problem, "clipped/nu", nu=nu) for nu in (None, 1.0))
    assert budget(usual, problem).regularizer < 1e-12
    assert low.beta2 < low.beta1**2
    gap = low.beta1 - low.beta2**0.5
    assert budget(low, problem).regularizer == pytest.approx(gap / (2 * low.beta1 * low.gap1**0.5), rel=1e-9)


def test_a_tuning_without_theorem_is_refused():
    with pytest.raises(InputError, match=r"^budget: tuning.theorem must be one of clipped/nu"):
        budget(Tuning(gamma=1.0, gap1=0.1, gap2=0.1, nu=1.0), Problem(1.0, 0.0, 1.0, 1.0))


@pytest.mark.parametrize("key", THEOREMS)
def test_every_term_is_what_the_lemmas_say_of_gradients_of_length_g(key):
    """The terms of the O2NC bound, and the lemmas' right sides for |g_t| = G; a few hundred rounds instead of T."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        G, sigma, gap, c = 10.0 ** rng.uniform(-2, 2, size=4)
        problem = Problem(G, sigma, gap, c, (G + sigma) * 10.0 ** rng.uniform(-2, 0))
        T, which = int(rng.integers(100, 400)), THEOREMS[key]
        planned = tune(problem, key, nu=problem.scale * 10.0 ** rng.uniform(-4, 0))
        t = replace(planned, steps=T)
        split, D, b1, r = budget(t, problem), t.clip_norm, t.beta1, math.sqrt(t.gap1)
        assert split.start == pytest.approx(gap / (D * T), rel=1e-12)
        assert split.warm_up == pytest.approx((2.0 * G + sigma) / (t.gap1 * T), rel=1e-12)
        assert split.noise == pytest.approx(sigma * r, rel=1e-12)
        assert split.spread == pytest.approx(problem.epsilon / (4.0 if which.clips else 8.0), rel=1e-12)
        # gamma (1 - b1) / D = b1 sqrt(1 - b1); the lagged sum has half of it, without the b1
        sums = lemmas.ema_self_confident(np.full(T, G * G), t.gap2, t.nu, lagged=not which.by_margin).right
        assert split.stability == pytest.approx((b1 * r if which.by_margin else 0.5 * r) * sums / T, rel=1e-9)
        longest = t.nu + G  # A_t, before the composite loss
        assert split.comparator == pytest.approx(
            D * (longest + t.gap1 * (T - 1) * longest) / (2.0 * t.gamma * t.gap1 * T), rel=1e-9
        )
        expected = 0.0
        if which.by_margin:
            # sum of 1 - b1 A_{t-1} / A_t <= T ln(1 / b1) + ln(A_T / A_0)
            grown = -T * math.log1p(-t.gap1) + math.log((t.nu + t.gamma * t.mu + G) / t.nu)
            factor = math.sqrt(t.beta2 / ((t.beta2 - b1 * b1) * t.gap2))
            expected = t.gamma * t.gap1 * factor * grown * G / (D * T)
        assert split.deviation == pytest.approx(expected, rel=1e-7)
