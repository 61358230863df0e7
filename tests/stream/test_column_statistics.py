"""Statistics of columns depend on their rows alone, however they come, and find columns that are the same."""

import json

import numpy as np
import pytest

from undrift.stream.problems import ColumnStatistics, DataProblems


def make_rows(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(200, 6)).round(1)
    Z[rng.random(Z.shape) < 0.2] = np.nan
    Z[:, 3], Z[:, 4] = Z[:, 0], np.nan
    return Z


def state(statistics):
    return statistics.digests, {name: array.tolist() for name, array in statistics.arrays().items()}


@pytest.mark.parametrize("seed", range(10))
def test_any_cut_gives_the_same_state_resumed_or_not(seed):
    Z, rng = make_rows(seed), np.random.default_rng(seed)
    whole, rows, resumed = ColumnStatistics(6), ColumnStatistics(6), ColumnStatistics(6)
    whole.add(Z)
    for z in Z:
        rows.add(z[None])
    for part in np.split(Z, np.sort(rng.integers(0, 200, 5))):
        resumed.add(np.asfortranarray(part))
        digests, arrays = json.loads(json.dumps(resumed.digests)), resumed.arrays()
        resumed = ColumnStatistics(6)
        resumed.resume(digests, arrays)
    assert state(rows) == state(whole)
    assert state(resumed) == state(whole)


def test_only_columns_of_equal_numbers_are_duplicates():
    Z = np.zeros((50, 6))
    Z[:, 0] = np.arange(50) % 2
    Z[:, 1] = Z[:, 0] * -1.0 + 1.0  # the same numbers, in another order
    Z[:, 2] = np.where(Z[:, 0] == 0.0, -0.0, 1.0)  # equal to the first
    Z[:, 3] = np.where(Z[:, 0] == 0.0, np.copysign(np.nan, -1.0), 1.0)
    Z[:, 4] = np.where(Z[:, 0] == 0.0, np.nan, 1.0)
    Z[:, 5] = Z[:, 0]
    Z[-1, 5] = 2.0
    Z[:-1, 3:5][Z[:-1, 3:5] == 1.0] = 3.0  # so that they are no dead columns
    statistics, problems = ColumnStatistics(6), DataProblems()
    statistics.add(Z)
    statistics.add_problems(problems, list("abcdef"), 50)
    assert [(one["kind"], one["column"], one["note"]) for one in problems.entries()] == [
        ("duplicate column", "c", "the same numbers as 'a'"),
        ("duplicate column", "e", "the same numbers as 'd'"),
    ]


def test_many_columns_of_small_whole_numbers_have_digests_of_their_own():
    Z = np.array([[column % 100, column // 100] for column in range(10_000)], dtype=float).T
    statistics = ColumnStatistics(10_000)
    statistics.add(Z)
    assert len(set(statistics.digests)) == 10_000


def test_digests_of_earlier_versions_go_on():
    statistics = ColumnStatistics(2)
    statistics.resume(["", "f" * 32], statistics.arrays())
    assert statistics.digests == ["0" * 16, "f" * 16]
