"""Codes for missing values in several features of a row: nothing is exact there, but predictions stay ordinary."""

import numpy as np
import pytest

from undrift import DiscountedAIOLI, DiscountedVAW


def rows_with_codes(seed):
    rng = np.random.default_rng(seed)
    dim, code = int(rng.choice([2, 3, 6, 12])), float(rng.choice([1e9, 1e20, 9.97e36, 1e60]))
    Z = rng.normal(size=(800, dim))
    y = Z @ rng.normal(size=dim) / np.sqrt(dim) + 0.3 * rng.normal(size=800)
    for t in rng.integers(50, 600, size=3):
        Z[t, rng.random(dim) < rng.choice([0.5, 1.0])] = code
    return Z, y


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("beta", [0.5, 0.9, 0.99, 1.0])
def test_codes_in_several_features_leave_predictions_of_ordinary_size(seed, beta):
    Z, y = rows_with_codes(seed)
    most = np.abs(y).max()
    for hint in ("zero", "last"):
        assert np.abs(DiscountedVAW(beta=beta, hint=hint).play(Z, y).yhat).max() <= 3.0 * most
    assert np.abs(DiscountedAIOLI(beta=beta).play(Z, np.where(y > 0.0, 1.0, -1.0)).yhat).max() <= 60.0
