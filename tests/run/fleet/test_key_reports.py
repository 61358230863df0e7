"""What a fleet's outputs amount to, against a plain loop and the baselines of ordinary runs."""

import math

import numpy as np
import pytest

from undrift.baselines import Baselines
from undrift.fleet import STATUSES, Outputs
from undrift.losses import logistic, squared
from undrift.run.fleet.key_reports import MIN_SCORED, KeyReport, summarize_keys
from undrift.stream.keyed.outputs import NO_EXTRAS


def outputs(streams, extra=()):
    """Outputs of streams {key: (predictions, labels)}, mixed as they would arrive; `extra` rows besides."""
    rng = np.random.default_rng(0)
    slots = rng.permutation([key for key, (_, y) in streams.items() for _ in y]).tolist()
    at = dict.fromkeys(streams, 0)
    rows = []
    for key in slots:
        n = at[key]
        at[key] += 1
        rows.append((key, n, float(streams[key][0][n]), float(streams[key][1][n]), STATUSES.index("ok"), ""))
    return Outputs.from_rows([(*row, NO_EXTRAS) for row in [*rows, *extra]])


def streams(task, keys=6, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for k in range(keys):
        n = int(rng.integers(1, 90))
        y = rng.normal(loc=10.0**k, size=n)
        y = (y > 10.0**k).astype(np.float64) if task == "classification" else y
        found[f"k{k}"] = (rng.normal(size=n) + (y if task == "regression" else 0.0), y)
    return found


def loss(task, yhat, y):
    return logistic.value(yhat, 2.0 * y - 1.0) if task == "classification" else squared.value(yhat, y)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_key_is_scored_as_if_alone(task):
    given = streams(task)
    found = {one.key: one for one in summarize_keys(outputs(given), task).keys}
    assert set(found) == set(given)
    for key, (yhat, y) in given.items():
        guesses = Baselines(binary=task == "classification", delay=0).play(y).T
        part, *naive = (loss(task, one, y)[1:] for one in (yhat, *guesses))
        one = found[key]
        assert one.rounds == len(y)
        assert one.loss == pytest.approx(np.sum(part), rel=1e-12)
        assert one.naives == pytest.approx([np.sum(losses) for losses in naive], rel=1e-12)
        if one.scored >= MIN_SCORED:
            quarter = len(part) // 4
            assert one.lately == pytest.approx(np.mean(part[-quarter:]), rel=1e-12)
            assert one.before == pytest.approx(np.mean(part[quarter:-quarter]), rel=1e-12)
        else:
            assert math.isnan(one.change)


def test_a_huge_key_does_not_blur_a_small_one():
    small = streams("regression", keys=1)["k0"]
    alone = summarize_keys(outputs({"small": small}), "regression").keys[0]
    y = np.full(50, 1e75)
    both = summarize_keys(outputs({"huge": (y, y), "small": small}), "regression")
    assert next(one for one in both.keys if one.key == "small") == alone


def test_a_key_that_turned_worse_stands_out():
    rng = np.random.default_rng(1)
    given = {f"k{k}": (np.zeros(200), rng.normal(size=200)) for k in range(20)}
    given["bad"] = (np.zeros(200), np.concatenate([rng.normal(size=150), 5.0 * rng.normal(size=50)]))
    found = summarize_keys(outputs(given), "regression").keys
    first, second = sorted(found, key=lambda one: -abs(one.change))[:2]
    assert first.key == "bad"
    assert first.change > 4.0 > abs(second.change)


def test_problems_are_counted_by_reason_and_key():
    poison, late = STATUSES.index("poison"), STATUSES.index("late")
    nothing = math.nan
    extra = [
        *[("k0", n, nothing, nothing, poison, "too hot") for n in range(3)],
        ("k1", 0, nothing, nothing, poison, "too hot"),
        ("k1", 1, nothing, nothing, late, "whatever"),
        (None, 1, nothing, nothing, poison, "key 'k' is missing"),
    ]
    found = summarize_keys(outputs(streams("regression"), extra), "regression")
    assert [(one.text, one.count, one.keys, one.examples) for one in found.problems] == [
        ("poison: too hot", 4, 2, ["k0", "k1"]),
        ("late", 1, 1, ["k1"]),
        ("poison: key 'k' is missing", 1, 0, []),
    ]
    counts = {one.key: one for one in found.keys}
    assert (counts["k0"].problems, counts["k1"].problems, counts["k2"].problems) == (3, 2, 0)
    assert "" not in counts


def test_ages_are_means_over_rounds_that_saw_as_much():
    given = streams("regression", keys=4, seed=3)
    found = summarize_keys(outputs(given), "regression")
    parts = {1: [], 2: [], 4: []}
    assert min(len(y) for _, y in given.values()) > 1
    for yhat, y in given.values():
        own, naive = squared.value(yhat, y), Baselines(binary=False, delay=0).play(y).T
        usual = min(np.mean(squared.value(guess, y)[1:]) for guess in naive)
        for n in range(1, min(8, len(y))):
            parts[1 if n < 2 else 2 if n < 4 else 4].append(own[n] / usual)
    assert [one.first for one in found.ages[:3]] == [1, 2, 4]
    assert [one.losses[0] for one in found.ages[:3]] == pytest.approx([np.mean(part) for part in parts.values()])
    assert found.ages[0].keys == len(given)


def test_nothing_learned_is_nothing_scored():
    found = summarize_keys(
        Outputs.from_rows([("k", 0, math.nan, math.nan, STATUSES.index("poison"), "no", NO_EXTRAS)]), "regression"
    )
    assert (found.keys[0].rounds, found.ages, math.isnan(found.keys[0].skill)) == (0, [], True)
    assert summarize_keys(Outputs.empty(), "regression")[:3] == ([], [], [])


def test_keys_of_equal_length_are_drawn_without_regard_to_how_well_they_did():
    given = {f"k{k}": (np.full(3, float(k)), np.array([0.0, 1.0, 0.0])) for k in range(400)}
    found = summarize_keys(outputs(given), "regression").keys  # the larger the prediction the worse: k399 first
    drawn = sorted(found, key=KeyReport.sampling_key, reverse=True)[:100]
    places = [found.index(one) for one in drawn]
    assert 150 < np.mean(places) < 250
