"""The compiled level of several classes against its twin."""

import numpy as np
import pytest

from tests.helpers import draw_log_odds
from tests.parity.tolerances import TOLERANCES
from tests.twins import class_level as reference
from undrift import kernels
from undrift.ensemble.class_level import ClassLevel
from undrift.kernels.definitions import SoftmaxNumber

pytestmark = pytest.mark.every_level


def draw_rounds(K, T, given=0, seed=0):
    """Return log-odds, labels, weights, times and predictions made elsewhere, some of them missing."""
    rng = np.random.default_rng(seed)
    S, y = draw_log_odds(K, T, seed)
    weight, elapsed = rng.choice([0.0, 0.4, 1.0, 2.5, 300.0], T), rng.choice([0.0, 1.0, 1.0, 7.5, 400.0], T)
    offered = rng.dirichlet(np.ones(K), size=(T, given))
    offered[rng.random((T, given)) < 0.3, 0] = np.nan
    return S, y, weight, elapsed, offered.reshape(T, given * K)


def states(level):
    """Return two copies of the array that a level is."""
    return [level.arrays()["state"].copy() for _ in range(2)]


def check_states(ours, twin, K, given):
    """Assert that the parts of two states agree, in units of the largest number of each."""
    parts = []
    for state in (ours, twin):
        level = ClassLevel(K, given)
        level.load_arrays({"state": state})
        parts.append([part for memory in level._memories() for part in memory.values()])
        parts[-1] += [level._part(name) for name in ("log_weights", "losses", "counts", "numbers")]
    for a, b in zip(*parts, strict=True):
        unit = max(1.0, np.abs(b).max())
        TOLERANCES["class level"].check(a / unit, b / unit)


@pytest.mark.parametrize(
    ("K", "T", "given"), [(3, 60, 0), (3, 40, 2), (4, 40, 0), (7, 40, 1), (17, 12, 0), (36, 12, 1)]
)
def test_compiled_rounds_are_those_of_the_twin(K, T, given):
    S, y, weight, elapsed, offered = draw_rounds(K, T, given)
    S[T // 2] *= 1e3  # log-odds that are cut
    ours, twin = states(ClassLevel(K, given))
    for part in (slice(0, T // 3), slice(T // 3, T)):
        rows = S[part], y[part], weight[part], elapsed[part], offered[part]
        logs = [np.empty_like(S[part]) for _ in range(2)]
        assert kernels.class_level_play(ours, *rows, logs[0]) == 0
        assert reference.class_level_play(twin, *rows, logs[1]) == 0
        TOLERANCES["class level"].check(*logs)
    check_states(ours, twin, K, given)
    for width in (K, K * (8 + given)):
        records = [np.empty((5, width)) for _ in range(2)]
        kernels.class_level_predict(ours, S[:5], elapsed[:5], offered[:5], records[0])
        reference.class_level_predict(twin, S[:5], elapsed[:5], offered[:5], records[1])
        TOLERANCES["class level"].check(*records)
    assert kernels.class_level_settle(ours, K, records[0][0], 1, 2.0, 3.0) == 0
    assert reference.class_level_settle(twin, K, records[1][0], 1, 2.0, 3.0) == 0
    for state in (ours, twin):
        module = kernels if state is ours else reference
        assert module.class_level_settle(state, K, np.zeros(0), 2, 1.0, 1.0) == 0
    check_states(ours, twin, K, given)


def test_late_labels_are_learned_as_by_the_twin():
    K, T, late = 4, 40, 6
    S, y, weight, elapsed, offered = draw_rounds(K, T, 1)
    ours, twin = states(ClassLevel(K, 1))
    for module, state in ((kernels, ours), (reference, twin)):
        records = np.empty((T, K * 9))
        for t in range(T):
            one = slice(t, t + 1)
            assert module.class_level_predict(state, S[one], elapsed[one], offered[one], records[one]) == 0
            if t >= late:
                row = t - late
                module.class_level_settle(state, K, records[row], int(y[row]), weight[row], elapsed[row])
    check_states(ours, twin, K, 1)


def test_long_memories_times_and_heavy_rows_start_afresh_as_the_twin():
    S, y, weight, elapsed, offered = draw_rounds(3, 40)
    elapsed[20], elapsed[30], weight[25] = 1e30, 3e4, 1e6
    ours, twin = states(ClassLevel(3))
    logs = [np.empty_like(S) for _ in range(2)]
    assert kernels.class_level_play(ours, S, y, weight, elapsed, offered, logs[0]) == 0
    assert reference.class_level_play(twin, S, y, weight, elapsed, offered, logs[1]) == 0
    TOLERANCES["class level"].check(*logs)
    level = ClassLevel(3)
    level.load_arrays({"state": ours})
    assert level._memories()[0]["numbers"][SoftmaxNumber.RESTARTS] >= 1.0


def test_bad_input_changes_nothing():
    state, before = states(ClassLevel(3))
    S, ones, none, logs = np.zeros((2, 3)), np.ones(2), np.empty((2, 0)), np.empty((2, 3))
    S[1, 1] = np.nan
    for module in (kernels, reference):
        assert module.class_level_play(state, S, ones, ones, ones, none, logs) == 5
        assert module.class_level_predict(state, S, ones, none, logs) == 5
        assert module.class_level_settle(state, 3, np.full(24, np.nan), 0, 1.0, 1.0) == 1
    for call in (
        lambda: kernels.class_level_play(state, np.zeros((2, 3)), np.array([0.0, 3.0]), ones, ones, none, logs),
        lambda: kernels.class_level_play(state, np.zeros((2, 4)), ones, ones, ones, none, logs),
        lambda: kernels.class_level_predict(state, np.zeros((2, 3)), ones, np.empty((2, 3)), logs),
        lambda: kernels.class_level_predict(state, np.zeros((2, 3)), ones, none, np.empty((2, 4))),
        lambda: kernels.class_level_settle(state, 3, np.zeros(24), 3, 1.0, 1.0),
        lambda: kernels.class_level_settle(np.zeros(7), 3, np.zeros(24), 0, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="do not fit together"):
            call()
    assert state.tobytes() == before.tobytes()
