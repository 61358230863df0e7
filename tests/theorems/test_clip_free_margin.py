"""clip-free/margin: Theorem 8 run to its own T stays below epsilon; `make stress-adam` has the long runs."""

import pytest
from adam_runs import held

CELLS = [("saturated", [0.3, -0.2], 1.0), ("kinks", [0.4, 0.1], 1.0), ("well", [0.2, -0.1], 1.0)]


@pytest.mark.parametrize(("name", "x0", "share"), CELLS)
def test_the_promise_is_kept_at_the_prescribed_number_of_steps(name, x0, share):
    assert held("clip-free/margin", name, x0, share, seeds=range(2))


@pytest.mark.parametrize("choice", [{"nu": 1.9}, {"nu": 1e-6}, {"rho": 0.5}])
def test_the_promise_is_kept_where_the_clauses_end(choice):
    assert held("clip-free/margin", "well", [0.2, -0.1], 1.0, seeds=[5], **choice)
