"""Labels of earlier rows of a key as features: the same bits as a loop over keys, however the stream is cut."""

import csv
import json
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.helpers import draw_records
from undrift.cli.app import run
from undrift.errors import InputError

FIELDS = {"key": "k", "order": "n", "features": ["x"], "target": "y"}
LAGS = (1, 3)


def fleet_of(**more):
    return ud.Fleet(ud.OnlineRegressor(speed="light"), **{**FIELDS, "lags": LAGS, **more})


def random_walks(rows=60, keys="ab", seed=0):
    return draw_records(rows, lambda x, noise: noise.cumsum(axis=0), keys=keys, seed=seed)


def with_lags(records, key, known=lambda row, now: True):
    """Return the rows of a key as matrices: x, and the labels 1 and 3 rows ago where they are known."""
    own = [one for one in records if one["k"] == key]
    y = np.array([one["y"] for one in own], float)
    lagged = [[y[t - lag] if t >= lag and known(t - lag, t) else np.nan for lag in LAGS] for t in range(len(own))]
    return np.column_stack([[one["x"] for one in own], lagged]), y


@pytest.mark.parametrize("delay", [0, 2])
def test_a_fleet_with_lags_is_a_loop_over_keys(delay):
    records = random_walks()
    lags = (3, 5) if delay else LAGS
    fleet = fleet_of(lags=lags, delay=delay)
    found = fleet.run(records, batch=17)
    for key in "ab":
        own = [one for one in records if one["k"] == key]
        y = np.array([one["y"] for one in own])
        columns = [np.concatenate((np.full(lag, np.nan), y[:-lag])) for lag in lags]
        model = ud.OnlineRegressor(speed="light")
        yhat = model.play(np.column_stack([[one["x"] for one in own], *columns]), y, delay=delay).yhat
        said = [one.prediction for one in found.outputs if one.key == key]
        assert [one for one in said if one is not None] == yhat[-sum(one is not None for one in said) :].tolist()
        assert found.model(key) == model


def test_cuts_workers_disorder_and_folders_change_no_bit(tmp_path):
    records = random_walks()
    whole = fleet_of(wait=6).run(records, finish=True)
    mixed = sorted(records, key=lambda one: one["n"] + 5.9 * np.random.default_rng(one["n"]).random())
    cut = fleet_of(wait=6).run(mixed, batch=7, finish=True)
    kept = fleet_of(wait=6).run(mixed, folder=tmp_path / "f", batch=11, finish=True)
    assert whole.outputs.canonical() == cut.outputs.canonical() == kept.outputs.canonical()
    assert dict(whole.states) == dict(cut.states) == dict(kept.states)


def test_a_label_that_comes_later_is_a_lag_from_then_on():
    records = random_walks(20, "a")
    asked = [{**one, "y": None} if 10 <= one["n"] < 12 else one for one in records]
    fleet = fleet_of()
    state, _ = fleet.advance(None, asked[:12])
    state, out = fleet.advance(state, [records[10], asked[12], asked[13]])
    assert [one.status for one in out] == ["labelled", "ok", "ok"]
    Z, y = with_lags(records, "a", lambda row, now: row != 11 and (row != 10 or now >= 12))
    model = ud.OnlineRegressor(speed="light")
    model.play(Z[:10], y[:10])
    served, _ = model.ask(Z[10]), model.ask(Z[11])
    model.tell(served, y[10])
    model.play(Z[12:14], y[12:14])
    assert fleet.model(state) == model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": [2], "delay": 2}, r"lags must be different numbers above the delay, 2, got \[2\]"),
        ({"lags": [2, 2]}, "lags must be different numbers"),
        ({"lags": 7}, "lags must be a list of whole numbers, got 7"),
        ({"lags": [0]}, "lags must be"),
        ({"make_model": ud.DiscountedVAW()}, "lags need a model that takes missing values"),
    ],
)
def test_lags_that_cannot_be_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        ud.Fleet(**{"make_model": ud.OnlineRegressor(), **FIELDS, "lags": [1], **options})


def rows_of(folder, name="predictions.csv"):
    return sorted(map(tuple, csv.reader((folder / name).read_text().splitlines())))


def states(folder):
    db = sqlite3.connect(folder / "fleet.db")
    try:
        return dict(db.execute("SELECT key, state FROM states").fetchall())
    finally:
        db.close()


def write(path, records):
    lines = [f"{one['k']},{one['n']},{one['y']:.6f}" for one in records]
    path.write_text("\n".join(["k,n,y", *lines]) + "\n")
    return str(path)


def test_the_command_learns_from_lags_alone_and_an_update_leaves_the_same_states(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = random_walks(80)
    season = np.tile([0.0, 5.0, -3.0, 8.0], 20)
    for one in records:
        one["y"] = season[one["n"]] + 0.01 * one["y"]
    options = ["-k", "k", "-t", "y", "--order", "n", "--lag", "4", "--no-report", "-q"]
    assert run(["fleet", write(Path("whole.csv"), records), *options, "-o", "whole", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["features"] == ["y 4 rows ago"]
    keys = list(csv.DictReader(Path("whole/keys.csv").read_text().splitlines()))
    for row in keys:  # the value of a season ago is a naive guess, and as good as what was learned from it
        assert float(row["same_as_4_rows_ago"]) < 0.2 * float(row["last_value"])
        assert float(row["skill"]) == pytest.approx(1.0 - float(row["mean_loss"]) / float(row["same_as_4_rows_ago"]))
        assert float(row["mean_loss"]) < 0.2 * float(row["last_value"])
    assert run(["fleet", write(Path("first.csv"), records[:90]), *options, "-o", "first"]) == 0
    assert run(["update", "first", write(Path("more.csv"), records[90:]), "--no-report", "-q"]) == 0
    assert rows_of(Path("first")) == rows_of(Path("whole"))
    assert states(Path("first")) == states(Path("whole"))
    assert run(["fleet", "whole.csv", *options[:-4], "--lag", "2", "--no-report", "-q", "-o", "whole"]) == 2
    assert "this fleet has lags = [4], not [" in capsys.readouterr().err


def test_days_are_held_against_the_same_day_of_last_week(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    week, days = rng.normal(scale=5.0, size=7), np.datetime64("2024-01-01") + np.arange(140)
    lines = [f"{key},{day},{week[n % 7] + rng.normal():.5f},{n % 3}" for n, day in enumerate(days) for key in "ab"]
    Path("s.csv").write_text("\n".join(["k,day,y,x", *lines]) + "\n")
    assert run(["fleet", "s.csv", "-k", "k", "-t", "y", "--time", "day", "-q", "-o", "f"]) == 0
    keys = list(csv.DictReader(Path("f/keys.csv").read_text().splitlines()))
    values = pl.read_csv("s.csv")
    for row in keys:
        y = values.filter(pl.col("k") == row["key"])["y"].to_numpy()
        guess = np.concatenate((y[:1] * 0.0, y[:6], y[:-7]))
        assert float(row["same_as_7_rows_ago"]) == pytest.approx(0.5 * np.mean((guess - y)[1:] ** 2))
        assert float(row["same_as_7_rows_ago"]) < float(row["last_value"])
        assert float(row["skill"]) == pytest.approx(1.0 - float(row["mean_loss"]) / float(row["same_as_7_rows_ago"]))
    assert "same as 7 rows ago" in Path("f/report.html").read_text()
