"""The compiled loop of Algorithm 2 against its twin, bit by bit, and against the formulas of optim.core."""

import math

import numpy as np
import pytest

from tests.twins import o2nc as reference
from undrift import kernels
from undrift.optim import Objective, Tuning, o2nc
from undrift.optim.objectives import KINDS

CLIPPED = Tuning(gamma=0.02, gap1=0.05, gap2=0.01, nu=1e-3, clip_norm=0.01)
FREE = Tuning(gamma=0.02, gap1=0.05, gap2=0.01, nu=1e-3, clip_norm=0.01, clips=False, mu=30.0)


def state(dim, blocks):
    x = np.linspace(-1.3, 2.1, dim)
    offsets = np.linspace(0, dim, blocks + 1).astype(np.int64)
    arrays = [x, x.copy(), *(np.zeros(dim) for _ in range(3)), x.copy()]
    return [*arrays, np.zeros(blocks), offsets, np.zeros(reference.SCALARS), np.zeros(3, dtype=np.int64)]


def numbers(c, noise=0.3, price=1.5):
    radius = math.inf if c.ball is None else c.ball
    return np.array([noise, c.gamma, c.gap1, c.gap2, c.nu, c.mu, radius, price])


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("c", [CLIPPED, FREE], ids=["clipped", "clip-free"])
@pytest.mark.parametrize(("dim", "blocks"), [(1, 1), (3, 1), (3, 3), (5, 2)])
def test_compiled_equals_twin_in_every_bit(kind, c, dim, blocks):
    ours, twin = state(dim, blocks), state(dim, blocks)
    for seed, steps in ((2**40 + 9, 1), (2**40 + 9, 0), (2**40 + 9, 400)):
        assert kernels.o2nc_play(kind, numbers(c), seed, steps, *ours) == 0
        assert reference.o2nc_play(kind, numbers(c), seed, steps, *twin) == 0
        for a, b in zip(ours, twin, strict=True):
            np.testing.assert_array_equal(a, b)
    assert ours[-1][0] == 401
    assert 1 <= ours[-1][1] <= 401


@pytest.mark.parametrize("kind", range(4))
def test_gradients_equal_their_twin_and_the_slope_of_the_value(kind):
    rng = np.random.default_rng(kind)
    for dim in (1, 2, 7):
        objective = Objective(KINDS[kind], dim)
        for scale in (0.3, 2.0, 9.0):
            for _ in range(20):
                x, ours, twin = rng.normal(size=dim) * scale, np.empty(dim), np.empty(dim)
                kernels.o2nc_gradient(kind, x, ours)
                reference.o2nc_gradient(kind, x, twin)
                np.testing.assert_array_equal(ours, twin)
                assert np.linalg.norm(ours) <= objective.lipschitz * (1 + 1e-15)
                u = rng.normal(size=dim)
                u /= np.linalg.norm(u)
                h = 1e-7
                slopes = [(objective.value(x + h * u) - objective.value(x - h * u)) / (2 * h)]
                assert abs(slopes[0]) <= objective.lipschitz * (1 + 1e-6)
                if np.array_equal(objective.gradient(x + 2 * h * u) != 0, objective.gradient(x - 2 * h * u) != 0) and (
                    np.linalg.norm(objective.gradient(x + 2 * h * u) - objective.gradient(x - 2 * h * u)) < 1e-4
                ):  # no kink in between
                    assert slopes[0] == pytest.approx(ours @ u, abs=1e-6)


def test_far_away_and_at_a_centre_the_gradient_is_zero_or_finite():
    out = np.empty(2)
    for kind in range(4):
        for x in (np.full(2, 1e300), np.zeros(2), np.full(2, 1 / math.sqrt(2)), np.full(2, -1 / math.sqrt(2))):
            kernels.o2nc_gradient(kind, x, out)
            assert np.isfinite(out).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("c", [CLIPPED, FREE], ids=["clipped", "clip-free"])
@pytest.mark.parametrize(("norm", "sizes"), [("all", None), ("coord", None), ("tensor", (1, 2))])
def test_the_formulas_of_core_give_the_compiled_run(name, c, norm, sizes):
    objective, seed = Objective(name, 3, noise=0.25), 11
    x0, rounds = np.array([1.7, -0.4, 2.2]), iter(range(1, 10**6))

    def gradient(x):
        return objective.noisy_gradient(x, seed, next(rounds))

    fast = o2nc(objective, x0, c, 300, seed, norm=norm, sizes=sizes, c=0.7)
    plain = o2nc(gradient, x0, c, 300, seed, norm=norm, sizes=sizes, c=0.7, noise=0.25)
    assert fast.sample_round == plain.sample_round
    for name in ("average", "sample", "x"):
        np.testing.assert_allclose(getattr(plain, name), getattr(fast, name), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(plain.certificate, fast.certificate, rtol=1e-11)
    assert plain.diagnostics.clip_rate == fast.diagnostics.clip_rate
    assert plain.diagnostics.largest_gradient == pytest.approx(fast.diagnostics.largest_gradient, rel=1e-14)
    if norm == "all":
        np.testing.assert_allclose(plain.diagnostics.terms, fast.diagnostics.terms, rtol=1e-10, atol=1e-14)
    else:
        assert plain.diagnostics.terms is None
        assert fast.diagnostics.terms is None


def test_cutting_a_run_anywhere_gives_the_same_bits():
    whole, parts = state(4, 1), state(4, 1)
    kernels.o2nc_play(2, numbers(CLIPPED), 5, 1000, *whole)
    for steps in (1, 0, 333, 600, 66):
        kernels.o2nc_play(2, numbers(CLIPPED), 5, steps, *parts)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(a, b)
