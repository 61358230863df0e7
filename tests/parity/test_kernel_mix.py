"""The compiled mixers against their NumPy twins, on every level this machine has."""

from __future__ import annotations

import numpy as np
import pytest

from tests.parity.tolerances import TOLERANCES
from tests.twins import mix as reference_mix
from undrift import kernels
from undrift.kernels.definitions import MixerState, MixingRule

RULES = list(MixingRule)


def said(kind, rounds, members, seed=0):
    rng = np.random.default_rng([seed, members])
    y = rng.normal(size=rounds)
    E = y[:, None] + rng.normal(size=(rounds, members)) * np.linspace(0.1, 3.0, members)
    if kind == "wild":
        E[rng.random(E.shape) < 0.1] = np.nan
        E[rng.random(E.shape) < 0.05] = np.inf
        E[rng.random(E.shape) < 0.05] *= 1e100
        E[rounds // 2] = np.nan
    return E, y


def start(members, seed=0):
    prior = np.random.default_rng(seed).dirichlet(np.ones(members))
    return np.log(prior), np.log(prior)


def squared(which, rule, share, E, y, cut=None):
    members = E.shape[1]
    log_weights, log_prior = start(members)
    state, losses, clipped_losses = np.zeros(len(MixerState)), np.zeros(members), np.zeros(members)
    yhat, weights = np.empty(len(y)), np.empty(E.shape)
    step = cut or len(y)
    for a in range(0, len(y), step):
        b = slice(a, a + step)
        which.mix_squared(
            log_weights, log_prior, share, state, rule, 2.0, E[b], y[b], yhat[b], losses, clipped_losses, weights[b]
        )
    return yhat, np.exp(log_weights), state, losses, clipped_losses, weights


def logistic(which, share, E, sign, cut=None):
    members = E.shape[1]
    log_weights, log_prior = start(members)
    losses, yhat, weights = np.zeros(members), np.empty(len(sign)), np.empty(E.shape)
    step = cut or len(sign)
    for a in range(0, len(sign), step):
        b = slice(a, a + step)
        which.mix_logistic(log_weights, log_prior, share, E[b], sign[b], yhat[b], losses, weights[b])
    return yhat, np.exp(log_weights), losses, weights


@pytest.mark.parametrize("kind", ["tame", "wild"])
@pytest.mark.parametrize("share", [0.0, 0.01])
@pytest.mark.parametrize("members", [1, 2, 5, 8, 24, 61])
@pytest.mark.parametrize("rule", RULES)
def test_squared_mixers_agree_with_their_twin(rule, members, share, kind):
    E, y = said(kind, 120, members)
    for got, want in zip(squared(kernels, rule, share, E, y), squared(reference_mix, rule, share, E, y), strict=True):
        assert np.isfinite(got).all()
        TOLERANCES["mixer"].check(got, want)


@pytest.mark.parametrize("kind", ["tame", "wild"])
@pytest.mark.parametrize("share", [0.0, 0.01])
@pytest.mark.parametrize("members", [1, 2, 5, 8, 24, 61])
def test_the_logistic_mixer_agrees_with_its_twin(members, share, kind):
    E, y = said(kind, 120, members)
    sign = np.where(y > 0, 1.0, -1.0)
    for got, want in zip(logistic(kernels, share, E, sign), logistic(reference_mix, share, E, sign), strict=True):
        assert np.isfinite(got).all()
        TOLERANCES["mixer"].check(got, want)


@pytest.mark.parametrize("cut", [1, 7])
def test_cuts_do_not_change_a_bit(cut):
    E, y = said("wild", 50, 13)
    for rule in RULES:
        for got, want in zip(squared(kernels, rule, 0.01, E, y, cut), squared(kernels, rule, 0.01, E, y), strict=True):
            np.testing.assert_array_equal(got, want)
    sign = np.where(y > 0, 1.0, -1.0)
    for got, want in zip(logistic(kernels, 0.01, E, sign, cut), logistic(kernels, 0.01, E, sign), strict=True):
        np.testing.assert_array_equal(got, want)


def test_arrays_that_do_not_fit_are_refused():
    E, y = said("tame", 5, 3)
    log_weights, log_prior = start(3)
    with pytest.raises(ValueError, match="the mixer's arrays do not fit together"):
        kernels.mix_logistic(log_weights, log_prior, 0.0, E, y[1:], np.empty(5), np.zeros(3), np.empty((0, 3)))
    with pytest.raises(ValueError, match="state, rule and charges do not fit together"):
        kernels.mix_squared(
            log_weights, log_prior, 0.0, np.zeros(8), 0, 1.0, E, y, np.empty(5), np.zeros(3), np.zeros(3), E[:0]
        )
