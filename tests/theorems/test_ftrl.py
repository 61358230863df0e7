"""ftrl: the identity, its optimistic form, and the two stability bounds (Lemmas 19 to 22)."""

import numpy as np
import pytest

from undrift.theory import adam_lemmas as lemmas


def instance(rng):
    T, d = int(rng.integers(1, 30)), int(rng.integers(1, 4))
    radius = None if rng.random() < 0.4 else 10.0 ** rng.uniform(-2, 1)
    u = rng.normal(size=d)
    if radius is not None:
        u *= min(1.0, radius / np.linalg.norm(u))
    return rng.normal(size=(T, d)), 10.0 ** rng.uniform(-2, 1, size=T + 1), u, radius


def test_the_identity_is_an_equality_and_the_printed_one_is_not():
    rng = np.random.default_rng(0)
    violated = 0
    for _ in range(400):
        g, eta, u, radius = instance(rng)
        sides = lemmas.ftrl_identity(g, eta, u, radius)
        scale = abs(sides.left) + abs(sides.right) + float(u @ u) / eta.min()
        assert abs(sides.left - sides.right) <= 1e-11 * scale
        printed = lemmas.ftrl_identity(g, eta, u, radius, printed=True)
        violated += abs(printed.left - printed.right) > 1e-9 * scale
        assert printed.left == sides.left
    assert violated > 390


def test_the_optimistic_identity_is_an_equality():
    rng = np.random.default_rng(1)
    for _ in range(400):
        g, eta, u, radius = instance(rng)
        hints = rng.normal(size=(len(g) + 1, g.shape[1]))
        sides = lemmas.optimistic_identity(g, hints, eta, u, radius)
        scale = abs(sides.left) + abs(sides.right) + float(u @ u) / eta.min()
        assert abs(sides.left - sides.right) <= 1e-11 * scale
        assert lemmas.optimistic_identity(g, 0 * hints, eta, u, radius) == lemmas.ftrl_identity(g, eta, u, radius)


@pytest.mark.parametrize("scale_free", [False, True])
def test_one_round_costs_at_most_its_stability(scale_free):
    rng = np.random.default_rng(2)
    rounds = 0
    for _ in range(250):
        g, eta, _, radius = instance(rng)
        for sides in lemmas.stability(g, eta, radius, scale_free=scale_free):
            scale = abs(sides.left) + abs(sides.right) + 1.0
            assert sides.left <= sides.right + 1e-10 * scale
            rounds += 1
    assert rounds > 2000


def test_stability_is_tight_without_a_ball_and_with_equal_steps():
    g = np.random.default_rng(3).normal(size=(20, 2))
    for sides in lemmas.stability(g, np.full(21, 0.7), None, scale_free=False):
        assert sides.left == pytest.approx(sides.right, rel=1e-9)
