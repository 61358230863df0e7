"""The level over the estimators of several classes."""

import numpy as np
import pytest

from tests.helpers import draw_log_odds
from undrift.ensemble.class_level import CANDIDATES, ClassLevel
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import SoftmaxNumber
from undrift.learners.softmax import class_curvature


def draw_given(T, count, K, seed=1):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(K), size=(T, count))
    p[rng.random((T, count)) < 0.2, 1] = np.nan
    return p


@pytest.mark.every_level
@pytest.mark.parametrize(("K", "given"), [(3, 0), (5, 2), (35, 1)])
def test_blocks_cut_anywhere_and_single_rows_give_the_same_bits(K, given):
    T = 40
    S, y = draw_log_odds(K, T)
    rng = np.random.default_rng(2)
    weight, elapsed = rng.choice([0.0, 1.0, 3.5], T), rng.choice([0.0, 1.0, 9.0], T)
    offered = draw_given(T, given, K) if given else None
    whole, cut, single = (ClassLevel(K, given) for _ in range(3))
    logs = whole.play(S, y, weight, elapsed, offered)
    for part in (slice(0, 1), slice(1, 17), slice(17, T)):
        some = None if offered is None else offered[part]
        assert cut.play(S[part], y[part], weight[part], elapsed[part], some).tobytes() == logs[part].tobytes()
    for t in range(T):
        some = None if offered is None else offered[t]
        record = single.serve(S[t], elapsed[t], some)
        assert record[:K].tobytes() == logs[t].tobytes()
        again = single.predict(S[t : t + 1], elapsed[t], None if some is None else some[None])
        assert again.tobytes() == logs[t].tobytes()
        single.settle(record, int(y[t]), weight[t], elapsed[t])
    for other in (cut, single):
        assert other.arrays()["state"].tobytes() == whole.arrays()["state"].tobytes()
    assert np.isfinite(whole.arrays()["state"]).all()


def test_probabilities_leave_the_share_for_a_class_not_seen_yet():
    S, y = draw_log_odds(4, 50)
    level = ClassLevel(4)
    logs = level.play(S, y)
    kept = np.exp(logs).sum(axis=1)
    np.testing.assert_allclose(kept, 1.0 - 1.0 / np.maximum(np.arange(50.0) + 1.0, 2.0), rtol=1e-12)
    assert level.rounds == 50
    assert level.counts.tolist() == np.bincount(y.astype(int), minlength=4).tolist()
    assert level.candidates == list(CANDIDATES)


@pytest.mark.parametrize("late", [0, 9])
def test_served_losses_exceed_no_candidate_by_more_than_the_cost(late):
    K, T = 5, 400
    S, y = draw_log_odds(K, T)
    S[200:] = S[200:, ::-1]  # a shock, after which the candidates change places
    offered = draw_given(T, 3, K)
    offered[:, 1] = np.eye(K)[y.astype(int)] * 0.9 + 0.02  # one that knows
    level, records, served = ClassLevel(K, 3), [], 0.0
    for t in range(T + late):
        if t < T:
            records.append(level.serve(S[t], 1.0, offered[t]))
        if t >= late:
            label = int(y[t - late])
            served -= records[t - late][label]
            level.settle(records[t - late], label)
    assert (served <= level.losses + level.cost() + 1e-9).all()
    assert int(np.argmax(level.weights)) == 7
    assert level.weights.sum() == pytest.approx(1.0)


def test_a_missing_candidate_neither_gains_nor_loses():
    K, T = 4, 60
    S, y = draw_log_odds(K, T)
    offered = draw_given(T, 1, K)
    offered[30:] = np.nan
    level = ClassLevel(K, 1)
    level.play(S[:30], y[:30], given=offered[:30])
    own = ClassLevel(K, 1)
    own.load_arrays(level.arrays())
    before = level.losses
    logs = level.play(S[30:], y[30:], given=offered[30:])
    assert own.play(S[30:], y[30:]).tobytes() == logs.tobytes()  # none given is one that is missing
    kept = np.log1p(-1.0 / (np.arange(30.0, 60.0) + 1.0))
    mixture = -(logs[np.arange(30), y[30:].astype(int)] - kept).sum()
    assert (level.losses - before)[-1] == pytest.approx(mixture, rel=1e-12)


def test_it_learns_slopes_and_offsets_that_change():
    rng = np.random.default_rng(0)
    K, T = 6, 4000
    true = rng.normal(size=(T, K)) * 2.0
    y = np.argmax(true + rng.gumbel(size=(T, K)), axis=1)
    offset = np.where(np.arange(T)[:, None] < 2000, np.linspace(-2.0, 2.0, K), np.linspace(2.0, -2.0, K))
    S = true / 3.0 + offset
    level, best = ClassLevel(K), true - np.logaddexp.reduce(true, axis=1)[:, None]
    at = np.arange(T), y
    loss, least, plain = (-one[at] for one in (level.play(S, y), best, S - np.logaddexp.reduce(S, axis=1)[:, None]))
    for part in (slice(1000, 2000), slice(3000, T)):
        assert loss[part].mean() < least[part].mean() + 0.06
        assert plain[part].mean() > least[part].mean() + 0.2
    np.testing.assert_allclose(level.combination(), 3.0, rtol=0.35)


def test_the_prediction_of_few_classes_has_the_same_price_whatever_the_label():
    K, T = 4, 30
    S, y = draw_log_odds(K, T)
    level = ClassLevel(K)
    level.play(S, y)
    s, n, k = 0.5 * S[0], 2 * K + 1, class_curvature(K, 2.0)
    X = np.hstack([np.diag(s), np.eye(K), s[:, None]])
    record = level.serve(S[0], 0.0)
    C = np.eye(K) - 1.0 / K
    for i, memory in enumerate(level._memories()):
        P, x = memory["covariance"].reshape(n, n), memory["leader"]
        m0, M0 = C @ X @ x, C @ X @ P @ X.T @ C
        b = C @ record[2 * K :].reshape(-1, K)[i]
        p = np.exp(b) / np.exp(b).sum()
        v = np.linalg.pinv(M0) @ (m0 - b)
        M = np.linalg.pinv(np.linalg.pinv(M0) + k * (np.diag(p) - np.outer(p, p)))
        prices = [0.5 * (p - np.eye(K)[y] - v) @ M @ (p - np.eye(K)[y] - v) for y in range(K)]
        np.testing.assert_allclose(prices, prices[0], rtol=1e-6)


def test_a_class_that_is_added_begins_with_its_log_odds():
    S, y = draw_log_odds(3, 300)
    level = ClassLevel(3)
    level.play(S, y)
    before, weights, losses = level.predict(S[:5]), level.weights, level.losses
    record = level.serve(S[0])
    level.add_class()
    wide = np.hstack([S[:5], np.full((5, 1), -40.0)])  # a class that the estimators rule out
    after = level.predict(wide)
    assert after.shape == (5, 4)
    p, q = np.exp(before), np.exp(after[:, :3])
    np.testing.assert_allclose(q / q.sum(axis=1)[:, None], p / p.sum(axis=1)[:, None], atol=0.02)
    assert (level.weights == weights).all()
    assert (level.losses == losses).all()
    level.settle(record, 3)  # served when there were three classes: counts alone
    level.count(3)
    assert level.counts.tolist()[3] == 2.0
    assert level.rounds == 302
    T = 300
    S4, y4 = draw_log_odds(4, T, 5)
    logs = level.play(S4, y4)
    assert np.isfinite(logs).all()
    assert -logs[np.arange(T), y4.astype(int)][100:].mean() < 1.1  # ln 4 is 1.39


def test_counts_from_before_are_taken_over():
    level = ClassLevel(3)
    level.set_counts(np.array([5.0, 3.0, 0.0]), 1, stayed=4.0, changed=3.0)
    assert level.rounds == 8
    answers = level.serve(np.zeros(3))[6:].reshape(6, 3)
    np.testing.assert_allclose(np.exp(answers[4]), np.array([6.0, 4.0, 1.0]) / 11.0)
    np.testing.assert_allclose(np.exp(answers[5]), np.array([2.0, 5.0, 2.0]) / 9.0)


@pytest.mark.every_level
@pytest.mark.parametrize("K", [3, 36])
def test_hostile_rows_stay_finite(K):
    rng = np.random.default_rng(0)
    T = 300 if K > 3 else 1500
    y = rng.integers(0, K, T).astype(float)
    S = rng.choice([0.0, 1e75, -1e75, 30.0, 1e-300], (T, K))
    S[T // 2 :] = 25.0 * (np.eye(K)[((y[T // 2 :] + 1) % K).astype(int)] - 0.5)  # sure and always wrong
    weight, elapsed = rng.choice([0.0, 1e-30, 1.0, 1e6, 1e50], T), rng.choice([0.0, 1e-9, 1.0, 1e6, 1e50], T)
    level = ClassLevel(K)
    logs = level.play(S, y, weight, elapsed)
    assert np.isfinite(logs).all()
    assert np.isfinite(level.arrays()["state"]).all()
    assert (level.predict(S[:5], 1e50) <= 0.0).all()


def test_constant_log_odds_forgotten_for_long_stay_finite():
    T = 20_000
    level, y = ClassLevel(3), np.zeros(T)
    logs = level.play(np.tile([1.0, -1.0, -1.0], (T, 1)), y)
    assert np.isfinite(level.arrays()["state"]).all()
    assert logs[-1, 0] > -1e-3
    assert all(memory["numbers"][SoftmaxNumber.RESTARTS] == 0.0 for memory in level._memories())


def test_predictions_change_nothing():
    S, y = draw_log_odds(3, 30)
    level = ClassLevel(3)
    level.play(S, y)
    before = level.arrays()["state"].tobytes()
    level.predict(S, np.linspace(0.0, 1e30, 30))
    level.serve(S[0], 1e30)
    assert level.arrays()["state"].tobytes() == before


def test_what_does_not_fit_is_refused():
    level = ClassLevel(3)
    with pytest.raises(InputError, match="classes must be"):
        ClassLevel(2)
    with pytest.raises(InputError, match="numbers must be finite"):
        level.play(np.full((1, 3), np.nan), np.zeros(1))
    state = level.arrays()["state"].copy()
    for saved in ({}, {"state": state[:-1]}, {"state": np.full_like(state, np.nan)}):
        with pytest.raises(ModelFileError, match="does not fit the number of classes"):
            level.load_arrays(saved)
    for at, value in ((-5, 3.0), (-5, 0.5), (-6, -1.0), (-7, -1.0), (49, 0.0), (0, -1.0)):
        wrong = state.copy()
        wrong[at] = value
        with pytest.raises(ModelFileError, match="cannot be that of any rows"):
            level.load_arrays({"state": wrong})
    assert level.arrays()["state"].tobytes() == state.tobytes()
