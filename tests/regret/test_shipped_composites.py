"""Ensembles and online estimators never exceed their certificates, whatever the rows, labels and comparators."""

import instances
import numpy as np
import pytest

COUNTS = {
    "linear ensemble": 300,
    "logistic ensemble": 300,
    "mixed ensemble": 400,
    "OnlineRegressor": 400,
    "OnlineClassifier": 400,
}
"""`make stress-certify` runs thousands of each."""
SHORT = ("mixed ensemble", "OnlineRegressor", "OnlineClassifier")
"""Families with memories so short that pivots are raised."""


@pytest.mark.parametrize("family", COUNTS)
def test_no_composite_exceeds_its_certificate(family):
    leaves, floored, moved = set(), 0, 0
    for seed in range(COUNTS[family]):
        cert = instances.FAMILIES[family](np.random.default_rng(seed))
        assert cert.slack >= -1e-12 * cert.scale, f"instance {seed}"
        leaves.add(cert.leaf)
        floored += cert.floors > 0
        moved += cert.variation != 0.0
    assert len(leaves) > 5  # not always the same way out
    assert moved > COUNTS[family] // 4
    assert (floored > 5) == (family in SHORT)
