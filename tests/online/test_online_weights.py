"""Weights and times in online estimators: what was promised, whatever the way rows and labels come."""

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream

KINDS = ["regressor", "classifier", "classes"]
T = 290


def model_of(kind):
    return ud.OnlineRegressor(speed="fast") if kind == "regressor" else ud.OnlineClassifier(speed="fast")


def weighted_rows(kind, seed=0, rounds=T):
    rng = np.random.default_rng(seed)
    Z, y = draw_stream(rounds, 3, lambda Z: Z[:, 0] - 2.0 * Z[:, 1], seed=rng)
    y[rounds // 2 :] -= 4.0 * Z[rounds // 2 :, 0]
    labels = {"regressor": y, "classifier": (y > 0.0).astype(float), "classes": np.digitize(y, [-1.0, 1.0]) + 1.0}
    weight = np.where(rng.random(rounds) < 0.5, 1.0, rng.choice([0.0, 0.5, 3.0], rounds))
    elapsed = np.where(rng.random(rounds) < 0.5, 1.0, rng.choice([0.0, 0.5, 2.0, 40.0], rounds))
    return Z, labels[kind], weight, elapsed


@pytest.mark.parametrize("kind", KINDS)
def test_ones_are_rows_to_the_bit(kind):
    Z, y, _, _ = weighted_rows(kind)
    plain, ones, single = model_of(kind), model_of(kind), model_of(kind)
    trace, same = plain.play(Z, y), ones.play(Z, y, weight=np.ones(T), elapsed=np.ones(T))
    assert trace.yhat.tobytes() == same.yhat.tobytes()
    for t in range(T):
        single.learn(Z[t], y[t], weight=1.0, elapsed=1)
    assert plain == ones == single


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_rows_and_asked_rows_agree_to_the_bit(kind):
    Z, y, weight, elapsed = weighted_rows(kind, 1)
    whole, cut, single, asked = (model_of(kind) for _ in range(4))
    trace = whole.play(Z, y, weight=weight, elapsed=elapsed)
    for a, b in ((0, 1), (1, 30), (30, 31), (31, 200), (200, T)):
        cut.play(Z[a:b], y[a:b], weight=weight[a:b], elapsed=elapsed[a:b])
    for t in range(T):
        if kind == "regressor":
            assert single.predict(Z[t], elapsed=elapsed[t]) == trace.yhat[t]
        single.learn(Z[t], y[t], weight=weight[t], elapsed=elapsed[t])
        asked.tell(asked.ask(Z[t], elapsed=elapsed[t]), y[t], weight=weight[t])
    assert whole == cut == single
    assert asked.rounds == T
    proba = [one.predict_proba(Z[:5], elapsed=3.0) if kind != "regressor" else one.predict(Z[:5], elapsed=3.0)
             for one in (whole, asked)]  # fmt: skip
    # A class that appears with an asked row is heard by an estimator of its own only from that row on.
    np.testing.assert_allclose(proba[0], proba[1], rtol=1e-3 if kind == "classes" else 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_late_labels_age_the_past_when_they_are_settled_and_files_keep_them(kind, tmp_path):
    Z, y, weight, elapsed = weighted_rows(kind, 2)
    late, told, served = model_of(kind), model_of(kind), []
    late.play(Z[:270], y[:270], delay=5, weight=weight[:270], elapsed=elapsed[:270])
    late.save(tmp_path / "late.undrift")
    late = ud.load(tmp_path / "late.undrift")
    late.play(Z[270:], y[270:], delay=5, weight=weight[270:], elapsed=elapsed[270:])
    for t in range(T):
        served.append(told.ask(Z[t], elapsed=elapsed[t]))
        if t >= 5:
            told.tell(served[t - 5], y[t - 5], weight=weight[t - 5])
    assert late.rounds == told.rounds == T - 5
    one, other = late.snapshot()[1], told.snapshot()[1]
    assert all(one[name].tobytes() == other[name].tobytes() for name in one if not name.startswith("pending"))


def test_weights_of_the_warm_up_are_kept_when_it_is_learned_again():
    """A weight in the first rows still counts after the last refit: doubled rows count like rows that came twice."""
    Z, y, _, _ = weighted_rows("regressor", 3, 300)
    Z[:, 1] = 0.0
    odd = np.arange(300) % 2 == 1
    y = np.where(odd, 3.0, -1.0) + 0.01 * y  # two kinds of rows that nothing tells apart
    heavy, light = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    heavy.play(Z[:255], y[:255], weight=np.where(odd, 9.0, 1.0)[:255])
    light.play(Z[:255], y[:255], weight=np.where(odd, 1.0, 9.0)[:255])
    heavy.learn(Z[255], y[255])  # the last refit
    light.learn(Z[255], y[255])
    line = heavy.line().intercept, light.line().intercept
    assert line[0] > line[1] + 1.0


def test_a_long_time_makes_room_for_what_is_new():
    """After a gap the world is another one: who knows about the gap follows it sooner."""
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(1600, 3))
    y = np.where(np.arange(1600) < 1000, Z[:, 0] + 5.0, -2.0 * Z[:, 0] - 5.0) + 0.1 * rng.normal(size=1600)
    elapsed = np.ones(1600)
    elapsed[1000] = 5000.0
    plain, timed = (ud.OnlineRegressor(speed="fast").play(Z, y, elapsed=one).yhat for one in (None, elapsed))
    after = slice(1001, 1100)
    assert np.mean((timed[after] - y[after]) ** 2) < 0.8 * np.mean((plain[after] - y[after]) ** 2)
    assert timed[:1000].tobytes() == plain[:1000].tobytes()


def test_mixers_and_intervals_count_rows_once():
    Z, y, weight, _ = weighted_rows("regressor", 5)
    one, other = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    trace = one.play(Z, y, weight=weight)
    other.play(Z, y)
    assert [x.rounds for x in one.coverage()] == [x.rounds for x in other.coverage()]
    assert one.losses[-2] == pytest.approx(other.losses[-2])  # the last value: no memory, one loss a row
    assert np.sum(0.5 * (trace.yhat - y)[1:] ** 2) <= np.min(one.losses + one.cost()) * (1.0 + 1e-9)
