"""Fleets over a file with late labels, the calendar, texts, sorting, and outputs that people can read."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run
from undrift.errors import InputError
from undrift.run.prepare.calendar import Calendar, find_calendar
from undrift.serve.first_states import begin_with_fleet

OPTIONS = ["-k", "shop", "-t", "sales", "--time", "day", "--no-report", "-q"]


def frame_of(days=60, shops=3, seed=0):
    rng = np.random.default_rng(seed)
    day = np.repeat(np.datetime64("2024-01-01") + np.arange(days), shops)
    shop = np.tile([f"s{k}" for k in range(shops)], days)
    price, n = rng.normal(size=days * shops), days * shops
    offer = np.array(["no", "small", "large"])[rng.integers(0, 3, size=n)]
    sales = 3.0 + price + 2.0 * (offer == "large") + 0.1 * rng.normal(size=n)
    return pl.DataFrame({"shop": shop, "day": day, "price": price, "offer": offer, "sales": sales})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(folder, name="predictions.csv"):
    return list(csv.DictReader(Path(folder, name).read_text().splitlines()))


def test_texts_and_the_calendar_are_features_of_every_key(folder):
    frame = frame_of()
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--categories", "2", "--calendar", "-o", "out"]) == 0
    plan = json.loads(Path("out/fleet.json").read_text())
    kept = [name for name in plan["features"] if name.startswith("offer=")]
    assert plan["features"] == ["price", *Calendar(hours=False).names(), *kept]
    most = frame["offer"].value_counts(sort=True)["offer"][:2].to_list()
    assert sorted(kept) == sorted(f"offer={text}" for text in most)
    one = frame.filter(pl.col("shop") == "s1")
    turn = 2.0 * np.pi * np.arange(60) / 7.0  # the first of January 2024 was a Monday
    year = 2.0 * np.pi * np.arange(60) / 365.2425
    waves = [f(angle) for angle in (turn, year) for f in (np.sin, np.cos)]
    Z = np.column_stack([one["price"], *waves, (np.arange(60) % 7 >= 5), *(one["offer"] == text[6:] for text in kept)])
    expected = ud.OnlineRegressor(speed="light").play(Z.astype(float), one["sales"].to_numpy()).yhat
    said = [float(row["prediction"]) for row in rows_of("out") if row["key"] == "s1" and row["prediction"]]
    assert said == pytest.approx(expected[1:].tolist(), rel=1e-9)


def test_labels_that_come_late_are_learned_late_and_resumed(folder):
    frame = frame_of()
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--delay", "4", "-o", "out"]) == 0
    one = frame.filter(pl.col("shop") == "s2")
    model = ud.OnlineRegressor(speed="light")
    trace = model.play(one.select("price").to_numpy(), one["sales"].to_numpy(), delay=4)
    said = [row["prediction"] for row in rows_of("out") if row["key"] == "s2"]
    assert [one == "" for one in said] == (~trace.known).tolist() == [True] * 5 + [False] * 55
    assert [float(one) for one in said[5:]] == trace.yhat[5:].tolist()

    frame[:90].write_csv("first.csv")
    assert run(["fleet", "first.csv", *OPTIONS, "--delay", "4", "-o", "two"]) == 0
    assert run(["update", "two", "t.csv", "--no-report", "-q"]) == 0
    assert sorted(map(str, rows_of("two"))) == sorted(map(str, rows_of("out")))


def test_a_fleet_with_a_delay_is_a_loop_over_keys():
    rng = np.random.default_rng(1)
    records = [{"k": k, "n": n, "x": rng.normal(), "y": rng.normal()} for n in range(40) for k in "ab"]
    fleet = ud.Fleet(ud.DiscountedVAW(), key="k", order="n", features=["x"], target="y", delay=3)
    run_ = fleet.run(records, batch=17)
    own = [row for row in records if row["k"] == "b"]
    trace = ud.DiscountedVAW().play([[row["x"]] for row in own], [row["y"] for row in own], delay=3)
    said = [one.prediction for one in run_.outputs if one.key == "b"]
    assert said[4:] == trace.yhat[4:].tolist()
    assert said[:4] == [None] * 4
    assert run_.states == fleet.run(records).states
    assert fleet.about["delay"] == 3


def test_newest_first_is_sorted_and_times_are_written(folder):
    frame = frame_of()
    frame.write_csv("t.csv")
    frame.reverse().write_csv("back.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "-o", "out"]) == 0
    assert run(["fleet", "back.csv", *OPTIONS, "--sort", "-o", "sorted"]) == 0
    one, two = rows_of("out"), rows_of("sorted")
    assert sorted(map(str, one)) == sorted(map(str, two))
    assert one[0]["time"] == "2024-01-01T00:00:00.000000"
    assert {row["time"][:10] for row in one} == {str(day) for day in frame["day"].to_list()}


def test_errors_are_in_the_units_of_the_target(folder, capsys):
    frame_of().write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "-o", "out"]) == 0
    said = capsys.readouterr().out
    assert "typical error" in said
    assert "mean loss" not in said
    assert "left out, as they are no numbers: offer (--categories 20 uses texts)" in said
    for row in rows_of("out", "keys.csv"):
        assert float(row["rmse"]) ** 2 == pytest.approx(2.0 * float(row["mean_loss"]))
        own = [one for one in rows_of("out") if one["key"] == row["key"] and one["prediction"]]
        mean = np.mean([(float(one["prediction"]) - float(one["target"])) ** 2 for one in own])
        assert float(row["rmse"]) == pytest.approx(np.sqrt(mean))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--time", "day", "--lag", "1"], "--lag is for undrift run; the models of a fleet see the last labels"),
        (["--calendar"], "undrift fleet: --calendar needs the times of the rows; name their column with --time"),
        (["--sort"], "undrift fleet: --sort needs the times of the rows; name their column with --time"),
    ],
)
def test_what_a_fleet_cannot_do_is_said(folder, capsys, options, message):
    frame_of(5).write_csv("t.csv")
    assert run(["fleet", "t.csv", "-k", "shop", "-t", "sales", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("t-fleet").exists()


def test_a_fleet_with_features_of_its_own_is_not_served(folder):
    frame_of().write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--calendar", "-o", "out"]) == 0
    refused = pytest.raises(InputError, match=r"its models see texts or the calendar \('weekday sin'\)")
    with refused, begin_with_fleet(Path("out")):
        pass


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (np.arange("2024-01", "2026-01", dtype="datetime64[M]"), Calendar(hours=False, days=False)),
        (np.arange("2024-01-01", "2024-03-01", 7, dtype="datetime64[D]"), Calendar(hours=False, days=False)),
        (np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]"), Calendar(hours=False, days=True)),
        (np.arange("2024-01-01", "2024-01-05", dtype="datetime64[h]"), Calendar(hours=True, days=True)),
    ],
)
def test_the_calendar_has_what_tells_rows_apart(times, expected):
    given = np.append(times.astype("datetime64[us]"), np.datetime64("NaT"))
    assert find_calendar(given) == expected
    assert ("weekend" in expected.names()) == expected.days


def test_months_have_no_weekdays(folder):
    months = np.arange("2010-01", "2020-01", dtype="datetime64[M]").astype("datetime64[D]")
    y = 5.0 + np.cos(2.0 * np.pi * np.arange(120) / 12.0)
    pl.DataFrame({"month": months, "x": np.arange(120) % 5, "y": y}).write_csv("m.csv")
    assert run(["run", "m.csv", "-t", "y", "--calendar", "--no-report", "--no-certify", "-q", "-o", "out"]) == 0
    assert json.loads(Path("out/run.json").read_text())["features"] == ["x", "year sin", "year cos"]
