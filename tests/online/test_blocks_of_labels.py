"""Labels that become known in blocks: a delay of its own for each row, and given predictions combined by any loss."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError

DAY = 24


def days(rows=600, seed=0):
    """Return rows, labels and three predictions made elsewhere, a day of 24 rows at a time."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 2))
    y = Z[:, 0] + np.sin(np.arange(rows) * 2.0 * np.pi / DAY) + 0.3 * rng.normal(size=rows)
    given = y[:, None] + rng.normal(size=(rows, 3)) * [0.5, 1.0, 2.0]
    return np.column_stack([Z, given]), y, DAY - 1 - np.arange(rows) % DAY


def ask_day_by_day(model, rows, y):
    said = []
    for begin in range(0, len(y), DAY):
        served = [model.ask(row) for row in rows[begin : begin + DAY]]
        said += [one.yhat for one in served]
        for one, label in zip(served, y[begin : begin + DAY], strict=True):
            model.tell(one, float(label))
    return said


@pytest.mark.parametrize(
    "make",
    [
        lambda: ud.OnlineRegressor(speed="fast", candidates=[2, 3, 4]),
        lambda: ud.OnlineRegressor(candidates=[2, 3, 4]),
        lambda: ud.DiscountedVAW(half_life=50.0),
        lambda: ud.linear_ensemble(horizon=600),
    ],
    ids=["fast", "best", "DiscountedVAW", "ensemble"],
)
def test_a_delay_for_each_row_is_asking_for_a_day_and_telling_it_at_its_end(make, tmp_path):
    rows, y, delay = days()
    asked, whole, cut = make(), make(), make()
    said = ask_day_by_day(asked, rows, y)
    assert whole.play(rows, y, delay=delay).yhat.tolist() == said
    parts = []
    for begin, end in ((0, 5), (5, 30), (30, 31), (31, 400), (400, 600)):  # labels of a day's rows wait across calls
        parts.append(cut.play(rows[begin:end], y[begin:end], delay=delay[begin:end]).yhat)
        cut.save(tmp_path / "model.undrift")
        cut = ud.load(tmp_path / "model.undrift")
    assert np.concatenate(parts).tolist() == said
    assert whole == cut
    assert whole.rounds == 600
    assert not whole.pending


def test_equal_delays_are_one_delay():
    rows, y, _ = days(200)
    one, each = (ud.OnlineRegressor(speed="fast") for _ in range(2))
    assert one.play(rows, y, delay=7).yhat.tobytes() == each.play(rows, y, delay=[7] * 200).yhat.tobytes()
    assert one == each


def test_several_classes_take_a_delay_for_each_row():
    rows, y, delay = days(240)
    names = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    whole, asked = (ud.OnlineClassifier(speed="light") for _ in range(2))
    whole.play(rows, names.tolist(), delay=delay)
    for begin in range(0, 240, DAY):
        served = [asked.ask(row) for row in rows[begin : begin + DAY]]
        for one, name in zip(served, names[begin : begin + DAY].tolist(), strict=True):
            asked.tell(one, name)
    assert np.allclose(whole.predict_proba(rows[:5]), asked.predict_proba(rows[:5]), rtol=1e-12)


@pytest.mark.parametrize(
    ("delay", "text"),
    [
        ([1, 2], r"delay must be an integer, or one for each of the 3 rows, got 2"),
        ([1, -2, 3], r"delay\[1\] must be an integer >= 0, got -2"),
        ([1, 2.5, 3], r"delay\[1\] must be an integer >= 0, got 2.5"),
        (-1, r"delay must be an integer >= 0, got -1"),
    ],
)
def test_wrong_delays_are_refused_and_nothing_changes(delay, text):
    model = ud.OnlineRegressor(speed="fast")
    model.play(np.ones((2, 2)), [1.0, 2.0])
    before = model.copy()
    with pytest.raises(InputError, match=text):
        model.play(np.ones((3, 2)), [1.0, 2.0, 3.0], delay=delay)
    assert model == before


def test_absolute_and_pinball_loss_choose_what_suits_them():
    rng = np.random.default_rng(3)
    y = rng.exponential(size=6000)
    given = np.column_stack([np.full(6000, v) for v in (0.2, np.log(2.0), 1.0, np.log(10.0))])
    found = {}
    for loss in ("squared", "absolute", 0.9):
        model = ud.OnlineRegressor(speed="light", candidates=[1, 2, 3, 4], loss=loss)
        trace = model.play(np.column_stack([rng.normal(size=6000), given]), y)
        found[loss] = float(np.mean(trace.yhat[3000:]))
        level = {"absolute": 0.5}.get(loss, loss)
        if loss != "squared":
            miss = (y - trace.yhat)[1:]
            total = float(np.sum(np.maximum(level * miss, (level - 1.0) * miss)))
            assert model.candidates[0] == "own prediction"
            assert np.all(total - model.losses <= model.cost() + 1e-9 * total)
            assert total < 1.02 * np.min(model.losses)
    assert abs(found["squared"] - 1.0) < 0.1  # the mean,
    assert abs(found["absolute"] - np.log(2.0)) < 0.1  # the median,
    assert abs(found[0.9] - np.log(10.0)) < 0.25  # and the 90% quantile of these labels


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"loss": "absolute"}, "loss says how candidates are combined; name candidates too"),
        ({"loss": "huber", "candidates": [0]}, r'loss must be "squared", "absolute" or a level in \(0, 1\)'),
        ({"loss": 1.5, "candidates": [0]}, r"a level in \(0, 1\), got 1.5"),
    ],
)
def test_losses_that_do_not_fit_are_refused(parameters, text):
    with pytest.raises(InputError, match=text):
        ud.OnlineRegressor(**parameters)


def test_a_broken_prediction_does_little_harm():
    rows, y, _ = days(3000)
    rows[1000:1200, 2:] = 1e4
    model = ud.OnlineRegressor(speed="fast", candidates=[2, 3, 4])
    error = np.abs(model.play(rows, y).yhat - y)
    alone = np.abs(ud.OnlineRegressor(speed="fast").play(rows[:, :2], y).yhat - y)
    assert np.mean(error[1001:1200]) < 3.0 * np.mean(alone[1001:1200])
    assert np.mean(error[1300:]) < np.mean(alone[1300:])


def test_given_predictions_are_no_worse_than_their_mean():
    rng = np.random.default_rng(5)
    excess = []
    for seed in range(4):
        rows, y, _ = days(3000, seed)
        given = y[:, None] + 0.7 * rng.normal(size=(3000, 4))
        model = ud.OnlineRegressor(speed="fast", candidates=[2, 3, 4, 5])
        yhat = model.play(np.column_stack([rows[:, :2], given]), y).yhat
        excess.append(np.mean((yhat - y)[1:] ** 2) / np.mean((given.mean(axis=1) - y)[1:] ** 2))
    assert max(excess) < 1.02
