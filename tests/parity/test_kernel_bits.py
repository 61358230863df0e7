"""The same bits for every layout, cut, block and number of threads within a level."""

from __future__ import annotations

import numpy as np
import pytest

from tests.parity.kernel_cases import KINDS, instance, numbers, play, stacked
from undrift import kernels
from undrift.kernels import layout

SIZES = [(0, 3), (1, 1), (2, 70), (3, 3), (5, 24), (8, 24), (13, 2), (31, 7), (64, 9), (300, 4)]


def same(case, one, two):
    dim = case.Z.shape[1]
    for i in range(len(case.beta)):
        np.testing.assert_array_equal(numbers(one, i, dim), numbers(two, i, dim))


@pytest.mark.parametrize("loss", ["vaw", "aioli"])
@pytest.mark.parametrize("stream", KINDS)
@pytest.mark.parametrize(("dim", "learners"), SIZES)
def test_layouts_cuts_and_threads_agree_in_bits(loss, stream, dim, learners):
    rounds = 90 if dim <= 64 else 35
    case = instance(stream, dim, learners, rounds, first=3)
    whole = stacked(case, 8)
    one, two = play(kernels, loss, case, whole)
    assert np.isfinite(one).all()
    assert np.isfinite(two).all()
    assert np.isfinite(whole).all()

    alone = stacked(case, 1)  # column by column, one learner at a time
    np.testing.assert_array_equal((one, two), play(kernels, loss, case, alone))
    same(case, whole, alone)

    shared = stacked(case, 8)
    np.testing.assert_array_equal((one, two), play(kernels, loss, case, shared, threads=3))
    same(case, whole, shared)

    for lanes in (1, 8):
        cut, t = stacked(case, lanes), 0
        rng = np.random.default_rng(dim)
        while t < rounds:
            n = min(int(rng.choice([1, 1, 2, 3, 5, 16, 30])), rounds - t)
            part = case._replace(Z=case.Z[t : t + n], y=case.y[t : t + n], sign=case.sign[t : t + n], first=3 + t)
            np.testing.assert_array_equal((one[t : t + n], two[t : t + n]), play(kernels, loss, part, cut))
            t += n
        same(case, whole, cut)


def test_no_rounds_and_no_learners_change_nothing():
    case = instance("plain", 4, 5, 10)
    state = stacked(case, 8)
    before = state.copy()
    none = case._replace(Z=case.Z[:0], y=case.y[:0], sign=case.sign[:0])
    play(kernels, "vaw", none, state)
    play(kernels, "aioli", none, state)
    nobody = np.zeros(0)
    empty = np.zeros((10, 0))
    assert kernels.vaw_play(state, nobody, 0, case.Z, case.y, empty, empty) == 0
    np.testing.assert_array_equal(state, before)


@pytest.mark.parametrize("loss", ["vaw", "aioli"])
@pytest.mark.parametrize("cut", [1, 3, 40])
def test_a_lost_learner_predicts_zero_until_it_starts_afresh_and_leaves_no_trace(loss, cut):
    dim, rounds = 5, 40
    case = instance("plain", dim, 11, rounds, first=19)
    results = []
    for lanes in (1, 8):
        state = stacked(case, lanes)
        for i in (1, 4, 9):  # a leader no data could have made: its first prediction is out of range
            layout.parts(state, i, dim)["theta"][:] = 1e152
        columns = []
        for t in range(0, rounds, cut):
            n = min(cut, rounds - t)
            part = case._replace(Z=case.Z[t : t + n], y=case.y[t : t + n], sign=case.sign[t : t + n], first=19 + t)
            columns.append(play(kernels, loss, part, state))
            assert np.isfinite(state).all()
            waiting = 19 + t + n <= 32  # the next floor round is 32
            assert [layout.parts(state, i, dim)["lost"][0] for i in range(11)] == [
                float(waiting and i in (1, 4, 9)) for i in range(11)
            ]
        one, two = np.concatenate(columns, axis=1)
        for i in (1, 4, 9):
            assert (one[:13, i] == 0).all()
            assert (two[:13, i] == 0).all()
            assert (one[14:, i] != 0).all()
            assert layout.parts(state, i, dim)["resets"] == 1
        results.append((one, two, [numbers(state, i, dim) for i in range(11)]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
