"""What Python and C++ share is defined once: the header is generated, and layouts add up."""

import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import ROOT
from undrift import _check
from undrift.kernels.definitions import ENSEMBLE_SLOT, INFORMATION, INPUT_LIMIT, Field, Layout

TOOL = ROOT / "tools" / "kernel_header.py"


def test_the_header_of_the_kernels_is_up_to_date():
    run = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_the_door_and_the_kernels_have_one_limit():
    assert _check.LIMIT == INPUT_LIMIT  # the door cannot import the kernels, which are above it


@pytest.mark.parametrize("dim", [0, 1, 2, 7])
def test_parts_of_a_record_follow_each_other_without_gaps(dim):
    slices = INFORMATION.slices(dim=dim)
    assert [one.start for one in slices.values()] == [0, *(one.stop for one in list(slices.values())[:-1])]
    assert INFORMATION.size(dim=dim) == list(slices.values())[-1].stop == 3 * dim + 3 + dim * (dim - 1) // 2
    record = np.arange(float(INFORMATION.size(dim=dim)))
    parts = INFORMATION.split(record, dim=dim)
    assert np.concatenate(list(parts.values())).tolist() == record.tolist()
    parts["lost"][0] = -1.0
    assert record[slices["lost"].start] == -1.0, "parts are views"


def test_a_layout_names_its_dimensions():
    assert INFORMATION.dimensions == ["dim"]
    assert ENSEMBLE_SLOT.dimensions == ["information_size", "members"]
    assert Layout(Field("a", 2, ""), Field("b", "triangle(n)", "")).size(n=4) == 8
