"""Compiled fills, scales, cuts and hinted answers against their NumPy twins, to the bit, however rounds are cut."""

import math
from itertools import pairwise

import numpy as np
import pytest

from undrift import kernels
from undrift.kernels import reference_rows

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


@pytest.mark.parametrize("cuts", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("bound", [0.0, 2.0])
def test_labels_are_cut_as_by_the_twin(cuts, bound):
    y = np.nan_to_num(wild(2)[:, 3])
    y[:10] = 0.0
    y[::37] *= 1e9
    states, outs = np.array([[0.0, bound, -2.0]] * 2), np.empty((2, 300))
    reference_rows.despike_labels(states[0], 8.0, 50, y, outs[0])
    played(cuts, lambda a, b: kernels.despike_labels(states[1], 8.0, 50 + a, y[a:b], outs[1, a:b]))
    assert states[0].tobytes() == states[1].tobytes()
    assert outs[0].tobytes() == outs[1].tobytes()
    assert (outs[0] != y).any()


@pytest.mark.parametrize("width", [5, 10])
def test_hinted_answers_have_the_bits_of_the_twin(width):
    rng = np.random.default_rng(3)
    m, h, hint = rng.normal(size=(60, 5)), 10.0 ** rng.uniform(-20, 20, size=(60, 5)), rng.normal(size=60)
    outs = np.empty((2, 60, width))
    reference_rows.hinted_answers(m, h, hint, 3.0, outs[0])
    kernels.hinted_answers(m, h, hint, 3.0, outs[1])
    assert outs[0].tobytes() == outs[1].tobytes()


def test_arrays_that_do_not_fit_are_refused():
    Z, one, state = np.zeros((4, 3)), np.zeros(3), np.zeros(3)
    with pytest.raises(ValueError, match="the arrays of the rows do not fit together"):
        kernels.fill_rows(one, one, np.zeros(2), Z, np.empty_like(Z))
    with pytest.raises(ValueError, match="the arrays of the rows do not fit together"):
        kernels.scale_rows(one, one, one, one, 0, Z, np.empty((3, 3)))
    with pytest.raises(ValueError, match="the arrays of the labels do not fit together"):
        kernels.despike_labels(state, 8.0, 0, one, np.empty(2))
    with pytest.raises(ValueError, match="the arrays of the answers do not fit together"):
        kernels.hinted_answers(Z, Z, np.zeros(4), 1.0, np.empty((4, 5)))
