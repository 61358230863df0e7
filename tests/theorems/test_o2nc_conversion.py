"""o2nc: random scaling (Lemma 6) and the conversion (Lemmas 7, 8), means over seeds."""

import math

import numpy as np
import pytest

from undrift.optim import Objective, Problem, Tuning, core
from undrift.theory import adam_lemmas as lemmas


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


def coordinate_runs(objective, x0, T, D, gap, seeds, frozen=False):
    """Runs of clipped Adam with a second moment and a clip for each coordinate: norm scope "coord"."""
    c = Tuning(gamma=(1 - gap) * D / math.sqrt(gap), gap1=gap, gap2=0.02, nu=0.05, clip_norm=D)
    for seed in range(seeds):
        rows = {"truth": [], "noisy": [], "delta": [], "x": []}
        x, m, v, delta = x0.copy(), np.zeros_like(x0), np.zeros_like(x0), np.zeros_like(x0)
        warmth = 0.0
        for t in range(1, T + 1):
            x = x + core.exponential(core.bits(seed, t)[0]) * delta
            g = objective.noisy_gradient(x, seed, t)
            for key, value in (("truth", objective.gradient(x)), ("noisy", g), ("delta", delta), ("x", x)):
                rows[key].append(value)
            warmth, m, v = core.ema(warmth, 1.0, gap), core.ema(m, g, gap), core.ema(v, g**2, c.gap2)
            delta = 0.0 * m if frozen else core.leader(m, core.rate(v, warmth, c), np.abs(m), c.ball)
        yield {key: np.array(value) for key, value in rows.items()}


@pytest.mark.parametrize("name", ["saturated", "kinks", "well"])
def test_the_conversion_by_coordinates_bounds_the_mean_stationarity_in_the_l1_norm(name):
    """With sqrt(d) on G and sigma and d on the spread; and the clip is per coordinate, so |delta| exceeds D."""
    objective, x0, T, D, gap = Objective(name, 6, 0.3), np.linspace(-1.2, 1.0, 6), 200, 0.01, 0.05
    problem = Problem(objective.lipschitz, objective.noise, objective.value(x0), 1.0)
    sides, length = [], 0.0
    for arrays in coordinate_runs(objective, x0, T, D, gap, seeds=12):
        sides.append(lemmas.o2nc_conversion(**arrays, gap=gap, D=D, mu=0.0, problem=problem, norm="coord"))
        length = max(length, float(np.linalg.norm(arrays["delta"], axis=1).max()))
        assert np.abs(arrays["delta"]).max() <= D * (1 + 1e-12)
    assert np.mean([side.left for side in sides]) <= np.mean([side.right for side in sides])
    assert length > 1.5 * D


def test_both_sides_of_the_l1_form_grow_alike_with_the_coordinates():
    """Points that oscillate as far as they may: the spread of d coordinates is d times that of one.

    Gradients that are all equal: their l1 norm is sqrt(d) times the length that bounds them.
    """
    d, T, D, gap = 9, 60, 0.5, 0.2
    moves = np.where(np.arange(T)[:, None] % 2, D, -D) * np.ones(d)
    x = np.cumsum(moves, axis=0)
    quiet = Problem(1e-9, 0.0, 1e-9, 1.0)
    zero = np.zeros((T, d))
    wide, one = (
        lemmas.o2nc_conversion(zero[:, :k], zero[:, :k], moves[:, :k], x[:, :k], gap, D, 0.0, quiet, norm="coord")
        for k in (d, 1)
    )
    assert wide.left == pytest.approx(d * one.left, rel=1e-12)
    assert wide.right == pytest.approx(d * one.right, rel=1e-6)
    assert wide.left <= wide.right
    slope = np.full((T, d), 1.0 / 3.0)  # of length 1
    steep = Problem(1.0, 0.0, 1e-9, 1e-12)
    found = lemmas.o2nc_conversion(slope, slope, zero, zero + 1.0, gap, D, 0.0, steep, norm="coord")
    assert found.left == pytest.approx(math.sqrt(d), rel=1e-9)  # the l1 norm of every mean gradient
    assert found.left <= found.right


def test_one_coordinate_is_the_conversion_itself():
    objective, gap, D = Objective("kinks", 1, 0.2), 0.1, 0.02
    problem = Problem(objective.lipschitz, objective.noise, objective.value(np.array([0.7])), 2.0)
    for arrays in coordinate_runs(objective, np.array([0.7]), 80, D, gap, seeds=2):
        one = lemmas.o2nc_conversion(**arrays, gap=gap, D=D, mu=0.0, problem=problem)
        assert lemmas.o2nc_conversion(**arrays, gap=gap, D=D, mu=0.0, problem=problem, norm="coord") == one


@pytest.mark.parametrize("norm", ["all", "coord"])
@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_both_sides_of_the_conversion_are_their_definition(norm, mu):
    """Every sum written out, weights and all, on arrays that need not be a run."""
    rng = np.random.default_rng(8)
    T, d, D, gap = 7, 3, 0.4, 0.3
    truth, noisy, delta, x = rng.normal(size=(4, T, d))
    problem = Problem(2.0, 0.6, 1.7, 0.9)
    b, wide = 1.0 - gap, d if norm == "coord" else 1
    order = 1 if norm == "coord" else 2
    left, u = 0.0, []
    for t in range(T):
        w = gap * b ** (t - np.arange(t + 1.0)) / (1.0 - b ** (t + 1))
        centre = w @ x[: t + 1]
        spread = float(w @ np.sum((x[: t + 1] - centre) ** 2, axis=1))
        left += float(np.linalg.norm(w @ truth[: t + 1], order))
        left += problem.c * spread
        S = b ** (t - np.arange(t + 1.0)) @ truth[: t + 1]
        u.append(-D * np.sign(S) if norm == "coord" else -D * S / np.linalg.norm(S))
    regret = sum(float(noisy[t] @ (delta[t] - u[t])) + 0.5 * mu * (delta[t] @ delta[t] - u[t] @ u[t]) for t in range(T))
    moves = b * sum(b ** (t - s) * float(noisy[s] @ (u[t] - u[t + 1])) for t in range(T - 1) for s in range(t + 1))
    right = problem.gap / (D * T) + math.sqrt(wide) * (2 * problem.lipschitz + problem.noise) / (gap * T)
    right += math.sqrt(wide) * problem.noise * math.sqrt(gap) + 12 * problem.c * wide * D**2 / gap**2
    sides = lemmas.o2nc_conversion(truth, noisy, delta, x, gap, D, mu, problem, norm=norm)
    assert sides.left == pytest.approx(left / T, rel=1e-12)
    assert sides.right == pytest.approx(right + (regret + moves) / (D * T), rel=1e-12)
