"""clipped/margin: Theorem 6 run to its own T keeps its promise, standing still does not."""

import numpy as np
import pytest

from tests.theorems.adam_runs import held
from undrift.theory import adam_lemmas as lemmas

CELLS = [("saturated", [0.2, -0.1]), ("kinks", [0.4, 0.1]), ("well", [0.2, -0.1])]


@pytest.mark.parametrize(("name", "x0"), CELLS)
def test_the_promise_is_kept_at_the_prescribed_number_of_steps(name, x0):
    assert held("clipped/margin", name, x0, seeds=range(2))


@pytest.mark.parametrize("choice", [{"nu": 1.9}, {"nu": 1e-6}, {"rho": 0.5}])
def test_the_promise_is_kept_where_the_clauses_end(choice):
    assert held("clipped/margin", "well", [0.2, -0.1], seeds=[5], **choice)


def test_the_comparator_term_of_the_proof_is_larger_than_printed():
    """G = 1, nu = 1.5, 1 - beta1 = .01, T = 1000: Term D is .1298, printed at most G sqrt(1 - beta1) = .1."""
    gap1, T, D = 0.01, 1000, 1.0
    r, gamma = np.sqrt(gap1), (1 - gap1) * D / np.sqrt(gap1)
    total = lemmas.step_sum(np.ones(T - 1), gap1, 0.5, gamma, 1.5, 0.0).left  # |g_t| = G, a beta2 that forgets fast
    term = (1 - gap1) * D / 2 * total / T
    assert term == pytest.approx(0.1298, abs=2e-4)
    assert term > 1.0 * r
    assert term <= (1.0 / (2 * T * r) + (1.0 + 1.5) * r / 2) * (1 + 1e-12)
