"""Fleets over a file with late labels, the calendar, texts, sorting, and outputs that people can read."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run
from undrift.stream.calendar import Calendar, find_calendar

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
    assert run(["fleet", "t.csv", *OPTIONS, "--calendar", "-o", "out"]) == 0
    plan = json.loads(Path("out/run.json").read_text())
    kept = [f"offer={text}" for text in frame["offer"].unique(maintain_order=True)]
    assert plan["features"] == ["price", *Calendar(hours=False).names(), *kept]
    one = frame.filter(pl.col("shop") == "s1")
    turn = 2.0 * np.pi * np.arange(60) / 7.0  # the first of January 2024 was a Monday
    year = 2.0 * np.pi * np.arange(60) / 365.2425
    waves = [f(angle) for angle in (turn, year) for f in (np.sin, np.cos)]
    Z = np.column_stack([one["price"], *waves, (np.arange(60) % 7 >= 5), *(one["offer"] == text[6:] for text in kept)])
    expected = ud.OnlineRegressor(speed="light").play(Z.astype(float), one["sales"].to_numpy()).yhat
    said = [float(row["prediction"]) for row in rows_of("out") if row["key"] == "s1" and row["prediction"]]
    assert said == pytest.approx(expected[1:].tolist(), rel=1e-9)


def test_more_texts_than_asked_for_are_learned_by_means_as_in_a_run(folder):
    frame = frame_of()
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--categories", "2", "-o", "out"]) == 0
    assert json.loads(Path("out/run.json").read_text())["features"] == ["price", "offer: recent mean", "offer: mean"]
    one = frame.filter(pl.col("shop") == "s1")
    stream = ud.Stream("sales", time="day", drop=["shop"], speed="light", categories=2).infer(frame)
    expected = stream.play(one).yhat
    said = [float(row["prediction"]) for row in rows_of("out") if row["key"] == "s1" and row["prediction"]]
    assert said == expected[1:].tolist()


def test_a_text_that_never_changes_within_a_key_is_left_out(folder, capsys):
    frame = frame_of().with_columns(town=pl.col("shop").replace({"s0": "Ulm", "s1": "Bonn", "s2": "Ulm"}))
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", *LOUD, "-o", "out"]) == 0
    out, err = capsys.readouterr()
    assert "'town' is the same in all rows of each key" in err
    assert "not used: town" in out
    assert not any("town" in name for name in json.loads(Path("out/run.json").read_text())["features"])
    assert run(["fleet", "t.csv", *LOUD, "-f", "price,town", "-o", "named"]) == 0
    assert json.loads(Path("named/run.json").read_text())["features"] == ["price", "town=Ulm", "town=Bonn"]


def test_two_columns_name_the_key_together(folder):
    frame = frame_of().with_columns(item=pl.Series(["a/b", "c"] * 90))
    frame.write_csv("t.csv")
    frame.with_columns(shop=pl.col("shop") + "/" + pl.col("item").str.replace("/", "~/")).drop("item").write_csv(
        "one.csv"
    )
    plain = ["-t", "sales", "--no-report", "-q"]
    assert run(["fleet", "t.csv", "-k", "shop,item", *plain, "-o", "out"]) == 0
    assert run(["fleet", "one.csv", "-k", "shop", *plain, "-o", "one"]) == 0
    two, one = rows_of("out"), rows_of("one")
    assert [{name: row[name] for name in one[0]} for row in two] == one
    assert {(row["shop"], row["item"]) for row in two} == {(f"s{k}", item) for k in range(3) for item in ("a/b", "c")}
    assert len(rows_of("out", "keys.csv")) == 6


def test_labels_that_come_late_are_learned_late_and_resumed(folder):
    frame = frame_of()
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--delay", "4", "-f", "price", "-o", "out"]) == 0
    one = frame.filter(pl.col("shop") == "s2")
    model = ud.OnlineRegressor(speed="light")
    trace = model.play(one.select("price").to_numpy(), one["sales"].to_numpy(), delay=4)
    said = [row["prediction"] for row in rows_of("out") if row["key"] == "s2"]
    assert [one == "" for one in said] == (~trace.known).tolist() == [True] * 5 + [False] * 55
    assert [float(one) for one in said[5:]] == trace.yhat[5:].tolist()

    frame[:90].write_csv("first.csv")
    assert run(["fleet", "first.csv", *OPTIONS, "--delay", "4", "-f", "price", "-o", "two"]) == 0
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
    for row in rows_of("out", "keys.csv"):
        assert float(row["rmse"]) ** 2 == pytest.approx(2.0 * float(row["mean_loss"]))
        own = [one for one in rows_of("out") if one["key"] == row["key"] and one["prediction"]]
        mean = np.mean([(float(one["prediction"]) - float(one["target"])) ** 2 for one in own])
        assert float(row["rmse"]) == pytest.approx(np.sqrt(mean))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lag", "2", "--delay", "3"], "lag 2 is not known yet when labels are 3 rows late; use a lag of at least 4"),
        (["--calendar"], "undrift fleet: --calendar needs the times of the rows; name their column with --time"),
        (["--sort"], "undrift fleet: --sort needs the times of the rows; name their column with --time"),
    ],
)
def test_what_a_fleet_cannot_do_is_said(folder, capsys, options, message):
    frame_of(5).write_csv("t.csv")
    assert run(["fleet", "t.csv", "-k", "shop", "-t", "sales", *options]) == 2
    assert message in capsys.readouterr().err
    assert not Path("t-fleet").exists()


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


def with_promo(texts):
    """A frame with a column of texts that decide about the sales, drawn at random."""
    frame, rng = frame_of(days=120), np.random.default_rng(4)
    drawn = rng.integers(0, len(texts), size=len(frame))
    promo = pl.Series("promo", np.array(texts)[drawn])
    return frame.select("shop", "day", "price", promo, (pl.col("price") + 5.0 * pl.Series(drawn)).alias("sales"))


@pytest.mark.parametrize("texts", [("no", "yes"), ("N", "Y"), ("off", "on"), ("false", "true"), ("card", "cash")])
def test_a_feature_of_two_texts_is_used(folder, texts, capsys):
    with_promo(texts).write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--features", "price,promo", "-o", "out"]) == 0
    assert {row["status"] for row in rows_of("out")} == {"ok"}
    assert all(float(row["skill"]) > 0.9 for row in rows_of("out", "keys.csv"))
    assert json.loads(Path("out/run.json").read_text())["features"][0] == "price"


def test_a_feature_that_says_no_in_all_first_rows_is_used_once_it_says_yes(folder, monkeypatch):
    frame = with_promo(("no", "yes"))
    late = pl.when(pl.arange(0, len(frame)) < 100).then(pl.lit("no")).otherwise(pl.col("promo"))
    frame.with_columns(promo=late, sales=pl.col("price") + 5.0 * (late == "yes")).write_csv("t.csv")
    monkeypatch.setattr("undrift.run.read.csv_file.BATCH_ROWS", 40)  # so that the first rows are 80
    assert run(["fleet", "t.csv", *OPTIONS, "--features", "price,promo", "-o", "out"]) == 0
    assert all(float(row["skill"]) > 0.9 for row in rows_of("out", "keys.csv"))


def test_a_feature_that_is_empty_so_far_is_a_number(folder):
    frame_of().with_columns(extra=pl.lit("")).write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--features", "price,extra", "-o", "out"]) == 0
    assert json.loads(Path("out/run.json").read_text())["features"] == ["price", "extra"]


def test_a_time_that_is_named_as_a_feature_is_refused(folder, capsys):
    frame_of().with_columns(pl.col("day").alias("other")).write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--features", "price,other", "-o", "out"]) == 2
    assert "--features 'other': that is a time, not a feature" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["%m/%d/%Y", "%d.%m.%Y", "%b %d, %Y", "%d/%m/%Y %H:%M", "%m/%d/%y %I:%M %p"])
@pytest.mark.parametrize("by", ["day", "shop"])
def test_times_are_found_as_people_write_them(folder, form, by, capsys):
    frame = frame_of().sort(by, maintain_order=True)
    frame.write_csv("iso.csv")
    frame.with_columns(pl.col("day").cast(pl.Datetime).dt.strftime(form)).write_csv("t.csv")
    for name in ("iso", "t"):
        assert run(["fleet", f"{name}.csv", *LOUD, "--calendar", "-o", name]) == 0
    assert rows_of("t") == rows_of("iso")
    assert f"'day' is read as a time written {form} (" in capsys.readouterr().err
    assert json.loads(Path("t/run.json").read_text())["time"] == ["day", form, "us"]


def test_what_may_be_day_or_month_first_is_not_guessed(folder, capsys):
    Path("t.csv").write_text("shop,day,x,sales\na,05/06/2024,1,2.5\na,07/08/2024,2,5\n")
    assert run(["fleet", "t.csv", *OPTIONS, "-o", "out"]) == 3
    assert "'day' may be written %m/%d/%Y or %d/%m/%Y ('05/06/2024'); pass one" in capsys.readouterr().err
    assert run(["fleet", "t.csv", *OPTIONS, "--time-format", "%d/%m/%Y", "-o", "out"]) == 0
    assert [row["time"][:10] for row in rows_of("out")] == ["2024-06-05", "2024-08-07"]


def huge_price(frame, share):
    """The frame with a price beyond what models take in this share of the rows, the last ones."""
    huge = pl.arange(0, len(frame)) >= (1.0 - share) * len(frame)
    return frame.with_columns(price=pl.when(huge).then(pl.lit(1e80)).otherwise(pl.col("price")))


LOUD = [one for one in OPTIONS if one != "-q"]


def test_a_file_of_which_most_is_unusable_says_so_in_one_line(folder, capsys):
    huge_price(frame_of(), 0.4).write_csv("some.csv")
    assert run(["fleet", "some.csv", *LOUD, "-o", "some"]) == 0
    assert "were not used" not in capsys.readouterr().err
    huge_price(frame_of(), 0.6).write_csv("most.csv")
    assert run(["fleet", "most.csv", *LOUD, "-o", "most"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "undrift: most.csv: 108 of 180 rows (60%) were not used, as feature 'price' is 1e+80, beyond 1e75; "
        "predictions.csv names each"
    ]


def test_an_order_that_never_changes_is_told(folder, capsys):
    frame_of().with_columns(n=pl.lit(7)).write_csv("t.csv")
    assert run(["fleet", "t.csv", "-k", "shop", "-t", "sales", "--order", "n", "--no-report", "-o", "out"]) == 0
    assert "177 of 180 rows (98%) were not used, as the order or time of each" in capsys.readouterr().err


def test_an_update_of_which_nothing_is_usable_is_bad_data(folder, capsys):
    frame = frame_of()
    frame[:90].write_csv("first.csv")
    huge_price(frame[90:], 1.0).write_csv("more.csv")
    assert run(["fleet", "first.csv", *OPTIONS, "-o", "out"]) == 0
    assert run(["update", "out", "more.csv", "--no-report", "-q"]) == 3
    assert "more.csv: no row could be learned; most often (90 rows) because feature 'price'" in capsys.readouterr().err


@pytest.mark.parametrize("speed", ["light", "fast", "best"])
def test_a_fleet_of_any_speed_is_a_loop_over_keys_without_trees(folder, speed):
    frame = frame_of(shops=2).drop("offer", "day")
    frame.write_csv("t.csv")
    assert run(["fleet", "t.csv", "-k", "shop", "-t", "sales", "--speed", speed, "--no-report", "-q", "-o", "out"]) == 0
    said = [row["prediction"] for row in rows_of("out") if row["key"] == "s1"]
    one = frame.filter(pl.col("shop") == "s1")
    model = ud.OnlineRegressor(speed=speed, trees=False)
    expected = model.play(one.select("price").to_numpy(), one["sales"].to_numpy()).yhat
    assert [float(text) for text in said[1:]] == expected[1:].tolist()


def test_the_calendar_alone_is_enough_for_several_classes(folder):
    frame = frame_of()
    weekday = np.array(["early", "middle", "late"])[np.arange(len(frame)) // 3 % 7 // 3]
    frame.select("shop", "day", pl.Series("sales", weekday)).write_csv("t.csv")
    assert run(["fleet", "t.csv", *OPTIONS, "--calendar", "-o", "out"]) == 0
    assert json.loads(Path("out/run.json").read_text())["features"] == Calendar(hours=False).names()
    assert all(float(row["log_loss"]) < float(row["most_frequent"]) for row in rows_of("out", "keys.csv"))


def test_a_slip_for_a_learned_column_is_refused_in_later_files(folder, capsys):
    frame = frame_of()
    frame[:90].write_csv("first.csv")
    frame[90:].rename({"price": "prices"}).write_csv("slip.csv")
    frame[90:].drop("price").write_csv("fewer.csv")
    assert run(["fleet", "first.csv", *OPTIONS, "-o", "out"]) == 0
    before = Path("out/predictions.csv").read_bytes()
    assert run(["update", "out", "slip.csv", "--no-report", "-q"]) == 2
    assert (
        "slip.csv: column 'prices' is unknown and 'price' is missing. Did you mean 'price'?" in capsys.readouterr().err
    )
    assert Path("out/predictions.csv").read_bytes() == before
    assert run(["update", "out", "fewer.csv", "--no-report", "-q"]) == 0


def test_tables_have_empty_cells_where_there_is_no_number(folder):
    Path("t.csv").write_text("a,y\nq,1\nr,2\nq,3.5\nr,5\nq,2\nonce,7\n")
    assert run(["fleet", "t.csv", "-k", "a", "-t", "y", "--lag", "1", "--no-report", "-q", "-o", "out"]) == 0
    for name in ("keys.csv", "predictions.csv"):
        assert "nan" not in Path("out", name).read_text()


def test_half_of_the_rows_unused_is_worth_a_sentence(folder, capsys):
    frame = frame_of()
    pl.concat([frame, frame]).write_csv("twice.csv")
    assert run(["fleet", "twice.csv", *LOUD, "-o", "out"]) == 0
    assert (
        "180 of 360 rows (50%) were not used, as the order or time of each was there before" in capsys.readouterr().err
    )
