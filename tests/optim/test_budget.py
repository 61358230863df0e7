"""The predicted split of epsilon: what a theorem promises is what its terms add up to."""

import numpy as np
import pytest

from undrift.errors import InputError
from undrift.optim import Problem, Tuning, budget, tune
from undrift.optim.theorems import THEOREMS


@pytest.mark.parametrize("key", THEOREMS)
def test_the_terms_of_every_plan_add_up_to_less_than_epsilon(key):
    rng = np.random.default_rng(2)
    share = {"clipped/nu": 0.70, "clipped/margin": 0.70, "clip-free/nu": 0.55, "clip-free/margin": 0.45}[key]
    for trial in range(400):
        G, sigma = 10.0 ** rng.uniform(-3, 3), rng.integers(2) * 10.0 ** rng.uniform(-3, 3)
        epsilon = (G + sigma) * (10.0 ** rng.uniform(-4, 0) if trial % 2 else 1.0)
        problem = Problem(G, sigma, 10.0 ** rng.uniform(-4, 4), 10.0 ** rng.uniform(-4, 4), epsilon)
        nu = problem.scale * (10.0 ** rng.uniform(-6, 0) if trial % 3 else 1.0)
        width = {"rho": rng.uniform(0, 0.999)} if THEOREMS[key].by_margin else {}
        split = budget(tune(problem, key, nu=nu, **width), problem)
        assert all(term >= 0.0 for term in split)
        assert split.total <= share * epsilon


def test_a_beta2_below_beta1_squared_costs_its_term():
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.5)
    usual, low = (tune(problem, "clipped/nu", nu=nu) for nu in (None, 1.0))
    assert budget(usual, problem).regularizer < 1e-12
    assert low.beta2 < low.beta1**2
    gap = low.beta1 - low.beta2**0.5
    assert budget(low, problem).regularizer == pytest.approx(gap / (2 * low.beta1 * low.gap1**0.5), rel=1e-9)


def test_a_tuning_without_theorem_is_refused():
    with pytest.raises(InputError, match=r"^budget: tuning.theorem must be one of clipped/nu"):
        budget(Tuning(gamma=1.0, gap1=0.1, gap2=0.1, nu=1.0), Problem(1.0, 0.0, 1.0, 1.0))
