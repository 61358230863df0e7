"""Compiled waves against their NumPy twin."""

import numpy as np
import pytest

from tests.twins import waves as reference_waves
from undrift import kernels


@pytest.mark.parametrize("count", [1, 6, 48])
def test_waves_have_the_bits_of_the_twin(count):
    rng = np.random.default_rng(count)
    X = rng.normal(size=(50, 5)) * 10.0 ** rng.uniform(-3, 3, size=(50, 5))
    table = np.column_stack([rng.integers(5, size=(count, 2)), rng.normal(size=(count, 2)), rng.random(count)])
    outs = [np.zeros((50, count + 3)) for _ in range(2)]
    reference_waves.waves(table, X, 30.0, outs[0], 2)
    kernels.waves(table, X, 30.0, outs[1], 2)
    assert outs[0].tobytes() == outs[1].tobytes()
    assert np.all(np.abs(outs[0]) <= np.sqrt(2.0 / count))


def test_waves_refuse_features_that_are_not_there():
    table = np.array([[0.0, 7.0, 1.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="a wave asks for a feature that is not there"):
        kernels.waves(table, np.zeros((2, 3)), 30.0, np.zeros((2, 1)), 0)
