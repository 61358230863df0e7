"""mixing: what the mixing kernels promise about the loss of a mixture, round by round and in sum."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.twins import mix as mix
from undrift.kernels.definitions import MixerState, MixingRule

RULES = {
    "range": MixingRule.RANGE,
    "aggregating": MixingRule.AGGREGATING,
    "confident": MixingRule.SELF_CONFIDENT,
    "residual": MixingRule.RESIDUAL_SCALE,
}


def logistic(E, y, *, share=0.0, log_prior=None, log_weights=None, record=False):
    n = E.shape[1]
    prior = np.full(n, -math.log(n)) if log_prior is None else log_prior
    w = prior.copy() if log_weights is None else log_weights
    yhat, losses = np.empty(len(y)), np.zeros(n)
    weights = np.empty((len(y) if record else 0, n))
    mix.mix_logistic(w, prior, share, E, y, yhat, losses, weights)
    return yhat, losses, w, weights


def squared(E, y, rule, *, share=0.0, log_prior=None):
    n = E.shape[1]
    prior = np.full(n, -math.log(n)) if log_prior is None else log_prior
    w, state = prior.copy(), np.zeros(len(MixerState))
    yhat, losses, clipped_losses, weights = np.empty(len(y)), np.zeros(n), np.zeros(n), np.empty((0, n))
    mix.mix_squared(w, prior, share, state, rule, 2.0, E, y, yhat, losses, clipped_losses, weights)
    excess = 0.5 * np.sum((yhat - y) ** 2) - clipped_losses
    scale = np.sum(y**2) + np.max(losses)
    if rule in (MixingRule.SELF_CONFIDENT, MixingRule.RESIDUAL_SCALE):
        assert np.all(
            excess
            <= state[MixerState.GAPS]
            - prior * state[MixerState.RATE_RISES]
            + state[MixerState.SHARE_COST]
            + 1e-11 * scale
        )
    return yhat, losses, w, state


def draw_experts(seed, rounds=60, kind=None):
    """Random and adversarial predictions and labels: drifting experts, spikes, offsets, late huge labels."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    kind = int(rng.integers(6)) if kind is None else kind
    y = np.cumsum(rng.normal(size=rounds)) if kind % 2 else rng.normal(size=rounds)
    if kind == 2:
        y = y + 1000.0
    if kind == 3:
        y[rng.integers(rounds, size=4)] *= 1000.0
    if kind == 4:
        y *= 10.0 ** np.linspace(-8, 8, rounds)
    E = y[:, None] + rng.normal(size=(rounds, n)) * 10.0 ** rng.uniform(-3, 2, n) + rng.normal(size=n)
    if kind == 5:  # the adversary answers the mixture: each round the label runs away from the mean of the members
        E = np.sign(rng.normal(size=(rounds, n)))
        y = -np.sign(E.mean(axis=1)) * rng.uniform(0.5, 2.0, rounds)
    log_prior = np.log(rng.dirichlet(np.ones(n)))
    return E, y, log_prior


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_logistic_mixture_attains_the_mix_loss_with_equality(seed):
    rng = np.random.default_rng(seed)
    e, w = rng.normal(size=5) * 10.0 ** rng.uniform(-2, 2), np.log(rng.dirichlet(np.ones(5)))
    for label in (-1.0, 1.0):
        yhat, *_ = logistic(e[None], np.array([label]), log_weights=w.copy())
        mixed = -mix.log_sum_exp(w - mix.softplus(-label * e))
        loss = float(mix.softplus(-label * yhat)[0])
        assert loss == pytest.approx(mixed, rel=1e-13, abs=1e-15 * (1 + abs(float(yhat[0]))))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 1e-3, 0.3]))
def test_logistic_excess_is_at_most_the_log_of_the_prior(seed, share):
    rng = np.random.default_rng(seed)
    rounds, n = 80, int(rng.integers(1, 9))
    E = rng.normal(size=(rounds, n)) * 10.0 ** rng.uniform(-1, 3, n)
    y = np.where(rng.random(rounds) < 0.5, 1.0, -1.0)
    log_prior = np.log(rng.dirichlet(np.ones(n)))
    yhat, losses, w, _ = logistic(E, y, share=share, log_prior=log_prior)
    total = float(np.sum(mix.softplus(-y * yhat)))
    cost = -log_prior - rounds * math.log1p(-share)
    assert np.all(total - losses <= cost + 1e-12 * (total + losses))
    assert np.max(w) == 0.0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rule=st.sampled_from(sorted(RULES)), share=st.sampled_from([0.0, 1e-2]))
@example(seed=74, rule="confident", share=0.0)  # no gap is ever positive: the members are never told apart
def test_squared_excess_is_at_most_the_accounted_cost(seed, rule, share):
    E, y, log_prior = draw_experts(seed)
    yhat, losses, w, state = squared(E, y, RULES[rule], share=share, log_prior=log_prior)
    excess = 0.5 * np.sum((yhat - y) ** 2) - losses
    Y = float(np.max(np.abs(y)))
    if rule in ("range", "aggregating"):
        accounted = -log_prior * state[MixerState.RATE_RISES] + 1.5 * Y**2  # gaps are never positive: see the next test
    else:
        width = float(np.ptp(y))
        accounted = state[MixerState.GAPS] - log_prior * state[MixerState.RATE_RISES] + 0.5 * y[0] ** 2 + 0.5 * width**2
    accounted = accounted + state[MixerState.SHARE_COST]
    assert np.all(excess <= accounted + 1e-11 * (np.sum(y**2) + np.max(losses)))
    if state[MixerState.RATE_RISES] > 0.0:
        assert np.max(w) == 0.0
    else:
        np.testing.assert_array_equal(w, log_prior)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), rule=st.sampled_from(["range", "aggregating"]))
def test_the_range_rates_never_lose_to_the_mix_loss(seed, rule):
    E, y, log_prior = draw_experts(seed)
    w, state, yhat = log_prior.copy(), np.zeros(len(MixerState)), np.empty(1)
    none, Y = (np.zeros(E.shape[1]), np.zeros(E.shape[1]), np.empty((0, E.shape[1]))), float(np.max(np.abs(y)))
    for t in range(len(y)):
        before, low, high, inverse = (
            w.copy(),
            state[MixerState.LABEL_MIN],
            state[MixerState.LABEL_MAX],
            state[MixerState.INVERSE_RATE],
        )
        mix.mix_squared(w, log_prior, 0.0, state, RULES[rule], 2.0, E[t : t + 1], y[t : t + 1], yhat, *none)
        if inverse > 0.0:  # the mix loss by its definition, members and label clipped to the range
            e, label = np.clip(E[t], low, high), min(max(y[t], low), high)
            loss = (0.5 * (e - label) ** 2) / inverse
            mixed = mix.log_sum_exp(before) - mix.log_sum_exp(before - loss)
            assert 0.5 * (yhat[0] - label) ** 2 <= inverse * (mixed + 1e-13)
    assert state[MixerState.RATE_RISES] <= {"range": 4.0, "aggregating": 1.0}[rule] * Y**2 * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_confident_rate_pays_at_most_the_worst_residual(seed):
    E, y, _ = draw_experts(seed)
    *_, state = squared(E, y, MixingRule.SELF_CONFIDENT)  # which checks the accounted cost
    n = E.shape[1]
    low = np.concatenate(([0.0, y[0]], np.minimum.accumulate(y)[1:-1]))
    high = np.concatenate(([0.0, y[0]], np.maximum.accumulate(y)[1:-1]))
    clipped = np.clip(E, low[:, None], high[:, None])
    R = float(np.max(np.abs(clipped - y[:, None])))
    assert state[MixerState.POSITIVE_GAPS] <= (max(1.0, math.log(n)) + 0.5) * R**2 * (1 + 1e-9)


def test_the_self_confident_bound_is_nearly_reached_by_an_adversary():
    """Two members at -1 and +1, the label always at the one the mixture trusts less."""
    rounds, gaps = 400, []
    w, prior, state, losses = np.full(2, -math.log(2)), np.full(2, -math.log(2)), np.zeros(len(MixerState)), np.zeros(2)
    state[[MixerState.LABEL_MIN, MixerState.LABEL_MAX, MixerState.ROUNDS]] = -1.0, 1.0, 2.0
    E = np.array([[-1.0, 1.0]])
    for _ in range(rounds):
        y, yhat = np.array([-1.0 if w[1] > w[0] else 1.0]), np.empty(1)
        mix.mix_squared(
            w, prior, 0.0, state, MixingRule.SELF_CONFIDENT, 2.0, E, y, yhat, losses, np.zeros(2), np.empty((0, 2))
        )
        gaps.append(state[MixerState.POSITIVE_GAPS])
    bound = 4.0 * (1.0 + 0.5)
    assert 0.2 * bound < gaps[-1] <= bound
    assert gaps[-1] == gaps[rounds // 2], "once the rate suits the residuals nothing more is paid"


def test_one_member_is_followed_exactly():
    y = np.array([3.0, 1.0, 2.0])
    E = np.array([[5.0], [2.0], [1.5]])
    for rule in RULES.values():
        yhat, *_ = squared(E, y, rule)
        low = np.array([0.0, 3.0, 1.0]) if rule >= MixingRule.SELF_CONFIDENT else np.array([0.0, -3.0, -3.0])
        np.testing.assert_allclose(yhat, np.clip(E[:, 0], low, [0.0, 3.0, 3.0]), rtol=1e-15)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e308, -1e308])
def test_a_member_that_says_nonsense_cannot_poison_the_mixture(bad):
    rng = np.random.default_rng(0)
    y = rng.normal(size=50)
    E = np.column_stack([y + 0.1 * rng.normal(size=50), np.full(50, bad), np.full(50, -bad)])
    for rule in RULES.values():
        yhat, losses, w, state = squared(E, y, rule)
        assert np.isfinite(yhat).all()
        assert np.isfinite(w).all()
        assert np.isfinite(losses).all()
        assert np.isfinite(state).all()
        assert np.abs(yhat).max() <= np.abs(y).max()
    labels = np.sign(y)
    good = labels * 2.0
    yhat, losses, w, _ = logistic(np.column_stack([good, np.full(50, bad)]), labels)
    assert np.isfinite(yhat).all()
    assert np.isfinite(w).all()
    assert np.exp(w[0]) > 1.0 - 1e-12
    np.testing.assert_allclose(yhat[40:], good[40:], rtol=1e-12)


def test_everyone_silent_predicts_even_odds():
    yhat, _, w, _ = logistic(np.full((3, 2), math.nan), np.ones(3))
    assert yhat.tolist() == [0.0, 0.0, 0.0]
    assert w[0] == w[1]


@pytest.mark.parametrize("s", [2.0**-100, 2.0**-30, 2.0**100, -1.0])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_scaling_labels_and_members_scales_the_mixture(rule, s):
    E, y, _ = draw_experts(7, kind=1)
    plain, *_ = squared(E, y, rule)
    scaled, *_ = squared(E * s, y * s, rule)
    np.testing.assert_allclose(scaled, plain * s, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("scale", [1e-170, 1e75])
def test_extreme_labels_never_give_a_nan(rule, scale):
    rng = np.random.default_rng(1)
    y = rng.normal(size=40) * scale
    E = y[:, None] * rng.normal(size=(40, 3))
    yhat, _, w, state = squared(E, y, rule, share=1e-3)
    assert np.isfinite(yhat).all()
    assert np.isfinite(w).all()
    assert np.isfinite(state).all()


def test_a_cut_stream_gives_the_same_bits_and_the_weights_are_recorded():
    E, y, prior = draw_experts(3, kind=1)
    whole, _, w, state = squared(E, y, MixingRule.SELF_CONFIDENT, share=1e-2, log_prior=prior)
    v, s, losses, clipped_losses = prior.copy(), np.zeros(len(MixerState)), np.zeros(E.shape[1]), np.zeros(E.shape[1])
    for part in (slice(0, 1), slice(1, 30), slice(30, None)):
        yhat, weights = np.empty(len(y[part])), np.empty((len(y[part]), E.shape[1]))
        mix.mix_squared(
            v, prior, 1e-2, s, MixingRule.SELF_CONFIDENT, 2.0, E[part], y[part], yhat, losses, clipped_losses, weights
        )
        assert yhat.tobytes() == whole[part].tobytes()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-14)
    assert v.tobytes() == w.tobytes()
    assert s.tobytes() == state.tobytes()


def test_a_fixed_share_returns_to_a_member_that_became_good():
    rounds = 400
    good = np.where(np.arange(rounds) < rounds // 2, 0, 1)
    y = np.ones(rounds)
    E = np.where(np.arange(2) == good[:, None], 3.0, -3.0)
    shared, *_ = logistic(E, y, share=1e-2)
    plain, *_ = logistic(E, y)
    loss = mix.softplus(-shared)
    # one switch among two members: ln 2 + ln(2 / share) + (rounds) ln(1 / (1 - share)) above the best sequence
    assert loss.sum() <= rounds * mix.softplus(np.array([-3.0]))[0] + math.log(2) + math.log(200) + 400 * 0.0101
    assert mix.softplus(-plain).sum() > 10 * loss.sum()
