"""The accuracy matrix in small: every scenario, discount and dimension against multi-precision references.

`python -m tools stress accuracy` runs it at full length. The statement that is tested, for users: predictions are those
of the exact recursion; features that depend on each other exactly predict as the reduced problem, whose references
these are.
"""

import numpy as np
import pytest

from tests.accuracy import measure, streams
from tests.accuracy.exact import Past, exact
from undrift import DiscountedVAW

CELLS = [
    (name, dim)
    for name in streams.NAMES
    for dim in (2, 6, 20)
    if dim < 20 or not name.startswith("fill") or name == "fill 1e20"  # the references of wide ones take long
]


def check(rows):
    assert [row for row in rows if not measure.good(row)] == []


@pytest.mark.parametrize(("name", "dim"), CELLS)
def test_vaw_is_exact(name, dim):
    check(measure.vaw(streams.make(name, dim, 5_000, seed=1)))


@pytest.mark.parametrize(("name", "dim"), CELLS)
def test_aioli_is_exact_given_its_weights(name, dim):
    check(measure.aioli(streams.make(name, dim, 3_000, seed=1)))


@pytest.mark.parametrize("name", streams.NAMES)
def test_aioli_is_exact_on_its_own(name):
    check(measure.aioli_closed(streams.make(name, 3, 1_000, seed=1), betas=[0.5, 0.99, 1.0]))


@pytest.mark.parametrize("name", [name for name in streams.NAMES if name.startswith("fill")])
@pytest.mark.parametrize("beta", [0.5, 0.99, 1.0])
def test_the_last_label_as_a_hint_stands_codes_for_missing_values(name, beta):
    case = streams.make(name, 2, 1_000, seed=3)
    trace = DiscountedVAW(beta=beta, hint="last").play(case.Z, case.y)
    asked = case.events
    truth = exact(Past(case.U, np.ones(len(case.y)), case.y, beta, case.prior()), asked)
    for t in asked:
        want = float((truth[t].m + truth[t].h * float(case.y[t - 1])) / (1 + truth[t].h))
        assert abs(trace.yhat[t] - want) <= 1e-8 * max(abs(want), 1.0)
