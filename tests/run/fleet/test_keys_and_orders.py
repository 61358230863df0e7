"""Keys and orders are exact: no integer and no time is rounded on its way into a fleet."""

import datetime as dt
import decimal
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.stream.keyed.outputs import OK

LARGE = [1_800_000_000_000_000_001 + k for k in range(4)]
"""Neighbours that are one number to a float."""
START = dt.datetime(2026, 1, 1)


def fleet_of(**more):
    return ud.Fleet(ud.DiscountedVAW(half_life=10), **{"key": "k", "features": ["x"], "target": "y", **more})


def frames(columns):
    """The same columns in every library."""
    return {"polars": pl.DataFrame(columns), "pandas": pd.DataFrame(columns), "pyarrow": pa.table(columns)}


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", "mappings"])
def test_neighbouring_64_bit_keys_stay_apart(library, tmp_path):
    columns = {"k": LARGE, "x": [1.0] * 4, "y": [1.0, 2.0, 3.0, 4.0]}
    data = pl.DataFrame(columns).to_dicts() if library == "mappings" else frames(columns)[library]
    assert sorted(fleet_of().run(data).keys()) == LARGE
    assert fleet_of().run(data, folder=tmp_path).keys() == LARGE


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (2**64 - 1, 2**64 - 1),
        (-(2**64), -(2**64)),
        (-1, -1),
        (np.uint64(2**63), 2**63),
        (3.0, 3),
        (True, "True"),
        (np.bool_(False), "False"),
        ("007", "007"),
        ("", ""),
        (dt.date(2026, 1, 1), "2026-01-01"),
        (START, "2026-01-01 00:00:00"),
        (pd.Timestamp("2026-01-01 00:00:00.000000001"), "2026-01-01 00:00:00.000000001"),
        (np.datetime64("2026-01-01T00:00:00.000000001"), "2026-01-01T00:00:00.000000001"),
        (decimal.Decimal("1.50"), "1.50"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ],
)
def test_what_a_key_becomes(value, key, tmp_path):
    rows = [{"k": value, "x": 1.0, "y": 2.0}]
    for run in (fleet_of().run(rows), fleet_of().run(rows, folder=tmp_path)):
        assert run.keys() == [key]
        assert type(run.keys()[0]) is type(key)
        assert run.outputs.keys == [key]
        assert run.info(key).rounds == 1


def test_true_and_one_are_two_keys(tmp_path):
    rows = [{"k": key, "x": 1.0, "y": 2.0} for key in (True, 1, "1", 1.0, 2**70)]
    run = fleet_of().run(rows, folder=tmp_path)
    assert {key: run.info(key).rounds for key in run.states} == {1: 2, "1": 1, "True": 1, 2**70: 1}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "key 'k' is missing"),
        (float("nan"), "key 'k' is missing"),
        (pd.NA, "key 'k' is missing"),
        (pd.NaT, "key 'k' is missing"),
        (np.datetime64("NaT"), "key 'k' is missing"),
        (1.5, "key 'k' must be text or an integer, got 1.5"),
        (float(LARGE[0]), "key 'k' must be text or an integer, got 1.8e+18"),
        (float("inf"), "key 'k' must be text or an integer, got inf"),
        (2**130, "key 'k' must be text or an integer, got 1361129467683753853853498429727072845824"),
        (b"ab", "key 'k' must be text or an integer, got b'ab'"),
        ("\ud800", "key 'k' must be text that can be encoded, got '\\ud800'"),
    ],
)
def test_what_is_no_key_is_reported(value, reason, tmp_path):
    run = fleet_of().run([{"k": value, "x": 1.0, "y": 2.0}, {"k": "a", "x": 1.0, "y": 2.0}], folder=tmp_path)
    assert run.keys() == ["a"]
    assert list(run.outputs.reasons.values()) == [reason]


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow"])
def test_times_as_keys_keep_their_nanoseconds(library):
    times = np.array(["2026-01-01T00:00:00.000000001", "2026-01-01T00:00:00.000000002", "NaT"], "datetime64[ns]")
    run = fleet_of().run(frames({"k": times, "x": [1.0] * 3, "y": [2.0] * 3})[library])
    assert run.keys() == ["2026-01-01 00:00:00.000000001", "2026-01-01 00:00:00.000000002"]
    assert run.outputs.count() == {"ok": 2, "poison": 1}


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", "mappings"])
def test_neighbouring_64_bit_orders_stay_apart_and_sorted(library):
    columns = {"k": ["a"] * 4, "n": LARGE[::-1], "x": [1.0] * 4, "y": [4.0, 3.0, 2.0, 1.0]}
    data = pl.DataFrame(columns).to_dicts() if library == "mappings" else frames(columns)[library]
    outputs = fleet_of(order="n").run(data).outputs
    assert outputs.count() == {"ok": 4}
    assert (outputs.order.tolist(), outputs.target.tolist()) == (LARGE, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", "mappings"])
@pytest.mark.parametrize("hole", [False, True])
def test_nanoseconds_apart_are_two_orders(library, hole):
    at = np.datetime64(START, "ns") + np.arange(400) * np.timedelta64(100, "ns")
    at = np.append(at, np.datetime64("NaT")) if hole else at
    columns = {"k": ["a"] * len(at), "at": at, "x": np.ones(len(at)), "y": np.arange(len(at)) * 1.0}
    data = frames(columns)[library] if library != "mappings" else pd.DataFrame(columns).to_dict("records")
    outputs = fleet_of(order="at", numbered=False, time_unit="ns").run(data).outputs
    assert outputs.count() == {"ok": 400} | ({"poison": 1} if hole else {})
    learned = outputs.order[outputs.status == OK]
    assert learned.tolist() == at[:400].astype(np.int64).tolist()
    if library == "mappings":
        reasons = fleet_of(order="at", numbered=False).run(data).outputs.reasons.values()
        assert sum("is finer than us" in why for why in reasons) == 360
    else:
        with pytest.raises(InputError, match='finer than microseconds; pass time_unit="ns"'):
            fleet_of(order="at", numbered=False).run(data)


def test_zones_and_coarser_units_are_the_same_instants():
    utc = pl.Series("at", [START, START + dt.timedelta(hours=1)])
    wanted = utc.dt.timestamp("us").to_list()
    for column in (
        utc.dt.cast_time_unit("ms"),
        utc.dt.cast_time_unit("ns"),
        utc.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"),
    ):
        frame = pl.DataFrame({"k": ["a", "a"], "at": column, "x": [1.0, 1.0], "y": [1.0, 2.0]})
        assert fleet_of(order="at", numbered=False).run(frame).outputs.order.tolist() == wanted
    finer = fleet_of(order="at", numbered=False, time_unit="ns")
    assert finer.run(frame).outputs.order.tolist() == [1000 * one for one in wanted]
    with pytest.raises(InputError, match="times before 1823 or after 2116"):
        finer.run(frame.with_columns(at=pl.lit(dt.datetime(9000, 1, 1))))


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        ([0, 1, 2**63], "'n' must be at most 2^62 in size, got 9223372036854775808"),
        ([0, 1, None], "'n' is missing"),
        ([0.0, 1.0, float("nan")], "'n' is missing"),
        ([-1.0, 0.0, 0.5], "'n' must be an integer, got 0.5"),
        ([-(2**62), 0.0, 2.0**60], "'n' is 1.15292e+18, a float beyond 2^53, which does not tell integers apart"),
    ],
)
def test_single_orders_that_are_none_are_reported(orders, reason):
    rows = [{"k": "a", "n": n, "x": 1.0, "y": 2.0} for n in orders]
    outputs = fleet_of(order="n", numbered=False).run(rows).outputs
    assert outputs.count() == {"ok": 2, "poison": 1}
    assert list(outputs.reasons.values()) == [reason]


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([0.5, 1.5, 2.0], "column 'n' must be integers or times: 'n' must be an integer, got 0.5; convert it first"),
        ([1.8e18, 1.8e18], "a float beyond 2^53"),
        (np.array([2**63, 2**63 + 1], np.uint64), "at most 2^62 in size"),
    ],
)
def test_a_column_that_is_no_orders_is_refused_as_a_whole(orders, message):
    n = len(orders)
    frame = pl.DataFrame({"k": ["a"] * n, "n": orders, "x": [1.0] * n, "y": [1.0] * n})
    with pytest.raises(InputError) as caught:
        fleet_of(order="n").run(frame)
    assert message in str(caught.value)


def test_a_wait_can_be_a_duration():
    fleet = fleet_of(order="at", numbered=False, wait=dt.timedelta(minutes=2))
    assert fleet.wait == 120_000_000
    assert fleet_of(order="at", numbered=False, wait=dt.timedelta(minutes=2), time_unit="ns").wait == 120_000_000_000
    minutes = [0, 2, 1, 3, 5, 4, 9]
    rows = [{"k": "a", "at": START + dt.timedelta(minutes=m), "x": 1.0, "y": float(m)} for m in minutes]
    run = fleet.run(rows, batch=1)
    assert run.outputs.target.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    ended = fleet.run(rows, batch=1, finish=True)
    assert ended.outputs.target.tolist() == [float(m) for m in sorted(minutes)]
    assert ended.outputs.count() == {"ok": 7}


def test_finishing_gives_the_same_bits_in_memory_and_in_a_folder(tmp_path):
    rows = [{"k": k, "n": n, "x": 1.0, "y": float(n * k)} for n in (3, 1, 2, 9) for k in range(5)]
    fleet = fleet_of(order="n", wait=50)
    whole, kept = fleet.run(rows, finish=True), fleet.run(rows, folder=tmp_path, batch=3, finish=True)
    assert whole.outputs.count() == {"ok": 20, "gap": 5}
    assert kept.outputs.canonical() == whole.outputs.canonical()
    assert dict(kept.states) == dict(whole.states)
    again = fleet.run(rows, folder=tmp_path, batch=3, finish=True)
    assert again.outputs.canonical() == whole.outputs.canonical()
