"""ftrl-is-adam: without clip and damping the update is Adam's, bias correction apart."""

import numpy as np
import pytest

from undrift.optim import Tuning, core


def test_one_coordinate_is_adam_without_bias_correction():
    rng = np.random.default_rng(0)
    c = Tuning(gamma=1e-3, gap1=0.1, gap2=0.001, nu=1e-8)
    m = v = m_hat = v_hat = 0.0
    for t in range(1, 200):
        g = rng.normal()
        m, v = core.ema(m, g, c.gap1), core.ema(v, g * g, c.gap2)
        m_hat, v_hat = 0.9 * m_hat + 0.1 * g, 0.999 * v_hat + 0.001 * g * g  # Kingma and Ba's recursions
        ours = core.leader(m, core.rate(v, 1 - 0.9**t, c), abs(m))
        assert ours == pytest.approx(-1e-3 * m_hat / (np.sqrt(v_hat) + 1e-8), rel=1e-10)


def test_the_missing_bias_correction_is_a_factor_that_dies_out():
    factor = [(1 - 0.9**t) / np.sqrt(1 - 0.999**t) for t in (1, 12, 100, 10000)]
    assert factor == pytest.approx([3.162, 6.57, 3.24, 1.0], rel=5e-3)
