"""Events: changes are found soon, streams that do not change stay quiet, and a stopped watch goes on as it was."""

import json
import math
import re

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError, ModelFileError
from undrift.events import EventKind, Watch
from undrift.events.change_test import ChangeTest, RankScores

BEFORE, AFTER = 1000, 200


def watch_stream(Z, y, watch, step=10):
    """Learn a stream and watch its rounds and its memory."""
    model, events = ud.OnlineRegressor(speed="fast"), []
    for a in range(0, len(y), step):
        trace = model.play(Z[a : a + step], y[a : a + step], interval=0.9)
        for i in np.flatnonzero(trace.known):
            events += watch.add_round(a + i + 1, y[a + i], trace.yhat[i], trace.lower[i], trace.upper[i])
        events += watch.add_memory(a + step, model.spectrum())
    return events


def changing_rows(rng, change):
    Z, noise = rng.normal(size=(BEFORE + AFTER, 4)), rng.normal(size=BEFORE + AFTER)
    after = np.arange(BEFORE + AFTER) >= BEFORE
    if change == "noise":
        noise[after] *= 2.0
    y = Z @ rng.normal(size=4) + noise
    if change == "level":
        y[after] += 1.0
    if change == "coefficient":
        y[after] += Z[after, 0]
    return Z, y


@pytest.mark.parametrize("change", ["level", "coefficient", "noise"])
def test_a_change_of_one_noise_deviation_is_found_within_200_rows(change):
    rng, found, early = np.random.default_rng(7), 0, 0
    for _ in range(10):
        events = watch_stream(*changing_rows(rng, change), Watch())
        early += sum(event.row <= BEFORE for event in events)
        found += any(event.row > BEFORE for event in events)
    assert found >= 9
    assert early <= 10 * BEFORE / 5000 + 2  # one in 5,000 rows is promised


def test_streams_that_do_not_change_are_quiet():
    rng = np.random.default_rng(3)
    watch, events = Watch(), []
    for t in range(20_000):
        y, half = rng.standard_t(4), 2.13  # half of the 90% interval of that distribution
        events += watch.add_round(t + 1, y, 0.0, -half, half)
    assert len(events) <= 20_000 / 5000 + 2


def test_probabilities_that_are_right_are_quiet_and_wrong_ones_are_found():
    rng = np.random.default_rng(4)
    watch, quiet = Watch(binary=True), []
    p = rng.beta(1.0, 2.0, size=10_000)
    y = (rng.random(10_000) < p).astype(float)
    for t in range(10_000):
        quiet += watch.add_round(t + 1, y[t], p[t])
    assert len(quiet) <= 10_000 / 5000 + 2
    for wrong, kind in (
        (0.5 + 0.5 * p, EventKind.ERROR_LEANS),
        (np.where(p > 0.5, 0.999, 0.001), EventKind.ERROR_GREW),
    ):
        watch, found = Watch(binary=True), []
        for t in range(300):
            found += watch.add_round(t + 1, y[t], wrong[t])
        assert kind in {event.kind for event in found}


def features(rng, rows):
    wander = np.zeros(rows)
    for t in range(1, rows):
        wander[t] = 0.95 * wander[t - 1] + rng.normal()
    return {
        "normal": rng.normal(size=rows),
        "heavy": rng.standard_t(3, size=rows),
        "wander": wander,
        "rain": np.where(rng.random(rows) < 0.8, 0.0, rng.exponential(size=rows)),
        "flag": rng.integers(0, 2, rows).astype(float),
        "holes": np.where(rng.random(rows) < 0.05, np.nan, rng.normal(size=rows)),
        "hour": np.sin(np.arange(rows) * 2 * math.pi / 24) + 0.1 * rng.normal(size=rows),
        "constant": np.ones(rows),
    }


def watch_features(columns):
    watch, names, Z = Watch(), list(columns), np.column_stack(list(columns.values()))
    return [event for t in range(len(Z)) for event in watch.add_row(t + 1, names, Z[t])]


def test_stationary_features_are_quiet():
    assert len(watch_features(features(np.random.default_rng(5), 5000))) <= 3


@pytest.mark.parametrize(
    ("name", "spoil", "kind"),
    [
        ("normal", lambda x: np.full_like(x, x[0]), EventKind.FEATURE_FROZEN),
        ("hour", lambda x: np.full_like(x, x[0]), EventKind.FEATURE_FROZEN),
        ("holes", lambda x: np.full_like(x, np.nan), EventKind.FEATURE_MISSING),
        ("heavy", lambda x: x + 2.0, EventKind.FEATURE_SHIFTED),
        ("wander", lambda x: x - 20.0, EventKind.FEATURE_SHIFTED),
    ],
)
def test_a_spoiled_feature_is_named_soon_and_the_others_are_not(name, spoil, kind):
    columns = features(np.random.default_rng(6), 1400)
    columns[name][1200:] = spoil(columns[name][1200:])
    found = [event for event in watch_features(columns) if event.row > 1200]
    assert (kind, name) in {(event.kind, event.feature) for event in found}
    assert {event.feature for event in found} == {name}
    assert found[0].sentence.startswith(f"'{name}': ")


@pytest.mark.parametrize("shift", [-1.5, 1.0])
def test_a_shift_tells_the_mean_before_and_the_mean_since_it_began(shift):
    """The value of the row at which it is found may be anything."""
    rng, after, single = np.random.default_rng(12), [], []
    for _ in range(20):
        x = 5.0 + rng.normal(size=1500)
        x[1200:] += shift
        found = next(event for event in watch_features({"x": x}) if event.row > 1200)
        level = re.fullmatch(r"'x': its level went from about (\S+) to about (\S+)", found.sentence)
        assert abs(float(level[1]) - 5.0) < 0.5
        after.append(abs(float(level[2]) - 5.0 - shift))
        single.append(abs(x[found.row - 1] - 5.0 - shift))
    assert np.mean(after) < 0.35
    assert np.mean(after) < 0.5 * np.mean(single)


def test_a_second_shift_is_told_from_the_level_of_the_first_one():
    x = np.random.default_rng(13).normal(size=3000)
    x[1000:] += 10.0
    x[2000:] += 10.0
    first, second = watch_features({"x": x})
    assert re.search(r"from about 0 to about (9|10)$", first.sentence)
    assert re.search(r"from about (9|10) to about (19|20)$", second.sentence)


@pytest.mark.parametrize(("place", "number"), [(6, -1.0), (6, 500.0), (7, 3.0), (7, -1.0), (7, 1e9), (7, None)])
def test_a_damaged_state_of_a_feature_is_refused(place, number):
    watch = Watch()
    for t in range(200):
        watch.add_row(t + 1, ["x"], np.array([float(t % 7)]))
    state = json.loads(json.dumps(watch.state()))
    state["features"][1][0][place] = number
    with pytest.raises(ModelFileError, match="Watch: the saved state of a feature cannot be used"):
        Watch().resume(state)


def test_a_watch_goes_on_where_it_was_stopped():
    rng = np.random.default_rng(8)
    Z, y = changing_rows(rng, "level")
    whole = watch_stream(Z, y, Watch())
    columns = features(rng, 600)
    columns["normal"][500:] = 7.0
    columns["heavy"][400:] += 4.0
    rows = np.column_stack(list(columns.values()))

    def play(watch, a, b):
        events = []
        for t in range(a, b):
            events += watch.add_row(t + 1, list(columns), rows[t])
            events += watch.add_round(t + 1, y[t + 600], 0.0, -1.0, 1.0)
        return events

    expected = play(Watch(), 0, 600)
    watch, found = Watch(), []
    for a in range(0, 600, 77):
        found += play(watch, a, min(a + 77, 600))
        state = json.dumps(watch.state(), allow_nan=False)
        watch = Watch()
        watch.resume(json.loads(state))
    assert found == expected
    assert {EventKind.FEATURE_FROZEN, EventKind.FEATURE_SHIFTED} <= {event.kind for event in found}
    assert whole


def test_one_long_hole_is_told_once_and_another_again():
    x = np.random.default_rng(9).normal(size=2500)
    x[500:600] = x[1500:2000] = np.nan
    found = watch_features({"x": x})
    assert [event.kind for event in found] == [EventKind.FEATURE_MISSING] * 2
    assert 500 < found[0].row < 550
    assert 1600 < found[1].row < 2000  # a hole of 100 rows is no news any more


def test_events_are_given_to_a_callback():
    seen = []
    watch = Watch(on_event=seen.append)
    returned = watch.add_category(5, "colour", "mauve")
    assert seen == returned
    assert seen[0].as_dict() == {
        "kind": "new category",
        "row": 5,
        "feature": "colour",
        "sentence": "'colour' is 'mauve' for the first time",
    }


def test_bad_numbers_are_refused():
    with pytest.raises(InputError, match="must be finite numbers"):
        Watch().add_round(1, math.nan, 0.0)
    with pytest.raises(InputError, match="rows_between_alarms must be in"):
        Watch(rows_between_alarms=0.0)
    with pytest.raises(InputError, match="level must be in"):
        Watch(level=1.0)


def test_alarms_of_the_test_are_as_far_apart_as_promised():
    """The theorem: at least A rows on average. Fair bets on coin tosses, 400 times until the first alarm."""
    rng, rows = np.random.default_rng(10), []
    for _ in range(400):
        test, t = ChangeTest(200.0, 2), 0
        while True:
            t += 1
            heads = rng.random() < 0.5
            if test.add([1.5 if heads else 0.5, 0.6 if heads else 1.4]):
                break
        rows.append(t)
    assert np.mean(rows) >= 200.0 * (1.0 - 3.0 / math.sqrt(400))
    assert np.mean(rows) <= 20 * 200.0  # it does ring


def test_scores_of_exchangeable_numbers_are_standard_normal():
    rng, scores = np.random.default_rng(11), RankScores()
    found = [score for x in rng.exponential(size=20_000) if (score := scores.add(x)) is not None]
    assert abs(np.mean(found)) < 0.03
    assert abs(np.std(found) - 1.0) < 0.03
    for shift in (0.5, 1.0, 1.5):
        assert np.mean(np.exp(shift * np.array(found) - shift**2 / 2)) < 1.1


def test_rows_together_and_one_by_one_give_the_same_events():
    rng = np.random.default_rng(21)
    Z = rng.normal(size=(900, 3))
    Z[500:, 1] += 4.0
    Z[600:800, 2] = 1.0
    names = ["a", "b", "c"]
    alone, together = Watch(), Watch()
    one_by_one = [event for t in range(900) for event in alone.add_row(t + 1, names, Z[t])]
    cut = [event for a in range(0, 900, 37) for event in together.add_rows(range(a + 1, a + 38), names, Z[a : a + 37])]
    assert one_by_one == cut
    assert len({event.kind for event in cut}) == 2
    assert alone.state() == together.state()
