"""Rounding is not news: a sensor that froze teaches nothing about what it no longer shows."""

import numpy as np
import pytest

from tests.accuracy.exact import Past, exact, identity
from tests.twins import reference
from undrift.kernels import layout


@pytest.mark.parametrize("beta", [0.5, 0.9])
def test_frozen_rows_do_not_move_what_they_do_not_show(beta):
    rng = np.random.default_rng(0)
    dim, rounds, thaw = 20, 2900, 2800
    Z = rng.normal(size=(rounds, dim))
    Z[200:thaw] = Z[200]
    y = Z @ rng.normal(size=dim) + 0.3 * rng.normal(size=rounds)
    scale = float(np.sqrt(np.mean(y * y)))

    state = layout.fresh(dim, np.ones(1))
    m, h = np.empty((rounds, 1)), np.empty((rounds, 1))
    assert reference.vaw_play(state, np.array([beta]), 0, Z, y, m, h) == 0
    yhat = (m / (1.0 + h))[:, 0]

    asked = [150, 199, 300, 1599, 2799, thaw, thaw + 1, thaw + 10, rounds - 1]
    truth = exact(Past(Z, np.ones(rounds), y, beta, identity(dim, 1.0)), asked)
    for t in asked:
        value = float(truth[t].m / (1 + truth[t].h))
        assert abs(yhat[t] - value) <= 1e-12 * max(abs(value), scale)
    # the leader itself is not determined by the data here, but it must not be made of rounding either
    assert np.abs(m[thaw : thaw + dim]).max() <= 1e3 * scale
