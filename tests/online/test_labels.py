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
