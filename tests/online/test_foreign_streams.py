"""Defaults on streams nobody tuned them on: persistence unbeatable, sensors dead for months, spikes of 1000 scales."""

import math

import numpy as np
import pytest

import undrift as ud
from tests.twins.estimator_rows import despike, fit_despiker
from undrift.kernels.definitions import Despiker
from undrift.losses import logistic

T = 6000
SPEEDS = ["best", "fast"]


def log_loss(odds, signs):
    return float(np.mean(logistic.value(odds, signs)))


def entropy(p):
    return -p * math.log(p) - (1.0 - p) * math.log(1.0 - p)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_costs_hardly_more_than_its_last_value(speed, seed):
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(T, 6)), 1e4 + np.cumsum(rng.normal(size=T))
    residual = (ud.OnlineRegressor(speed=speed).play(Z, y).yhat - y)[500:]
    assert np.mean(residual**2) < 1.03 * np.mean(np.diff(y)[499:] ** 2)


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("change", [0.02, 0.2])
def test_classes_that_stay_cost_hardly_more_than_the_chance_of_a_change(speed, change):
    rng = np.random.default_rng(1)
    signs = np.cumprod(np.where(rng.random(T) < change, -1.0, 1.0))
    odds = ud.OnlineClassifier(speed=speed).play(rng.normal(size=(T, 6)), signs).yhat
    happened = np.mean(signs[1:] != signs[:-1])
    assert log_loss(odds, signs) < entropy(happened) + 0.02


def sensors(rng):
    """Six sensors; the last three are dead at first, and the first three die for 2000 rounds in the middle."""
    Z = rng.normal(size=(T, 6))
    Z[:1500, 3:] = 7.0
    Z[2500:4500, :3] = 0.0
    return Z, Z @ [1.0, -2.0, 0.5, 1.0, 2.0, -1.0]


@pytest.mark.parametrize("speed", SPEEDS)
def test_sensors_that_die_and_return_are_used_while_they_live(speed):
    rng = np.random.default_rng(2)
    Z, signal = sensors(rng)
    y = signal + 0.1 * rng.normal(size=T)
    residual = ud.OnlineRegressor(speed=speed).play(Z, y).yhat - y
    for part in (slice(500, 1500), slice(2000, 2500), slice(3000, 4500), slice(5000, T)):
        assert np.mean(residual[part] ** 2) < 0.02 * np.var(y[part])


@pytest.mark.parametrize("speed", SPEEDS)
def test_classes_told_by_sensors_that_die_and_return(speed):
    rng = np.random.default_rng(3)
    Z, signal = sensors(rng)
    center = np.where(np.arange(T) < 1500, signal[:1500].mean(), 0.0)
    chance = 1.0 / (1.0 + np.exp(-2.0 * (signal - center)))
    signs = np.where(rng.random(T) < chance, 1.0, -1.0)
    odds = ud.OnlineClassifier(speed=speed).play(Z, signs).yhat
    best = 2.0 * (signal - center)
    for part in (slice(500, 1500), slice(2000, 2500), slice(3000, 4500), slice(5000, T)):
        assert log_loss(odds[part], signs[part]) < log_loss(best[part], signs[part]) + 0.05


@pytest.mark.parametrize("speed", SPEEDS)
def test_feature_spikes_do_not_spoil_the_labels_between(speed):
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(T, 4))
    y = Z @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=T)
    spiked = np.unique(rng.integers(T, size=30))
    Z[spiked, rng.integers(4, size=len(spiked))] *= 1000.0
    residual = ud.OnlineRegressor(speed=speed).play(Z, y).yhat - y
    calm = np.ones(T, dtype=bool)
    calm[:500] = calm[spiked] = False
    assert np.mean(residual[calm] ** 2) < 2.0  # the noise alone is 1, the labels' variance 7


@pytest.mark.parametrize("earliest", [10, 300], ids=["from the start", "after the warm-up"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("speed", SPEEDS)
def test_label_spikes_do_not_spoil_the_labels_between(speed, seed, earliest):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(T, 4))
    y = Z @ [1.0, 2.0, 0.0, -1.0] + rng.normal(size=T)
    spiked = np.unique([earliest, *rng.integers(earliest, T, size=30)])
    y[spiked] += 1000.0 * np.std(y) * rng.choice([-1.0, 1.0], size=len(spiked))
    model = ud.OnlineRegressor(speed=speed)
    residual = model.play(Z, y).yhat - y
    calm = np.ones(T, dtype=bool)
    calm[:500] = calm[spiked] = False
    # When the arms disagree for the first time by as much as that, the gate can only guess: once for each of 3 buckets.
    squares = np.sort(residual[calm] ** 2)[:-3]
    assert np.mean(squares) < 2.0  # the noise alone is 1, the labels' variance 7
    own, persistence = 0.5 * np.sum(residual[1:] ** 2), 0.5 * np.sum(np.diff(y) ** 2)  # nothing is known of the first
    at = model.candidates.index("last value")
    assert model.losses[at] == pytest.approx(persistence, rel=1e-9)  # of the labels as they came
    assert np.all(own - model.losses <= model.cost() + 1e-9 * own)


@pytest.mark.parametrize("speed", SPEEDS)
def test_feature_spikes_do_not_spoil_the_classes_between(speed):
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(T, 4))
    odds = 2.0 * Z @ [1.0, 2.0, 0.0, -1.0]
    signs = np.where(rng.random(T) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    spiked = np.unique(rng.integers(T, size=30))
    Z[spiked, rng.integers(4, size=len(spiked))] *= 1000.0
    said = ud.OnlineClassifier(speed=speed).play(Z, signs).yhat
    calm = np.ones(T, dtype=bool)
    calm[:500] = calm[spiked] = False
    assert log_loss(said[calm], signs[calm]) < log_loss(odds[calm], signs[calm]) + 0.05


@pytest.mark.parametrize("speed", SPEEDS)
@pytest.mark.parametrize("s", [2.0**-200, 2.0**10, -(2.0**100)])
def test_labels_scaled_by_a_power_of_two_scale_predictions(speed, s):
    rng = np.random.default_rng(6)
    Z, y = rng.normal(size=(1500, 4)), np.cumsum(rng.normal(size=1500))
    trees = s > 0.0  # which cut the last label into bins from below
    plain = ud.OnlineRegressor(speed=speed, trees=trees).play(Z, y).yhat
    scaled = ud.OnlineRegressor(speed=speed, trees=trees).play(Z, s * y).yhat
    np.testing.assert_allclose(scaled, s * plain, rtol=1e-7, atol=1e-9 * abs(s))


def learned(y):
    """Return labels as the robust arm learns them after its warm-up of 256."""
    despiker = np.zeros(len(Despiker))
    first = fit_despiker(despiker, y[:256])
    return np.concatenate([first, [despike(despiker, label) for label in y[256:].tolist()]])


def test_a_lone_spike_is_not_taken_for_a_new_level():
    rng = np.random.default_rng(7)
    y = rng.normal(size=4000)
    spiked = np.arange(300, 4000, 123)
    y[spiked] += 1000.0 * rng.choice([-1.0, 1.0], size=len(spiked))
    seen = learned(y)
    calm = np.setdiff1d(np.arange(256, 4000), spiked)
    assert seen[calm].tobytes() == y[calm].tobytes()
    assert np.abs(seen[spiked]).max() < 30.0


def test_a_new_level_is_reached_in_a_few_rounds():
    rng = np.random.default_rng(8)
    y = rng.normal(size=600) + np.where(np.arange(600) < 300, 0.0, 1e6)
    assert learned(y)[320:].tobytes() == y[320:].tobytes()


def test_ten_bad_labels_in_a_row_leave_the_next_ones_protected():
    rng = np.random.default_rng(9)
    y = rng.normal(size=2000)
    y[500:510], y[600] = 1e6, 1e6
    seen = learned(y)
    assert np.abs(seen[600]) < 40.0, "the bound came back"
    assert seen[520:600].tobytes() == y[520:600].tobytes()
