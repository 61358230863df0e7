"""Rows served and settled in blocks are the same bits as `ask` and `tell` row by row."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.online import Table


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
        found = whole.ask_rows(rows)
        expected = [single.ask(Table(names[:width], z[None])) for z in Z]
        for one, other in zip(found, expected, strict=True):
            assert (one.serial, one.yhat, one.known) == (other.serial, other.yhat, other.known)
            if not binary:
                low, high = other.interval(0.8)
                assert one.bounds(0.8) == ((low, high) if np.isfinite(low) else (None, None))
        waiting += zip(found, expected, strict=True)
        rng.shuffle(waiting)
        told, waiting = waiting[:3], waiting[3:]
        y = (rng.random(3) < 0.5).astype(float) if binary else rng.normal(size=3)
        y[rng.random(3) < 0.1] = np.nan
        whole.tell_rows([one for one, _ in told], y)
        for (_, other), label in zip(told, y, strict=True):
            single.tell(other, label)
    assert whole.rounds == single.rounds > 100
    assert whole == single


def test_what_cannot_be_learned_is_refused_before_anything_is_learned():
    model, other = ud.OnlineRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    first, second = model.ask_rows(np.ones((2, 2)))
    stranger = other.ask_rows(np.zeros((9, 2)))[-1]
    with pytest.raises(InputError, match="the record of another model"):
        model.tell_rows([first, stranger], [1.0, 2.0])
    with pytest.raises(InputError, match="y"):
        model.tell_rows([first, second], [1.0, "two"])
    with pytest.raises(ValueError, match="shorter"):
        model.tell_rows([first, second], [1.0])
    assert model.rounds == 0
    model.tell_rows([second, first], [1.0, 2.0])
    assert model.rounds == 2
    with pytest.raises(InputError, match="row 1 was told or closed before"):
        model.tell_rows([first], [1.0])
