"""The vectorised scalar solve of AIOLI against 50 digits: error at most 8 eps (1 + condition number)."""

from __future__ import annotations

import mpmath
import numpy as np

from undrift.kernels import _native


def exact(m0, kappa):
    """The root by bisection and Newton in 50 digits."""
    with mpmath.workdps(50):
        a, k = mpmath.mpf(m0), mpmath.mpf(kappa)
        low, high = max(a / (1 + k / 2), a - k), a
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if middle + k * mpmath.tanh(middle / 2) <= a else (low, middle)
        m = low
        for _ in range(6):
            t = mpmath.tanh(m / 2)
            m += (a - m - k * t) / (1 + k / 2 * (1 - t * t))
        t = mpmath.tanh(m / 2)
        return m, a / (m * (1 + k / 2 * (1 - t * t)))


def test_the_scalar_solve_is_as_accurate_as_the_problem_allows():
    pairs = [(m0, k) for k in np.logspace(-8, 16, 25) for m0 in np.logspace(-8, 8, 17)]
    pairs += [
        (k + small, k) for k in np.logspace(-2, 16, 19) for small in (-1.0, 0.0, 1e-3, 1.0, 30.0) if k + small > 0
    ]
    m0, kappa = (np.array(column) for column in zip(*pairs, strict=True))
    m = np.empty_like(m0)
    _native.log_odds(m0, kappa, m)
    for a, k, got in zip(m0, kappa, m, strict=True):
        want, condition = exact(a, k)
        assert abs(got - want) <= 8 * np.finfo(float).eps * (1 + condition) * abs(want), (a, k, got, want)
    mirrored = np.empty_like(m0)
    _native.log_odds(-m0, kappa, mirrored)
    np.testing.assert_array_equal(mirrored, -m)


def test_the_whole_range_of_doubles_is_safe():
    m0 = np.array([0.0, -0.0, 5e-324, 1e-300, 1e150, 1e150, 1e150, 1.0, 1e308])
    kappa = np.array([1.0, 1e300, 1e300, 0.0, 1e300, 1e150, 0.0, 1e300, 1e308])
    m = np.empty_like(m0)
    _native.log_odds(m0, kappa, m)
    assert np.isfinite(m).all()
    assert (np.abs(m) <= np.abs(m0)).all()
