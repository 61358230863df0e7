"""The compiled mixer of given forecasts against its NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twins import given_mixer as reference_given_mixer
from undrift import kernels
from undrift.kernels.definitions import GivenLoss, GivenMember, GivenNumber


def draw(kind, blocks, steps, offered, seed=0):
    rng = np.random.default_rng([seed, steps, offered])
    rows = blocks * steps
    y = np.cumsum(rng.normal(size=rows))
    Z = y[:, None] + rng.normal(size=(rows, offered)) * np.linspace(0.2, 3.0, offered)
    if kind == "wild":
        Z[rng.random(Z.shape) < 0.2] = np.nan
        Z[rng.random(Z.shape) < 0.03] *= 1e60
        Z[rows // 2] = np.nan
        y[rng.random(rows) < 0.05] = np.nan
        y[rng.random(rows) < 0.02] = 1e70
        y[-3 * steps :] = Z[-3 * steps :, 0]
    if kind == "tiny":
        Z, y = 1e-200 * Z, 1e-200 * y
    return Z, y


def empty_state(steps, offered, loss):
    count = offered + 2
    products = np.zeros((count, count) if loss == GivenLoss.SQUARED else (0, 0))
    return (
        np.zeros((steps + 1, len(GivenNumber))),
        np.zeros(steps),
        np.zeros((steps, count, len(GivenMember))),
        products,
    )


def play(which, loss, level, steps, Z, y):
    state = empty_state(steps, Z.shape[1], loss)
    yhat, weights = np.empty(len(y)), np.empty((len(y), Z.shape[1] + 2))
    which.given_play(*state, loss, level, Z, y, yhat, weights)
    return yhat, weights, *state


@pytest.mark.parametrize("kind", ["tame", "wild", "tiny"])
@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("offered", [1, 2, 5, 8])
@pytest.mark.parametrize(
    ("loss", "tau"), [(GivenLoss.SQUARED, 0.5), (GivenLoss.PINBALL, 0.5), (GivenLoss.PINBALL, 0.9)]
)
def test_the_mixer_agrees_with_its_twin(loss, tau, offered, steps, kind):
    Z, y = draw(kind, 80, steps, offered)
    for got, want in zip(
        play(kernels, loss, tau, steps, Z, y), play(reference_given_mixer, loss, tau, steps, Z, y), strict=True
    ):
        np.testing.assert_array_equal(got, want)  # one operation after the other in both: the same bits
    assert np.isfinite(play(kernels, loss, tau, steps, Z, y)[0]).all()


def test_late_labels_agree_with_the_twin():
    steps, offered = 3, 4
    Z, y = draw("wild", 60, steps, offered, seed=3)
    results = []
    for which in (kernels, reference_given_mixer):
        numbers, last, sums, products = empty_state(steps, offered, GivenLoss.SQUARED)
        yhat, weights = np.empty(len(y)), np.empty((len(y), offered + 2))
        for t in range(len(y)):
            which.given_predict(
                numbers, last, sums, 0, 0.5, t % steps, Z[t : t + 1], yhat[t : t + 1], weights[t : t + 1]
            )
            if t >= 5:
                k = t - 5
                which.given_learn(numbers, last, sums, products, 0, 0.5, k % steps, Z[k], yhat[k], y[k], 6.0)
        results.append((yhat, weights, numbers, last, sums, products))
    for got, want in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)


def test_arrays_that_do_not_fit_are_refused():
    numbers, last, sums, products = empty_state(2, 3, 0)
    Z, yhat, weights = np.zeros((4, 3)), np.zeros(4), np.zeros((4, 5))
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.given_play(numbers[:2], last, sums, products, 0, 0.5, Z, np.zeros(4), yhat, weights)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.given_play(numbers, last, sums, products, 0, 0.5, Z[:3], np.zeros(3), yhat[:3], weights[:3])
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.given_play(numbers, last[:1], sums, products, 0, 0.5, Z, np.zeros(4), yhat, weights)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.given_learn(numbers, last, sums, products[:2], 0, 0.5, 0, Z[0], 0.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.given_predict(numbers, last, sums, 2, 0.5, 0, Z, yhat, weights)
