"""mixable, linear-ensemble, recovering-rates, newton: `cost` is the sum it stands for, round by round.

A run whose excess stays below a cost says little about the cost's constants. Here the accounting of
`undrift.ensemble.squared` is done again from the recorded weights: mix losses, rates, what clipping changed.
"""

import math

import numpy as np
import pytest

from undrift.ensemble import Aggregating, Hedge, Mixable, RangeMean, ResidualScale, SelfConfident
from undrift.kernels.definitions import MixerState
from undrift.losses import squared


def members(rng, rounds=80, count=4):
    """Labels and members of unequal quality; a burst of large labels raises rates and forces clipping."""
    y = rng.normal(size=rounds)
    y[rounds // 2 : rounds // 2 + 5] *= 20.0
    return y[:, None] + rng.normal(size=(rounds, count)) * 10.0 ** rng.uniform(-1, 0.5, size=count), y


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize(("mixer", "factor"), [(RangeMean, 4.0), (Aggregating, 1.0)])
def test_range_mixers_state_their_cost_before_the_run(mixer, factor, share):
    rng = np.random.default_rng(1)
    E, y = members(rng)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    one = mixer(share=share)
    one.begin(prior)
    one.play(E, y)
    seen = np.maximum.accumulate(np.abs(y))  # the inverse rate after each round is factor Y^2
    shared = -math.log1p(-share) * factor * float(np.sum(seen**2))
    expected = float(seen[-1]) ** 2 * (factor * np.log(1.0 / prior) + 1.5) + shared
    np.testing.assert_allclose(one.cost(), expected, rtol=1e-10)


def test_the_mixable_cost_is_the_prior_and_the_share():
    rng = np.random.default_rng(2)
    prior = np.array([0.5, 0.3, 0.2])
    for share in (0.0, 0.05):
        mixer = Mixable(share=share)
        mixer.begin(prior)
        E, y = 3.0 * rng.normal(size=(40, 3)), np.sign(rng.normal(size=40))
        mixer.play(E[:25], y[:25])
        mixer.play(E[25:], y[25:])
        np.testing.assert_allclose(mixer.cost(), np.log(1.0 / prior) - 40 * math.log(1.0 - share), rtol=1e-12)


def test_a_share_costs_more_than_the_prior():
    """A member that is always right loses nothing, but the share goes on taking from it: more than ln(1/p) in all."""
    mixer = Mixable(share=0.4)
    mixer.begin([1.0, 1.0])
    E, y = np.tile([30.0, -30.0], (60, 1)), np.ones(60)
    excess = np.sum(np.log1p(np.exp(-mixer.play(E, y)))) - mixer.losses[0]
    assert math.log(2.0) < excess <= mixer.cost()[0]


@pytest.mark.parametrize("share", [0.0, 0.02])
@pytest.mark.parametrize("mixer", [SelfConfident, ResidualScale])
def test_the_accounted_cost_is_done_again_from_weights_and_rates(mixer, share):
    """Mixability gaps, rises of the inverse rate, the share, and what clipping changed, each summed by itself.

    Where the inverse rate rises, the weights v^r p^(1 - r) / S take back the inverse rate times ln S.
    """
    rng = np.random.default_rng(3)
    E, y = members(rng)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    one = mixer(share=share)
    one.begin(prior)
    state = one.arrays()
    gaps = rises = back = shared = inverse = 0.0
    clipped, losses = np.zeros(4), np.zeros(4)
    for t in range(len(y)):
        weights, before = one.weights, state["charged"].copy()
        yhat = one.play(E[t : t + 1], y[t : t + 1])[0]
        lost = state["charged"] - before  # by the members as they were clipped
        mix = float(lost.min())
        if inverse:
            likely = np.exp(-(lost - mix) / inverse)
            mix -= inverse * math.log(float(weights @ likely))
            weights = weights * likely / (weights @ likely)
        gaps += float(squared.value(yhat, y[t])) - mix
        following = float(state["rate"][MixerState.INVERSE_RATE])
        if following > inverse:
            rises += following - inverse
            r = inverse / following
            back += following * math.log(float(np.sum(weights**r * prior ** (1.0 - r))))
        shared -= following * math.log1p(-share)
        clipped, losses, inverse = clipped + lost, losses + squared.value(E[t], y[t]), following
    np.testing.assert_allclose(one.losses, losses, rtol=1e-12)
    assert np.abs(clipped - losses).max() > 1.0  # members were clipped
    assert min(abs(gaps), rises, -back) > 0.01
    paid = gaps + back + np.log(1.0 / prior) * rises + (1.0 - prior) * shared
    np.testing.assert_allclose(one.cost(), paid + (clipped - losses), rtol=1e-7)


def test_hedge_accounts_for_every_round():
    """Cost = sum of measured gaps + inverse rate times ln(1/p), the inverse rate being that sum / ln N."""
    rng = np.random.default_rng(4)
    E, y = members(rng, count=5)
    prior = np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    mixer = Hedge("absolute")
    mixer.begin(prior)
    gaps, inverse, total = 0.0, 0.0, np.zeros(5)
    for t in range(len(y)):
        ahead = (total - total.min()) / inverse if inverse else np.where(total > total.min(), np.inf, 0.0)
        logs = np.log(prior) - ahead
        w = np.exp(logs - logs.max())
        w /= w.sum()
        lost = np.abs(E[t] - y[t])
        mix = -inverse * math.log(float(w @ np.exp(-(lost - lost.min()) / inverse))) if inverse else 0.0
        mix += lost.min() if inverse else lost[w > 0.0].min()
        got = mixer.play(E[t : t + 1], y[t : t + 1])[0]
        assert got == pytest.approx(float(w @ E[t]), rel=1e-9, abs=1e-9)
        gaps += max(0.0, abs(float(w @ E[t]) - y[t]) - mix)
        inverse, total = gaps / math.log(5), total + lost
    np.testing.assert_allclose(mixer.cost(), gaps + inverse * np.log(1.0 / prior), rtol=1e-9)
