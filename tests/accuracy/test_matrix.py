"""The accuracy matrix in small: every scenario, discount and dimension against multi-precision references.

`make stress` runs it at full length. The statement that is tested, for users: predictions are those of the exact
recursion; features that depend on each other exactly predict as the reduced problem, whose references these are.
"""

import measure
import pytest
import streams


def check(rows):
    assert [row for row in rows if not measure.good(row)] == []


@pytest.mark.parametrize("name", streams.NAMES)
@pytest.mark.parametrize("dim", [2, 6, 20])
def test_vaw_is_exact(name, dim):
    check(measure.vaw(streams.make(name, dim, 5_000, seed=1)))


@pytest.mark.parametrize("name", streams.NAMES)
@pytest.mark.parametrize("dim", [2, 6, 20])
def test_aioli_is_exact_given_its_weights(name, dim):
    check(measure.aioli(streams.make(name, dim, 3_000, seed=1)))


@pytest.mark.parametrize("name", streams.NAMES)
def test_aioli_is_exact_on_its_own(name):
    check(measure.aioli_closed(streams.make(name, 3, 1_000, seed=1), betas=[0.5, 0.99, 1.0]))
