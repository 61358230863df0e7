"""No learner, ensemble or online estimator exceeds its certificate, whatever the rows, labels and comparators.

The regret is computed from predictions, rows and labels alone.
"""

import numpy as np
import pytest

from tests.regret import instances
from undrift.errors import ConditionError

pytestmark = pytest.mark.slow

COUNTS = {
    "VAW": 600,
    "AIOLI": 400,
    "DriftVAW": 400,
    "Newton": 200,
    "hindsight": 60,
    "linear ensemble": 300,
    "logistic ensemble": 300,
    "mixed ensemble": 400,
    "drift ensemble": 100,
    "OnlineRegressor": 400,
    "OnlineClassifier": 400,
    "collinear DriftVAW": 300,
    "collinear Newton": 200,
    "restarted": 200,
}
"""`python -m tools stress certify` runs thousands of each."""
ALONE = ("VAW", "AIOLI", "DriftVAW", "Newton", "collinear DriftVAW", "collinear Newton", "restarted")
SHORT = ("VAW", "AIOLI", "mixed ensemble", "OnlineRegressor", "OnlineClassifier")
"""Families with memories so short that pivots are raised."""


@pytest.mark.parametrize("family", COUNTS)
def test_no_composite_exceeds_its_certificate(family):
    leaves, floored, moved, refused = set(), 0, 0, 0
    for seed in range(COUNTS[family]):
        try:
            cert, measured = instances.FAMILIES[family](np.random.default_rng(seed))
        except ConditionError:  # numbers beyond float64's range
            refused += 1
            continue
        assert not instances.below(cert, measured), f"instance {seed}"
        leaves.add(cert.leaf)
        floored += cert.floors > 0
        moved += cert.variation != 0.0  # a third of the comparators stand still, a quarter are the learner's own
    assert family in ALONE or len(leaves) > 5  # not always the same way out
    assert moved > COUNTS[family] // 4
    assert (floored > 5) == (family in SHORT)
    assert refused <= COUNTS[family] // 5
