"""The compiled kernels against their NumPy twins, on every level this machine has and in every layout."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.parity.kernel_cases import KINDS, instance, outputs, play, stacked
from tests.parity.tolerances import TOLERANCES
from tests.twins import reference
from undrift import kernels
from undrift.kernels import layout

SIZES = [(1, 1), (2, 3), (3, 70), (4, 24), (7, 2), (8, 24), (9, 5), (17, 9), (33, 4)]
FAIR = [kind for kind in KINDS if kind not in ("collinear", "huge")]  # both have digits to compare
ROUNDS = 40


@cache
def twin(loss, stream, dim, learners):
    case = instance(stream, dim, learners, ROUNDS, first=5)
    state = stacked(case, 1)
    return case, state, *play(reference, loss, case, state)


def close(got, want, scale):
    """Equal up to rounding, where `scale` is how far the learner's own numbers reach; never a NaN."""
    assert np.isfinite(got).all()
    assert (np.abs(got - want) <= TOLERANCES["learner outputs"].relative * np.maximum(scale, np.abs(want))).all()


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(("dim", "learners"), SIZES)
@pytest.mark.parametrize("stream", FAIR)
def test_vaw_agrees_with_its_twin(stream, dim, learners, lanes):
    case, theirs, m0, h0 = twin("vaw", stream, dim, learners)
    ours = stacked(case, lanes)
    m, h = play(kernels, "vaw", case, ours)
    close(m / (1 + h), m0 / (1 + h0), scale=np.abs(case.y).max())
    close(h / (1 + h), h0 / (1 + h0), scale=1.0)  # what a hint is multiplied by
    agree(case, ours, theirs, dim, TOLERANCES["vaw state"])


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(("dim", "learners"), SIZES)
@pytest.mark.parametrize("stream", FAIR)
def test_aioli_agrees_with_its_twin(stream, dim, learners, lanes):
    case, theirs, yhat0, stability0 = twin("aioli", stream, dim, learners)
    ours = stacked(case, lanes)
    yhat, stability = play(kernels, "aioli", case, ours)
    close(yhat, yhat0, scale=1.0)
    close(stability, stability0, scale=1.0)
    agree(case, ours, theirs, dim, TOLERANCES["aioli state"])


def agree(case, ours, theirs, dim, tolerance):
    """States agree: energies, counts of losses, and A = L D L' relative to its diagonal (L alone is ill-determined)."""
    for i in range(len(case.beta)):
        one, two = layout.parts(ours, i, dim), layout.parts(theirs, i, dim)
        tolerance.check(one["energy"], two["energy"])
        assert (one["lost"], one["resets"]) == (two["lost"], two["resets"])
        A, B = information(ours, i, dim), information(theirs, i, dim)
        size = np.sqrt(np.outer(B.diagonal(), B.diagonal()))
        assert (np.abs(A - B) <= 100 * tolerance.relative * size).all()


def information(state, i, dim):
    """A = L D L' of one learner."""
    L = layout.factor(state, i, dim)
    return (L / layout.parts(state, i, dim)["inverse_pivots"]) @ L.T


@pytest.mark.parametrize(("dim", "learners"), [(1, 1), (3, 1), (4, 11)])
@pytest.mark.parametrize("largest", [1, 3, 20])
def test_weighted_logistic_rounds_agree_with_their_twin(dim, learners, largest):
    rng = np.random.default_rng(learners + largest)
    rounds = 50
    Z, y = rng.normal(size=(rounds, dim)), np.sign(rng.normal(size=rounds))
    weight, elapsed = 10.0 ** rng.uniform(-1, largest, rounds), rng.choice([0.0, 1.0, 2.5], rounds)
    beta, inverse_curvature = rng.uniform(0.7, 1.0, learners), rng.uniform(1.0, 5.0, learners)
    found = []
    for which in (kernels, reference):
        state = layout.fresh(dim, np.ones(learners))
        outs = [np.empty((rounds, learners)) for _ in range(4)]
        more = 1, weight, elapsed, *outs[2:]
        assert which.aioli_play(state, beta, inverse_curvature, 0, Z, y, *outs[:2], *more) == 0
        found.append((outs[0], outs[3]))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
    assert (np.abs(found[1][1] - found[1][0]) > 0.1).any()  # copies are expanded elsewhere than at the prediction


@pytest.mark.parametrize(("dim", "learners"), [(3, 1), (5, 24)])
def test_predictions_are_what_play_will_see(dim, learners):
    case = instance("plain", dim, learners, 40)
    state = stacked(case, 1 if learners == 1 else 8)
    for t in range(40):
        now = case._replace(Z=case.Z[t : t + 1], y=case.y[t : t + 1], sign=case.sign[t : t + 1], first=t)
        before = state.copy()
        m, h = outputs(now)
        assert kernels.vaw_predict(state, case.beta, t, now.Z, m, h) == 0
        np.testing.assert_array_equal(state, before)
        m0, h0 = play(kernels, "vaw", now, state)
        np.testing.assert_array_equal((m, h), (m0, h0))
    state = stacked(case, 1 if learners == 1 else 8)
    for t in range(40):
        now = case._replace(Z=case.Z[t : t + 1], y=case.y[t : t + 1], sign=case.sign[t : t + 1], first=t)
        yhat, _ = outputs(now)
        assert kernels.aioli_predict(state, case.beta, t, now.Z, yhat) == 0
        np.testing.assert_array_equal(yhat, play(kernels, "aioli", now, state)[0])


@pytest.mark.parametrize("learners", [1, 9])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1.0000001e75, -2e75])
def test_bad_input_is_refused_before_anything_changes(value, learners):
    case = instance("plain", 5, learners, 20)
    state = stacked(case, 1 if learners == 1 else 8)
    before = state.copy()
    for at in (0, 7, 99):
        Z, y = case.Z.copy(), case.y.copy()
        Z.flat[at] = value
        one, two = outputs(case)
        assert kernels.vaw_play(state, case.beta, 0, Z, y, one, two) == 1 + at == reference.invalid_input(Z, y)
        assert kernels.vaw_predict(state, case.beta, 0, Z, one, two) == 1 + at
        assert kernels.aioli_predict(state, case.beta, 0, Z, one) == 1 + at
        y[at // 5] = value
        assert kernels.vaw_play(state, case.beta, 0, case.Z, y, one, two) == -1 - at // 5
        want = reference.invalid_input(case.Z, y, binary=True)
        assert kernels.aioli_play(state, case.beta, case.inverse_curvature, 0, case.Z, y, one, two) == want
    np.testing.assert_array_equal(state, before)


@pytest.mark.parametrize("label", [0.0, 2.0, np.nan])
def test_logistic_labels_are_signs(label):
    case = instance("plain", 5, 9, 20)
    state, y = stacked(case, 8), case.sign.copy()
    y[13] = label
    assert kernels.aioli_play(state, case.beta, case.inverse_curvature, 0, case.Z, y, *outputs(case)) == -14


def test_shapes_that_do_not_fit_are_refused():
    case = instance("plain", 5, 9, 20)
    state, (m, h) = stacked(case, 8), outputs(case)
    with pytest.raises(ValueError, match="state, beta, first and Z do not fit together"):
        kernels.vaw_play(state, np.ones(17), 0, case.Z, case.y, m, h)
    with pytest.raises(ValueError, match="one label per row of Z"):
        kernels.vaw_play(state, case.beta, 0, case.Z, case.y[1:], m, h)
    with pytest.raises(ValueError, match=r"an output must have shape \(rounds, learners\)"):
        kernels.vaw_predict(state, case.beta, 0, case.Z, m[1:], h)
    with pytest.raises(ValueError, match="inverse_curvature must have one number per learner"):
        kernels.aioli_play(state, case.beta, case.inverse_curvature[1:], 0, case.Z, case.sign, m, h)
