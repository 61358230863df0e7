"""Features that are watched: the compiled kernel against its twin, however rows are cut."""

import numpy as np
import pytest

from tests.twins import features as twin
from undrift import kernels
from undrift.events.change_test import SCORES
from undrift.events.features import FeatureWatch
from undrift.kernels.definitions import FeatureChange


def spoiled_rows(seed, rows=2500, wide=7):
    """Return rows whose features wander, jump, freeze, go missing, repeat values, and hold ties."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, wide))
    Z[:, 1] = np.cumsum(Z[:, 1])
    Z[1200:, 2] += 3.0
    Z[1500:, 2] -= 5.0
    Z[900:1400, 3] = Z[899, 3]
    Z[:, 4] = np.round(3.0 * Z[:, 4])
    Z[:, 5] = np.round(Z[:, 5], 1) + 0.5 * np.sin(np.arange(rows) / 7.0)
    Z[rng.random((rows, wide)) < 0.05] = np.nan
    Z[1700:2200, 6] = np.nan
    Z[1800:, 0] = np.nan
    return Z


def play(module, Z, cuts=(), limit=2000.0):
    """Return the state and what was found, with the levels of shifts."""
    watch = FeatureWatch([f"x{j}" for j in range(Z.shape[1])], 1.0)
    found, levels = np.zeros(Z.shape, dtype=np.int64), np.zeros((*Z.shape, 4))
    for part in np.split(np.arange(len(Z)), cuts):
        some, where = np.empty((len(part), Z.shape[1]), np.int64), np.zeros((len(part), Z.shape[1], 4))
        count = module.watch_features(watch._state, np.ascontiguousarray(Z[part]), SCORES, limit, some, where)
        assert count == np.count_nonzero(some)
        found[part], levels[part] = some, where
    return watch._state, found, levels


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_finds_what_its_twin_finds(seed):
    Z = spoiled_rows(seed)
    (state, found, levels), (twins, expected, twin_levels) = play(kernels, Z), play(twin, Z)
    assert {int(kind) for kind in found.ravel() if kind} == set(map(int, FeatureChange))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(levels, twin_levels, rtol=1e-12)
    np.testing.assert_allclose(state, twins, rtol=1e-9, atol=1e-12)


def test_rows_may_be_cut_anywhere():
    Z = spoiled_rows(9)
    whole, cut = play(kernels, Z), play(kernels, Z, cuts=(1, 2, 700, 1201, 2499))
    for one, other in zip(whole, cut, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_that_do_not_fit_are_refused():
    watch = FeatureWatch(["a", "b"], 100.0)
    good = {"state": watch._state, "Z": np.zeros((3, 2)), "found": np.zeros((3, 2), np.int64)}
    good |= {"scores": SCORES, "limit": 10.0, "levels": np.zeros((3, 2, 4))}
    wrong = {
        "Z": np.zeros((3, 1)),
        "found": np.zeros((2, 2), np.int64),
        "levels": np.zeros((3, 2, 3)),
        "scores": np.zeros(0),
    }
    for name, array in wrong.items():
        with pytest.raises(ValueError, match="do not fit together"):
            kernels.watch_features(**(good | {name: array}))
    watch._state[0, 6] = 1e9
    with pytest.raises(ValueError, match="outside of it"):
        kernels.watch_features(**good)
