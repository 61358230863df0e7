"""recovering-rates: mixers forget a shock, and their accounted cost holds whatever happens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undrift.ensemble import ResidualScale, SelfConfident
from undrift.kernels.definitions import MixerState

MIXERS = {"confident": SelfConfident, "residual": ResidualScale}


def shocked(rng, rounds=400):
    """Members of unequal quality and labels with shocks, changes of scale by 1e6 and jumps of level."""
    n = int(rng.integers(2, 8))
    y = rng.normal(size=rounds)
    for _ in range(3):
        a = int(rng.integers(rounds))
        kind = int(rng.integers(3))
        if kind == 0:
            y[a : a + 10] += 10.0 ** rng.uniform(1, 6)
        elif kind == 1:
            y[a:] *= 10.0 ** rng.uniform(-6, 6)
        else:
            y[a:] += np.std(y) * 10.0 ** rng.uniform(0, 6)
    lags = rng.integers(0, 30, size=n)
    size = np.abs(y)[:, None] * 10.0 ** rng.uniform(-3, 1, n)
    E = np.column_stack([np.concatenate((np.full(k, y[0]), y[: rounds - k])) for k in lags])
    return E + size * rng.normal(size=(rounds, n)), y


def check(mixer, yhat, y, losses):
    total = 0.5 * float(np.sum((yhat - y) ** 2))
    assert np.all(total - losses <= mixer.cost() + 1e-10 * (total + np.max(losses) + np.sum(y**2)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(sorted(MIXERS)),
    share=st.sampled_from([0.0, 1e-4, 1e-2, 0.3]),
)
def test_shocks_never_break_the_accounted_cost(seed, kind, share):
    rng = np.random.default_rng(seed)
    E, y = shocked(rng)
    mixer = MIXERS[kind](share=share)
    mixer.begin(rng.dirichlet(np.ones(E.shape[1])))
    check(mixer, mixer.play(E, y), y, 0.5 * np.sum((E - y[:, None]) ** 2, axis=0))


@pytest.mark.parametrize("share", [0.0, 1e-2])
@pytest.mark.parametrize("kind", sorted(MIXERS))
def test_an_adversary_who_sees_the_mixture_does_not_break_it(kind, share):
    """The label is always on the far side of the mixture, at a scale that changes by 1e6."""
    mixer, rounds = MIXERS[kind](share=share), 600
    mixer.begin([1.0, 1.0, 2.0])
    scale = np.repeat([1.0, 1e6, 1.0, 1e-6, 1.0, 1e3], rounds // 6)
    said, labels, mixed = [], [], []
    for s in scale:
        E = np.array([[-s, s, 0.1 * s]])
        label = np.array([-s if mixer.predict(E)[0] > 0.0 else s])
        mixed.append(mixer.play(E, label)[0])
        said.append(E[0])
        labels.append(label[0])
    y = np.array(labels)
    check(mixer, np.array(mixed), y, 0.5 * np.sum((np.array(said) - y[:, None]) ** 2, axis=0))


def test_against_the_member_with_all_the_weight_rises_of_the_inverse_rate_cost_nothing():
    """Residuals come and go, and the inverse rate with them; the leader is always the best."""
    rng = np.random.default_rng(0)
    unit = np.where(np.arange(6000) % 600 < 300, 1.0, 5.0)
    y = rng.normal(size=6000)
    E = y[:, None] + unit[:, None] * np.array([[0.1, 1.0]]) * rng.normal(size=(6000, 2))
    mixer = ResidualScale(share=0.0)
    mixer.begin([1.0, 1.0])
    yhat = mixer.play(E, y)
    check(mixer, yhat, y, 0.5 * np.sum((E - y[:, None]) ** 2, axis=0))
    arrays = mixer.arrays()
    rises = np.log(2.0) * arrays["rate"][MixerState.RATE_RISES]
    regret = 0.5 * np.sum((yhat - y) ** 2) - arrays["charged"][0]
    account = mixer.cost()[0] - (arrays["charged"] - arrays["losses"])[0]
    assert regret <= account < regret + 0.1 * rises


def test_a_share_is_cheaper_against_a_member_with_a_large_prior():
    rng = np.random.default_rng(0)
    y = rng.normal(size=500)
    E = y[:, None] + np.array([[0.1, 0.1]]) * rng.normal(size=(500, 2))
    mixer = ResidualScale(share=0.1)
    mixer.begin([0.9, 0.1])
    check(mixer, mixer.play(E, y), y, 0.5 * np.sum((E - y[:, None]) ** 2, axis=0))
    state, arrays = mixer.arrays()["rate"], mixer.arrays()
    paid = mixer.cost() - (arrays["charged"] - arrays["losses"]) - state[MixerState.GAPS]
    paid += np.log([0.9, 0.1]) * state[MixerState.RATE_RISES]
    np.testing.assert_allclose(paid, np.array([0.1, 0.9]) * state[MixerState.SHARE_COST])


@pytest.mark.parametrize("factor", [1e-3, 1e3])
@pytest.mark.parametrize("kind", sorted(MIXERS))
def test_the_best_member_is_found_again_after_a_change_of_scale(kind, factor):
    rng = np.random.default_rng(0)
    y = rng.normal(size=4000)
    y[2000:] *= factor
    unit = np.where(np.arange(4000) < 2000, 1.0, factor)[:, None]
    noise = np.where(np.arange(4000)[:, None] < 2000, [[0.1, 1.0]], [[1.0, 0.1]])
    E = y[:, None] + unit * noise * rng.normal(size=(4000, 2))
    mixer = MIXERS[kind](share=1e-3)
    mixer.begin([1.0, 1.0])
    yhat = mixer.play(E, y)
    error, best = np.abs(yhat - y)[2500:], np.abs(E[:, 1] - y)[2500:]
    assert np.mean(error) < 1.2 * np.mean(best)
