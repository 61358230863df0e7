"""Compiled fills and scales against their NumPy twins, to the bit, however rounds are cut."""

import math
from itertools import pairwise

import numpy as np
import pytest

from tests.twins import rows as reference_rows
from undrift import kernels

CUTS = {"whole": [0, 300], "cut": [0, 1, 2, 150, 299, 300], "row by row": list(range(301))}


def wild(seed, dim=7):
    """Rows with holes, dead beginnings, spikes, a lasting new level and numbers at both ends of what is allowed."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(300, dim))
    Z[rng.random(Z.shape) < 0.1] = math.nan
    Z[:40, 0] = math.nan
    Z[:200, 1] = 3.0
    Z[rng.integers(300, size=9), 2] = 1e75
    Z[100:, 3] *= 1e6
    Z[:, 4] = math.nan
    Z[:, 5] *= 1e-300
    return Z


def played(cuts, step):
    for a, b in pairwise(cuts):
        step(a, b)


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_holes_are_filled_as_by_the_twin(cuts):
    Z = wild(0)
    value, seen, missing = np.zeros((2, 7)), np.zeros((2, 7)), np.zeros((2, 7))
    value[:, 6], seen[:, 6] = 5.0, 1.0
    outs = np.empty((2, *Z.shape))
    reference_rows.fill_rows(value[0], seen[0], missing[0], Z, outs[0])
    played(cuts, lambda a, b: kernels.fill_rows(value[1], seen[1], missing[1], Z[a:b], outs[1, a:b]))
    for twin, own in (outs, value, seen, missing):
        assert twin.tobytes() == own.tobytes()
    assert missing[0].tolist() == np.isnan(Z).sum(axis=0).tolist()


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
def test_rows_are_scaled_as_by_the_twin(cuts):
    Z = wild(1)
    scale, limit, exceeded = np.zeros((2, 7)), np.full((2, 7), 30.0), np.full((2, 7), -2.0)
    center = np.arange(7.0)
    scale[:, 2:4] = 0.5, 2.0
    scale[:, 5] = 1e-300
    outs = np.empty((2, *Z.shape))
    reference_rows.scale_rows(center, scale[0], limit[0], exceeded[0], 50, Z, outs[0])
    played(cuts, lambda a, b: kernels.scale_rows(center, scale[1], limit[1], exceeded[1], 50 + a, Z[a:b], outs[1, a:b]))
    for twin, own in (outs, scale, limit, exceeded):
        assert twin.tobytes() == own.tobytes()
    assert limit[0, 3] > 1e5, "what lasts is believed"


def test_arrays_that_do_not_fit_are_refused():
    Z, one = np.zeros((4, 3)), np.zeros(3)
    with pytest.raises(ValueError, match="the arrays of the rows do not fit together"):
        kernels.fill_rows(one, one, np.zeros(2), Z, np.empty_like(Z))
    with pytest.raises(ValueError, match="the arrays of the rows do not fit together"):
        kernels.scale_rows(one, one, one, one, 0, Z, np.empty((3, 3)))
