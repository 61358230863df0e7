"""Where the memory changed, and how a report says it."""

import dataclasses
import math

import numpy as np
import pytest
from report_runs import play_run, stream

from undrift.report.figures.memory_spectrum import measure
from undrift.report.half_life import MOST_CHANGES, find_changes
from undrift.report.run_context import make_context
from undrift.report.run_text import memory_changes, takeaways
from undrift.report.scores import score_predictors

HALF_LIVES = np.array([10.0, 30.0, 90.0, math.inf])
SETTLED = np.tile([0.1, 0.1, 0.3, 0.5], (180, 1))
RECOVERY = np.repeat(np.eye(4)[[0, 1, 2]], [10, 30, 100], axis=0)
"""Ever longer memories after a jump."""
TWO_JUMPS = np.concatenate((SETTLED, RECOVERY, RECOVERY, SETTLED))


@pytest.fixture(scope="module")
def run():
    data = play_run("regression", *stream("regression", len(TWO_JUMPS)), certify=False)
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
