"""The compiled round of an online estimator against its NumPy twin, on every level this machine has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.parity.estimator_cases import (
    COLUMNS,
    Case,
    Outcome,
    draw_case,
    plan,
    run_late,
    run_peeked,
    run_shuffled,
    run_weighted,
)
from tests.parity.tolerances import TOLERANCES
from undrift import kernels
from undrift.kernels.definitions import INPUT_LIMIT, EstimatorNumber, IntervalState, RecordPart, SpreadColumn
from undrift.online.plan import EstimatorPlan

EXACT = {
    "value",
    "seen",
    "missing",
    "center",
    "scale",
    "limit",
    "exceeded",
    "buffer",
    "known",
    "labels",
    "despiker",
    "means",
    "mean_rows",
    "label_contexts",
}
"""Parts that are made of rows and labels alone: equal to the bit."""
KINDS = ("plain", "holes", "unlabelled", "constant", "outliers", "spikes")
CASES = [
    *(
        Case(binary, kind=kind, indicators=kind == "holes", expanded=True, two=kind != "plain")
        for binary in (False, True)
        for kind in (KINDS[:-1] if binary else KINDS)  # labels of two classes have no spikes
    ),
    *(Case(binary, waves=6, indicators=on, kind="holes", two=True) for binary in (False, True) for on in (False, True)),
    *(Case(binary, waves=6, dim=4, began=2, indicators=on) for binary in (False, True) for on in (False, True)),
    *(Case(binary, kind="spikes", delay=delay, two=True) for binary, delay in ((False, 1), (False, 5), (True, 5))),
    *(Case(binary, dim=4, began=3, expanded=True, two=True, delay=3) for binary in (False, True)),
    *(Case(binary, columns=6, dim=4, began=3, expanded=True) for binary in (False, True)),  # too wide for context
    *(
        Case(binary, given=2, kind=kind, delay=delay, two=True, expanded=not delay)
        for binary in (False, True)
        for kind, delay in (("unlabelled", 0), ("holes", 3))
    ),
    *(Case(False, given=4, kind=kind, two=True) for kind in ("spikes", "tiny")),
    *(Case(False, given=4, kind="holes", delay=delay, two=True, loss=loss) for delay, loss in ((3, 0.5), (0, 0.9))),
    Case(True, given=4, kind="holes", delay=2, two=True),
    # The end of the warm-up.
    Case(False, waves=4, rows=262, begin=250, two=True, dim=2, began=2, columns=14, expanded=True),
    Case(True, rows=262, begin=250, two=True, dim=2, began=2, columns=14, expanded=True),
]


def name_of(case):
    more = (
        [f"waves{case.waves}"] * bool(case.waves)
        + ["indicators"] * case.indicators
        + [f"late{case.delay}"] * bool(case.delay)
        + ["expanded"] * case.expanded
        + [f"columns{case.columns}"] * (case.columns != COLUMNS)
        + [f"given{case.given}"] * bool(case.given)
        + [f"loss{case.loss}"] * (case.loss is not None)
    )
    return "-".join(["classes" if case.binary else "numbers", case.kind, str(case.rows), *more])


def agree(case: Case, got: Outcome, want: Outcome) -> None:
    layout = plan(case).layout
    assert got.state.shape == want.state.shape
    assert got.records.shape == want.records.shape
    assert np.isfinite(got.state).all()
    assert np.isfinite(got.records).all()
    for name in layout.shapes:
        ours, twins = layout.view(got.state, name), layout.view(want.state, name)
        if name.endswith(".information"):  # lanes without a memory are padding, whose numbers mean nothing
            memories = 2 if case.two else 3
            ours, twins = ours[:, :, :memories], twins[:, :, :memories]
        if name.removeprefix("robust.") in EXACT:
            np.testing.assert_array_equal(ours, twins, err_msg=name)
        elif twins.size:
            # The gate's rate is a sum of gaps as level 2's is, of two arms that are nearly the same: 7e-12 measured.
            # The spread model follows it: 1e-11.
            loose = name.endswith("log_weights") or name.startswith(("gate.", "spread."))
            allowed = TOLERANCES["estimator log-weights" if loose else "estimator"]
            most = np.max(np.abs(twins))
            if name.endswith("numbers") or name == "given.members":  # sums of differences of losses, as large as these
                most = max(most, 0.5 * np.nanmax(np.abs(draw_case(case)[1])) ** 2)
            if name == "spread.coefficients":  # of a logarithm: 1 is a factor of e
                most = max(most, 1.0)
            np.testing.assert_allclose(ours, twins, rtol=0.0, atol=allowed.relative * most, err_msg=name)
    most = TOLERANCES["estimator"].relative * np.max(np.abs(want.records), axis=0)
    if not case.binary:  # intervals see logarithms of distances between predictions nearly the same: 1.2e-11 measured
        begin = plan(case).kernel.quantiles_at
        intervals = slice(begin, begin + plan(case).quantiles + 1 + len(SpreadColumn))
        most[intervals] *= TOLERANCES["estimator log-weights"].relative / TOLERANCES["estimator"].relative
        # The gate's rate begins with gaps between two arms that are nearly the same: 2.3e-12 measured.
        most[[RecordPart.YHAT, RecordPart.GATED, RecordPart.UNIT]] *= 10.0
    assert (np.abs(got.records - want.records) <= most).all()


def agree_at_every_level(case: Case, run: Callable[[Case, EstimatorPlan], Outcome], levels: list[str]) -> None:
    """Compare the kernel with the twin, whose slow run serves all levels."""
    want = run(case, plan(case, twin=True))
    for level in levels:
        with kernels.use_level(level):
            agree(case, run(case, plan(case)), want)


@pytest.mark.own_levels
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_kernel_agrees_with_its_twin(case, levels):
    agree_at_every_level(case, run_late, levels)


@pytest.mark.own_levels
@pytest.mark.parametrize("binary", [False, True])
def test_labels_may_come_in_any_order(binary, levels):
    agree_at_every_level(Case(binary, rows=60, two=True, kind="holes"), run_shuffled, levels)


@pytest.mark.own_levels
@pytest.mark.parametrize(("binary", "delay"), [(False, 0), (False, 4), (True, 0), (True, 4)])
def test_weights_and_times_agree_with_the_twin(binary, delay, levels):
    agree_at_every_level(Case(binary, rows=60, two=True, delay=delay, expanded=True), run_weighted, levels)


def play(which, state, Z, y):
    yhat, known = np.empty(len(y)), np.empty(len(y))
    quantiles = np.empty((len(y), which.quantiles))
    assert which.kernel.play(state, Z, y, yhat, quantiles, known) == 0
    return np.column_stack([yhat, known, quantiles])


BITS = [
    Case(binary, waves=waves, indicators=on, rows=420, dim=5, began=4, kind=kind, expanded=waves > 0, columns=96)
    for binary in (False, True)
    for waves, on in ((0, True), (48, False))
    for kind in KINDS
] + [Case(binary, given=3, rows=420, kind="unlabelled", expanded=True, columns=40) for binary in (False, True)]


@pytest.mark.parametrize("case", BITS, ids=name_of)
def test_blocks_cuts_and_single_rows_give_the_same_bits(case):
    which, (Z, y) = plan(case), draw_case(case)
    whole = which.blank()
    said = play(which, whole, Z, y)
    late = run_late(case, which)
    assert late.state.tobytes() == whole.tobytes()
    head, begin = late.records[:, [RecordPart.YHAT, RecordPart.KNOWN]], which.kernel.quantiles_at
    quantiles, middle = late.records[:, begin : begin + which.quantiles].copy(), which.quantiles // 2
    without = late.records[:, RecordPart.BOUNDED] == 0.0
    quantiles[without, :middle], quantiles[without, middle + 1 :] = -np.inf, np.inf
    assert np.column_stack([head, quantiles]).tobytes() == said.tobytes()
    for cuts in ([1, 2, 3, 5, 33, 129, 300], list(range(1, case.rows))):
        state, pieces = which.blank(), []
        for rows, labels in zip(np.split(Z, cuts), np.split(y, cuts), strict=True):
            pieces.append(play(which, state, rows, labels))
        assert state.tobytes() == whole.tobytes()
        assert np.concatenate(pieces).tobytes() == said.tobytes()


@pytest.mark.parametrize("ordered", [True, False])
def test_keys_give_the_same_bits_with_any_number_of_threads(ordered):
    case = Case(False, rows=900, dim=3, began=3, kind="holes")
    which, (Z, y) = plan(case), draw_case(case)
    slots = np.random.default_rng(0).integers(0, 12, len(y))
    slots = np.sort(slots) if ordered else slots
    found = []
    for threads in (1, 2, 3, 8):
        states, yhat, known = np.stack([which.blank()] * 12), np.empty(len(y)), np.empty(len(y))
        assert which.kernel.play_keys(states, slots, Z, y, yhat, known, threads) == 0
        found.append(states.tobytes() + yhat.tobytes() + known.tobytes())
    assert found == [found[0]] * 4
    for slot in range(12):
        state, mine = which.blank(), slots == slot
        play(which, state, np.ascontiguousarray(Z[mine]), y[mine])
        assert state.tobytes() == states[slot].tobytes()


def test_late_play_can_be_cut_anywhere():
    case = Case(False, rows=300, kind="holes", delay=5)
    which, (Z, y) = plan(case), draw_case(case)
    want, state, size = run_late(case, which), which.blank(), which.kernel.record_size
    waiting, labels = np.empty((0, size)), np.empty(0)
    for rows, new in zip(np.split(Z, [3, 4, 90]), np.split(y, [3, 4, 90]), strict=True):
        records, labels = np.concatenate([waiting, np.empty((len(rows), size))]), np.concatenate([labels, new])
        assert which.kernel.play_late(state, rows, labels, records, len(waiting), 5) == 0
        waiting, labels = records[-5:].copy(), labels[-5:]
    assert state.tobytes() == want.state.tobytes()
    assert waiting.tobytes() == want.records[-5:].tobytes()


def test_an_unlabelled_row_delays_the_interval_alike_in_blocks_and_row_by_row():
    case = Case(False)
    which, (Z, _) = plan(case), draw_case(case)
    y = np.array([1.0, 2.0, np.nan, 4.0, 3.0, 5.0])
    state, records = which.blank(), np.empty((6, which.kernel.record_size))
    assert which.kernel.play_late(state, Z[:6], y, records, 0, 0) == 0
    assert records[:, RecordPart.BOUNDED].tolist() == [0.0, 0.0, 1.0, 0.0, 1.0, 1.0]  # the fourth is 2 rows late
    block = which.blank()
    assert np.isfinite(play(which, block, Z[:6], y)[:, 2]).tolist() == [False, False, True, False, True, True]
    assert block.tobytes() == state.tobytes()


def test_the_last_label_is_that_of_the_newest_row_after_a_refit_too():
    case = Case(False)
    which, (Z, y) = plan(case), draw_case(case)
    state, records = which.blank(), np.empty((4, which.kernel.record_size))
    for t in range(4):
        which.kernel.serve(state, Z[t], records[t], True)
    for t in (0, 3, 1, 2):  # a refit follows the fourth
        which.kernel.settle(state, records[t], float(y[t]))
    numbers = which.layout.view(state, "numbers")
    assert numbers[EstimatorNumber.ROUNDS] == 4.0
    assert numbers[EstimatorNumber.LAST] == numbers[EstimatorNumber.HINT] == y[3]


def test_rows_of_two_classes_served_before_any_label_have_no_hint_and_no_last_labels():
    case = Case(True, delay=3)
    which, (Z, _) = plan(case), draw_case(case)
    state, records = which.blank(), np.empty((9, which.kernel.record_size))
    y = np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    assert which.kernel.play_late(state, Z[:9], y, records, 0, 3) == 0
    # The fourth row was served before a label, the fifth after one, the sixth after two equal ones.
    np.testing.assert_allclose(which.layout.view(state, "hints")[1:6], [0.0, 0.0, 0.0, 0.0, np.log(2.0)], rtol=1e-15)
    assert not which.layout.view(state, "label_contexts")[:4].any()
    assert which.layout.view(state, "label_contexts")[4, 0] == 1.0


@pytest.mark.parametrize("given", [0, 2])
def test_prompt_rows_after_late_ones_give_the_same_bits_in_blocks_and_row_by_row(given):
    """No prediction has been judged when the first prompt row comes."""
    case = Case(True, rows=60, expanded=True, given=given)
    which, (Z, y) = plan(case), draw_case(case)
    start, records = which.blank(), np.empty((20, which.kernel.record_size))
    for t in range(20):
        assert which.kernel.serve(start, Z[t], records[t], True) == 0
    for t in range(20):
        assert which.kernel.settle(start, records[t], float(y[t])) == 0
    block, single = start.copy(), start.copy()
    said = play(which, block, Z[20:], y[20:])
    assert (
        np.concatenate([play(which, single, Z[t : t + 1], y[t : t + 1]) for t in range(20, 60)]).tobytes()
        == said.tobytes()
    )
    assert single.tobytes() == block.tobytes()


@pytest.mark.own_levels
@pytest.mark.parametrize("binary", [False, True])
def test_rows_predicted_before_they_come_agree_with_the_twin(binary, levels):
    agree_at_every_level(Case(binary, rows=60, two=True, kind="holes"), run_peeked, levels)


@pytest.mark.parametrize("binary", [False, True])
def test_serving_without_commitment_changes_nothing(binary):
    case = Case(binary, rows=50, kind="holes")
    which, (Z, y) = plan(case), draw_case(case)
    state, records = which.blank(), np.empty((2, which.kernel.record_size))
    play(which, state, Z[:-1], y[:-1])
    before = state.tobytes()
    assert which.kernel.serve(state, Z[-1], records[0], False) == 0
    assert state.tobytes() == before
    assert which.kernel.serve(state, Z[-1], records[1], True) == 0
    assert records[0].tobytes() == records[1].tobytes()


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.01 * INPUT_LIMIT])
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("twin", [False, True])
def test_numbers_that_may_not_be_used_are_refused_and_nothing_changes(binary, value, twin):
    case = Case(binary, rows=6)
    which, (Z, y) = plan(case, twin), draw_case(case)
    state, size = which.blank(), which.kernel.record_size
    record, records, yhat, none = np.empty(size), np.empty((6, size)), np.empty(6), np.empty((0, size))
    assert which.kernel.serve(state, Z[0], record, True) == 0
    before = state.tobytes()
    bad_Z, bad_y = Z.copy(), y.copy()
    bad_Z[4, 1], bad_y[3] = value, value
    for rows, labels, status in ((bad_Z, y, 1 + 4 * 3 + 1), (Z, bad_y, -4), (bad_Z, bad_y, 14)):
        assert which.kernel.play(state, rows, labels, yhat, none, np.empty(0)) == status
        assert which.kernel.play_late(state, rows, labels, records, 0, 2) == status
    assert which.kernel.serve(state, bad_Z[4], record, True) == 2
    assert which.kernel.settle(state, record, value) == -1
    if binary:
        assert which.kernel.settle(state, record, 0.5) == -1
    assert state.tobytes() == before


def test_shapes_that_do_not_fit_are_refused():
    which, (Z, y) = plan(Case(False)), draw_case(Case(False))
    kernel, state, size, rows = which.kernel, which.blank(), which.kernel.record_size, len(y)
    ends, record, records = np.empty((rows, which.quantiles)), np.empty(size), np.empty((rows, size))
    calls = [
        lambda: kernel.serve(state[1:], Z[0], record, True),
        lambda: kernel.serve(state, Z[0, 1:], record, True),
        lambda: kernel.serve(state, Z[0], record[1:], True),
        lambda: kernel.settle(state, record[1:], 1.0),
        lambda: kernel.play(state, Z, y[1:], np.empty(rows), ends, np.empty(rows)),
        lambda: kernel.play(state, Z, y, np.empty(rows - 1), ends, np.empty(rows)),
        lambda: kernel.play(state, Z, y, np.empty(rows), ends[:, 1:].copy(), np.empty(rows)),
        lambda: kernel.play(state, Z, y, np.empty(rows), ends, np.empty(rows - 1)),
        lambda: kernel.play(state, np.empty((rows, 2)), y, np.empty(rows), ends, np.empty(rows)),
        lambda: kernel.play_late(state, Z, y, records[1:], 0, 0),
        lambda: kernel.play_late(state, Z[1:].copy(), y, records, 1, 0),
        lambda: kernel.refit(state),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="do not fit together"):
            call()
    assert state.tobytes() == which.blank().tobytes()


def test_a_refit_needs_rows_that_are_still_kept():
    case = Case(False, rows=300)
    which, (Z, y) = plan(case), draw_case(case)
    state = which.blank()
    play(which, state, Z, y)
    with pytest.raises(ValueError, match="do not fit together"):
        which.kernel.refit(state)


def test_parts_beyond_the_end_of_the_state_are_refused():
    which = plan(Case(False))
    blank = which.blank()
    which.layout.starts["known"] += len(blank) - which.layout.starts["known"] - 8
    with pytest.raises(ValueError, match=r"the parts of the state \(known\) do not fit together"):
        which._compile(False, blank)


@pytest.mark.own_levels
@pytest.mark.parametrize("delay", [0, 4])
def test_seasons_agree_with_the_twin(delay, levels):
    case = Case(False, rows=160, kind="season", delay=delay, two=True, dim=1, began=1)
    agree_at_every_level(case, run_late, levels)
    which = plan(case)
    place = which.kernel.quantiles_at + which.quantiles + 1 + SpreadColumn.SEASON
    column = run_late(case, which).records[-20:, place]
    assert column.max() - column.min() > 0.5


def test_intervals_count_what_they_were_compared_with():
    case = Case(False, rows=120)
    which = plan(case)
    outcome = run_late(case, which)
    intervals = which.layout.view(outcome.state, "intervals")
    assert intervals[IntervalState.ROUNDS] == outcome.records[:, RecordPart.BOUNDED].sum()
    assert intervals[IntervalState.RESIDUALS] == outcome.records[:, RecordPart.KNOWN].sum()
