"""Why the leader is judged in units of its standard deviation: after a freeze its plain value hangs on the last bit."""

from __future__ import annotations

import numpy as np

from tests.accuracy import streams
from tests.accuracy.exact import Past, exact


def test_one_bit_of_one_row_moves_the_exact_leader_by_more_than_the_labels() -> None:
    case = streams.make("frozen", 2, 20_000, seed=2)
    thaw, beta = 6000, 0.9
    touched = case.U.copy()
    touched[thaw - 1, 0] = np.nextafter(touched[thaw - 1, 0], np.inf)
    ones = np.ones(len(case.y))
    before, after = (exact(Past(U, ones, case.y, beta, case.prior()), [thaw])[thaw] for U in (case.U, touched))
    rms = float(np.sqrt(np.mean(case.y**2)))
    assert abs(float(before.m) - float(after.m)) > rms  # the plain measure asks for 1e-8 of this
    for hint in (0.0, 1.0):  # predictions whose hint does not come from the leader do not notice
        values = [float((x.m + x.h * hint) / (1 + x.h)) for x in (before, after)]
        assert abs(values[0] - values[1]) <= 1e-8 * max(abs(values[0]), rms)
