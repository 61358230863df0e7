"""Several outputs over one information matrix: the compiled rounds against their twin, and against single outputs."""

import itertools

import numpy as np
import pytest

from tests.parity.kernel_cases import KINDS, instance, stacked
from tests.parity.tolerances import TOLERANCES
from tests.twins import outputs as reference_outputs
from undrift import kernels
from undrift.kernels import layout

SHAPES = [(1, 1), (3, 2), (9, 33)]


def labels(case, outputs, *, missing=False):
    rng = np.random.default_rng(5)
    Y = case.y[:, None] * rng.normal(size=outputs) + rng.normal(size=(len(case.y), outputs))
    Y = np.clip(Y, -1e75, 1e75)
    if missing:
        Y[rng.random(Y.shape) < 0.3] = np.nan
        Y[len(Y) // 2] = np.nan
    return Y


def play(module, case, Y, cuts=()):
    """Return state, theta, m and h of a run that is cut at some rounds."""
    state, theta = stacked(case, 1), np.zeros((len(case.beta), case.Z.shape[1], Y.shape[1]))
    m, h = np.full((len(Y), len(case.beta), Y.shape[1]), np.nan), np.full((len(Y), len(case.beta)), np.nan)
    edges = [0, *cuts, len(Y)]
    for a, b in itertools.pairwise(edges):
        status = module.vaw_outputs_play(state, theta, case.beta, a, case.Z[a:b], Y[a:b], m[a:b], h[a:b])
        assert status == 0
    return state, theta, m, h


@pytest.mark.parametrize(("dim", "outputs"), SHAPES)
@pytest.mark.parametrize(
    ("kind", "missing"),  # a row of 1e20 without a label leaves the leader to the rounding of 1e20
    [("plain", True), ("scaled", False), ("zero", True), ("duplicate", True), ("silent", True), ("fill", False)],
)
def test_compiled_rounds_are_those_of_the_twin(kind, dim, outputs, missing):
    case = instance(kind, dim, 3, 40)
    Y = labels(case, outputs, missing=missing)
    ours, twin = play(kernels, case, Y), play(reference_outputs, case, Y)
    size = np.nanmax(np.abs(Y), axis=0)
    TOLERANCES["learner outputs"].check(ours[2] / size + 1.0, twin[2] / size + 1.0)
    TOLERANCES["learner outputs"].check(1.0 + ours[3], 1.0 + twin[3])
    shape = (5, 3, outputs)
    looks = [(np.empty(shape), np.empty(shape[:2])) for _ in range(2)]
    for module, (state, theta, *_), look in ((kernels, ours, looks[0]), (reference_outputs, twin, looks[1])):
        before = state.copy(), theta.copy()
        assert module.vaw_outputs_predict(state, theta, case.beta, 40, case.Z[:5], *look) == 0
        assert (state == before[0]).all()
        assert (theta == before[1]).all()
    TOLERANCES["learner outputs"].check(looks[0][0] / size + 1.0, looks[1][0] / size + 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 6, 23])
def test_every_output_has_the_bits_of_a_learner_of_its_own(kind, dim):
    case = instance(kind, dim, 2, 90)
    Y = labels(case, 11)
    state, _, m, h = play(kernels, case, Y)
    lost = False
    for k in range(11):
        alone, own_m, own_h = stacked(case, 1), np.empty((90, 2)), np.empty((90, 2))
        assert kernels.vaw_play(alone, case.beta, 0, case.Z, np.ascontiguousarray(Y[:, k]), own_m, own_h) == 0
        lost = lost or bool(layout.parts(alone, 0, dim)["resets"][0] + layout.parts(alone, 0, dim)["lost"][0])
        if kind != "huge":  # one output out of range makes the others start afresh as well
            assert (m[:, :, k] == own_m).all()
            assert (h == own_h).all()
    if not lost:
        _, one_theta, one_m, one_h = play(kernels, case, Y[:, :1].copy())
        alone = stacked(case, 1)
        assert kernels.vaw_play(alone, case.beta, 0, case.Z, Y[:, 0].copy(), own_m, own_h) == 0
        assert (one_m[:, :, 0] == own_m).all()
        assert (one_h == own_h).all()
        for i in range(2):
            assert (layout.parts(alone, i, dim)["theta"] == one_theta[i, :, 0]).all()
            assert (layout.parts(alone, i, dim)["factor"] == layout.parts(state, i, dim)["factor"]).all()


@pytest.mark.parametrize("cuts", [(1,), (16, 17), (5, 33, 64)])
def test_cuts_change_no_bit(cuts):
    case = instance("plain", 9, 3, 80)
    Y = labels(case, 13, missing=True)
    for whole, cut in zip(play(kernels, case, Y), play(kernels, case, Y, cuts), strict=True):
        assert (whole == cut).all()


def test_a_missing_label_leaves_its_leader_where_it_is():
    case = instance("plain", 5, 1, 60)
    Y = labels(case, 3)
    state, theta, *_ = play(kernels, case, Y)
    z, nothing = np.ones((1, 5)), np.full((1, 3), np.nan)
    before, after, h = np.empty((1, 1, 3)), np.empty((1, 1, 3)), np.empty((1, 1))
    kernels.vaw_outputs_predict(state, theta, case.beta, 60, z, before, h)
    assert kernels.vaw_outputs_play(state, theta, case.beta, 60, 2.0 * z, nothing, after, h) == 0
    kernels.vaw_outputs_predict(state, theta, case.beta, 61, z, after, h)
    np.testing.assert_allclose(after, before, rtol=1e-10)


def test_bad_input_changes_nothing():
    case = instance("plain", 4, 2, 20)
    Y = labels(case, 3)
    state, theta, m, h = play(kernels, case, Y)
    before = state.copy(), theta.copy()
    for cell, status in (((1, 2), -6), ((0, 0), -1)):
        bad = Y[:2].copy()
        bad[cell] = np.inf
        for module in (kernels, reference_outputs):
            got = module.vaw_outputs_play(state, theta, case.beta, 20, case.Z[:2], bad, m[:2].copy(), h[:2].copy())
            assert got == status
    Z = case.Z[:2].copy()
    Z[1, 1] = np.nan
    assert kernels.vaw_outputs_play(state, theta, case.beta, 20, Z, Y[:2], m[:2].copy(), h[:2].copy()) == 6
    assert kernels.vaw_outputs_predict(state, theta, case.beta, 20, Z, m[:2].copy(), h[:2].copy()) == 6
    assert (state == before[0]).all()
    assert (theta == before[1]).all()
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.vaw_outputs_play(state, theta, case.beta[:1], 20, case.Z[:2], Y[:2], m[:2], h[:2])
    with pytest.raises(ValueError, match="Y must have shape"):
        kernels.vaw_outputs_play(state, theta, case.beta, 20, case.Z[:2], Y[:1], m[:2].copy(), h[:2].copy())
