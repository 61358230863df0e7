"""Rows that were served before features were added: read at the offsets they were written with."""

import numpy as np
import pytest

import undrift as ud
from undrift.online import Table
from undrift.online.served_blocks import ask_rows, tell_rows


def rows_of(rng, names):
    return Table(names, rng.normal(size=(1, len(names))))


@pytest.mark.parametrize("speed", ["light", "fast", "best"])
@pytest.mark.parametrize("learned", [20, 120])  # during the warm-up, in which the core grows, and after it
@pytest.mark.parametrize("added", [1, 9, 70])
def test_an_interval_is_read_as_it_was_served_however_many_features_came_since(speed, learned, added):
    rng, names = np.random.default_rng(added), ["a", "b"]
    model = ud.OnlineRegressor(speed=speed)
    Z = rng.normal(size=(learned, 2))
    model.play(Table(names, Z), Z @ [1.0, 2.0] + rng.normal(size=learned))
    served = model.ask(rows_of(rng, names))
    (block,) = ask_rows(model, rows_of(rng, names))
    assert served.interval(0.9).low < served.interval(0.9).high
    model.ask(rows_of(rng, [*names, *(f"new {k}" for k in range(added))]))
    found = model.find_pending(served.serial)
    assert (found.intervals, found.quantiles, found.yhat) == (served.intervals, served.quantiles, served.yhat)
    assert [one.intervals for one in model.pending[:1]] == [served.intervals]
    twin = model.copy()
    assert tell_rows(model, [block.serial], [1.5]) == [block]
    twin.tell(twin.find_pending(block.serial), 1.5)
    probe = rows_of(rng, names)
    assert model.predict_interval(probe) == twin.predict_interval(probe)
