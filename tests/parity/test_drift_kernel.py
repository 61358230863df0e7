"""The compiled rounds of DriftVAW against their twin."""

import numpy as np
import pytest

from tests.twins import drift as reference
from undrift import kernels
from undrift.kernels.definitions import DriftCount

pytestmark = pytest.mark.every_level


def state(rng, n, d):
    reg = 10.0 ** rng.uniform(-2, 2, size=n)
    return [np.eye(d)[None] / np.sqrt(reg)[:, None, None], np.zeros((n, d)), np.zeros((n, len(DriftCount))), reg]


@pytest.mark.parametrize("d", [1, 2, 3, 8, 17])
def test_compiled_rounds_are_those_of_the_twin(d):
    rng = np.random.default_rng(d)
    n, T = 3, 60
    Z, y = rng.normal(size=(T, d)), rng.normal(size=T)
    Z[30] *= 1e8  # a restart, and a row that is ignored
    Z[45] *= 1e4
    step = 10.0 ** rng.uniform(-4, 4, size=n)
    ours = state(np.random.default_rng(1), n, d)
    twin = [np.array(one) for one in ours]
    for first in range(0, T, 20):
        part = slice(first, first + 20)
        outs = [[np.empty((20, n)) for _ in range(3)] for _ in range(2)]
        assert kernels.drift_play(*ours, step, first, Z[part], y[part], *outs[0]) == 0
        assert reference.drift_play(*twin, step, first, Z[part], y[part], *outs[1]) == 0
        for a, b in zip(outs[0], outs[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        looks = [[np.empty((5, n)) for _ in range(2)] for _ in range(2)]
        kernels.drift_predict(ours[0], ours[1], ours[3], step, first + 20, Z[:5], *looks[0])
        reference.drift_predict(twin[0], twin[1], twin[3], step, first + 20, Z[:5], *looks[1])
        for a, b in zip(looks[0], looks[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert ours[2][:, DriftCount.RESTARTS].min() >= 1.0
    for a, b in zip(ours, twin, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_recursions_over_gains_are_those_of_the_twin(d):
    rng = np.random.default_rng(d)
    Z, y, T = rng.normal(size=(40, d)), rng.normal(size=40), 40
    Z[20] *= 1e9  # ignored
    first, start = [one[:1] for one in state(np.random.default_rng(1), 1, d)], np.zeros(T)
    gains, out = [np.empty((T, d)) for _ in range(2)], [np.empty((T, 1)) for _ in range(3)]
    for which, filled in zip((kernels, reference), gains, strict=True):
        which.drift_play(*(np.array(one) for one in first), np.ones(1), 0, Z, y, *out, None, None, filled)
    np.testing.assert_allclose(gains[0], gains[1], rtol=1e-9, atol=1e-12)
    assert not gains[0][20].any()
    start[[0, 20]] = 1.0
    for name in ("drift_residuals", "drift_errors"):
        columns = [np.empty(T) for _ in range(2)]
        for which, column in zip((kernels, reference), columns, strict=True):
            getattr(which, name)(Z, gains[0], y, start, column)
        np.testing.assert_allclose(columns[0], columns[1], rtol=1e-9, atol=1e-9)
        with pytest.raises(ValueError, match="do not fit together"):
            getattr(kernels, name)(Z, gains[0][1:], y, start, columns[0])


def test_bad_input_changes_nothing():
    rng = np.random.default_rng(0)
    ours = state(rng, 1, 2)
    before = [np.array(one) for one in ours]
    Z, outs = np.array([[1.0, 2.0], [1.0, np.nan]]), [np.empty((2, 1)) for _ in range(3)]
    assert kernels.drift_play(*ours, np.ones(1), 0, Z, np.zeros(2), *outs) == 4
    assert reference.drift_play(*ours, np.ones(1), 0, Z, np.zeros(2), *outs) == 4
    assert all((a == b).all() for a, b in zip(ours, before, strict=True))
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.drift_play(*ours, np.ones(2), 0, Z, np.zeros(2), *outs)
