"""Comparators are the best of their kind, inside their bounds."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from undrift.errors import InputError
from undrift.losses import logistic, sigmoid, squared
from undrift.regret.comparators import fixed, piecewise, smooth

LOSSES = pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)


def problem(loss, T=120, d=3, seed=0, pieces=3):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(T, d))
    u = np.repeat(rng.normal(size=(pieces, d)), -(-T // pieces), axis=0)[:T]
    y = np.sum(Z * u, axis=1) + 0.3 * rng.normal(size=T)
    return Z, np.where(rng.random(T) < sigmoid(y), 1.0, -1.0) if loss is logistic else y


def total(Z, y, u, loss):
    return float(loss.value(np.sum(Z * u, axis=1), y).sum())


@LOSSES
def test_fixed_is_a_stationary_point(loss):
    Z, y = problem(loss)
    u = fixed(Z, y, loss)
    assert u.shape == Z.shape
    assert (u == u[0]).all()
    assert np.abs(Z.T @ loss.slope(Z @ u[0], y)).max() < 1e-6


@LOSSES
@pytest.mark.parametrize("limit", ["bound", "margin"])
def test_bounded_fixed_matches_a_general_solver(loss, limit):
    Z, y = problem(loss)
    free = fixed(Z, y, loss)[0]
    most = 0.3 * (np.linalg.norm(free) if limit == "bound" else np.abs(Z @ free).max())
    u = fixed(Z, y, loss, **{limit: most})[0]
    size = np.linalg.norm(u) if limit == "bound" else np.abs(Z @ u).max()
    assert 0.99 * most <= size <= most * (1 + 1e-12)
    if limit == "bound":
        room = {"type": "ineq", "fun": lambda x: most**2 - x @ x, "jac": lambda x: -2 * x}
    else:
        room = {"type": "ineq", "fun": lambda x: most - np.abs(Z @ x)}
    best = minimize(lambda x: loss.value(Z @ x, y).sum(), 0.9 * u, constraints=[room], method="SLSQP", tol=1e-12)
    assert loss.value(Z @ u, y).sum() <= best.fun + 2e-6 * loss.value(np.zeros(len(y)), y).sum()


def test_bounds_that_do_not_bind_change_nothing():
    Z, y = problem(squared)
    np.testing.assert_array_equal(fixed(Z, y, bound=1e3, margin=1e3), fixed(Z, y))


def test_fixed_is_of_least_norm_where_the_data_leave_a_choice():
    Z, y = problem(squared, d=1)
    u = fixed(np.repeat(Z, 2, axis=1), y)[0]
    assert u[0] == pytest.approx(u[1], rel=1e-9)


def test_separable_labels_have_a_finite_comparator():
    Z, _ = problem(logistic)
    u = fixed(Z, np.sign(Z[:, 0]), logistic)
    assert np.isfinite(u).all()
    assert total(Z, np.sign(Z[:, 0]), u, logistic) < 1e-4 * len(Z)


@LOSSES
def test_piecewise_finds_the_best_cuts_of_all(loss):
    Z, y = problem(loss, T=30, d=1, pieces=3, seed=3)
    u = piecewise(Z, y, loss, segments=3)
    got = total(Z, y, u, loss)
    costs = {
        (i, j): total(Z[i:j], y[i:j], fixed(Z[i:j], y[i:j], loss), loss)
        for i, j in itertools.combinations(range(31), 2)
    }
    best = min(costs[0, a] + costs[a, b] + costs[b, 30] for a, b in itertools.combinations(range(1, 30), 2))
    assert 1 + (u[1:] != u[:-1]).any(axis=1).sum() <= 3
    if loss is squared:
        assert got == pytest.approx(best, rel=1e-6)
    else:  # logistic cuts come from a quadratic: near the best, and never worse than one piece
        assert best * (1 - 1e-6) <= got <= total(Z, y, fixed(Z, y, loss), loss)


def test_piecewise_recovers_true_changes():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(2048, 3))
    u = np.repeat(rng.normal(size=(4, 3)), 512, axis=0)
    got = piecewise(Z, np.sum(Z * u, axis=1), segments=4)
    np.testing.assert_allclose(got, u, atol=1e-8)


def test_a_penalty_chooses_the_number_of_pieces():
    Z, y = problem(squared, T=300, pieces=3, seed=1)
    pieces = [1 + (np.diff(piecewise(Z, y, penalty=p), axis=0) != 0).any(axis=1).sum() for p in (0.0, 5.0, 1e6)]
    assert pieces[0] > 50
    assert pieces[1] == 3
    assert pieces[2] == 1
    by_count = piecewise(Z, y, segments=3)
    np.testing.assert_allclose(piecewise(Z, y, penalty=5.0), by_count)


def test_a_further_piece_must_save_its_penalty():
    """A jump by 3 after 8 of 20 rounds: two pieces save half of 8 12 / 20 times 3^2."""
    Z, y = np.ones((20, 1)), np.repeat([1.0, 4.0], [8, 12])
    saved = 0.5 * 8 * 12 / 20 * 9.0
    for share, pieces in ((0.98, 2), (1.02, 1)):
        assert len(np.unique(piecewise(Z, y, penalty=share * saved)[:, 0])) == pieces


@LOSSES
def test_pieces_keep_to_the_bounds_on_every_row(loss):
    Z, y = problem(loss, T=200, pieces=4)
    for u in (piecewise(Z, y, loss, segments=4, margin=1.0), smooth(Z, y, loss, tau=1.0, margin=1.0)):
        assert np.abs(u @ Z.T).max() <= 1.0 + 1e-12
    for u in (piecewise(Z, y, loss, segments=4, bound=0.5), smooth(Z, y, loss, tau=1.0, bound=0.5)):
        assert np.linalg.norm(u, axis=1).max() <= 0.5 + 1e-12


@LOSSES
@pytest.mark.parametrize("tau", [1e-3, 1.0, 1e3])
def test_smooth_minimises_its_objective(loss, tau):
    Z, y = problem(loss, T=40, d=2)
    u = smooth(Z, y, loss, tau=tau)

    def objective(flat):
        x = flat.reshape(u.shape)
        return total(Z, y, x, loss) + tau * np.sum(np.diff(x, axis=0) ** 2)

    best = minimize(objective, u.ravel() + 0.01, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10**6})
    assert objective(u.ravel()) <= best.fun + 1e-7 * abs(best.fun)


def test_smooth_gives_up_movement_as_it_gets_dearer():
    Z, y = problem(squared)
    movement = [np.sum(np.diff(smooth(Z, y, tau=t), axis=0) ** 2) for t in (0.01, 1.0, 100.0, 1e8)]
    assert movement == sorted(movement, reverse=True)
    np.testing.assert_allclose(smooth(Z, y, tau=1e10), fixed(Z, y), atol=1e-5)


def test_dead_and_doubled_features_are_no_trouble():
    Z, y = problem(squared, T=200)
    Z = np.column_stack([Z, np.zeros(200), Z[:, 0]])
    s = np.where(y > 0, 1.0, -1.0)
    for u in (
        fixed(Z, y),
        piecewise(Z, y, segments=5),
        smooth(Z, y, tau=1.0),
        fixed(Z, s, logistic),
        piecewise(Z, s, logistic, segments=5),
        smooth(Z, s, logistic, tau=1.0),
    ):
        assert np.isfinite(u).all()
        assert np.abs(u).max() < 1e4


@pytest.mark.parametrize("tau", [1e-6, 1e4, 1e12])
@pytest.mark.parametrize("loss", [squared, logistic], ids=lambda loss: loss.name)
def test_a_dead_feature_is_no_trouble_at_any_price_of_movement(loss, tau):
    Z, y = problem(loss, T=3000)
    u = smooth(np.column_stack([Z, np.zeros(3000)]), y, loss, tau=tau)
    assert np.isfinite(u).all()
    assert np.abs(u[:, -1]).max() < 1e-6


def test_no_rounds():
    empty = np.zeros((0, 2))
    for u in (fixed(empty, []), piecewise(empty, [], segments=2), smooth(empty, [], tau=1.0)):
        assert u.shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda Z, y: fixed(Z, y, bound=0.0), r"comparators.fixed: bound must be in \(0, inf\], got 0.0"),
        (lambda Z, y: fixed(Z, y, logistic), r"comparators.fixed: y must be a binary label"),
        (lambda Z, y: fixed(Z, y[:5]), r"comparators.fixed: y must have one number a round, 120, got 5"),
        (lambda Z, y: piecewise(Z, y), r"comparators.piecewise: give segments or penalty, one of them"),
        (lambda Z, y: piecewise(Z, y, segments=2, penalty=1.0), r"give segments or penalty, one of them"),
        (lambda Z, y: piecewise(Z, y, segments=0), r"segments must be an integer >= 1, got 0"),
        (lambda Z, y: piecewise(Z, y, penalty=-1.0), r"penalty must be in \[0, inf\), got -1.0"),
        (lambda Z, y: smooth(Z, y, tau=0.0), r"comparators.smooth: tau must be in \(0, inf\), got 0.0"),
        (lambda Z, y: smooth(Z * np.nan, y, tau=1.0), r"comparators.smooth: z must be finite"),
    ],
)
def test_bad_input_is_one_sentence(call, text):
    with pytest.raises(InputError, match=text):
        call(*problem(squared))


@LOSSES
def test_a_feature_that_is_almost_silent_in_a_piece_does_not_stand_in_for_the_constant(loss):
    rng = np.random.default_rng(8)
    Z = np.column_stack([np.ones(400), np.full(400, 1e-4), rng.normal(size=400)])
    Z[:150, 1] = rng.normal(size=150)
    y = np.sum(Z * np.repeat([[1.0, 0.2, 1.0], [-1.0, 0.2, 1.0]], 200, axis=0), axis=1) + 0.1 * rng.normal(size=400)
    if loss is logistic:
        y = np.where(rng.random(400) < sigmoid(y), 1.0, -1.0)
    u = piecewise(Z, y, loss, segments=2)
    assert abs(u[300, 1]) < 1.0 < abs(u[300, 0] - u[0, 0])


@LOSSES
def test_pull_adds_average_rounds_on_which_the_best_fixed_comparator_is_right(loss):
    Z, y = problem(loss, T=90)
    centre = fixed(Z, y, loss)[0]
    bend = loss.curvature(Z @ centre, y)
    whole = (Z * bend[:, None]).T @ Z / len(y)
    for pull, limit in ((0.5, None), (20.0, None), (5.0, 1.2)):
        u = piecewise(Z, y, loss, segments=3, pull=pull, bound=limit)
        starts = [0, *np.flatnonzero((u[1:] != u[:-1]).any(axis=1)) + 1, len(y)]
        assert len(starts) == 4
        for begin, end in itertools.pairwise(starts):

            def objective(x, rows=Z[begin:end], labels=y[begin:end], pull=pull):
                return loss.value(rows @ x, labels).sum() + 0.5 * pull * (x - centre) @ whole @ (x - centre)

            ball = {"type": "ineq", "fun": lambda x: 1.2**2 - x @ x}
            best = minimize(objective, 0.9 * u[begin], constraints=[ball] if limit else [], method="SLSQP", tol=1e-12)
            assert objective(u[begin]) <= best.fun + 2e-6 * loss.value(np.zeros(end - begin), y[begin:end]).sum()
    np.testing.assert_allclose(piecewise(Z, y, loss, segments=3, pull=1e9), fixed(Z, y, loss), atol=1e-4)
    with pytest.raises(InputError, match=r"comparators.piecewise: pull must be in \[0, inf\), got -1"):
        piecewise(Z, y, loss, segments=3, pull=-1)


@LOSSES
@pytest.mark.parametrize("limit", ["bound", "margin"])
def test_a_smooth_path_is_drawn_to_the_best_fixed_comparator_where_a_limit_binds(loss, limit):
    Z, y = problem(loss, T=200, pieces=2, seed=9)
    Z[100] *= 30.0  # one wide row decides what every comparator may be
    free = smooth(Z, y, loss, tau=1.0)
    wide = np.abs(free @ Z.T).max() if limit == "margin" else np.linalg.norm(free, axis=1).max()
    for share in (0.9, 0.3, 0.01):
        u = smooth(Z, y, loss, tau=1.0, **{limit: share * wide})
        size = np.abs(u @ Z.T).max() if limit == "margin" else np.linalg.norm(u, axis=1).max()
        assert 0.99 * share * wide <= size <= share * wide * (1 + 1e-12)
        assert total(Z, y, u, loss) <= 1.001 * total(Z, y, fixed(Z, y, loss, **{limit: share * wide}), loss)
    np.testing.assert_array_equal(smooth(Z, y, loss, tau=1.0, **{limit: 1.001 * wide}), free)
