"""linear-ensemble, logistic-ensemble: the grids, and what the two layers promise together."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from undrift._internal.discount import LONGEST_HORIZON, linear_grid, logistic_grid
from undrift.ensemble import Aggregating, Mixable, RangeMean, ResidualScale, SelfConfident
from undrift.losses import logistic, squared


def drifting(seed, *, binary, rounds=70):
    """A random or adversarial stream and a path of comparators: jumps, slow turns, silence, late huge labels."""
    rng = np.random.default_rng(seed)
    d, kind = int(rng.integers(1, 4)), int(rng.integers(4))
    Z = rng.normal(size=(rounds, d)) * 10.0 ** rng.uniform(-1, 1)
    u = np.repeat(rng.normal(size=(5, d)), rounds // 5, axis=0)
    if kind == 1:
        u = np.cumsum(0.1 * rng.normal(size=(rounds, d)), axis=0)
    if kind == 2:  # one feature speaks every tenth round only
        Z[np.arange(rounds) % 10 > 0] = 0.0
    y = np.sum(Z * u, axis=1) + rng.normal(size=rounds)
    if kind == 3:
        y[-rounds // 10 :] *= 100.0
    if not binary:
        return Z, y, u
    return Z, np.where(y > 0.0, 1.0, -1.0), u


def variation(loss, Z, y, u, beta, reg):
    """P_T^beta of the paper: how much the discounted past, ridge included, minds each move of the comparator."""
    total = 0.0
    for t in range(len(y) - 1):
        if np.array_equal(u[t], u[t + 1]):
            continue
        now, then = u[t + 1], u[t]
        past = loss.value(Z[: t + 1] @ now, y[: t + 1]) - loss.value(Z[: t + 1] @ then, y[: t + 1])
        moves = np.concatenate(([0.5 * reg * (now @ now - then @ then)], past))
        p = beta ** np.arange(t + 1, -1, -1.0)
        total += float(np.sum(p * np.maximum(moves, 0.0)) / np.sum(p))
    return total


def base_bound(loss, Z, y, u, beta, reg, d_factor, spread):
    """The corrected bound of one discounted learner: start, stability, variation, forgetting."""
    rounds = len(y)
    bound = 0.5 * beta * reg * float(u[0] @ u[0]) + d_factor * math.log1p(spread)
    if beta < 1.0:
        bound += beta / (1.0 - beta) * variation(loss, Z, y, u, beta, reg) - math.log(beta) * d_factor * rounds
    return bound if beta < 1.0 or np.all(u == u[0]) else math.inf


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_linear_ensemble_keeps_its_bound_against_moving_comparators(seed):
    Z, y, u = drifting(seed, binary=False)
    model = ud.linear_ensemble(horizon=len(y), reg=0.5)
    yhat = model.play(Z, y).yhat
    total, d, Y = float(np.sum(squared.value(yhat, y))), Z.shape[1], float(np.max(np.abs(y)))
    meta = Y**2 * (4.0 * math.log(len(model.betas)) + 1.5)
    assert total - model.losses.min() <= meta * (1 + 1e-12)
    np.testing.assert_allclose(model.cost(), meta, rtol=1e-12)
    energy = [float(np.sum(b ** np.arange(len(y))[::-1] * np.sum(Z**2, axis=1))) for b in model.betas]
    bounds = [
        base_bound(squared, Z, y, u, b, 0.5, 0.5 * d * Y**2, e / (0.5 * d))
        for b, e in zip(model.betas, energy, strict=True)
        if b > 0.0
    ]
    regret = total - float(np.sum(squared.value(np.sum(Z * u, axis=1), y)))
    assert regret <= (meta + min(bounds)) * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_logistic_ensemble_keeps_its_bound_against_moving_comparators(seed):
    Z, y, u = drifting(seed, binary=True)
    R, B, d = float(np.max(np.linalg.norm(Z, axis=1))), float(np.max(np.linalg.norm(u, axis=1))), Z.shape[1]
    model = ud.logistic_ensemble(bound=B, radius=R, horizon=len(y))
    total = float(np.sum(logistic.value(model.play(Z, y).yhat, y)))
    meta = math.log(len(model.betas))
    assert total - model.losses.min() <= meta + 1e-12 * total
    np.testing.assert_allclose(model.cost(), meta, rtol=1e-12, atol=1e-12)
    bend = d * (1.0 + B * R)
    bounds = [
        base_bound(logistic, Z, y, u, b, B**-2, bend, R**2 * B**2 * np.sum(b ** np.arange(len(y))) / bend)
        for b in model.betas
    ]
    regret = total - float(np.sum(logistic.value(np.sum(Z * u, axis=1), y)))
    assert regret <= meta + min(bounds) + 1e-12 * total


@pytest.mark.parametrize(
    "mixer", [RangeMean(), Aggregating(), SelfConfident(), SelfConfident(share=1e-2), ResidualScale()]
)
@pytest.mark.parametrize("seed", range(8))
def test_every_mixer_keeps_its_stated_cost_inside_an_ensemble(mixer, seed):
    Z, y, _ = drifting(seed, binary=False, rounds=150)
    members = [ud.DiscountedVAW(half_life=h, hint=hint) for h in (3, 30, 300) for hint in ("zero", "last", "ridge")]
    model = ud.Ensemble([*members, ud.Persistence(), ud.Zero()], mixer, prior=np.arange(1.0, 12.0))
    total = float(np.sum(squared.value(model.play(Z, y).yhat, y)))
    assert np.all(total - model.losses <= model.cost() + 1e-11 * (total + model.losses))


def test_members_are_the_learners_they_stand_for():
    Z, y, _ = drifting(3, binary=False)
    settings = [(0.9, "zero", 1.0), (0.9, "last", 1.0), (0.5, "ridge", 2.0), (1.0, "zero", 1.0)]
    alone = [ud.DiscountedVAW(beta=b, hint=h, reg=r) for b, h, r in settings]
    alone.insert(2, ud.DiscountedMean(beta=0.9))
    model = ud.Ensemble(alone)
    model.play(Z, y)
    traces = [one.play(Z, y) for one in alone]
    for member, one in zip(model.members, alone, strict=True):
        assert type(member) is type(one)
        assert member.rounds == one.rounds
        assert member.predict(Z[0]) == one.predict(Z[0]), "a stacked learner has the bits of one alone"
    losses = [float(np.sum(squared.value(trace.yhat, y))) for trace in traces]
    np.testing.assert_allclose(model.losses, losses, rtol=1e-12)
    prices = np.array([np.sum(trace.stability) for trace in traces])
    assert np.all(prices <= model.stabilities * (1.0 + 1e-12)), "it adds up the paper's prices, which are larger"


def test_weights_are_recorded_on_request_only():
    Z, y, _ = drifting(1, binary=True)
    model = ud.logistic_ensemble(bound=1.0, radius=10.0, horizon=50)
    trace = model.clone().play(Z, y, record="weights")
    assert model.clone().play(Z, y).weights is None
    assert trace.weights.shape == (len(y), len(logistic_grid(Z.shape[1], 1.0, 10.0, 50)))
    np.testing.assert_allclose(trace.weights.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(trace.weights[0], 1.0 / trace.weights.shape[1], rtol=1e-14)


def test_grids_reach_from_the_smallest_to_the_largest_memory():
    for d, horizon in [(1, 1), (3, 10), (7, 1e6)]:
        etas = [memory.eta for memory in linear_grid(d, horizon)]
        assert etas[-1] == pytest.approx(d * horizon, rel=1e-15)
        assert etas[0] == pytest.approx(min(2 * d, d * horizon), rel=1e-15)
        assert all(b <= 2 * a * (1 + 1e-15) for a, b in pairwise(etas))
    for B, R, T in [(2.0, 1.0, 100), (1e-4, 1.0, 10), (0.1, 0.0, 1), (50.0, 20.0, 1e5)]:
        etas = [memory.eta for memory in logistic_grid(2, B, R, T)]
        assert etas[0] == pytest.approx(math.sqrt(2 * (1 + B * R) / max(0.5, 2 * R * B)), rel=1e-14)
        assert len(etas) >= 1
        assert etas[-1] >= min(2 * T, etas[0])
    open_ended = linear_grid(3)
    assert open_ended[-1].beta == 1.0
    assert open_ended[-2].eta == pytest.approx(3 * LONGEST_HORIZON, rel=1e-15)
    assert open_ended[-2].one_minus_beta == pytest.approx(1 / (3 * LONGEST_HORIZON), rel=1e-12), "1 - beta is exact"


def test_half_life_is_the_weighted_one_of_members_with_a_memory():
    model = ud.Ensemble([ud.DiscountedVAW(half_life=10), ud.DiscountedVAW(half_life=30), ud.Zero()])
    assert model.half_life == math.inf
    model.learn([1.0], 1.0)
    w = model.weights
    assert model.half_life == pytest.approx((w[0] + w[1]) / (w[0] / 10 + w[1] / 30), rel=1e-12)
    np.testing.assert_allclose(model.betas, [0.5**0.1, 0.5 ** (1 / 30), 0.0], rtol=1e-14)


BAD = {
    "no members": (lambda: ud.Ensemble([]), "Ensemble: members must be a list of learners, at least one, got"),
    "not a learner": (lambda: ud.Ensemble([3]), "Ensemble: members must be a list of learners, at least one, got"),
    "two kinds": (lambda: ud.Ensemble([ud.Zero(), ud.Zero(binary=True)]), "all for regression or all for two classes"),
    "wrong mixer": (lambda: ud.Ensemble([ud.Zero()], Mixable()), "the mixer must be one for regression"),
    "prior of 0": (lambda: ud.Ensemble([ud.Zero()], prior=[0.0]), "prior must be positive, got 0"),
    "short prior": (lambda: ud.Ensemble([ud.Zero()], prior=[1.0, 1.0]), r"prior must have shape \(1\)"),
    "share of 1": (lambda: SelfConfident(share=1.0), r"SelfConfident: share must be in \[0, 1\), got 1.0"),
    "scale of 0": (lambda: ResidualScale(scale=0.0), "ResidualScale: scale must be in"),
    "horizon of 0": (lambda: ud.linear_ensemble(horizon=0), r"LinearEnsemble: horizon must be in \[1, 1e15\]"),
    "bound of 0": (lambda: ud.logistic_ensemble(0.0, 1.0), "LogisticEnsemble: bound must be in"),
    "hint": (lambda: ud.linear_ensemble(hint="next"), "LinearEnsemble: hint must be one of"),
    "record": (lambda: ud.linear_ensemble().play([[1.0]], [1.0], record="all"), "record must be one of weights"),
    "mixer prior": (lambda: SelfConfident().begin([1.0, -1.0]), "prior must be positive for every member"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_ensembles_are_refused_in_one_sentence(what):
    call, text = BAD[what]
    with pytest.raises(ud.errors.InputError, match=text):
        call()


def test_a_member_that_has_learned_is_refused():
    member = ud.DiscountedMean()
    member.learn([], 1.0)
    with pytest.raises(ud.errors.InputError, match="members must be fresh"):
        ud.Ensemble([member])


def test_a_saved_ensemble_with_unknown_members_is_refused(tmp_path):
    path = tmp_path / "model.undrift"
    model = ud.Ensemble([ud.DiscountedMean(), ud.Zero()])
    model.learn([], 1.0)
    header, arrays = model.snapshot()
    spoils = [
        {"members": {"0": {"class": "os"}}},
        {"members": 3},
        {"mixer": {"class": "Learner", "parameters": {}}},
        {"mixer": 1},
        {"prior": {"0": -1.0, "1": 1.0}},
        {"rounds": -1},
    ]
    for spoil in spoils:
        ud.store.write(path, {**header, **spoil}, arrays)
        with pytest.raises(ud.errors.ModelFileError):
            ud.load(path)
