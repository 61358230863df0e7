"""Rounds with weights and elapsed times: the compiled kernels against their twins, and ordinary rounds to the bit."""

from functools import cache

import numpy as np
import pytest

from tests.parity.kernel_cases import instance, numbers, outputs, play, stacked
from tests.parity.tolerances import TOLERANCES
from tests.twins import drift as reference_drift
from tests.twins import reference
from undrift import kernels
from undrift.kernels.definitions import DriftCount

pytestmark = pytest.mark.every_level
SIZES = [(1, 1), (4, 9), (33, 3)]
FAIR = ["plain", "duplicate", "frozen", "silent", "fill"]
ROUNDS = 40


def row_weights(seed, rounds=ROUNDS):
    """Weights and times of which half are 1; some are 0."""
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random(rounds) < 0.5, 1.0, rng.choice([0.0, 0.3, 2.0, 50.0], rounds))
    elapsed = np.where(rng.random(rounds) < 0.5, 1.0, rng.choice([0.0, 0.25, 1.5, 3.0], rounds))
    return weight, elapsed


@cache
def twin(stream, dim, learners, loss):
    case, (weight, elapsed) = instance(stream, dim, learners, ROUNDS, first=5), row_weights(dim)
    state = stacked(case, 1)
    return case, state, *play(reference, loss, case, state, weight=weight, elapsed=elapsed)


@pytest.mark.parametrize("loss", ["vaw", "aioli"])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize(("dim", "learners"), SIZES)
@pytest.mark.parametrize("stream", FAIR)
def test_weighted_rounds_are_those_of_the_twin(stream, dim, learners, lanes, loss):
    case, theirs, one0, two0 = twin(stream, dim, learners, loss)
    ours, (weight, elapsed) = stacked(case, lanes), row_weights(dim)
    one, two = play(kernels, loss, case, ours, weight=weight, elapsed=elapsed)
    if loss == "vaw":
        one, one0, two, two0 = one / (1 + two), one0 / (1 + two0), two / (1 + two), two0 / (1 + two0)
    size = np.maximum(np.abs(case.y).max() if loss == "vaw" else 1.0, np.abs(one0))
    most = TOLERANCES["learner outputs"].relative
    assert (np.abs(one - one0) <= most * size).all()
    assert (np.abs(two - two0) <= most * np.maximum(1.0, np.abs(two0))).all()
    for i in range(learners):
        a, b = numbers(ours, i, dim), numbers(theirs, i, dim)
        assert np.isfinite(a).all()
        np.testing.assert_array_equal(a[3 * dim : 3 * dim + 3] > 0.0, b[3 * dim : 3 * dim + 3] > 0.0)  # counts


@pytest.mark.parametrize("loss", ["vaw", "aioli"])
@pytest.mark.parametrize(("dim", "learners", "lanes"), [(3, 1, 1), (9, 17, 8), (45, 9, 8)])
def test_ones_leave_the_bits_of_ordinary_rounds(loss, dim, learners, lanes):
    case, ones = instance("plain", dim, learners, ROUNDS), np.ones(ROUNDS)
    ordinary, weighted = stacked(case, lanes), stacked(case, lanes)
    columns = play(kernels, loss, case, ordinary), play(kernels, loss, case, weighted, weight=ones, elapsed=ones)
    assert ordinary.tobytes() == weighted.tobytes()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*columns, strict=True))


@pytest.mark.parametrize("loss", ["vaw", "aioli"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_weighted_rounds_are_the_same_bits_however_they_are_cut(loss, lanes):
    case, (weight, elapsed) = instance("plain", 6, 9, ROUNDS), row_weights(1)
    whole, parts = stacked(case, lanes), stacked(case, lanes)
    wanted = play(kernels, loss, case, whole, weight=weight, elapsed=elapsed)
    for begin, end in ((0, 1), (1, 7), (7, 30), (30, ROUNDS)):
        some = slice(begin, end)
        piece = case._replace(Z=case.Z[some], y=case.y[some], sign=case.sign[some], first=begin)
        got = play(kernels, loss, piece, parts, weight=weight[some], elapsed=elapsed[some])
        assert all(a.tobytes() == b[some].tobytes() for a, b in zip(got, wanted, strict=True))
    assert whole.tobytes() == parts.tobytes()


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("elapsed", [0.0, 0.5, 1.0, 7.0, 1e5])
def test_predictions_after_a_time_are_those_of_the_round(lanes, elapsed):
    case = instance("plain", 5, 6, 30)
    state = stacked(case, lanes)
    play(kernels, "vaw", case, state)
    row, label, times = case.Z[:1].copy(), case.y[:1], np.array([elapsed])
    predicted, played = ([np.empty((1, 6)) for _ in range(2)] for _ in range(2))
    assert kernels.vaw_predict(state, case.beta, 30, row, *predicted, elapsed=elapsed) == 0
    assert kernels.vaw_play(state, case.beta, 30, row, label, *played, 1, np.array([2.5]), times) == 0
    assert all(a.tobytes() == b.tobytes() for a, b in zip(predicted, played, strict=True))


@pytest.mark.parametrize("d", [1, 3, 8])
def test_weighted_rounds_of_drift_are_those_of_the_twin(d):
    rng, n, T = np.random.default_rng(d), 3, 60
    Z, y, step = rng.normal(size=(T, d)), rng.normal(size=T), 10.0 ** rng.uniform(-4, 4, size=n)
    weight, elapsed = row_weights(d, T)
    Z[30] *= 1e8  # a restart
    reg = 10.0 ** rng.uniform(-2, 2, size=n)
    states, columns = [], []
    for which in (kernels, reference_drift):
        state = [np.eye(d)[None] / np.sqrt(reg)[:, None, None], np.zeros((n, d)), np.zeros((n, len(DriftCount))), reg]
        outs = [np.empty((T, n)) for _ in range(3)]
        assert which.drift_play(*state, step, 0, Z, y, *outs, weight, elapsed) == 0
        look = [np.empty((5, n)) for _ in range(2)]
        assert which.drift_predict(state[0], state[1], reg, step, T, Z[:5], *look, 4.0) == 0
        states.append(state)
        columns.append([*outs, *look])
    for a, b in zip(states[0] + columns[0], states[1] + columns[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8)


def test_weights_without_times_and_other_sizes_are_refused():
    case = instance("plain", 2, 3, 4)
    with pytest.raises(ValueError, match="both be None"):
        kernels.vaw_play(stacked(case, 1), case.beta, 0, case.Z, case.y, *outputs(case), 1, np.ones(4), None)
    with pytest.raises(ValueError, match="one number per row"):
        kernels.vaw_play(stacked(case, 1), case.beta, 0, case.Z, case.y, *outputs(case), 1, np.ones(3), np.ones(3))
