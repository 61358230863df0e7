"""Rows that were served before features were added: read at the offsets they were written with."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import ModelFileError
from undrift.online import Table


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
    (block,) = model.ask_rows(rows_of(rng, names))
    assert served.interval(0.9).low < served.interval(0.9).high
    model.ask(rows_of(rng, [*names, *(f"new {k}" for k in range(added))]))
    found = model.find_pending(served.serial)
    assert (found.intervals, found.quantiles, found.yhat) == (served.intervals, served.quantiles, served.yhat)
    assert [one.intervals for one in model.pending[:1]] == [served.intervals]
    twin = model.copy()
    model.tell_rows([block], [1.5])
    twin.tell(twin.find_pending(block.serial), 1.5)
    probe = rows_of(rng, names)
    assert model.predict_interval(probe) == twin.predict_interval(probe)


def make_labels(kind, Z):
    if kind == "numbers":
        return (np.nan_to_num(Z) @ np.ones(Z.shape[1])).tolist()
    if kind == "two":
        return [int(z > 0.0) for z in np.nan_to_num(Z)[:, 0]]
    return [f"class {int(k)}" for k in np.argmax(np.nan_to_num(Z), axis=1)]


@pytest.mark.parametrize(
    ("kind", "speed"),
    [("numbers", "fast"), ("numbers", "max"), ("two", "light"), ("two", "max"), ("several", "light")],
)
def test_records_kept_elsewhere_are_learned_as_if_they_had_stayed(kind, speed):
    make = ud.OnlineRegressor if kind == "numbers" else ud.OnlineClassifier
    rng, names = np.random.default_rng(2), ["a", "b"]
    own, lent, served, kept = make(speed=speed), make(speed=speed), {}, {}
    if kind == "several":
        for model in (own, lent):
            model.learn({"a": 1.0, "b": 0.0}, "class 0")
    for t in range(330 if speed == "max" else 150):
        if t in (8, 100, 140):
            names = [*names, *(f"f{t} {k}" for k in range(3))]
        row = rows_of(rng, names)
        row.values[rng.random(row.values.shape) < 0.1] = np.nan
        served[t] = own.ask(row)
        other = lent.ask(row)
        np.testing.assert_array_equal(other.yhat, served[t].yhat)
        kept[t] = other.serial, lent.release_record(other.serial), make_labels(kind, row.values)[0]
        assert not lent.pending
        with_labels = rng.permutation(sorted(kept))[: len(kept) // 3].tolist()
        for k in with_labels:
            serial, record, y = kept.pop(k)
            label = np.nan if rng.random() < 0.1 else y
            own.tell(served.pop(k), label)
            lent.tell(lent.adopt_record(serial, record), label)
    for _, (serial, record, _) in sorted(kept.items()):
        lent.adopt_record(serial, record)
    assert lent == own
    assert len(own.pending) == len(kept) > 0
    for wrong in (record[:5], record[1:], record[:0], np.full(4, np.nan), np.zeros(40), record + 1.0):
        with pytest.raises(ModelFileError, match="cannot be used"):
            lent.adopt_record(serial, wrong)
