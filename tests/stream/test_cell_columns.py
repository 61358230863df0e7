"""Columns of cells are read at once, to what each cell is by itself."""

import datetime as dt
import random
import struct
import sys

import numpy as np
import pytest

from undrift.stream import cells as columns
from undrift.stream.cells import (
    UnreadableCell,
    count_numbers,
    is_missing,
    label_text,
    parse_number,
    parse_numbers,
    parse_texts,
    parse_times,
    reads,
)

ODD = (
    "", " ", "NA", "nan", "-nan", "null", "?", "inf", "-Infinity", "1_000", "1,000", "$12.5", "(3)", "12%", " 7 ",
    "1e400", "\u0661", "0x1", "1e-320", "true", "-999", "5.", "+.5", "1e", "1 234", "1\n", "a\x00",
)  # fmt: skip


def any_float(dice):
    """Return a number as someone may write it: of any size, in few digits or in far too many."""
    value = struct.unpack("<d", struct.pack("<Q", dice.getrandbits(64)))[0]
    return dice.choice([repr(value), f"{value:.25e}", f"{dice.random():.17f}", str(dice.getrandbits(180)), "-0.0"])


def column(seed):
    """Return more cells than are read one by one."""
    dice = random.Random(seed)
    odd = dice.choice([0.0, 0.01, 0.3])
    return [dice.choice(ODD) if dice.random() < odd else any_float(dice) for _ in range(300)]


def read_one_by_one(cells, na):
    out = []
    for row, cell in enumerate(cells):
        value = np.nan if is_missing(cell, na) else parse_number(cell)
        if value is None:
            return [row, cell]
        out.append("missing" if np.isnan(value) else value.hex())
    return out


def read_at_once(cells, na):
    try:
        return ["missing" if np.isnan(value) else value.hex() for value in parse_numbers(cells, na).tolist()]
    except UnreadableCell as refused:
        return [refused.row, refused.cell]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("na", [frozenset(), frozenset(["-999", "?", "-0.0"])])
def test_numbers_have_the_bits_that_each_has_alone(seed, na):
    cells = column(seed)
    assert read_at_once(cells, na) == read_one_by_one(cells, na)
    known = [cell for cell in cells if not is_missing(cell, na)]
    assert count_numbers(cells, na) == (sum(parse_number(cell) is not None for cell in known), len(known))


def test_without_polars_numbers_are_read_by_python(monkeypatch):
    cells = [any_float(random.Random(seed)).replace("nan", "1.5") for seed in range(200)]
    expected = parse_numbers(cells, frozenset())
    monkeypatch.setitem(sys.modules, "polars", None)
    assert parse_numbers(cells, frozenset()).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "cells",
    [
        ["a", "1", "1.0", " a", "NA", None, "-0"] * 30,
        [1, True, 1.0, "1", None, 0.0, -0.0] * 30,
        np.array([0.0, -0.0, 1.5, np.nan, 1e7] * 30),
    ],
)
def test_equal_cells_of_other_types_keep_texts_of_their_own(cells):
    na = frozenset(["a"])
    plain = cells.tolist() if isinstance(cells, np.ndarray) else cells
    assert parse_texts(cells, na) == [None if is_missing(cell, na) else label_text(cell) for cell in plain]


@pytest.mark.parametrize("odd", ["", "NA", "2024-01-02 UTC", " 2024-01-02 ", "2024-01-02T10:00+02:00"])
def test_times_are_what_each_is_alone(odd):
    cells = [(dt.datetime(1950, 1, 1) + dt.timedelta(days=400 * k, microseconds=k)).isoformat() for k in range(99)] + [
        odd,
        "1999-01-01",
    ]
    alone = [parse_times([cell], "iso", frozenset(["1999-01-01"]))[0] for cell in cells]
    np.testing.assert_array_equal(parse_times(cells, "iso", frozenset(["1999-01-01"])), np.array(alone))
    assert np.isnat(alone[-1])


def test_a_column_of_times_is_refused_at_its_first_other_cell():
    with pytest.raises(UnreadableCell) as refused:
        parse_times(["2024-01-01", "soon", "later"], "iso", frozenset())
    assert (refused.value.row, refused.value.cell) == (1, "soon")


def test_which_cells_are_times_is_found_by_distinct_texts():
    assert reads("iso", ["2024-01-01", None, 3.0, "soon", "2024-01-01"]) == [True, False, False, False, True]


def test_few_cells_are_what_single_rows_bring():
    assert columns.FEW_CELLS > 1
    assert parse_numbers(["1.5", "", "$3"], frozenset())[[0, 2]].tolist() == [1.5, 3.0]
