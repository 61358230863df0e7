"""KeyWatch, KeyedWatch: rare false alarms over many keys together, soon after a change, nothing lost by a stop."""

import json

import numpy as np
import pytest

from undrift.events import KeyedWatch
from undrift.events.watch import FIRST_ROUNDS, KeyWatch

LIMIT = 1000.0


def alarms(watch, y, level=0.9):
    """Rows at which a key is told to have changed, with honest intervals around 0 for standard normal labels."""
    half = {0.9: 1.6449, 0.5: 0.6745}[level]
    return [t for t, one in enumerate(y) for _ in watch.add(one, 0.0, -half, half)]


def test_false_alarms_of_many_keys_together_are_as_rare_as_promised():
    y = np.random.default_rng(0).normal(size=(400, 100))
    found = sum(len(alarms(KeyWatch(LIMIT), key.tolist())) for key in y)
    assert found <= y.size / LIMIT
    assert found > 0  # the limit is no larger than it needs to be


@pytest.mark.parametrize(("shift", "side"), [(1.5, "above them"), (-1.5, "below them")])
def test_a_key_that_moved_is_told_soon_and_on_which_side(shift, side):
    rng = np.random.default_rng(1)
    delays = []
    for _ in range(20):
        watch = KeyWatch(5000.0)
        assert not alarms(watch, rng.normal(size=200).tolist())
        said = []
        for t in range(200):
            said += [(t, sentence) for _, sentence in watch.add(rng.normal() + shift, 0.0, -1.6449, 1.6449)]
        word = side.split()[0]
        delays.append(next(t for t, sentence in said if f" {word} " in sentence))
        assert next(sentence for _, sentence in said if "intervals" in sentence).endswith(side)
    assert np.median(delays) < 40


def test_classes_are_judged_by_their_probabilities():
    rng = np.random.default_rng(2)
    watch = KeyWatch(LIMIT, binary=True)
    quiet = [1 for _ in range(500) for _ in watch.add(float(rng.random() < 0.3), 0.3, None, None)]
    loud = [sentence for _ in range(100) for _, sentence in watch.add(float(rng.random() < 0.7), 0.3, None, None)]
    assert not quiet
    assert loud[0] == "the positive label comes more often than predicted"


def test_a_watch_goes_on_where_it_was_stopped_and_spares_the_first_rounds():
    far = [9.0] * (FIRST_ROUNDS + 30)
    whole, first, second = KeyWatch(), KeyWatch(), KeyWatch()
    expected = alarms(whole, far)
    assert min(expected) >= FIRST_ROUNDS
    assert alarms(first, far[:33]) == [t for t in expected if t < 33]
    second.resume(json.loads(json.dumps(first.state())))
    assert [33 + t for t in alarms(second, far[33:])] == [t for t in expected if t >= 33]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("keys", [1, 30, 300])
def test_the_first_false_alarm_of_all_keys_comes_as_late_as_promised(keys, binary):
    """Rows of all keys until the first alarm, on average over streams: at least the limit, for any number of keys."""
    rng, limit, rows = np.random.default_rng(keys), 500.0, []
    for _ in range(12 if keys < 300 else 4):
        watch, t = KeyedWatch(limit, binary=binary), 0
        while t < 40_000:
            t, y = t + 1, float(rng.normal())
            served = (float(y < 0.5), 0.6915, None, None) if binary else (y, 0.0, -1.6449, 1.6449)
            if watch.add_round(int(rng.integers(keys)), t, *served):
                break
        rows.append(t)
    assert np.mean(rows) >= limit


def test_keys_are_watched_apart_named_and_resumed():
    rng, whole, parts = np.random.default_rng(3), KeyedWatch(), KeyedWatch()
    found, other = [], []
    for t in range(300):
        for key in "ab":
            y = float(rng.normal()) + 3.0 * (key == "b" and t >= 200)
            found += whole.add_round(key, t, y, 0.0, -1.6449, 1.6449)
            if t == 150:
                state = json.loads(json.dumps(parts.state(key)))
                parts.forget(key)
                parts.resume(key, state)
            other += parts.add_round(key, t, y, 0.0, -1.6449, 1.6449)
    assert found == other
    assert {event.key for event in found} == {"b"}
    assert found[0].sentence.startswith("'b': labels lie")
    assert parts.keys == ["a", "b"]
