"""Orders that are times: increasing with gaps, remembered in arrays, to the bits of the pure function."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from undrift.fleet import canonical
from undrift.stream.keyed.order_tracker import REMEMBERED, OrderTracker, ReleasedRanges


def fleet_of(**more):
    model = ud.linear_ensemble(100)
    return ud.Fleet(model, key="key", order="at", features=["a", "b"], target="y", numbered=False, **more)


def records(keys, rounds, seed, spoiled=0.0):
    """Records with random gaps; spoiled: copies, records that come too late, no label."""
    rng = np.random.default_rng(seed)
    rows, clock = [], dict.fromkeys(range(keys), -5)
    for _ in range(rounds):
        for key in rng.permutation(keys).tolist():
            clock[key] += int(rng.integers(1, 4))
            a, b, y = rng.normal(size=3).tolist()
            rows.append({"key": key, "at": clock[key], "a": a, "b": b, "y": y if rng.random() >= spoiled else None})
            if rng.random() < spoiled:
                old = rows[int(rng.integers(len(rows)))]
                rows.append({**old, "at": old["at"] - int(rng.integers(2))})
    return rows


def stepped(fleet, rows, cut):
    """States and rows of the pure function, batch by batch and key by key."""
    states, said = {}, []
    for a in range(0, len(rows), cut):
        some = rows[a : a + cut]
        for key in dict.fromkeys(row["key"] for row in some):
            states[key], outputs = fleet.advance(states.get(key), [row for row in some if row["key"] == key])
            said += outputs
    return states, said


@pytest.mark.parametrize("spoiled", [0.0, 0.02])
def test_times_give_the_bits_of_the_pure_function(spoiled):
    rows, fleet = records(4, 2 * REMEMBERED, seed=1, spoiled=spoiled), fleet_of()
    states, said = stepped(fleet, rows, 50)
    run = fleet.run(rows, batch=50)
    assert canonical(run.outputs) == canonical(said)
    assert dict(run.states) == states
    again = fleet.run(rows[300:], states=fleet.run(rows[:300], batch=50).states, batch=50)
    assert dict(again.states) == states
    statuses = run.outputs.count().keys()
    assert statuses == ({"ok", "predicted", "duplicate", "late"} if spoiled else {"ok"})


def test_plain_times_never_take_the_long_way(monkeypatch):
    rows, fleet = records(5, 200, seed=2), fleet_of()
    monkeypatch.setattr(ud.Fleet, "advance", None)
    assert fleet.run(rows, batch=77).outputs.count() == {"ok": 1000}


def test_dates_of_a_data_frame_are_times():
    rows, fleet = records(3, 100, seed=3), fleet_of()
    begin = dt.datetime(2026, 1, 1)
    dated = [{**row, "at": begin + dt.timedelta(minutes=row["at"])} for row in rows]
    frame = pl.DataFrame(dated)
    numbers = frame.with_columns(at=pl.col("at").dt.timestamp("us"))
    assert dict(fleet.run(frame, batch=40).states) == dict(fleet.run(numbers.to_dicts(), batch=29).states)


def test_a_state_that_remembers_more_goes_the_long_way():
    patient, fleet = fleet_of(wait=300), fleet_of()
    rows = [{"key": 0, "at": 2 * n, "a": 1.0, "b": 0.5, "y": float(n)} for n in range(300)]
    state, _ = patient.finish(patient.advance(None, rows[:200]).state, 0)
    expected, said = fleet.advance(state, rows[200:])
    run = fleet.run(rows[200:], states={0: state}, batch=9)
    assert run.states[0] == expected
    assert canonical(run.outputs) == canonical(said)


@given(seed=st.integers(0, 2**32 - 1), slots=st.integers(1, 4), batches=st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_stacked_ranges_are_those_of_single_trackers(seed, slots, batches):
    rng = np.random.default_rng(seed)
    ranges, trackers = ReleasedRanges(), [OrderTracker() for _ in range(slots)]
    ranges.grow(0, slots)
    last = np.zeros(slots, np.int64)
    for _ in range(batches):
        slot = np.sort(rng.integers(0, slots, int(rng.integers(1, 150))))
        order = np.empty(len(slot), np.int64)
        for i, k in enumerate(slot):
            last[k] += int(rng.choice([1, 1, 2, 50]))
            order[i] = last[k]
            trackers[k].observe(int(order[i]), 0)
            trackers[k].release(int(order[i]), 0)
        ranges.release(slot, order, np.flatnonzero(np.diff(slot, prepend=-1)))
    for k, tracker in enumerate(trackers):
        assert ranges.read(k) == (tracker.ranges, tracker.forgotten)
        ranges.write(k, tracker)
        assert ranges.read(k) == (tracker.ranges, tracker.forgotten)
