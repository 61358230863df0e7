"""How far a compiled kernel may be from its NumPy twin: one table for all tests of this folder.

Both round differently (fused or not, in another order), so what is ill-conditioned differs by more than the last bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Tolerance(NamedTuple):
    """|ours - twin| <= absolute + relative |twin|."""

    relative: float
    absolute: float

    def check(self, ours, twin) -> None:
        """Assert that two arrays agree, in shape and type too."""
        assert ours.shape == twin.shape
        assert ours.dtype == twin.dtype
        np.testing.assert_allclose(ours, twin, rtol=self.relative, atol=self.absolute)


TOLERANCES = {
    # Predictions and leverages, relative to the size of the labels.
    "learner outputs": Tolerance(1e-9, 0.0),
    # Energies; A = L D L' is allowed 100 times that, relative to its diagonal.
    "vaw state": Tolerance(1e-12, 0.0),
    # The weights of AIOLI's surrogates follow its predictions.
    "aioli state": Tolerance(1e-9, 0.0),
    "mixer": Tolerance(1e-9, 1e-11),
    # Rounds of an ensemble: the errors of its learners pass through the weights of its mixer.
    "ensemble": Tolerance(1e-8, 1e-9),
    "keyed predictions": Tolerance(1e-9, 1e-12),
    # Forecasts and states of smoothers, in units of the series.
    "smoothers": Tolerance(1e-12, 1e-13),
    # Regrets, weights and what is mixed: errors of the regrets are multiplied by the rates of BOA.
    "steps": Tolerance(1e-9, 1e-11),
    # L itself, which is less well determined than A.
    "keyed states": Tolerance(1e-7, 1e-9),
    # The state and the records of an online estimator, relative to the largest number of a part (of a column):
    # 4e-14 measured over all cases and levels.
    "estimator": Tolerance(1e-12, 0.0),
    # The rate of level 2's mixer is a sum of mixability gaps, small differences of large losses: 5e-12 measured.
    "estimator log-weights": Tolerance(1e-10, 0.0),
    # The search for a prediction stops within 1e-8 of it: 3e-8 measured, in units of the largest number of a part.
    "class level": Tolerance(1e-6, 1e-6),
}
