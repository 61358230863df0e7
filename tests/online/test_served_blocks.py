"""Rows served and settled in blocks are the same bits as `ask` and `tell` row by row."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.online import Table
from undrift.online.served_blocks import ask_rows, tell_rows


@pytest.mark.parametrize(("binary", "speed"), [(False, "fast"), (True, "fast"), (False, "max")])
def test_blocks_are_the_same_bits_as_single_rows(binary, speed):
    rng = np.random.default_rng(0)
    make = ud.OnlineClassifier if binary else ud.OnlineRegressor
    whole, single = make(speed=speed), make(speed=speed)
    names, waiting = ["a", "b", "c"], []
    for step in range(60):
        width = 2 if step < 30 else 3  # a feature that comes later
        Z = rng.normal(size=(4, width))
        Z[rng.random(Z.shape) < 0.1] = np.nan
        rows = Table(names[:width], Z)
        found = ask_rows(whole, rows, 0.8)
        expected = [single.ask(Table(names[:width], z[None])) for z in Z]
        for one, other in zip(found, expected, strict=True):
            assert one[:3] == (other.serial, other.yhat, other.known)
            if not binary:
                low, high = other.interval(0.8)
                assert (one.lower, one.upper) == ((low, high) if np.isfinite(low) else (None, None))
        waiting += expected
        rng.shuffle(waiting)
        told, waiting = waiting[:3], waiting[3:]
        y = (rng.random(3) < 0.5).astype(float) if binary else rng.normal(size=3)
        y[rng.random(3) < 0.1] = np.nan
        served = tell_rows(whole, [one.serial for one in told], y, 0.8)
        assert [one.yhat for one in served] == [one.yhat for one in told]
        for one, label in zip(told, y, strict=True):
            single.tell(one, label)
    assert whole.rounds == single.rounds > 100
    assert whole == single


def test_an_unknown_row_is_refused_before_anything_is_learned():
    model = ud.OnlineRegressor(speed="fast")
    first, second = ask_rows(model, np.ones((2, 2)))
    with pytest.raises(InputError, match="no row 9 waits for its label"):
        tell_rows(model, [first.serial, 9], [1.0, 2.0])
    assert model.rounds == 0
    assert len(tell_rows(model, [second.serial, first.serial], [1.0, 2.0])) == 2
