"""A discount factor and the numbers that go with it."""

import math

import pytest

from undrift.discount import discount, from_eta
from undrift.errors import InputError


def test_gap_is_exact_for_very_long_memories():
    d = discount("x", None, 1e15)
    assert d.gap == pytest.approx(math.log(2) / 1e15, rel=1e-15)
    assert d.half_life == pytest.approx(1e15, rel=1e-15)


def test_eta_round_trips():
    for eta in (1e-3, 1.0, 1e9, 1e15):
        assert from_eta(eta).eta == pytest.approx(eta, rel=1e-15)
    assert from_eta(math.inf).half_life == math.inf


@pytest.mark.parametrize("bad", [0.0, -1.0, 1.5, math.nan, "a", None, True])
def test_beta_outside_the_interval_is_refused(bad):
    with pytest.raises(InputError, match=r"^x: beta must be"):
        discount("x", bad, None)
