"""o2nc: random scaling (Lemma 6) and the conversion (Lemmas 7, 8), means over seeds."""

import math

import numpy as np
import pytest

from undrift.optim import Objective, Problem, Tuning, core, lemmas


@pytest.mark.parametrize("rate", [1.0, 0.5, 3.0])
def test_exponential_scaling_is_an_equality_with_one_over_lambda(rate):
    for value, slope in (
        (lambda s: s, lambda s: 1.0),
        (lambda s: s**3 - 2 * s, lambda s: 3 * s**2 - 2),
        (lambda s: math.cos(0.3 * s), lambda s: -0.3 * math.sin(0.3 * s)),
    ):
        sides = lemmas.exponential_scaling(value, slope, rate)
        assert sides.left == pytest.approx(sides.right, rel=1e-9)
    printed = lemmas.exponential_scaling(lambda s: s, lambda s: 1.0, rate, printed=True)
    assert printed.left == pytest.approx(1 / rate, rel=1e-9)
    assert printed.right == pytest.approx(1.0, rel=1e-9)  # equal only for lambda = 1


def test_exponential_scaling_with_a_kink_by_our_own_draws():
    """F = |s - 1|: both sides from 20000 of the generator's scales; E|s - 1| - 1 = 2/e - 1."""
    s = np.array([core.exponential(core.bits(3, t)[0]) for t in range(1, 20001)])
    left, right = np.abs(s - 1) - 1, np.sign(s - 1)
    assert left.mean() == pytest.approx(2 / math.e - 1, abs=4 * left.std() / math.sqrt(len(s)))
    assert right.mean() == pytest.approx(2 / math.e - 1, abs=4 * right.std() / math.sqrt(len(s)))


@pytest.mark.parametrize("name", ["saturated", "kinks", "well"])
@pytest.mark.parametrize("clips", [True, False])
def test_the_conversion_bounds_the_mean_stationarity(name, clips):
    objective, x0, T, D, gap = Objective(name, 2, 0.3), np.array([1.2, -0.7]), 150, 0.01, 0.05
    price = 1.0
    mu = 0.0 if clips else 24 * price * D / gap**2
    c = Tuning(gamma=(1 - gap) * D / math.sqrt(gap), gap1=gap, gap2=0.02, nu=0.1, clip_norm=D, clips=clips, mu=mu)
    problem = Problem(objective.lipschitz, objective.noise, objective.value(x0), price)
    lefts, rights = [], []
    for seed in range(20):
        rows = {"truth": [], "noisy": [], "delta": [], "x": []}
        x, m, v, warmth, delta = x0.copy(), np.zeros(2), 0.0, 0.0, np.zeros(2)
        for t in range(1, T + 1):
            x = x + core.exponential(core.bits(seed, t)[0]) * delta
            g = objective.noisy_gradient(x, seed, t)
            for key, value in (("truth", objective.gradient(x)), ("noisy", g), ("delta", delta), ("x", x)):
                rows[key].append(value)
            warmth, m, v = core.ema(warmth, 1.0, gap), core.ema(m, g, gap), core.ema(v, g @ g, c.gap2)
            delta = core.leader(m, core.rate(v, warmth, c), math.sqrt(m @ m), c.ball)
        arrays = {key: np.array(value) for key, value in rows.items()}
        sides = lemmas.o2nc_conversion(**arrays, gap=gap, D=D, mu=mu, problem=problem)
        lefts.append(sides.left)
        rights.append(sides.right)
    assert np.mean(lefts) <= np.mean(rights)
