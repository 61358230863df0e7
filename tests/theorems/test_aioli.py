"""aioli: surrogate, optimistic FTRL, discounted and dynamic regret of discounted AIOLI."""

import mpmath
import numpy as np
import pytest

from tests.theorems import direct
from undrift.errors import ConditionError
from undrift.learners import DiscountedAIOLI
from undrift.losses import logistic
from undrift.regret import dynamic_regret
from undrift.theory import bounds
from undrift.theory.regret_lemmas import aioli_rescaled, logistic_surrogate, optimistic_ftrl, paper_stability


def test_the_surrogate_lies_below_the_loss():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        limit = 10.0 ** rng.uniform(-3, 2)
        a, c = rng.choice([-limit, limit, rng.uniform(-limit, limit)]), rng.normal() * 10.0 ** rng.uniform(-2, 2)
        left, right = logistic_surrogate(float(a), float(c), limit)
        # near c the two sides agree to second order: what is left is rounding of the larger terms
        assert left >= right - 1e-15 * (left + abs(a - c) + (a - c) ** 2)


def test_the_surrogate_touches_the_loss_and_agrees_with_high_precision():
    assert logistic_surrogate(0.3, 0.3, 1.0).left == logistic_surrogate(0.3, 0.3, 1.0).right
    mpmath.mp.dps = 60
    rng = np.random.default_rng(2)
    for _ in range(200):
        a, c = (float(x) for x in rng.normal(size=2) * 5)
        limit = abs(a) * float(rng.uniform(1, 2)) + 1e-9
        x, b = mpmath.mpf(a), mpmath.mpf(c)
        slope = -1 / (1 + mpmath.exp(b))
        below = mpmath.log1p(mpmath.exp(-b)) + slope * (x - b)
        below += mpmath.exp(b) / (2 * (1 + mpmath.mpf(limit))) * slope**2 * (x - b) ** 2
        above = mpmath.log1p(mpmath.exp(-x))
        assert above >= below
        left, right = logistic_surrogate(a, c, limit)
        assert left == pytest.approx(float(above), rel=1e-14)
        assert right == pytest.approx(float(below), rel=1e-11, abs=1e-12)


def test_optimistic_ftrl_accounts_for_every_loss():
    rng = np.random.default_rng(3)
    for _ in range(300):
        T, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
        g, x, u = rng.normal(size=(T, d)), rng.normal(size=(T, d)), rng.normal(size=d)
        left, right = optimistic_ftrl(g, x, u, rng.exponential(size=T + 1) + 0.1)
        size = np.abs(g * x).sum() + np.abs(g @ u).sum() + 10 * (np.cumsum(g, axis=0) ** 2).sum()
        assert abs(left - right) <= 1e-13 * size


def test_discounted_regret_against_one_comparator_is_covered():
    rng = np.random.default_rng(4)
    for _ in range(150):
        T, d, beta = int(rng.integers(1, 30)), int(rng.integers(1, 4)), float(rng.choice([0.5, 0.9, 1.0]))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot"]))), rng.normal(size=d)
        reach = np.abs(Z @ u).max() * rng.choice([1.0, 3.0])
        y = np.where(rng.random(T) < 0.5, 1.0, -1.0) if rng.integers(2) else np.where(Z @ u > 0, 1.0, -1.0)
        sides = aioli_rescaled(Z, y, u, bound=reach, radius=1.0, beta=beta, reg=10.0 ** rng.uniform(-3, 1))
        assert sides.left <= sides.right + 1e-11 * (abs(sides.left) + sides.right)


@pytest.mark.parametrize("exact_path", [False, True])
def test_closed_form_covers_the_dynamic_regret(exact_path):
    rng = np.random.default_rng(5)
    for _ in range(60):
        T, d, beta = int(rng.integers(1, 40)), int(rng.integers(1, 4)), float(rng.uniform(0.3, 0.99))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot"]))), direct.path(rng, T, d)
        radius, bound = np.linalg.norm(Z, axis=1).max(), np.linalg.norm(u, axis=1).max()
        y, reg = np.where(np.sum(Z * u, axis=1) + rng.normal(size=T) > 0, 1.0, -1.0), 10.0 ** rng.uniform(-2, 1)
        yhat = direct.aioli(Z, y, beta, reg, 1.0 + bound * radius).yhat
        measured = dynamic_regret(logistic.value(yhat, y), logistic.value(np.sum(Z * u, axis=1), y))
        form = bounds.aioli(Z, y, u, beta=beta, bound=bound, radius=radius, reg=reg, exact_path=exact_path)
        assert measured <= form.total * (1 + 1e-9) + 1e-9


def test_rows_and_comparators_outside_their_bounds_are_refused():
    with pytest.raises(
        ConditionError, match=r"bounds.aioli: every row must have norm <= radius = 1, the one of round 1"
    ):
        bounds.aioli([[1.0], [2.0]], [1, -1], [0.5], beta=0.9, bound=1.0, radius=1.0)
    with pytest.raises(
        ConditionError, match=r"every comparator must have norm <= bound = 0.1, the one of round 0 has 0.5"
    ):
        bounds.aioli([[1.0], [1.0]], [1, -1], [0.5], beta=0.9, bound=0.1, radius=1.0)


def test_the_papers_price_of_a_round_is_never_below_the_exact_one():
    rng = np.random.default_rng(73)
    Z = rng.normal(size=(200, 3))
    y = np.where(Z[:, 0] + rng.logistic(size=200) > 0.0, 1.0, -1.0)
    for learner in (DiscountedAIOLI(beta=0.99, bound=5.0), DiscountedAIOLI(beta=0.3, reg=1e-6)):
        printed, exact = paper_stability(learner, Z, y), learner.play(Z, y).stability
        assert (printed >= 0.0).all()
        assert (exact <= printed).all()
        assert exact.sum() < 0.9 * printed.sum()
