"""Bounds, variation and lemmas for discounts far below 1/2, against multi-precision."""

import mpmath as mp
import numpy as np
import pytest

from undrift import DiscountedAIOLI, DiscountedVAW
from undrift.errors import ConditionError
from undrift.losses import logistic, squared
from undrift.regret import certify, discounted_variation
from undrift.theory import bounds
from undrift.theory import regret_lemmas as lemmas

BETAS = [0.4, 1e-3, 1e-12, 1e-13, 1e-17, 1e-100, 1e-300]


def problem(rounds=6, dim=2):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(rounds, dim)), rng.normal(size=rounds)
    return Z, y, 0.3 * np.repeat(rng.normal(size=(2, dim)), rounds // 2, axis=0)


def rises(Z, y, u, beta):
    """What each past loss, and the ridge before all of them, adds at each move: by move, [(weight, difference)]."""
    b = mp.mpf(beta)
    for t in range(len(y) - 1):
        ridge = mp.mpf(float(u[t + 1] @ u[t + 1])) - mp.mpf(float(u[t] @ u[t]))
        out = [(b ** (t + 1), ridge / 2)]
        for s in range(t + 1):
            new, old = (mp.mpf(float(v @ Z[s])) - mp.mpf(float(y[s])) for v in (u[t + 1], u[t]))
            out.append((b ** (t - s), (new**2 - old**2) / 2))
        yield out


@pytest.mark.parametrize("beta", BETAS)
def test_the_vaw_bound_is_that_of_its_definition(beta):
    Z, y, u = problem()
    with mp.workdps(700):
        energy = sum(mp.mpf(beta) ** (len(y) - 1 - t) * mp.mpf(float(z @ z)) for t, z in enumerate(Z))
        top = mp.mpf(float(np.abs(y).max())) ** 2
        forgetting = top * len(y) * -mp.log(mp.mpf(beta))  # d / 2 = 1
        dimension = top * mp.log(1 + energy / 2)
        path = mp.mpf(beta) * sum(weight * rise for move in rises(Z, y, u, beta) for weight, rise in move)
        start = mp.mpf(beta) / 2 * mp.mpf(float(u[0] @ u[0]))
        want = float(start + dimension + path + forgetting)
        terms = float(forgetting), float(dimension)
    got = bounds.vaw(Z, y, u, beta=beta, exact_path=True)
    assert (got.forgetting, got.dimension) == pytest.approx(terms, rel=1e-12)
    assert got.total == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_the_variation_is_that_of_its_definition(beta):
    Z, y, u = problem()
    with mp.workdps(700):
        moves = [(sum(w * max(rise, 0) for w, rise in move), sum(w for w, _ in move)) for move in rises(Z, y, u, beta)]
        want = float(sum(rising / mass for rising, mass in moves))
    assert discounted_variation(Z, y, u, beta, squared, reg=1.0).value == pytest.approx(want, rel=1e-12)


@pytest.mark.parametrize("loss", [squared, logistic])
@pytest.mark.parametrize("beta", BETAS)
def test_lemmas_hold(beta, loss):
    Z, y, u = problem()
    if loss is logistic:
        y = np.where(y > 0.0, 1.0, -1.0)
    sides = lemmas.changed_beta(Z, y, u, beta=beta, gamma=beta, loss=loss)
    assert sides.left <= sides.right
    left, right = lemmas.abel_sum(y, beta)
    assert left == pytest.approx(right, rel=1e-14)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("model", [DiscountedVAW, DiscountedAIOLI])
def test_learners_and_certificates_are_finite(beta, model):
    Z, y, u = problem()
    loss, learner = squared, model(beta=beta)
    if model is DiscountedAIOLI:
        loss, y = logistic, np.where(y > 0.0, 1.0, -1.0)
    trace = learner.play(Z, y)
    with mp.workdps(700):
        want = [float(mp.mpf(beta) ** (t + 1)) for t in range(len(y))]
    np.testing.assert_allclose(trace.potential, want, rtol=1e-12, atol=1e-300)
    assert np.isfinite(trace.yhat).all()
    assert certify(model(beta=beta), Z, y, trace, u, loss=loss).holds


def test_a_shorter_memory_for_the_variation_is_refused():
    Z, y, u = problem()
    with pytest.raises(ConditionError, match=r"gamma must be in \[beta, 1\)"):
        bounds.vaw(Z, y, u, beta=1e-17, gamma=1e-30)
