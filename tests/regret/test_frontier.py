"""The frontier runs from the best fixed comparator to one refitted every few rounds."""

import numpy as np
import pytest

from undrift.errors import ConditionError, InputError
from undrift.learners import DiscountedAIOLI, DiscountedVAW
from undrift.losses import logistic
from undrift.regret.comparators import fixed
from undrift.theory.frontier import frontier


def problem():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(160, 2))
    u = np.repeat(rng.normal(size=(4, 2)), 40, axis=0)
    return Z, np.sum(Z * u, axis=1) + 0.1 * rng.normal(size=160)


def test_more_refits_fit_better_and_move_more():
    Z, y = problem()
    learner = DiscountedVAW(beta=0.9)
    points = frontier(learner, Z, y, learner.clone().play(Z, y))
    assert [p.every for p in points] == [160, 80, 40, 20, 10]
    losses = [p.certificate.comparator_loss for p in points]
    assert losses == sorted(losses, reverse=True)
    assert points[0].path_length == 0.0 == points[0].certificate.variation
    assert losses[0] == pytest.approx(0.5 * np.sum((Z @ fixed(Z, y)[0] - y) ** 2), rel=1e-12)
    assert all(p.certificate.holds for p in points)
    certified = [p.certificate.comparator_loss + p.certificate.bound for p in points]
    assert min(certified) < certified[0]  # the world changed: some moving comparator explains the run better


def test_logistic_frontiers_keep_to_the_margin():
    Z, y = problem()
    learner = DiscountedAIOLI(beta=0.9, bound=2.0)
    trace = learner.clone().play(Z, y > 0)
    points = frontier(learner, Z, y > 0, trace, logistic, refits=[20, 160], margin=2.0)
    assert [p.every for p in points] == [160, 20]
    assert all(p.certificate.holds for p in points)
    with pytest.raises(ConditionError, match=r"\|u.z\| <= BR = 2"):
        frontier(learner, Z, y > 0, trace, logistic, refits=[20])


def test_bad_input_is_one_sentence():
    Z, y = problem()
    learner = DiscountedVAW(beta=0.9)
    with pytest.raises(InputError, match=r"frontier: refits must be an integer >= 1, got 0"):
        frontier(learner, Z, y, learner.clone().play(Z, y), refits=[0])
