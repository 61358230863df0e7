"""growing-share: a share c/(t + 1) that returns to the prior costs c ln(T + 1), and lets the mixer come back."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undrift as ud
from tests.twins import mix as reference_mix
from undrift.kernels.definitions import FIRST_SHARE
from undrift.losses import softplus


def mix(E, y, start, prior, c):
    """Return the mixture's log-odds under the shares c/2, c/3, ... of the prior, and the members' losses."""
    log_prior, yhat, losses = np.log(prior), np.empty(len(y)), np.zeros(E.shape[1])
    log_weights = np.log(start)
    for t in range(len(y)):
        here = slice(t, t + 1)
        none = np.empty((0, E.shape[1]))
        reference_mix.mix_logistic(log_weights, log_prior, c / (t + 2), E[here], y[here], yhat[here], losses, none)
    return yhat, losses


@given(seed=st.integers(0, 2**32 - 1), rounds=st.integers(1, 60), members=st.integers(1, 5), c=st.floats(0.01, 1.0))
def test_the_excess_over_members_and_over_sequences_of_them_is_bounded(seed, rounds, members, c):
    rng = np.random.default_rng(seed)
    E, y = rng.uniform(0.1, 50.0) * rng.normal(size=(rounds, members)), rng.choice([-1.0, 1.0], rounds)
    start, prior = rng.dirichlet(np.ones(members), size=2) + 1e-3
    start, prior = start / start.sum(), prior / prior.sum()
    yhat, losses = mix(E, y, start, prior, c)
    lost = np.sum(softplus(-y * yhat))
    assert (lost - losses <= -np.log(start) + c * math.log(rounds + 1) + 1e-9 * (1.0 + losses)).all()
    change = int(rng.integers(1, rounds + 1))  # the best member up to here, then the best one of the rest
    each = softplus(-y[:, None] * E)
    first, second = np.argmin(each[:change].sum(0)), np.argmin(each[change:].sum(0))
    path = each[:change, first].sum() + each[change:, second].sum()
    bound = -math.log(start[first]) - math.log(prior[second]) + c * math.log(rounds + 1) + math.log((change + 1) / c)
    assert lost - path <= bound + 1e-9 * (1.0 + path)


@pytest.mark.parametrize("kind", ["random", "same", "alternating", "late change"])
def test_a_classifier_loses_to_no_candidate_by_more_than_its_cost(kind):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(700, 2))
    y = rng.choice([-1.0, 1.0], 700)
    if kind == "same":
        y[:] = 1.0
    if kind == "alternating":
        y = np.tile([-1.0, 1.0], 350)
    if kind == "late change":
        y[:350] = np.where(Z[:350, 0] > 0.0, 1.0, -1.0)
    for delay in (0, 1, 7, 200):
        model = ud.OnlineClassifier(speed="fast")
        trace = model.play(Z, y, delay=delay)
        settled = slice(0, 700 - delay)
        known = trace.known[settled]
        lost = np.sum(softplus(-y[settled][known] * trace.yhat[settled][known]))
        assert (lost - model.losses <= model.cost() + 1e-9 * lost).all()
    prompt = ud.OnlineClassifier(speed="fast")
    prompt.play(Z, y)
    share = prompt.cost() + prompt.plan.start("last")
    np.testing.assert_allclose(
        share, FIRST_SHARE * math.log(700.0), rtol=1e-9
    )  # 699 rows were predicted with a label known
