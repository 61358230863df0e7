"""Hints, rounds and bookkeeping of the learners."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from tests.helpers import draw_stream
from undrift.errors import InputError


def argmin_prediction(Z, y, t, beta, reg, hint):
    """Discounted VAW from its definition: minimise the whole objective again."""
    weights = np.sqrt(beta ** (t - np.arange(t)))
    rows = np.vstack([math.sqrt(reg * beta ** (t + 1)) * np.eye(Z.shape[1]), weights[:, None] * Z[:t], Z[t : t + 1]])
    goal = np.concatenate([np.zeros(Z.shape[1]), weights * y[:t], [hint]])
    return float(Z[t] @ np.linalg.lstsq(rows, goal, rcond=None)[0])


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), beta=st.floats(0.7, 1.0), reg=st.floats(1e-3, 1e3))
def test_given_hints_solve_their_own_problem(seed, beta, reg):
    Z, y = draw_stream(30, 3, seed=seed)
    hints = np.random.default_rng(seed + 1).normal(size=30)
    yhat = ud.DiscountedVAW(beta=beta, reg=reg).play(Z, y, hint=hints).yhat
    direct = [argmin_prediction(Z, y, t, beta, reg, hints[t]) for t in range(30)]
    np.testing.assert_allclose(yhat, direct, rtol=1e-9, atol=1e-9)


def test_named_hints_equal_the_values_they_stand_for():
    Z, y = draw_stream(60, 3, seed=0)
    last = np.concatenate([[0.0], y[:-1]])
    for name, values in [("zero", np.zeros(60)), ("last", last)]:
        a, b = ud.DiscountedVAW(hint=name), ud.DiscountedVAW()
        assert a.play(Z, y).yhat.tobytes() == b.play(Z, y, hint=values).yhat.tobytes()
    ridge = ud.DiscountedVAW(hint="ridge")
    leader = ud.DiscountedVAW(hint="ridge")
    for z, label in zip(Z, y, strict=True):
        if ridge.dim:
            np.testing.assert_allclose(ridge.predict(z), leader.coef @ z, rtol=1e-11, atol=1e-12)
        ridge.learn(z, label)
        leader.learn(z, label)


def test_hints_never_enter_the_state():
    Z, y = draw_stream(60, 3, seed=1)
    a, b = ud.DiscountedVAW(), ud.DiscountedVAW()
    a.play(Z, y)
    b.play(Z, y, hint=1e6 * y)
    assert a == b


def test_a_hint_may_be_given_to_each_verb():
    Z, y = draw_stream(60, 3, seed=2)
    a, b = ud.DiscountedVAW(), ud.DiscountedVAW()
    whole = a.play(Z, y, hint=y)
    for t in range(60):
        assert b.predict(Z[t], hint=y[t]) == whole.yhat[t]
        b.learn(Z[t], y[t], hint=y[t])
    assert a == b


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e76, "a", [1.0, 2.0]])
def test_a_bad_hint_is_refused(bad):
    model = ud.DiscountedVAW()
    model.learn([1.0], 1.0)
    before = model.copy()
    for call in (lambda: model.predict([1.0], hint=bad), lambda: model.learn([1.0], 1.0, hint=bad)):
        with pytest.raises(InputError, match=r"^DiscountedVAW: hint must"):
            call()
    assert model == before


def test_stability_is_tight_for_one_round():
    """With u the minimiser of the round's objective the bound is an equality at t = 1."""
    z, y, reg, beta = 1.7, 2.3, 0.4, 0.8
    for hint in (0.0, 1.0):
        trace = ud.DiscountedVAW(beta=beta, reg=reg).play([[z]], [y], hint=[hint])
        A = reg * beta + z * z
        u = (y * z) / A
        regret = 0.5 * (trace.yhat[0] - y) ** 2 - 0.5 * (u * z - y) ** 2
        assert regret <= 0.5 * trace.potential[0] * u * u + trace.stability[0] + 1e-15
        q = z * z / A
        exact = 0.5 * q * ((y - hint) ** 2 - (1.0 - q) * hint**2)
        assert trace.stability[0] == pytest.approx(exact, rel=1e-13)


def test_potential_is_reg_beta_to_the_t():
    Z, y = draw_stream(60, 3, seed=3)
    for model in (ud.DiscountedVAW(beta=0.9, reg=2.0), ud.DiscountedMean(beta=0.9, reg=2.0)):
        model.play(Z[:10], y[:10])
        trace = model.play(Z[10:], y[10:])
        np.testing.assert_allclose(trace.potential, 2.0 * 0.9 ** np.arange(11, 61), rtol=1e-13)
        assert trace.first == 10
        assert trace.parameters == model.parameters
        assert trace.learner == type(model).__name__


def test_the_mean_is_vaw_with_a_constant_feature():
    _, y = draw_stream(60, 3, seed=4)
    mean, vaw = ud.DiscountedMean(beta=0.9), ud.DiscountedVAW(beta=0.9)
    a, b = mean.play(np.empty((60, 0)), y), vaw.play(np.ones((60, 1)), y)
    np.testing.assert_allclose(a.yhat, b.yhat, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(a.stability, b.stability, rtol=1e-12)


def test_coef_is_the_leader():
    Z, y = draw_stream(60, 3, seed=5)
    model = ud.DiscountedVAW(beta=0.9, reg=0.5)
    model.play(Z, y)
    w = 0.9 ** (59 - np.arange(60))
    A = 0.5 * 0.9**60 * np.eye(3) + (w[:, None] * Z).T @ Z
    np.testing.assert_allclose(model.coef, np.linalg.solve(A, Z.T @ (w * y)), rtol=1e-11)


def test_labels_of_two_classes_may_be_written_three_ways():
    Z, y = draw_stream(60, 3, seed=6)
    forms = [y > 0, (y > 0).astype(int), np.where(y > 0, 1.0, -1.0)]
    traces = [ud.DiscountedAIOLI().play(Z, form).yhat.tobytes() for form in forms]
    assert len(set(traces)) == 1
    with pytest.raises(InputError, match="got -1 and 0 in one block"):
        ud.DiscountedAIOLI().play(Z[:3], [1, 0, -1])


def test_a_dead_and_a_duplicated_column_do_no_harm():
    Z, y = draw_stream(3000, 3, seed=7)
    wide = np.column_stack([Z, np.zeros(3000), Z[:, 0]])
    plain = ud.DiscountedVAW(beta=0.9, hint="ridge").play(Z, y).yhat
    model = ud.DiscountedVAW(beta=0.9, hint="ridge")
    degenerate = model.play(wide, y).yhat
    assert model.floored > 0
    assert model.resets == 0
    np.testing.assert_allclose(degenerate[500:], plain[500:], rtol=0, atol=1e-8)


def test_numbers_that_leave_the_range_start_the_learner_afresh():
    model = ud.DiscountedVAW(beta=0.01, hint="ridge")
    sizes = [1.0] + [1e-75, 1e75, 1e-70, 1e75] * 20
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(81, 3)) * np.array(sizes)[:, None] * 10.0 ** rng.integers(-5, 0, size=(81, 3))
    trace = model.play(Z, rng.normal(size=81) * 1e70)
    assert np.isfinite(trace.yhat).all()
    assert np.isfinite(trace.stability).all()
    assert np.isfinite(model.coef).all()


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (ud.DiscountedVAW(hint="last"), 3),
        (ud.DiscountedAIOLI(), 11.5),  # the exact price of a round takes seven columns in between
        (ud.DiscountedMean(), 7.5),
        (ud.Persistence(), 2),  # the last label and the labels but the last, joined
    ],
    ids=lambda x: type(x).__name__,
)
def test_play_allocates_its_columns_and_little_else(model, columns):
    rounds = 200_000
    Z, y = np.ones((rounds, 4)), np.ones(rounds)
    tracemalloc.start()
    model.play(Z, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= columns * 8 * rounds + 500_000


@pytest.mark.parametrize("dim", [1, 10, 100])
def test_state_is_quadratic_in_the_features(dim):
    for model in (ud.DiscountedVAW(), ud.DiscountedAIOLI()):
        model.learn(np.ones(dim), 1.0)
        size = sum(array.size for array in model.snapshot()[1].values())
        assert size <= dim * (dim - 1) // 2 + 3 * dim + 4
