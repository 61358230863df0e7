"""optim.core: the updates are the minimisers they claim to be, on every host, and nothing in them ever breaks."""

import ast
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from undrift.optim import core
from undrift.optim.core import Tuning


def ftrl_objective(gradients, beta1, eta, mu):
    """Eq 5 times beta1^t, straight from the paper: a function of Delta."""
    t = len(gradients)
    weights = beta1 ** (t - np.arange(1, t + 1))

    def objective(delta):
        linear = weights @ (gradients @ delta)
        return beta1**t * (delta @ delta) / (2 * eta) + linear + 0.5 * mu * weights.sum() * (delta @ delta)

    return objective


def minimiser(gradients, beta1, eta, mu, radius):
    """Minimise Eq 5 directly: solve the stationarity condition, on the sphere by its multiplier if it lies outside."""
    t, d = gradients.shape
    weights = beta1 ** (t - np.arange(1, t + 1))
    hessian = (beta1**t / eta + mu * weights.sum()) * np.eye(d)
    linear = weights @ gradients
    free = np.linalg.solve(hessian, -linear)
    if radius is None or np.linalg.norm(free) <= radius:
        return free

    def outside(multiplier):
        return np.linalg.norm(np.linalg.solve(hessian + multiplier * np.eye(d), -linear)) - radius

    high = 1.0
    while outside(high) > 0:
        high *= 4.0
    return np.linalg.solve(hessian + brentq(outside, 0.0, high, xtol=1e-300, rtol=1e-15) * np.eye(d), -linear)


def problem(rng, mu):
    t, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    c = Tuning(
        gamma=10.0 ** rng.uniform(-3, 1),
        gap1=10.0 ** rng.uniform(-3, -0.1),
        gap2=10.0 ** rng.uniform(-4, -0.1),
        nu=10.0 ** rng.uniform(-6, 1),
        clip_norm=10.0 ** rng.uniform(-3, 0),
        clips=mu == 0.0,
        mu=mu,
    )
    return rng.normal(size=(t, d)) * 10.0 ** rng.uniform(-2, 2), c


def recursion(gradients, c):
    m, v, warmth = np.zeros(gradients.shape[1]), 0.0, 0.0
    for g in gradients:
        warmth = core.ema(warmth, 1.0, c.gap1)
        m = core.ema(m, g, c.gap1)
        v = core.ema(v, float(g @ g), c.gap2)
    return core.leader(m, core.rate(v, warmth, c), math.sqrt(m @ m), c.ball)


@pytest.mark.parametrize("kind", ["clipped", "clip-free"])
def test_updates_are_the_minimisers_of_the_discounted_ftrl_objective(kind):
    rng = np.random.default_rng(5)
    clipped = 0
    for _ in range(200):
        gradients, c = problem(rng, mu=0.0 if kind == "clipped" else 10.0 ** rng.uniform(-3, 3))
        t = len(gradients)
        V = c.gap2 * np.sum(c.beta2 ** (t - np.arange(1, t + 1)) * np.sum(gradients**2, axis=1))
        eta = c.gamma * c.gap1 * c.beta1**t / (c.nu + math.sqrt(V))
        delta = recursion(gradients, c)
        reference = minimiser(gradients, c.beta1, eta, c.mu, c.ball)
        np.testing.assert_allclose(delta, reference, rtol=1e-9, atol=1e-12 * np.abs(reference).max())
        objective = ftrl_objective(gradients, c.beta1, eta, c.mu)
        nearby = delta + 1e-4 * np.linalg.norm(delta) * rng.normal(size=(20, delta.size))
        if c.ball is not None:
            clipped += np.linalg.norm(delta) > c.ball * (1 - 1e-12)
            nearby *= np.minimum(1.0, c.ball / np.linalg.norm(nearby, axis=1))[:, None]
        floor = objective(delta) - 1e-12 * abs(objective(delta))
        assert all(objective(other) >= floor for other in nearby)
    assert kind == "clip-free" or 50 < clipped < 200  # both sides of the clip were met


def test_state_is_exact_for_tiny_gaps():
    """With 1 - beta = 1e-15 the averages of a constant stay the constant and warmth is t (1 - beta)."""
    m, warmth = 0.0, 0.0
    for _ in range(1000):
        m, warmth = core.ema(m, 3.0, 1e-15), core.ema(warmth, 1.0, 1e-15)
    exact = 1 - (1 - Fraction(1e-15)) ** 1000
    assert warmth == pytest.approx(float(exact), rel=1e-13)
    assert m / warmth == pytest.approx(3.0, rel=1e-13)
    assert core.ema(7.0, 7.0, 1e-15) == 7.0


def test_weights_of_the_average_are_the_exponential_ones():
    gap, t = 0.07, 60
    warmth, average, spread = 0.0, np.zeros(2), 0.0
    x = np.random.default_rng(0).normal(size=(t, 2)).cumsum(axis=0) + 1e3
    for row in x:
        warmth = core.ema(warmth, 1.0, gap)
        weight = core.averaging_weight(warmth, gap)
        spread = core.spread_after(spread, weight, float((row - average) @ (row - average)))
        average = core.ema(average, row, weight)
    w = gap * (1 - gap) ** (t - np.arange(1, t + 1)) / (1 - (1 - gap) ** t)
    np.testing.assert_allclose(average, w @ x, rtol=1e-14)
    assert spread == pytest.approx(w @ np.sum((x - w @ x) ** 2, axis=1), rel=1e-11)
    assert core.noise_slack(2.0, warmth, gap) == pytest.approx(2.0 * math.sqrt(w @ w), rel=1e-14)


@pytest.mark.parametrize(
    ("length", "radius"), [(0.0, 1.0), (1.0, 1.0), (1e-300, 1e-3), (1e300, 1e-300), (math.inf, 2.0)]
)
def test_shrink_lands_in_the_ball(length, radius):
    factor = core.shrink(length, radius)
    assert 0.0 <= factor <= 1.0
    assert length == math.inf or factor * length <= radius * (1 + 1e-15)


def test_nothing_seen_and_no_damping_is_a_zero_step():
    c = Tuning(gamma=1.0, gap1=0.1, gap2=0.1, nu=0.0, clip_norm=1.0)
    assert core.leader(0.0, core.rate(0.0, 0.0, c), 0.0, c.ball) == 0.0


def test_scales_are_exponential():
    s = np.array([core.exponential(core.bits(7, t)[0]) for t in range(1, 40001)])
    assert s.min() > 0.0
    grid = np.quantile(s, np.linspace(0.02, 0.98, 49))
    assert np.abs(-np.expm1(-grid) - np.linspace(0.02, 0.98, 49)).max() < 1.63 / math.sqrt(len(s))
    assert abs(np.corrcoef(s[1:], s[:-1])[0, 1]) < 4 / math.sqrt(len(s))
    assert abs(s.mean() - 1.0) < 4 / math.sqrt(len(s))


def test_words_depend_on_every_part_of_the_key():
    base = core.bits(1, 1)
    for seed, t, stream in [(2, 1, 0), (1 << 33, 1, 0), (1, 2, 0), (1, (1 << 32) + 1, 0), (1, 1, 1), (1, 1, 2)]:
        assert core.bits(seed, t, stream) != base


def test_ends_of_the_range_are_finite_and_symmetric():
    assert core.exponential(0) == pytest.approx(33 * math.log(2), rel=1e-15)
    assert core.exponential(core.MASK) == pytest.approx(2.0**-33, rel=1e-9)


def words():
    return np.concatenate([[0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.random.default_rng(1).integers(0, 2**32, 2000)])


def test_wrapping_32_bit_integers_give_the_same_words_and_scales():
    w = words().astype(np.uint32)
    key = np.uint32(0x9E3779B9)
    a, b = core.threefry(key, key ^ np.uint32(77), w, w[::-1].copy(), np.uint32(core.MASK))
    assert a.dtype == np.uint32
    plain = [core.threefry(int(key), int(key) ^ 77, int(p), int(q)) for p, q in zip(w, w[::-1], strict=True)]
    assert [(int(p), int(q)) for p, q in zip(a, b, strict=True)] == plain
    single = core.exponential(w.astype(np.uint64), np.log, np.log1p)
    exact = np.array([core.exponential(int(k)) for k in w])
    np.testing.assert_array_max_ulp(np.asarray(single, dtype=np.float64), exact, maxulp=2)


def test_core_imports_the_standard_library_only():
    tree = ast.parse(Path(core.__file__).read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "." for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names) | {"__future__"}


def test_the_noise_estimate_is_the_weighted_variance_corrected_for_its_weights():
    """Noise of mean 0: the estimate's mean is sigma^2, by the weights of m and the true sum of their squares."""
    rng = np.random.default_rng(5)
    gap, T = 0.2, 6
    w = gap * (1.0 - gap) ** np.arange(T - 1.0, -1.0, -1.0)
    warmth = float(w.sum())
    slack = float(core.noise_slack(1.0, warmth, gap))
    assert slack**2 == pytest.approx(float(np.sum(w**2)) / warmth**2, rel=1e-12)
    noise = rng.normal(size=(4000, T, 2)) * 0.7  # two coordinates: sigma^2 = 2 * 0.49
    g = np.array([1.0, -2.0]) + noise
    g_mean, m = np.einsum("t,ntd->n", w, g**2), np.einsum("t,ntd->nd", w, g)
    found = core.noise_estimate(g_mean, np.linalg.norm(m, axis=1), warmth, slack)
    assert found.mean() == pytest.approx(0.98, abs=4 * found.std() / math.sqrt(4000))
