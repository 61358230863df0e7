"""Where the memory changed, and how a report says it."""

import dataclasses
import math

import numpy as np
import pytest

from tests.report.report_runs import jumping_rows, play_run
from undrift.cli.run import summary_lines
from undrift.report.figures.memory_spectrum import measure
from undrift.report.half_life import MOST_CHANGES, find_changes, mean_half_life, memory_length
from undrift.report.run_context import make_context
from undrift.report.run_text import cards, memory_changes, takeaways
from undrift.report.scores import score_predictors

HALF_LIVES = np.array([10.0, 30.0, 90.0, math.inf])
SETTLED = np.tile([0.1, 0.1, 0.3, 0.5], (180, 1))
RECOVERY = np.repeat(np.eye(4)[[0, 1, 2]], [10, 30, 100], axis=0)
"""Ever longer memories after a jump."""
TWO_JUMPS = np.concatenate((SETTLED, RECOVERY, RECOVERY, SETTLED))


@pytest.fixture(scope="module")
def run():
    data = play_run("regression", *jumping_rows("regression", len(TWO_JUMPS)), certify=False)
    return make_context(with_spectrum(data, TWO_JUMPS))


def with_spectrum(data, weights):
    """Return a run with these weights of memories after its rows."""
    rounds = np.arange(1.0, len(weights) + 1)
    return dataclasses.replace(data, half_lives=HALF_LIVES, spectrum=weights, spectrum_round=rounds)


def test_two_jumps_are_found_among_slow_recoveries():
    changes = find_changes(np.arange(1.0, len(TWO_JUMPS) + 1), HALF_LIVES, TWO_JUMPS)
    assert [change.round for change in changes if change.jump] == [180, 320]
    assert all(change.after > change.before for change in changes if not change.jump)
    assert len(changes) == MOST_CHANGES


def test_a_recovery_right_behind_a_jump_does_not_hide_it():
    changes = find_changes(np.arange(1.0, 301.0), HALF_LIVES, TWO_JUMPS[:300])
    assert [change.round for change in changes if change.jump] == [180]


def test_jumps_are_found_before_other_changes():
    short = np.arange(600) % 120 >= 60  # five jumps to the shortest memory, four ways back
    weights = np.where(short[:, None], np.eye(4)[0], np.eye(4)[2])
    changes = find_changes(np.arange(1.0, 601.0), HALF_LIVES, weights)
    assert [change.round for change in changes] == [60, 180, 300, 420]
    assert all(change.jump for change in changes)


def test_the_report_tells_where_the_data_changed_before_recoveries(run):
    numbers = measure(run) | {"intervals": None, "calibration": None}
    said = memory_changes(run, numbers["spectrum"])
    assert [text.split(":")[0] for text in said[:2]] == [f"The data changed around row {n}" for n in (180, 320)]
    assert all("the memory lengthened from" in text for text in said[2:])
    assert len(said) == MOST_CHANGES
    memory = takeaways(run, score_predictors(run.data), numbers)[1]
    assert memory.endswith("; the data changed around row 180 and row 320.")


def test_the_memory_of_late_is_told_where_it_differs_from_the_average(run):
    same = memory_length(HALF_LIVES, TWO_JUMPS)
    assert same == (mean_half_life(HALF_LIVES, TWO_JUMPS), None)
    longer = np.repeat(np.eye(4)[[0, 2]], [500, 140], axis=0)
    assert memory_length(HALF_LIVES, longer) == (pytest.approx(1.0 / (500 / 640 / 10 + 140 / 640 / 90)), 90.0)
    for weights, words, shown in (
        (TWO_JUMPS, "52 rows", ("52 rows", "until a row counts half")),
        (longer, "12 rows on average, 90 rows lately", ("12 rows", "on average; 90 rows lately")),
    ):
        context = make_context(with_spectrum(run.data, weights))
        numbers = measure(context) | {"intervals": None, "calibration": None}
        scores = score_predictors(context.data)
        assert f"a row counts half after {words}" in takeaways(context, scores, numbers)[1]
        card = next(one for one in cards(context, scores, numbers) if one.label == "memory (half-life)")
        assert (card.value, card.note) == shown
        assert f"Memory it found best: an observation counts half after about {words}." in terminal(context.data)


def test_the_terminal_tells_jumps_unless_alerts_did(run):
    said = "The data changed around rows 180 and 320; --alert tells such things on the way."
    assert said in terminal(run.data)
    once = with_spectrum(run.data, TWO_JUMPS[:300])
    assert said.replace("rows 180 and 320", "row 180") in terminal(once)
    for quiet in (dataclasses.replace(run.data, events=[]), with_spectrum(run.data, SETTLED)):
        assert not [line for line in terminal(quiet) if "changed" in line]


def terminal(data):
    return summary_lines(data, {"folder": "run", "report": None})
