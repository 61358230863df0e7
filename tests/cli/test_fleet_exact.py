"""undrift fleet keeps keys, orders and times exact, whatever the file, and waits as long as it is told."""

import csv
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from undrift.errors import InputError
from undrift.stream.keyed.keys_and_orders import parse_wait

LARGE = [1_800_000_000_000_000_001 + k for k in range(4)]
"""Neighbours that are one number to a float."""
START = dt.datetime(2026, 1, 1)
FILES = ["f.parquet", "f.csv", "f.ndjson"]


def write(frame, name):
    if name.endswith("ndjson"):
        frame.write_ndjson(name)
    else:
        frame.write_parquet(name) if name.endswith("parquet") else frame.write_csv(name)


def told(folder="f-fleet"):
    return list(csv.DictReader(Path(folder, "predictions.csv").read_text(encoding="utf-8").splitlines()))


def found(call, name, *options):
    code, out, err = call("fleet", name, "-k", "k", "-t", "y", "-f", "x", "--no-report", "--json", *options)
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("name", FILES)
def test_neighbouring_64_bit_keys_stay_apart(call, name):
    write(pl.DataFrame({"k": 5 * LARGE, "x": np.ones(20), "y": np.arange(20) / 3}), name)
    assert found(call, name)["keys"] == 4
    assert {row["key"] for row in told()} == {str(key) for key in LARGE}


@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (pl.Series([2**64 - 1, 2**64 - 2, None], dtype=pl.UInt64), ["", str(2**64 - 2), str(2**64 - 1)]),
        (pl.Series([-1, 0, 1], dtype=pl.Int8), ["-1", "0", "1"]),
        (pl.Series([True, False, None]), ["", "False", "True"]),
        (pl.Series([1.0, 1.5, float("nan")]), ["", "1", "1.5"]),
        (pl.Series([dt.date(2026, 1, 1), dt.date(2026, 1, 2), None]), ["", "2026-01-01", "2026-01-02"]),
        (
            pl.Series([10**18 + 1, 10**18 + 2, None]).cast(pl.Datetime("ns")),
            ["", "2001-09-09T01:46:40.000000001", "2001-09-09T01:46:40.000000002"],
        ),
        (pl.Series([Decimal("1.10"), Decimal("1.20"), None]), ["", "1.10", "1.20"]),
        (pl.Series(["a", "b", None], dtype=pl.Categorical), ["", "a", "b"]),
    ],
    ids=lambda one: str(getattr(one, "dtype", "")),
)
def test_what_typed_keys_become(call, column, keys):
    write(pl.DataFrame({"k": column, "x": [1.0, 2.0, 3.0], "y": [0.5, 1.5, 2.5]}), "f.parquet")
    found(call, "f.parquet")
    assert sorted(row["key"] for row in told()) == keys


@pytest.mark.parametrize("name", FILES)
def test_neighbouring_64_bit_orders_stay_apart_and_sorted(call, name):
    write(pl.DataFrame({"k": "a", "n": LARGE[::-1], "x": np.ones(4), "y": [4.5, 3.5, 2.5, 1.5]}), name)
    assert found(call, name, "--order", "n")["problems"] == {}
    assert [(int(row["order"]), float(row["target"])) for row in told()] == list(
        zip(LARGE, (1.5, 2.5, 3.5, 4.5), strict=True)
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("unit", ["ns", "us"])
def test_times_100_of_their_finest_unit_apart_are_all_learned(call, name, unit):
    at = np.datetime64(START, unit) + np.arange(400) * np.timedelta64(100, unit)
    frame = pl.DataFrame({"k": "a", "at": at, "x": np.ones(400), "y": np.arange(400) / 7})
    if not name.endswith("parquet"):
        frame = frame.with_columns(at=pl.Series([str(one) + "Z" for one in at]))
    write(frame, name)
    facts = found(call, name, "--time", "at")
    assert (facts["rounds"], facts["problems"]) == (400, {})
    assert [int(row["order"]) for row in told()] == at.astype(np.int64).tolist()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_integers_since_1970_are_times_in_the_unit_of_their_size(call, name, unit):
    at = (np.datetime64(START, unit) + np.arange(30)).astype(np.int64)
    write(pl.DataFrame({"k": "a", "at": at[::-1], "x": np.ones(30), "y": np.arange(30)[::-1] / 7}), name)
    found(call, name, "--time", "at", "--wait", f"3{unit}")
    assert [int(row["order"]) for row in told()] == at.tolist()


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        (["0", "1", "2.5"], "'n' must be an integer, got 2.5"),
        (["0", "1.0", "1e400"], "'n' must be an integer, got '1e400'"),
        (["0", "-1", ""], "'n' is missing"),
        (["0", "1", "9223372036854775808"], "'n' must be at most 2^62 in size, got 9223372036854775808"),
        (["0", "1", "1_0"], "'n' must be an integer, got '1_0'"),
        (["0", "1", "true"], "'n' must be an integer, got 'true'"),
    ],
)
def test_single_orders_that_are_none_are_reported(call, orders, reason):
    write(pl.DataFrame({"k": "a", "n": orders, "x": np.ones(3), "y": [0.5, 1.5, 2.5]}), "f.csv")
    facts = found(call, "f.csv", "--order", "n")
    assert facts["rounds"] == 2
    assert facts["problems"][f"poison: {reason}"] == 1


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.25, 0.5, 0.75], "1: --order 'n' must be a column of integers of at most 2^62 in size, got 0.25"),
        ([2.0**60, 2.0**60, 2.0**60], "must be a column of integers of at most 2^62 in size, got 1.15292e+18"),
        (["a", "b", "c"], "must be a column of integers of at most 2^62 in size, got a; for times pass --time"),
        ([START, START, START], "must be a column of integers of at most 2^62 in size, got 2026-01-01"),
    ],
    ids=str,
)
def test_a_column_that_is_no_orders_is_refused_as_a_whole(call, name, column, message):
    if column[0] == 2.0**60 and name == "f.csv":
        pytest.skip("a text of digits is exact")
    write(pl.DataFrame({"k": "a", "n": column, "x": np.ones(3), "y": [0.5, 1.5, 2.5]}), name)
    code, out, err = call("fleet", name, "-k", "k", "-t", "y", "-f", "x", "--order", "n")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert message.replace("1: ", "") in err
    assert not Path("f-fleet").exists()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1767225600.5", "1767225601.5"], "counts s since 1970 in floats such as 1767225600.5"),
        (
            ["yesterday", "today"],
            "'yesterday' in 'at' is not a time; correct it, or say how times are written with --time-format",
        ),
        (
            ["2026-01-01T00:00:00.1234567891", "2026-01-02"],
            "is not a time; correct it, or say how times are written with --time-format",
        ),
    ],
)
def test_times_that_cannot_be_exact_are_refused(call, cells, message):
    write(pl.DataFrame({"k": "a", "at": cells, "x": np.ones(2), "y": [0.5, 1.5]}), "f.csv")
    code, out, err = call("fleet", "f.csv", "-k", "k", "-t", "y", "-f", "x", "--time", "at")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert message in err


def test_times_that_become_finer_further_down_are_refused(call):
    cells = ["2026-01-01"] * 10_000
    cells[9000] = "2026-01-02T00:00:00.000000001"
    write(pl.DataFrame({"k": range(10_000), "at": cells, "x": 1.0, "y": np.arange(10_000) / 7}), "f.csv")
    code, _, err = call("fleet", "f.csv", "-k", "k", "-t", "y", "-f", "x", "--time", "at", "--quiet")
    assert (code, err.count("\n")) == (3, 1)
    assert (
        "line 9002: '2026-01-02T00:00:00.000000001' in 'at' is finer than the first rows, which were taken as us" in err
    )


@pytest.mark.parametrize("wait", ["0", "90s", "2h", "1d"])
def test_no_row_is_lost_to_waiting_for_times(call, wait):
    at = pl.Series([START + dt.timedelta(minutes=m) for m in range(60)]).repeat_by(3).explode()
    frame = pl.DataFrame({"k": ["a", "b", "c"] * 60, "at": at, "x": np.ones(180), "y": np.arange(180) / 7})
    write(frame, "f.parquet")
    facts = found(call, "f.parquet", "--time", "at", "--wait", wait)
    assert (facts["rounds"], facts["problems"]) == (180, {})


def test_no_row_is_lost_to_waiting_for_orders(call):
    write(pl.DataFrame({"k": "a", "n": [2, 0, 1, 5, 4], "x": np.ones(5), "y": [2.5, 0.5, 1.5, 5.5, 4.5]}), "f.csv")
    facts = found(call, "f.csv", "--order", "n", "--wait", "64")
    assert (facts["rounds"], facts["problems"]) == (5, {"gap": 1})


@pytest.mark.parametrize(
    ("text", "unit", "orders"),
    [
        ("0", "us", 0), ("0s", "us", 0), ("90s", "s", 90), ("90s", "ns", 90 * 10**9), ("15m", "ms", 900_000),
        ("2h", "us", 7_200_000_000), ("1d", "s", 86_400), ("1ns", "us", 1), ("1500us", "ms", 2), ("64", None, 64),
    ],
)  # fmt: skip
def test_a_wait_is_orders_or_a_duration_never_shorter_than_asked(text, unit, orders):
    assert parse_wait(text, unit) == orders


@pytest.mark.parametrize(
    ("text", "unit", "allowed"),
    [
        ("90", "us", "a duration with a unit, such as 90s"), ("2h", None, "a whole number of orders, such as 64"),
        ("-1", None, "a whole number"), ("1.5h", "us", "a duration"), ("", None, "a whole number"), ("2 h", "us", "a"),
    ],
)  # fmt: skip
def test_other_waits_are_refused(text, unit, allowed):
    with pytest.raises(InputError, match=f"--wait must be {allowed}"):
        parse_wait(text, unit)
