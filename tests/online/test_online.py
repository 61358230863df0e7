"""OnlineRegressor, OnlineClassifier: right without being told anything, and never far behind the naive."""

import gzip
import math

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.helpers import DATA
from undrift.losses import logistic, squared

# What a rough trial reached; the defaults must.
R2 = {"bike_hourly": 0.942, "metro_traffic": 0.963, "air_quality_co": 0.938}
LOG_LOSS = {"elec2": 0.200, "weather_nebraska": 0.409, "flights_late": 0.458}


def load_stream(name):
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as file:
        next(file)
        table = np.array([[float(x) if x else math.nan for x in line.rstrip("\n").split(",")[1:]] for line in file])
    return table[:, :-1], table[:, -1]


def no_worse_than_candidates(model, total):
    assert np.all(total - model.losses <= model.cost() + 1e-11 * (total + model.losses))


@pytest.mark.parametrize("name", R2)
def test_regression_streams(name):
    Z, y = load_stream(name)
    model = ud.OnlineRegressor()
    yhat = model.play(Z, y).yhat
    assert 1.0 - np.mean((yhat - y) ** 2) / np.var(y) >= R2[name]
    no_worse_than_candidates(model, float(np.sum(squared.value(yhat, y)[1:])))
    for level, measured, _ in model.coverage():
        assert measured == pytest.approx(level, abs=0.005)
    assert model.missing.sum() == np.isnan(Z).sum()


@pytest.mark.parametrize("name", LOG_LOSS)
def test_classification_streams(name):
    Z, y = load_stream(name)
    model = ud.OnlineClassifier()
    signs = np.where(y > 0.0, 1.0, -1.0)
    losses = logistic.value(model.play(Z, y).yhat, signs)
    assert np.mean(np.minimum(losses, -math.log(1e-6))) <= LOG_LOSS[name]
    no_worse_than_candidates(model, float(np.sum(losses[1:])))
    np.testing.assert_allclose(model.cost()[0], -math.log(0.5) + 0.1 * math.log(len(y)), rtol=1e-12)  # growing-share


def hard_streams():
    rng = np.random.default_rng(0)
    T = 4000
    Z = rng.normal(size=(T, 4))
    walk = np.cumsum(rng.normal(size=T))
    dead = Z.copy()
    dead[:2500, 1:] = 0.0
    spikes = Z @ [1.0, 2.0, 0.0, 0.0] + rng.normal(size=T)
    spikes[rng.integers(T, size=12)] *= 1000.0
    wild = Z.copy()
    wild[rng.integers(T, size=20), rng.integers(4, size=20)] *= 1000.0
    larger = np.repeat([1.0, 1000.0, 1e-3, 1.0], T // 4)
    return {
        "nothing beats the last value": (Z, walk),
        "features dead for months": (dead, dead @ [1.0, 2.0, -1.0, 0.5] + 0.1 * rng.normal(size=T)),
        "label spikes": (Z, spikes),
        "feature spikes": (wild, Z @ [1.0, 2.0, 0.0, 0.0] + rng.normal(size=T)),
        "scale changes": (Z * larger[:, None], (Z @ [1.0, 2.0, 0.0, 0.0] + rng.normal(size=T)) * larger[::-1]),
        "constant labels": (Z, np.full(T, 7.0)),
        "zeros": (Z * 0.0, np.zeros(T)),
        "the adversary": (np.ones((T, 1)), np.where(np.arange(T) % 2, 1.0, -1.0) * (1 + np.arange(T) // 1000)),
    }


@pytest.mark.parametrize("name", hard_streams())
def test_hard_streams_cost_no_more_than_stated(name):
    Z, y = hard_streams()[name]
    model = ud.OnlineRegressor()
    yhat = model.play(Z, y).yhat
    assert np.isfinite(yhat).all()
    no_worse_than_candidates(model, float(np.sum(squared.value(yhat, y)[1:])))
    classes = ud.OnlineClassifier(speed="fast")
    signs = np.where(y > np.median(y), 1.0, -1.0)
    odds = classes.play(Z, signs).yhat
    assert np.isfinite(odds).all()
    no_worse_than_candidates(classes, float(np.sum(logistic.value(odds, signs)[1:])))


def test_persistence_is_nearly_matched_where_it_is_unbeatable():
    Z, y = hard_streams()["nothing beats the last value"]
    yhat = ud.OnlineRegressor().play(Z, y).yhat
    last = np.concatenate(([0.0], y[:-1]))
    assert np.mean((yhat - y)[500:] ** 2) < 1.03 * np.mean((last - y)[500:] ** 2)


def test_spikes_do_not_spoil_the_rounds_between():
    Z, y = hard_streams()["label spikes"]
    yhat = ud.OnlineRegressor().play(Z, y).yhat
    calm = np.abs(y) < 20.0
    calm[:500] = False
    assert np.mean((yhat - y)[calm] ** 2) < 3.0  # the noise alone is 1


def test_dead_features_are_used_once_they_speak():
    Z, y = hard_streams()["features dead for months"]
    yhat = ud.OnlineRegressor().play(Z, y).yhat
    assert np.mean((yhat - y)[3000:] ** 2) < 0.1 * np.var(y[3000:])


@pytest.mark.parametrize("s", [2.0**-20, 1e3, -1.0])
def test_labels_scaled_scale_predictions(s):
    Z, y = hard_streams()["nothing beats the last value"]
    trees = s > 0.0  # which cut the last label into bins from below
    plain, scaled = (
        ud.OnlineRegressor(trees=trees).play(Z[:1000], y[:1000]).yhat,
        ud.OnlineRegressor(trees=trees).play(Z[:1000], s * y[:1000]).yhat,
    )
    np.testing.assert_allclose(scaled, s * plain, rtol=1e-6, atol=1e-9 * abs(s))


def test_missing_numbers_are_the_last_seen_ones_and_counted():
    rng = np.random.default_rng(1)
    Z, filled = rng.normal(size=(600, 3)), None
    holes = rng.random(Z.shape) < 0.1
    holes[0] = False
    filled = Z.copy()
    for t in range(1, len(Z)):
        filled[t] = np.where(holes[t], filled[t - 1], Z[t])
    y = filled @ [1.0, -1.0, 2.0]
    gaps = np.where(holes, np.nan, Z)
    a, b = ud.OnlineRegressor(trees=False), ud.OnlineRegressor(trees=False)  # trees see that a number is missing
    assert a.play(gaps, y).yhat.tobytes() == b.play(filled, y).yhat.tobytes()
    assert a.missing.tolist() == holes.sum(axis=0).tolist()
    assert a.predict([np.nan] * 3) == b.predict(filled[-1])
    marked = ud.OnlineRegressor(indicators=True)
    label = np.where(holes[:, 0], 5.0, 0.0)
    assert np.mean((marked.play(gaps, label).yhat - label)[400:] ** 2) < 0.2 * np.var(label)


def test_a_nan_label_teaches_nothing_but_what_features_tell():
    rng = np.random.default_rng(2)
    Z, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    blank = rng.random(400) < 0.2
    blank[:4] = False  # what a feature's first values are scaled by is known from features alone
    model, sparse = ud.OnlineRegressor(), ud.OnlineRegressor()
    trace = model.play(Z, np.where(blank, np.nan, y))
    sparse.play(Z[~blank], y[~blank])
    for part in ("linear.information", "linear.log_weights", "waves.information", "label_context"):
        assert model.part(part).tobytes() == sparse.part(part).tobytes()
    asked = ud.OnlineRegressor()
    for t in range(400):
        served = asked.ask(Z[t])
        assert served.yhat == trace.yhat[t]
        asked.tell(served, np.nan if blank[t] else y[t])
    assert np.isfinite(trace.yhat).all()
    assert (model.rounds, model.unlabelled) == (int(np.sum(~blank)), int(np.sum(blank)))


@pytest.mark.parametrize("late_at", [100, 600])
def test_named_features_may_appear_later(late_at):
    rng = np.random.default_rng(3)
    T = 1500
    Z = rng.normal(size=(T, 3))
    Z[:late_at, 2] = 0.0
    y = Z @ [1.0, 2.0, 3.0]
    names = [dict(zip("abc", row, strict=True)) for row in Z.tolist()]
    for row in names[:late_at]:
        del row["c"]
    model = ud.OnlineRegressor()
    yhat = np.concatenate([model.play(names[:50], y[:50]).yhat, model.play(names[50:], y[50:]).yhat])
    assert model.names == ["a", "b", "c"]
    assert np.mean((yhat - y)[late_at + 200 :] ** 2) < 0.01 * np.var(y[late_at + 200 :])
    copy = model.copy()
    assert copy == model
    assert copy.predict(names[-1]) == model.predict(names[-1])
    shuffled = dict(reversed(names[-1].items()))
    assert model.predict(shuffled) == model.predict(names[-1])
    assert model.predict({**names[-1], "d": 5.0}) == model.predict(names[-1]), "unknown until learned"


def test_data_frames_of_any_kind():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(300, 2))
    Z[7, 1] = np.nan
    y = Z[:, 0]
    frame = pl.DataFrame({"x": Z[:, 0], "z": [None if math.isnan(v) else v for v in Z[:, 1].tolist()]})
    a, b, c = ud.OnlineRegressor(), ud.OnlineRegressor(), ud.OnlineRegressor()
    expected = a.play(Z, y).yhat
    assert b.play(frame, y).yhat.tobytes() == expected.tobytes()
    assert c.play(frame.to_pandas(), y).yhat.tobytes() == expected.tobytes()
    with pytest.raises(ud.errors.InputError, match="feature 'x' must be numbers, got String; encode texts as"):
        b.play(pl.DataFrame({"x": ["a"], "z": [1.0]}), [1.0])


def fed():
    model = ud.OnlineRegressor(speed="fast")
    model.play([{"a": 1.0, "b": 2.0}] * 5, [1.0] * 5)
    return model


BAD = {
    "text": (lambda m: m.learn({"a": "1", "b": 1.0}, 1.0), "feature 'a' must be a number, got '1'; encode texts as"),
    "an object": (lambda m: m.learn({"a": [], "b": 1.0}, 1.0), "feature 'a' must be a number, got a list"),
    "infinity": (lambda m: m.learn({"a": math.inf}, 1.0), "z must be finite"),
    "arrays of another width after names": (lambda m: m.learn([1.0, 2.0, 3.0], 1.0), "features"),
    "number as name": (lambda m: m.learn({1: 1.0}, 1.0), "feature names must be text, got 1"),
    "a text label": (lambda m: m.learn({"a": 1.0}, "high"), "y must be an array of numbers"),
    "one row to play": (lambda m: m.play({"a": 1.0}, [1.0]), "play takes rows"),
    "labels missing": (lambda m: m.play([{"a": 1.0}] * 2, [1.0]), "y must have one number a round, 2, got 1"),
}


@pytest.mark.parametrize("what", BAD)
def test_nothing_is_learned_from_a_refused_row(what):
    call, text = BAD[what]
    model = fed()
    before = model.copy()
    with pytest.raises(ud.errors.InputError, match=text):
        call(model)
    assert model == before
    assert model.names == ["a", "b"]


def test_wrong_options_are_refused():
    with pytest.raises(ud.errors.InputError, match="speed must be one of light, fast, best"):
        ud.OnlineRegressor(speed="slow")
    with pytest.raises(ud.errors.InputError, match="indicators must be True or False"):
        ud.OnlineRegressor(indicators=1)
    names = ud.OnlineClassifier()
    names.play(np.eye(2), [0, 1])
    with pytest.raises(ud.errors.InputError, match="rows had no names so far"):
        names.learn({"a": 1.0}, 1)


def test_late_labels_score_the_prediction_made_with_what_is_known_then():
    rng = np.random.default_rng(5)
    Z, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    model, prompt = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    for t in range(300):
        model.predict(Z[t])  # outstanding
        if t >= 20:
            model.learn(Z[t - 20], y[t - 20])
    prompt.play(Z[:280], y[:280])
    assert model == prompt
