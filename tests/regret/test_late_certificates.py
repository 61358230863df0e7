"""Certificates of late runs: what the served predictions lost beyond a learner that was never late, plus its bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from undrift.errors import ConditionError, InputError
from undrift.losses import logistic, squared
from undrift.regret import certify

ROUNDS, DIM = 80, 3


def piecewise_rows(seed, binary):
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-0.5, 0.5, size=(ROUNDS, DIM))
    u = np.repeat(rng.uniform(-0.5, 0.5, size=(4, DIM)), ROUNDS // 4, axis=0)
    y = np.einsum("td,td->t", Z, u) + 0.3 * rng.normal(size=ROUNDS)
    return Z, np.where(y > 0.0, 1.0, -1.0) if binary else y, u


MODELS = {
    "vaw": lambda: ud.DiscountedVAW(half_life=20),
    "vaw, last label": lambda: ud.DiscountedVAW(half_life=20, hint="last"),
    "aioli": lambda: ud.DiscountedAIOLI(half_life=20, bound=1.0, radius=1.0),
    "linear ensemble": lambda: ud.linear_ensemble(100),
    "logistic ensemble": lambda: ud.logistic_ensemble(1.0, 1.0, 100),
}


@pytest.mark.parametrize("name", MODELS)
@given(seed=st.integers(0, 2**32 - 1), delay=st.sampled_from([1, 5, 24, 79, 200]))
@settings(max_examples=15, deadline=None)
def test_the_bound_of_a_late_run_holds(name, seed, delay):
    model = MODELS[name]()
    Z, y, u = piecewise_rows(seed, model.binary)
    trace = model.clone().play(Z, y, delay=delay)
    found = certify(model, Z, y, trace, u)
    loss = logistic if model.binary else squared
    measured = math.fsum(loss.value(trace.yhat, y)) - math.fsum(loss.value(np.einsum("td,td->t", Z, u), y))
    assert found.regret == pytest.approx(measured, rel=1e-9, abs=1e-9)
    assert found.slack >= -1e-12 * found.scale


@pytest.mark.parametrize("name", ["vaw", "aioli"])
def test_lateness_costs_what_was_measured(name):
    """The bound of a late run exceeds that of the prompt one by exactly what the served predictions lost beyond it."""
    model = MODELS[name]()
    Z, y, u = piecewise_rows(3, model.binary)
    prompt, late = model.clone().play(Z, y), model.clone().play(Z, y, delay=7)
    loss = logistic if model.binary else squared
    excess = math.fsum(loss.value(late.yhat, y)) - math.fsum(loss.value(prompt.yhat, y))
    assert excess != 0.0
    difference = certify(model, Z, y, late, u).bound - certify(model, Z, y, prompt, u).bound
    assert difference == pytest.approx(excess, rel=1e-9)


def test_a_late_run_of_another_learner_is_refused():
    Z, y, u = piecewise_rows(0, binary=False)
    trace = ud.DiscountedVAW(half_life=20).play(Z, y, delay=3)
    with pytest.raises(InputError, match="half_life"):
        certify(ud.DiscountedVAW(half_life=21), Z, y, trace, u)
    with pytest.raises(
        ConditionError, match=r"no leaf of ReferenceLearners covers this comparator; .*makes no promise"
    ):
        certify(ud.Persistence(), Z, y, ud.Persistence().play(Z, y, delay=3), u)


@pytest.mark.parametrize("loss", ["absolute", "quantile(0.9)", "huber(1)"])
def test_late_labels_of_any_loss_need_not_name_it(loss):
    rng = np.random.default_rng(8)
    Z, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    learner = ud.DiscountedNewton(loss, beta=0.9)
    trace = learner.play(Z, y, delay=3)
    own, named = (certify(learner.clone(), Z, y, trace, [0.5, 0.0], *given) for given in ([], [learner.loss]))
    assert own == named
    assert own.regret <= own.bound
