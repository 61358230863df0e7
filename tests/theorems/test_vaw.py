"""vaw: the static and the dynamic regret of discounted VAW, as corrected; the printed forms are refuted here."""

import numpy as np
import pytest

from tests.theorems import direct
from undrift.errors import ConditionError
from undrift.learners import DiscountedVAW
from undrift.losses import squared
from undrift.regret import dynamic_regret
from undrift.theory import bounds
from undrift.theory.regret_lemmas import paper_stability, vaw_rescaled


def regret(Z, y, u, beta, reg):
    yhat = direct.vaw(Z, y, beta, reg).yhat
    return dynamic_regret(squared.value(yhat, y), squared.value(np.sum(Z * u, axis=1), y))


def test_discounted_regret_against_one_comparator_is_covered():
    rng = np.random.default_rng(1)
    for _ in range(300):
        T, d, beta = int(rng.integers(1, 40)), int(rng.integers(1, 4)), float(rng.choice([0.5, 0.9, 1.0]))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot"]))), rng.normal(size=d)
        y = Z @ u + rng.normal(size=T) * rng.choice([0.0, 1.0, 10.0])
        sides = vaw_rescaled(Z, y, u, beta=beta, reg=10.0 ** rng.uniform(-3, 2))
        assert sides.left <= sides.right + 1e-11 * (abs(sides.left) + sides.right)


def test_printed_static_bound_is_refuted_by_one_round():
    left, right = vaw_rescaled([[1.0]], [1.0], [1.0], reg=1e-3, printed=True)
    assert left == 0.5
    assert right == pytest.approx(0.0005, rel=1e-12)
    corrected = vaw_rescaled([[1.0]], [1.0], [1.0], reg=1e-3)
    assert corrected.left == 0.5 <= corrected.right


@pytest.mark.parametrize("exact_path", [False, True])
def test_closed_form_covers_the_dynamic_regret(exact_path):
    rng = np.random.default_rng(2)
    for _ in range(200):
        T, d, beta = int(rng.integers(1, 50)), int(rng.integers(1, 4)), float(rng.uniform(0.3, 0.99))
        Z, u = direct.draw_design(rng, T, d, str(rng.choice(["random", "one-hot", "silent"]))), direct.path(rng, T, d)
        y, reg = np.sum(Z * u, axis=1) + rng.normal(size=T), 10.0 ** rng.uniform(-2, 1)
        gamma = None if rng.integers(2) else float(rng.uniform(beta, 0.995))
        bound = bounds.vaw(Z, y, u, beta=beta, reg=reg, gamma=gamma, exact_path=exact_path).total
        assert regret(Z, y, u, beta, reg) <= bound * (1 + 1e-9) + 1e-9


def test_exact_path_is_sharper_and_serves_beta_1():
    rng = np.random.default_rng(3)
    Z, y, u = rng.normal(size=(50, 2)), rng.normal(size=50), direct.path(rng, 50, 2)
    assert bounds.vaw(Z, y, u, beta=0.9, exact_path=True).path <= bounds.vaw(Z, y, u, beta=0.9).path
    u = np.repeat(rng.normal(size=(2, 2)), 25, axis=0)
    whole = bounds.vaw(Z, y, u, beta=1.0, exact_path=True)
    assert whole.forgetting == 0.0
    assert regret(Z, y, u, 1.0, 1.0) <= whole.total
    with pytest.raises(ConditionError, match=r"gamma must be in \[beta, 1\), got 1.0 for beta=1.0; pass exact_path"):
        bounds.vaw(Z, y, u, beta=1.0)
    with pytest.raises(ConditionError, match=r"gamma must be in \[beta, 1\), got 0.5 for beta=0.9"):
        bounds.vaw(Z, y, u, beta=0.9, gamma=0.5)


@pytest.mark.parametrize(
    ("beta", "every", "times", "loses", "printed", "corrected"),
    [(0.9, 100, 100, 49.997, 6.352, 527.6), (0.99, 1000, 20, 9.999, 0.943, 101.3)],
)
def test_printed_theorem_is_refuted_by_rare_rounds(beta, every, times, loses, printed, corrected):
    y = np.zeros(every * times)
    y[every - 1 :: every] = 1.0
    Z, u = y[:, None].copy(), np.ones((len(y), 1))
    measured = regret(Z, y, u, beta, 1.0)
    assert measured == pytest.approx(loses, abs=2e-3)
    assert bounds.vaw(Z, y, u, beta=beta, printed=True).total == pytest.approx(printed, abs=2e-3)
    assert bounds.vaw(Z, y, u, beta=beta).total == pytest.approx(corrected, abs=0.1)
    assert bounds.vaw(Z, y, u, beta=beta, printed=True).total < measured < bounds.vaw(Z, y, u, beta=beta).total


def test_printed_theorem_is_refuted_without_empty_rounds_too():
    T = 3000
    Z, y = np.tile([0.0, 1.0], (T, 1)), np.full(T, 0.01)
    Z[99::100], y[99::100] = [1.0, 0.0], 1.0
    u = np.tile([1.0, 0.01], (T, 1))
    measured = regret(Z, y, u, 0.95, 1.0)
    assert measured == pytest.approx(14.83, abs=0.01)
    assert bounds.vaw(Z, y, u, beta=0.95, printed=True).total == pytest.approx(4.47, abs=0.01)
    assert measured <= bounds.vaw(Z, y, u, beta=0.95).total


@pytest.mark.parametrize("hint", ["zero", "last", "ridge"])
def test_the_papers_price_of_a_round_is_the_leverage_times_the_hints_error_and_never_below_the_exact_one(hint):
    rng = np.random.default_rng(71)
    Z, y = rng.normal(size=(80, 3)), 3.0 * rng.normal(size=80)
    learner = DiscountedVAW(beta=0.95, hint=hint)
    printed, exact = paper_stability(learner, Z, y), learner.play(Z, y)
    A, hints = np.eye(3), {"zero": np.zeros(80), "last": np.append(0.0, y[:-1])}
    for t in range(80):
        A = 0.95 * A + np.outer(Z[t], Z[t])
        if hint != "ridge":  # where the hint depends on the leader, the prediction itself is the hint
            assert printed[t] == pytest.approx(0.5 * (y[t] - hints[hint][t]) ** 2 * Z[t] @ np.linalg.solve(A, Z[t]))
    if hint == "ridge":
        np.testing.assert_allclose(exact.stability, printed, rtol=1e-12)
    else:
        assert (exact.stability <= printed).all()
        assert exact.stability.sum() < 0.9 * printed.sum()
