"""Candidates made elsewhere: heard by level 2 and the last mixer, never features, silent where they are missing."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.losses import logistic, squared


def hidden_signal(rounds=900, seed=0):
    """Return rows, labels whose bends no row explains, and a forecast that knows them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rounds, 3))
    hidden = 3.0 * rng.normal(size=rounds)
    y = Z @ [1.0, -2.0, 0.5] + hidden + 0.1 * rng.normal(size=rounds)
    return Z, y, hidden + Z[:, 0] + 0.3 * rng.normal(size=rounds)


def no_worse_than_candidates(model, total):
    assert np.all(total - model.losses <= model.cost() + 1e-11 * (total + model.losses))


def test_a_forecast_that_knows_more_is_used_and_corrected():
    Z, y, forecast = hidden_signal()
    model = ud.OnlineRegressor(speed="fast", candidates=[3])
    error = (model.play(np.column_stack([Z, forecast]), y).yhat - y)[300:]
    alone = (ud.OnlineRegressor(speed="fast").play(Z, y).yhat - y)[300:]
    own = (forecast - y)[300:]
    assert np.mean(error**2) < 0.3 * min(np.mean(own**2), np.mean(alone**2))
    combined = ["mean of the given", "median of the given"]
    assert model.candidates[-6:] == ["column 3", "last value", "running mean", "robust", *combined]
    assert model.dim == 3


@pytest.mark.parametrize("late", [0, 3])
def test_cost_covers_every_candidate_and_silence_is_the_mixtures_own_answer(late):
    Z, y, forecast = hidden_signal()
    forecast[::3] = np.nan
    forecast[400:600] = 1e6  # broken for a while
    model = ud.OnlineRegressor(speed="fast", candidates=[0])
    yhat = model.play(np.column_stack([forecast, Z]), y, delay=late).yhat
    settled = slice(1 + late, len(y) - late)
    if not late:
        no_worse_than_candidates(model, float(np.sum(squared.value(yhat, y)[settled])))
    k = model.candidates.index("column 0")
    spoke = ~np.isnan(forecast)
    spoke[: 1 + late] = spoke[len(y) - late :] = False
    silent = ~spoke
    silent[: 1 + late] = silent[len(y) - late :] = False
    own = np.sum(squared.value(yhat, y)[silent]) + np.sum(squared.value(forecast, y)[spoke])
    assert model.losses[k] == pytest.approx(own, rel=1e-6)


def test_probabilities_for_two_classes():
    Z, y, forecast = hidden_signal()
    labels = y > 0.0
    p = 1.0 / (1.0 + np.exp(-forecast))
    p[::5] = np.nan
    model = ud.OnlineClassifier(speed="fast", candidates=[3])
    odds = model.play(np.column_stack([Z, p]), labels).yhat
    alone = ud.OnlineClassifier(speed="fast").play(Z, labels).yhat
    signs = np.where(labels, 1.0, -1.0)
    losses = logistic.value(odds, signs)
    assert np.mean(losses[300:]) < 0.7 * np.mean(logistic.value(alone, signs)[300:])
    no_worse_than_candidates(model, float(np.sum(losses[1:])))
    with pytest.raises(
        InputError, match=r"'column 3' must be a probability of the second class, in \[0, 1\], got 1.5 in row 1"
    ):
        model.predict(np.column_stack([Z[:2], [0.5, 1.5]]))


def test_names_numbers_rows_blocks_and_files_agree(tmp_path):
    Z, y, forecast = hidden_signal(400)
    forecast[5::7] = np.nan
    by_number = ud.OnlineRegressor(candidates=[1])
    rows = np.column_stack([Z[:, 0], forecast, Z[:, 1:]])
    whole = by_number.play(rows, y).yhat
    singly = ud.OnlineRegressor(candidates=[1])
    said = []
    for z, label in zip(rows, y, strict=True):
        said.append(singly.predict(z))
        singly.learn(z, label)
    assert np.array(said).tobytes() == whole.tobytes()
    assert singly == by_number
    named = ud.OnlineRegressor(candidates=["chronos"])
    dictionaries = [
        {"a": z[0], "b": z[1], "c": z[2]} | ({} if np.isnan(f) else {"chronos": f})
        for z, f in zip(Z, forecast, strict=True)
    ]
    part = named.play(dictionaries[:200], y[:200]).yhat
    named.save(tmp_path / "m")
    loaded = ud.load(tmp_path / "m")
    assert loaded == named
    assert named.names == ["a", "b", "c"]
    rest = [loaded.ask(z) for z in dictionaries[200:203]]
    for served, label in zip(rest, y[200:203], strict=True):
        loaded.tell(served, float(label))
    assert np.array_equal(part, whole[:200])
    assert rest[0].yhat == whole[200]
    later = named.clone()
    later.play(dictionaries[:300], y[:300])
    later.learn({**dictionaries[300], "new": 1.0}, float(y[300]))  # a feature that appears after the warm-up
    assert later.dim == 4
    assert np.isfinite(later.predict(dictionaries[301]))


def test_a_column_may_be_called_like_a_candidate_of_ours():
    Z, y, forecast = hidden_signal(60)
    model = ud.OnlineRegressor(speed="fast", candidates=["linear"])
    model.play([{"a": z, "linear": f} for z, f in zip(Z[:, 0], forecast, strict=True)], y)
    assert {"linear", "column 'linear'"} < set(model.candidates)
    assert len(set(model.candidates)) == len(model.candidates)


def test_design_and_intervals_leave_them_out():
    Z, y, forecast = hidden_signal(400)
    rows = np.column_stack([Z, forecast])
    model = ud.OnlineRegressor(speed="fast", candidates=[3])
    assert model.design(rows, y).rows.shape == (400, 4)
    model.play(rows, y)
    low, high = model.predict_interval(rows[0])
    assert low < model.predict(rows[0]) < high
    assert (np.diff(model.predict_quantiles(rows[:2], [0.1, 0.5, 0.9])) > 0.0).all()


@pytest.mark.parametrize("wrong", [[], ["a", "a"], ["a", 1], [-1], [True], "a", [1.5]])
def test_wrong_candidates_are_refused(wrong):
    with pytest.raises(InputError, match="candidates must be a list of different column names, or of column numbers"):
        ud.OnlineRegressor(candidates=wrong)


def test_rows_that_do_not_fit_are_refused():
    Z, y, _ = hidden_signal(50)
    with pytest.raises(InputError, match="candidates name column 3, counted from 0, but rows have 3"):
        ud.OnlineRegressor(candidates=[3]).play(Z, y)
    with pytest.raises(InputError, match="candidates have names, but rows have none"):
        ud.OnlineRegressor(candidates=["a"]).play(Z, y)
    with pytest.raises(InputError, match="candidates are column numbers, but rows have names"):
        ud.OnlineRegressor(candidates=[0]).learn({"a": 1.0}, 1.0)
    with pytest.raises(InputError, match="at least one feature, got none"):
        ud.OnlineRegressor(candidates=[0]).play(Z[:, :1], y)
    with pytest.raises(InputError, match=r"got a model with some; pass candidate= to Fleet\.of_table"):
        ud.Fleet(ud.OnlineRegressor(candidates=["a"]), key="k", features=["a", "b"], target="y")


def test_an_estimator_with_candidates_is_no_member_of_an_ensemble():
    with pytest.raises(InputError, match="a member cannot have candidates of its own; give the predictions of"):
        ud.Ensemble([ud.OnlineRegressor(candidates=[1]), ud.Persistence()])


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e-85, 1e-80, 1e-75, 1e70])
def test_labels_whose_squares_are_lost_in_float64_are_predicted(scale):
    """A member's regret of 1e-165 has the square 0; a weight made of both would not be a number."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 2))
    y = scale * (Z[:, 0] + rng.normal(size=80))
    told = y[:, None] + scale * rng.normal(size=(80, 2)) * [1.0, 0.01]
    model = ud.OnlineRegressor(speed="light", candidates=[2, 3])
    yhat = model.play(np.column_stack([Z, told]), y).yhat
    assert np.all(np.abs(yhat) <= 10.0 * np.max(np.abs(y)))
    assert np.isfinite(model.cost()).all()
    assert np.sum(model.weights) == pytest.approx(1.0)


def test_a_broken_forecast_moves_the_prediction_by_a_few_errors():
    """The mean of eight leads, and the broken one goes into it with an eighth."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = np.cumsum(rng.normal(size=1000))
        given = y[:, None] + rng.normal(size=(1000, 8))
        given[700:705, seed] = 1e9
        model = ud.OnlineRegressor(speed="fast", candidates=list(range(1, 9)))
        error = np.abs(model.play(np.column_stack([rng.normal(size=1000), given]), y).yhat - y)
        assert error[700:705].max() < 30.0 * error[600:700].mean()
        assert error[705:800].mean() < 1.5 * error[600:700].mean()
