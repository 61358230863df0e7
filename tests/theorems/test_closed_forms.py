"""vaw, aioli, linear-ensemble, logistic-ensemble: every term of a closed form is what its page states.

That a bound holds says little about its constants, as most are loose. Here each term is computed again from the page's
formula; a memory beta_star is recognised by the equation it solves.
"""

import math

import numpy as np
import pytest

from tests.theorems import direct
from undrift.losses import logistic, squared
from undrift.theory import bounds


def instance(rng, loss):
    T, d = int(rng.integers(2, 25)), int(rng.integers(1, 4))
    Z = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot", "silent"]))) * 10.0 ** rng.uniform(-1, 0.5)
    u = direct.path(rng, T, d) * 10.0 ** rng.uniform(-1, 0.5)
    y = np.sum(Z * u, axis=1) + rng.normal(size=T)
    return Z, np.where(y > 0.0, 1.0, -1.0) if loss is logistic else y, u


def price_of_moves(Z, y, u, beta, loss, reg):
    """beta sum_t F_t(u_{t+1}) - F_t(u_t), F_t the discounted losses and ridge."""

    def F(t, point):
        past = sum(beta ** (t - s) * float(loss.value(Z[s - 1] @ point, y[s - 1])) for s in range(1, t + 1))
        return 0.5 * reg * beta**t * point @ point + past

    return beta * math.fsum(F(t, u[t]) - F(t, u[t - 1]) for t in range(1, len(y)))


def moves(u):
    return bool((u[1:] != u[:-1]).any())


def test_terms_of_vaw():
    rng = np.random.default_rng(1)
    moved = 0
    for _ in range(40):
        Z, y, u = instance(rng, squared)
        (T, d), beta, reg = Z.shape, float(rng.uniform(0.2, 0.98)), 10.0 ** rng.uniform(-2, 1)
        gamma, Y = float(rng.uniform(beta, 0.99)), float(np.abs(y).max())
        energy = sum(beta ** (T - t) * Z[t - 1] @ Z[t - 1] for t in range(1, T + 1))
        form = bounds.vaw(Z, y, u, beta=beta, reg=reg, gamma=gamma)
        assert form.start == pytest.approx(0.5 * beta * reg * u[0] @ u[0], rel=1e-12)
        assert form.dimension == pytest.approx(0.5 * d * Y**2 * math.log(1.0 + energy / (reg * d)), rel=1e-11)
        assert form.path == pytest.approx(
            gamma / (1.0 - gamma) * direct.variation(Z, y, u, gamma, squared, reg), rel=1e-10, abs=1e-300
        )
        assert form.forgetting == pytest.approx(0.5 * d * T * Y**2 * math.log(1.0 / beta), rel=1e-12)
        assert form.total == pytest.approx(form.start + form.dimension + form.path + form.forgetting, rel=1e-14)
        exact = bounds.vaw(Z, y, u, beta=beta, reg=reg, exact_path=True)
        scale = float(np.sum(np.abs(y) + np.abs(Z @ u.T).max(axis=1)) ** 2) + reg * float(np.abs(u).max()) ** 2
        assert exact.path == pytest.approx(price_of_moves(Z, y, u, beta, squared, reg), rel=1e-10, abs=1e-13 * scale)
        moved += moves(u)
    assert moved > 10


def test_terms_of_aioli():
    rng = np.random.default_rng(2)
    moved = 0
    for _ in range(40):
        Z, y, u = instance(rng, logistic)
        (T, d), beta, reg = Z.shape, float(rng.uniform(0.2, 0.98)), 10.0 ** rng.uniform(-2, 1)
        R, B = (float(np.linalg.norm(a, axis=1).max()) * rng.uniform(1.0, 2.0) + 1e-3 for a in (Z, u))
        price = d * (1.0 + B * R)
        weights = sum(beta ** (T - t) for t in range(1, T + 1))
        form = bounds.aioli(Z, y, u, beta=beta, reg=reg, bound=B, radius=R)
        assert form.start == pytest.approx(0.5 * beta * reg * u[0] @ u[0], rel=1e-12)
        assert form.dimension == pytest.approx(
            price * math.log(1.0 + R**2 * weights / (4.0 * d * reg * (1.0 + B * R))), rel=1e-11
        )
        assert form.path == pytest.approx(
            beta / (1.0 - beta) * direct.variation(Z, y, u, beta, logistic, reg), rel=1e-10, abs=1e-300
        )
        assert form.forgetting == pytest.approx(price * T * math.log(1.0 / beta), rel=1e-12)
        moved += moves(u)
    assert moved > 10


def check_beta_star(variation, Z, y, u, loss, reg, budget):
    """The variation belongs to the memory it defines: beta = sqrt(b) / (sqrt(b) + sqrt(P))."""
    beta = math.sqrt(budget) / (math.sqrt(budget) + math.sqrt(variation))
    assert direct.variation(Z, y, u, beta, loss, reg) == pytest.approx(variation, rel=1e-7)


def test_terms_of_the_linear_ensemble():
    rng = np.random.default_rng(3)
    moved = 0
    for _ in range(40):
        Z, y, u = instance(rng, squared)
        (T, d), reg, Y = Z.shape, 10.0 ** rng.uniform(-2, 1), float(np.abs(y).max())
        etas = [min(2.0 * d, d * T)]
        while etas[-1] < d * T:
            etas.append(min(2.0 * etas[-1], d * T))
        form = bounds.linear_ensemble(Z, y, u, reg=reg)
        energy = float(np.sum(Z * Z))
        assert form.start == pytest.approx(0.5 * reg * u[0] @ u[0], rel=1e-12)
        assert form.dimension == pytest.approx(0.5 * d * Y**2 * math.log(1.0 + energy / (reg * d)), rel=1e-11)
        assert form.mixing == pytest.approx(Y**2 * (4.0 * math.log(len(etas) + 1) + 2.0), rel=1e-12)
        assert form.forgetting == 0.0
        budget = 0.5 * d * T * Y**2
        if form.path:
            check_beta_star((form.path / 3.0) ** 2 / budget, Z, y, u, squared, reg, budget)
            moved += 1
        else:
            assert direct.variation(Z, y, u, 1.0, squared, reg) == 0.0
    assert moved > 10


def test_terms_of_the_logistic_ensemble():
    rng = np.random.default_rng(4)
    inside = beyond = 0
    for _ in range(40):
        Z, y, u = instance(rng, logistic)
        T, d = Z.shape
        u *= 10.0 ** rng.uniform(-2, 1)
        R, B = (float(np.linalg.norm(a, axis=1).max()) * rng.uniform(1.0, 2.0) + 1e-3 for a in (Z, u))
        price, reg = d * (1.0 + B * R), B**-2.0
        etas = [math.sqrt(price / max(0.5, 2.0 * B * R))]
        while etas[-1] < d * T:
            etas.append(2.0 * etas[-1])
        form = bounds.logistic_ensemble(Z, y, u, bound=B, radius=R)
        assert form.start == pytest.approx(0.5 * reg * u[0] @ u[0], rel=1e-12)
        assert form.dimension == pytest.approx(price * math.log(1.0 + R**2 * B**2 * T / price), rel=1e-11)
        assert form.mixing == pytest.approx(math.log(len(etas)), rel=1e-12)
        if not form.path:
            assert direct.variation(Z, y, u, 1.0, logistic, reg) == 0.0
            continue
        roots = 1.0 if form.forgetting else 3.0
        varies = (form.path / roots) ** 2 / (price * T)
        check_beta_star(varies, Z, y, u, logistic, reg, price * T)
        assert (math.sqrt(price * T / varies) > d * T) == (form.forgetting > 0.0)
        if form.forgetting:
            assert form.forgetting == pytest.approx(2.0 * (1.0 + B * R), rel=1e-12)
            beyond += 1
        else:
            inside += 1
    assert min(inside, beyond) > 3


@pytest.mark.parametrize("rounds", range(1, 40))
def test_the_linear_grid_doubles_until_it_reaches_dT(rounds):
    etas = [2.0]
    while etas[-1] < rounds:
        etas.append(2.0 * etas[-1])
    assert bounds.linear_grid_size(rounds) == len(etas)


def test_the_printed_bound_on_the_variation_fails_for_small_comparators():
    """f_0 = |u|^2 / (2 B^2) changes by 1/2 however small B is: more than max(1, 2R) B T, never max(1/2, 2RB) T."""
    B, R, T = 0.01, 0.1, 2
    Z, y, u = np.full((T, 1), R), np.ones(T), np.array([[0.0], [-B]])
    varies = direct.variation(Z, y, u, 1.0, logistic, B**-2.0)
    assert varies > 10.0 * max(1.0, 2.0 * R) * B * T
    rng = np.random.default_rng(5)
    for _ in range(100):
        Z, y, u = instance(rng, logistic)
        u *= 10.0 ** rng.uniform(-3, 1)
        R, B = (float(np.linalg.norm(a, axis=1).max()) for a in (Z, u))
        varies = direct.variation(Z, y, u, float(rng.choice([0.3, 0.9, 1.0])), logistic, B**-2.0)
        assert varies <= max(0.5, 2.0 * R * B) * len(y) * (1.0 + 1e-12)
