"""Columns of numbers: the quick way and the careful one read the same."""

import math

import numpy as np
import pytest

from undrift.stream.cells import UnreadableCell, parse_numbers

NONE = frozenset()


@pytest.mark.parametrize("cell", ["1_0", "٣", "one", "1,5"])
@pytest.mark.parametrize("others", [(), ("",), (2.0,), (2.0, "")])
def test_what_is_a_number_to_python_only_is_none(cell, others):
    for cells in ((*others, "1", cell), (cell, "1", *others)):
        with pytest.raises(UnreadableCell) as found:
            parse_numbers(cells, NONE)
        assert cells[found.value.row] == cell


def test_zeros_are_not_missing_where_texts_are():
    values = parse_numbers((0, "", "0", 1.5, " 2 ", "inf"), NONE)
    assert np.array_equal(values, [0.0, math.nan, 0.0, 1.5, 2.0, math.inf], equal_nan=True)
