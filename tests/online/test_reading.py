"""What can be read off the online estimators: the spectrum of memories, the leading line, intervals round by round."""

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from undrift.errors import InputError
from undrift.online import Table


def scaled_line(rounds, seed=0, jump=None):
    level = np.where(np.arange(rounds) < (jump or rounds), 0.0, 40.0)

    def signal(Z):
        return 7.0 + 2.0 * Z[:, 0] - 0.03 * Z[:, 1] + level

    return draw_stream(rounds, 2, signal, noise=0.1, seed=seed, scale=[1.0, 100.0], offset=[5.0, -300.0])


@pytest.mark.parametrize("speed", ["fast", "best"])
def test_the_line_is_in_the_units_of_the_rows(speed):
    Z, y = scaled_line(3000)
    model = ud.OnlineRegressor(speed=speed)
    model.play(Z, y)
    line = model.line()
    assert line.coef == pytest.approx([2.0, -0.03], rel=0.02)
    assert line.intercept == pytest.approx(7.0, abs=0.2)


def test_the_line_of_two_classes_is_in_log_odds():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(20000, 2)) * [1.0, 50.0]
    y = rng.random(20000) < 1.0 / (1.0 + np.exp(-(1.0 + 1.5 * Z[:, 0])))
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z, y)
    line = model.line()
    assert line.coef == pytest.approx([1.5, 0.0], abs=0.15)
    assert line.intercept == pytest.approx(1.0, abs=0.15)


def test_the_spectrum_follows_how_fast_the_data_forget():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(4000, 2))
    u = np.concatenate([np.tile([1.0, -1.0], (2000, 1)), 3.0 * np.cumsum(0.2 * rng.normal(size=(2000, 2)), axis=0)])
    y = np.sum(Z * u, axis=1) + 0.1 * rng.normal(size=4000)
    model = ud.OnlineRegressor(speed="fast")
    model.play(Z[:2000], y[:2000])
    calm = model.spectrum()
    model.play(Z[2000:], y[2000:])
    wild = model.spectrum()
    assert calm.weights.sum() == pytest.approx(1.0)
    assert calm.half_lives[0] == pytest.approx(np.log(2) / -np.log(1 - 1 / 15))
    assert np.isinf(calm.half_lives[-1])
    assert (np.diff(calm.half_lives) > 0).all()
    assert calm.weights[calm.half_lives > 200].sum() > 0.5
    assert wild.weights[wild.half_lives < 40].sum() > 0.9


def test_before_the_first_row_there_is_nothing_to_read():
    for model in (ud.OnlineRegressor(), ud.OnlineClassifier()):
        assert len(model.spectrum().weights) == 0
        assert len(model.line().coef) == 0
        assert model.floored == 0


@pytest.mark.parametrize("level", [0.9, 0.85])
def test_intervals_of_a_block_are_those_before_each_round(level):
    Z, y = scaled_line(400, jump=300)
    y[50:60] = np.nan
    model, slow = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    trace = model.play(Z, y, interval=level)
    ends = []
    for z, label in zip(Z, y, strict=True):
        ends.append(slow.predict_interval(z, level))
        slow.learn(z, label)
    assert trace.lower.tobytes() == np.array([one.low for one in ends]).tobytes()
    assert trace.upper.tobytes() == np.array([one.high for one in ends]).tobytes()
    assert model == slow
    with pytest.raises(InputError, match=r"level must be in \[0.5, 0.99\], got 0.3$"):
        model.play(Z, y, interval=0.3)
    with pytest.raises(InputError, match=r"level must be in \[0.5, 0.99\], got 90; 90% is 0.9$"):
        model.play(Z, y, interval=90)
    assert model == slow
    assert ud.OnlineRegressor().play([], [], interval=0.9).lower.shape == (0,)


def test_one_half_life_replaces_the_learned_memories(tmp_path):
    Z, y = scaled_line(600, jump=300)
    for cls, labels in ((ud.OnlineRegressor, y), (ud.OnlineClassifier, y > np.median(y))):
        model = cls(half_life=30.0)
        model.play(Z, labels)
        assert model.spectrum().half_lives == pytest.approx([30.0])
        assert model.spectrum().weights == pytest.approx([1.0])
        model.save(tmp_path / "model.undrift")
        assert ud.load(tmp_path / "model.undrift") == model
    with pytest.raises(InputError, match="half_life must be in"):
        ud.OnlineRegressor(half_life=0.0)


def test_tables_are_named_rows_and_may_grow():
    Z, y = scaled_line(400)
    wide = np.column_stack([Z, (np.arange(400) >= 300) * 1.0])
    a, b = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    a.play(Table(["p", "q"], Z[:300]), y[:300])
    a.play(Table(["q", "p", "new"], wide[300:, [1, 0, 2]]), y[300:])
    b.play([{"p": p, "q": q} for p, q in Z[:300]], y[:300])
    b.play([{"p": p, "q": q, "new": new} for p, q, new in wide[300:]], y[300:])
    assert a == b
    assert a.names == ["p", "q", "new"]
    with pytest.raises(InputError, match="must have 2 features as before, got 3"):
        a.play(Table(["p", "q"], wide), y)
