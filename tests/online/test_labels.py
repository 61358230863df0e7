"""Labels as they come in practice: shifted, scaled, bad, late, or not there yet."""

import numpy as np
import pytest

import undrift as ud

SPEEDS = ("fast", "best")


def linear_stream(seed=0, rows=3000, dim=3):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, dim))
    return Z, Z @ np.array([2.0, -1.0, 0.5]) + 0.1 * rng.normal(size=rows)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize(("a", "s"), [(1e3, 1.0), (-1e6, 1.0), (5e5, 2.0), (7.0, -3.0), (1e6, 1e3)])
def test_shifted_and_scaled_labels_shift_and_scale_predictions(speed, a, s):
    Z, y = linear_stream()
    trees = s > 0.0  # which cut the last label into bins from below
    plain = ud.OnlineRegressor(speed=speed, trees=trees).play(Z, y).yhat[1:]
    moved = ud.OnlineRegressor(speed=speed, trees=trees).play(Z, a + s * y).yhat[1:]
    assert np.max(np.abs(moved - (a + s * plain))) <= 1e-9 * abs(s) + 1e3 * np.finfo(float).eps * abs(a)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("s", [0.5, 2.0**20])
def test_a_power_of_two_scales_predictions_to_the_bit(speed, s):
    Z, y = linear_stream(1)
    plain, scaled = (ud.OnlineRegressor(speed=speed).play(Z, k * y).yhat for k in (1.0, s))
    assert (s * plain).tobytes() == scaled.tobytes()


@pytest.mark.parametrize("c", [1e3, 1e5, 1e6, -1e9, 1e9])
def test_a_constant_costs_nothing(c):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(1000, 2))
    y = Z @ np.array([2.0, -1.0]) + 0.2 * rng.normal(size=1000)
    errors = [np.abs(ud.OnlineRegressor().play(Z, k + y).yhat - (k + y))[200:].mean() for k in (0.0, c)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


def shocks():
    Z, y = linear_stream(3, rows=8000)
    size, at = np.std(y), 4000
    bad, first, larger, smaller = (y.copy() for _ in range(4))
    bad[at : at + 10] = -1e4 * size
    first[0] = 1e4 * size
    larger[at:] *= 1000.0
    smaller[at:] /= 1000.0
    return {
        "ten bad labels": (Z, bad, at + 10, 1.0),
        "a bad first label": (Z, first, 1, 1.0),
        "1000 times larger": (Z, larger, at, 1000.0),
        "1000 times smaller": (Z, smaller, at, 1e-3),
        "a new level": (Z, y + np.where(np.arange(8000) < at, 0.0, 1e4 * size), at, 1.0),
    }


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("name", shocks())
def test_shocks_are_forgotten(name, speed):
    Z, y, at, scale = shocks()[name]
    _, calm = linear_stream(3, rows=8000)
    normal = np.abs(ud.OnlineRegressor(speed=speed).play(Z, calm).yhat - calm)[2000:].mean() * scale
    model = ud.OnlineRegressor(speed=speed)
    trace = model.play(Z, y)
    error = np.abs(trace.yhat - y)
    assert error[at + 500 : at + 700].mean() < 2.0 * normal
    assert error[at + 2000 : at + 2400].mean() < 1.2 * normal
    total = 0.5 * np.sum((trace.yhat - y)[trace.known] ** 2)
    assert np.all(total - model.losses <= model.cost() + 1e-9 * total), "the cost stays proven"


def walk(seed, rows=8000):
    """Draw a random walk and features that say nothing: the last known label is the best prediction."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)), np.cumsum(rng.normal(size=rows))


@pytest.mark.parametrize("delay", [0, 1, 5, 24, 100, 168])
def test_intervals_cover_what_they_promise_however_late_labels_are(delay):
    Z, y = walk(4)
    model = ud.OnlineRegressor(speed="fast")
    trace = model.play(Z, y, delay=delay, interval=0.9)
    served = np.isfinite(trace.lower) & (np.arange(8000) < 8000 - delay)
    inside = (trace.lower <= y) & (y <= trace.upper)
    assert inside[served].mean() == pytest.approx(0.9, abs=0.015)
    (nine,) = (one for one in model.coverage() if one.level == 0.9)
    assert nine.rounds == np.count_nonzero(served)
    assert nine.measured == inside[served].mean()


def test_late_labels_do_not_keep_the_mixture_far_from_the_best_candidate():
    """Rates follow the losses of what was served: those of the weights at settling time hide what turning costs."""
    totals, best = [], []
    for seed in range(3):
        Z, y = walk(seed)
        model = ud.OnlineRegressor(speed="fast")
        trace = model.play(Z, y, delay=100)
        settled = trace.known & (np.arange(8000) < 8000 - 100)
        totals.append(0.5 * np.sum((trace.yhat - y)[settled] ** 2))
        best.append(np.min(model.losses))
        assert np.all(totals[-1] - model.losses <= model.cost() + 1e-9 * totals[-1])
    assert np.sum(totals) < 1.12 * np.sum(best)


def test_late_labels_cost_no_more_than_stated_and_cuts_do_not_matter():
    Z, y = linear_stream(5)
    whole, cut = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    trace = whole.play(Z, y, delay=24)
    parts = [cut.play(Z[a:b], y[a:b], delay=24).yhat for a, b in ((0, 10), (10, 11), (11, 700), (700, 3000))]
    assert np.concatenate(parts).tobytes() == trace.yhat.tobytes()
    assert whole == cut == cut.copy()
    assert len(whole.pending) == 24
    assert whole.rounds == 3000 - 24
    settled = trace.known & (np.arange(3000) < 3000 - 24)
    total = 0.5 * np.sum((trace.yhat - y)[settled] ** 2)
    assert np.all(total - whole.losses <= whole.cost() + 1e-9 * total)


def log_loss(odds, y):
    return np.logaddexp(0.0, np.where(y > 0.0, -odds, odds))


def running_rate(y, delay):
    """Log-odds of the base rate of the labels known before each row."""
    positive = np.concatenate([np.zeros(delay + 1), np.cumsum(y)])[: len(y)]
    known = np.maximum(np.arange(len(y)) - delay, 0.0)
    return np.log((positive + 1.0) / (known - positive + 1.0))


@pytest.mark.parametrize("speed", ["light", *SPEEDS])
@pytest.mark.parametrize("delay", [0, 100, 500, 1000])
@pytest.mark.parametrize("rate", [0.005, 0.02])
def test_a_rare_class_costs_hardly_more_than_its_running_rate_however_late_labels_are(rate, delay, speed):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        Z, y = rng.normal(size=(8000, 4)), (rng.random(8000) < rate).astype(float)
        odds = ud.OnlineClassifier(speed=speed).play(Z, y, delay=delay).yhat
        own, rival = (log_loss(each, y)[delay + 1 :].sum() for each in (odds, running_rate(y, delay)))
        assert own < 1.015 * rival


@pytest.mark.parametrize("speed", SPEEDS)
def test_features_that_tell_classes_are_used_before_the_first_late_prediction_is_judged(speed):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1000, 4))
    y = (Z @ [2.0, -1.0, 0.5, 0.0] + 0.5 * rng.normal(size=1000) > 0.0).astype(float)
    odds = ud.OnlineClassifier(speed=speed).play(Z, y, delay=499).yhat
    assert not odds[:500].any()
    own, rival = (log_loss(each, y)[600:].sum() for each in (odds, running_rate(y, 499)))
    assert own < 0.6 * rival


@pytest.mark.parametrize("speed", SPEEDS)
def test_classes_that_stay_longer_than_labels_are_late_for_are_not_taken_for_granted(speed):
    """Labels that follow each other are alike: what is learned from them promptly does not hold so many rows later."""
    rng = np.random.default_rng(1)
    y = (np.cumprod(np.where(rng.random(1000) < 0.05, -1.0, 1.0)) > 0.0).astype(float)
    odds = ud.OnlineClassifier(speed=speed).play(rng.normal(size=(1000, 4)), y, delay=499).yhat
    own, rival = (log_loss(each, y)[500:].sum() for each in (odds, running_rate(y, 499)))
    assert own < 1.15 * rival


def test_a_given_candidate_that_knows_is_heard_before_the_first_late_prediction_is_judged():
    rng = np.random.default_rng(2)
    y = (rng.random(600) < 0.3).astype(float)
    told = np.where(rng.random(600) < 0.1, np.nan, np.where(y > 0.0, 0.99, 0.01))  # sometimes it says nothing
    model = ud.OnlineClassifier(speed="fast", candidates=[1])
    trace = model.play(np.column_stack([rng.normal(size=600), told]), y, delay=200)
    spoke = ~np.isnan(told) & (np.arange(600) >= 250)
    assert log_loss(trace.yhat, y)[spoke].mean() < 0.4 * log_loss(running_rate(y, 200), y)[spoke].mean()
    settled = trace.known & (np.arange(600) < 400)
    total = log_loss(trace.yhat, y)[settled].sum()
    assert np.all(total - model.losses <= model.cost() + 1e-9 * total)


def test_late_classes_can_be_asked_and_told_or_cut_anywhere():
    rng = np.random.default_rng(3)
    Z, y = rng.normal(size=(700, 3)), (rng.random(700) < 0.2).astype(float)
    whole, cut, asked = (ud.OnlineClassifier(speed="fast") for _ in range(3))
    trace = whole.play(Z, y, delay=150)
    parts = [
        cut.play(Z[a:b], y[a:b], delay=150).yhat for a, b in ((0, 60), (60, 170), (170, 171), (171, 290), (290, 700))
    ]
    served = []
    for t in range(700):
        assert t < 150 or asked.predict_proba(Z[t])[1] == pytest.approx(1.0 / (1.0 + np.exp(-trace.yhat[t])), rel=1e-12)
        served.append(asked.ask(Z[t]))
        if t >= 150:
            asked.tell(served[t - 150], y[t - 150])
    assert np.concatenate(parts).tobytes() == trace.yhat.tobytes()
    assert np.array([one.yhat for one in served]).tobytes() == trace.yhat.tobytes()
    assert whole == cut == cut.copy()


def test_nothing_is_known_before_the_first_label():
    model = ud.OnlineRegressor()
    served = model.ask([1.0, 2.0])
    assert (served.yhat, served.known) == (0.0, False)
    assert served.interval(0.9) == (-np.inf, np.inf)
    model.tell(served, 100.0)
    second = model.ask([1.0, 2.0])
    assert (second.yhat, second.known) == (100.0, True)
    assert second.interval(0.9) == (-np.inf, np.inf), "one label says nothing about spread"
    trace = ud.OnlineRegressor().play(np.ones((3, 1)), [100.0, 101.0, 102.0])
    assert trace.known.tolist() == [False, True, True]


def test_two_classes_are_called_as_they_were_given():
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(300, 2))
    for negative, positive in ((False, True), (0, 1), (-1, 1)):
        model = ud.OnlineClassifier(speed="fast")
        model.play(Z, np.where(Z[:, 0] > 0.0, positive, negative))
        assert model.predict(np.array([3.0, 0.0])) == positive
        assert type(model.copy().predict(np.array([-3.0, 0.0]))) is type(negative)
        assert model.copy().classes == [negative, positive]
        both = model.predict_proba(Z[:5])
        np.testing.assert_allclose(both.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.log(both[:, 1] / both[:, 0]), model.log_odds(Z[:5]), rtol=1e-9)


def test_looking_at_a_run_does_not_rename_its_labels():
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(60, 2))
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z, (Z[:, 0] > 0.0).astype(int))
    before = model.copy()
    model.design(Z, np.where(Z[:, 0] > 0.0, 1, -1))
    model.leaves(Z, Z[:, 0] > 0.0, None)
    assert model == before
    assert model.classes == [0, 1]


def test_labels_that_are_told_late_are_called_as_they_were_told():
    model = ud.OnlineClassifier(speed="fast")
    for z, y in (([1.0], True), ([-1.0], False)):
        model.tell(model.ask(z), y)
    assert [type(one) for one in model.copy().classes] == [bool, bool]


def test_a_late_run_says_how_late_it_was():
    Z, y = linear_stream(8, rows=50)
    assert ud.OnlineRegressor(speed="fast").play(Z, y, delay=3).delay == 3
    assert ud.OnlineRegressor(speed="fast").play(Z, y).delay == 0
