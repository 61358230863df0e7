"""vaw, aioli: every prediction is the minimiser the definition asks for, found afresh in every round."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import undrift as ud

PROBLEMS = {
    "beta": st.one_of(st.just(1.0), st.floats(0.5, 1.0)),
    "reg": st.floats(0.01, 100.0),
    "dim": st.integers(1, 6),
    "seed": st.integers(0, 2**32 - 1),
}


def weighted_past(Z, t, beta, weights):
    """Information of rounds before t, each discounted by its age, and the ridge, beta^t times reg by now."""
    age = beta ** np.arange(t, 0, -1.0)
    return (Z[:t].T * (age * weights[:t])) @ Z[:t], age


@pytest.mark.parametrize("hint", ["zero", "last", "ridge", "given"])
@settings(max_examples=15, deadline=None)
@given(**PROBLEMS)
def test_vaw_predicts_with_the_minimiser(hint, beta, reg, dim, seed):
    rng = np.random.default_rng(seed)
    Z, y, guesses = rng.normal(size=(40, dim)), rng.normal(size=40), rng.normal(size=40)
    model = ud.DiscountedVAW(beta=beta, reg=reg, hint="zero" if hint == "given" else hint)
    trace = model.play(Z, y, hint=guesses if hint == "given" else None)

    for t in range(40):
        # argmin reg beta^(t+1) |x|^2 / 2 + (x.z - hint)^2 / 2 + sum_s beta^(t-s) (x.z_s - y_s)^2 / 2
        past, age = weighted_past(Z, t, beta, np.ones(40))
        ridge = reg * beta ** (t + 1.0) * np.eye(dim)
        right = Z[:t].T @ (age * y[:t])
        leader = np.linalg.solve(past + ridge, right) @ Z[t]
        guess = {"zero": 0.0, "last": y[t - 1] if t else 0.0, "ridge": leader, "given": guesses[t]}[hint]
        x = np.linalg.solve(past + ridge + np.outer(Z[t], Z[t]), right + guess * Z[t])
        assert trace.yhat[t] == pytest.approx(x @ Z[t], abs=1e-9, rel=1e-9)
        after = Z[t] @ np.linalg.solve(past + ridge + np.outer(Z[t], Z[t]), Z[t])
        exact = 0.5 * after * ((y[t] - guess) ** 2 - (1.0 - after) * (leader - guess) ** 2)
        assert trace.stability[t] == pytest.approx(exact, abs=1e-9, rel=1e-9)
    assert model.coef == pytest.approx(final_leader(Z, y, beta, reg), abs=1e-8)


def final_leader(Z, y, beta, reg):
    """The leader after the last round: no discount since."""
    past, age = weighted_past(Z, len(y), beta, np.ones(len(y)))
    return np.linalg.solve(past / beta + reg * beta ** len(y) * np.eye(Z.shape[1]), Z.T @ (age * y) / beta)


@settings(max_examples=30, deadline=None)
@given(**PROBLEMS, bound=st.floats(0.1, 5.0))
def test_aioli_predicts_with_the_minimiser(beta, reg, dim, seed, bound):
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(40, dim)), rng.choice([-1.0, 1.0], size=40)
    trace = ud.DiscountedAIOLI(beta=beta, reg=reg, bound=bound, radius=2.0).play(Z, y)
    bend = 1.0 + bound * 2.0
    # the surrogate of a closed round: f + f' (a - m) + exp(y m) f'^2 (a - m)^2 / (2 bend), at its own prediction m
    f1 = -y / (1.0 + np.exp(y * trace.yhat))
    curvature = np.exp(y * trace.yhat) * f1**2 / bend

    for t in range(40):
        past, age = weighted_past(Z, t, beta, curvature)
        past += reg * beta ** (t + 1.0) * np.eye(dim)
        pull = Z[:t].T @ (age * (curvature[:t] * trace.yhat[:t] - f1[:t]))

        # the round's own term l(x.z, +1) + l(x.z, -1) acts along z alone: x = past^-1 (pull - tanh(m/2) z)
        def leftover(m, past=past, pull=pull, z=Z[t]):
            return m - z @ np.linalg.solve(past, pull - np.tanh(0.5 * m) * z)

        reach = 1.0 + abs(Z[t] @ np.linalg.solve(past, pull))
        m = brentq(leftover, -reach, reach, xtol=1e-14, rtol=8.9e-16)
        assert trace.yhat[t] == pytest.approx(m, abs=1e-9, rel=1e-9)
        kappa = Z[t] @ np.linalg.solve(past, Z[t])
        # with slope f' and hint tanh(m/2): (tanh(m/2) - f')^2 = sigma(y m)^2
        exact = 0.5 * kappa * ((np.tanh(0.5 * m) - f1[t]) ** 2 / (1.0 + curvature[t] * kappa) - np.tanh(0.5 * m) ** 2)
        assert trace.stability[t] == pytest.approx(exact, abs=1e-9, rel=1e-9)
