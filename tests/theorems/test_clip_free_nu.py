"""clip-free/nu: Theorem 7 run to its own T keeps its promise, standing still does not."""

import pytest

from tests.theorems.adam_runs import held

CELLS = [("saturated", [0.2, -0.1]), ("kinks", [0.6, -0.4]), ("well", [0.6, -0.4]), ("basins", [0.1, -0.3, 0.2])]


@pytest.mark.parametrize(("name", "x0"), CELLS)
def test_the_promise_is_kept_at_the_prescribed_number_of_steps(name, x0):
    assert held("clip-free/nu", name, x0, seeds=range(3))


@pytest.mark.parametrize("choice", [{"nu": 1.9}, {"nu": 1.9e-3}, {"nu": 1.9e-5}])
def test_the_promise_is_kept_where_the_clauses_end(choice):
    assert held("clip-free/nu", "well", [0.2, -0.1], seeds=[5], **choice)
