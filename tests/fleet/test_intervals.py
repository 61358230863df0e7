"""Intervals that fleets put out with every prediction: those of one estimator for each key."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_records
from undrift.cli.app import run
from undrift.errors import InputError
from undrift.fleet import Outputs

FIELDS = {"key": "k", "order": "n", "features": ["x"], "target": "y"}


def fleet_of(**more):
    return ud.Fleet(ud.OnlineRegressor(speed="light"), **{**FIELDS, "interval": 0.9, **more})


def noisy_records(rows=300, keys="ab", seed=0):
    return draw_records(rows, lambda x, noise: x + noise, keys=keys, seed=seed)


def test_intervals_are_those_of_an_estimator_for_each_key_and_hold_the_labels():
    records = noisy_records()
    found = fleet_of().run(records, batch=37)
    assert found.outputs.canonical() == fleet_of(interval=None).run(records, batch=37).outputs.canonical()
    ends = found.outputs.intervals()
    for key in "ab":
        own = [one for one in records if one["k"] == key]
        Z, y = np.array([[one["x"]] for one in own]), np.array([one["y"] for one in own])
        trace = ud.OnlineRegressor(speed="light").play(Z, y, interval=0.9)
        rows = [i for i, one in enumerate(found.outputs.keys) if one == key]
        there = np.isfinite(trace.lower) & np.isfinite(trace.upper)
        expected = np.where(there[:, None], np.column_stack([trace.lower, trace.upper]), np.nan)
        assert ends[rows].tobytes() == expected.tobytes()
        assert there.sum() > 250
        inside = (trace.lower[there] <= y[there]) & (y[there] <= trace.upper[there])
        assert 0.85 <= inside.mean() <= 0.95


def test_a_served_row_keeps_its_interval_until_its_label_comes():
    records = noisy_records(60, "a")
    state, _ = fleet_of().advance(None, records[:50])
    state, asked = fleet_of().advance(state, [{**records[50], "y": None}])
    _, told = fleet_of().advance(state, [records[50]])
    assert [one.status for one in (*asked, *told)] == ["predicted", "labelled"]
    assert asked.intervals().tobytes() == told.intervals().tobytes()
    model = fleet_of().model(fleet_of().advance(None, records[:50]).state)
    assert asked.intervals()[0].tolist() == [float(end) for end in model.predict_interval([records[50]["x"]], 0.9)]


def test_outputs_with_intervals_are_saved_and_joined_to_the_bit(tmp_path):
    whole = fleet_of().run(noisy_records())
    kept = fleet_of().run(noisy_records(), folder=tmp_path / "f", batch=50)

    def rows(found):
        return sorted((one.key, one.order, ends.tobytes()) for one, ends in zip(found, found.intervals(), strict=True))

    assert rows(kept.outputs) == rows(whole.outputs)
    packed = Outputs.unpack(whole.outputs.pack())
    assert packed.intervals().tobytes() == whole.outputs.intervals().tobytes()
    pieces = Outputs.concat([Outputs.unpack(part.pack()) for part in whole.outputs.split(7)])
    assert pieces.intervals().tobytes() == whole.outputs.intervals().tobytes()


@pytest.mark.parametrize(
    ("model", "interval", "message"),
    [
        (ud.OnlineRegressor(), 0.3, r"interval must be one of 0.5, 0.6, .*, 0.99, got 0.3$"),
        (ud.OnlineRegressor(), 95, r"interval must be one of 0.5, .*, 0.99, got 95; 95% is 0.95$"),
        (ud.OnlineClassifier(), 0.9, "interval is for OnlineRegressor, got OnlineClassifier"),
    ],
)
def test_intervals_that_cannot_be_are_refused(model, interval, message):
    with pytest.raises(InputError, match=message):
        ud.Fleet(model, **FIELDS, interval=interval)


def lines_of(folder):
    return Path(folder, "predictions.csv").read_text().splitlines()


def test_coverage_is_told_beside_the_level_that_was_promised(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{one['k']},{one['n']},{one['x']:.5f},{one['y']:.5f}" for one in noisy_records(200)]
    Path("s.csv").write_text("\n".join(["k,n,x,y", *lines]) + "\n")
    command = ["fleet", "s.csv", "-k", "k", "-t", "y", "--order", "n", "-q"]
    assert run([*command, "--interval", "0.8", "-o", "with"]) == 0
    shown = capsys.readouterr().out
    rows = [row for row in csv.DictReader(lines_of("with")) if row["lower"]]
    inside = {key: [] for key in "ab"}
    for row in rows:
        inside[row["key"]].append(float(row["lower"]) <= float(row["target"]) <= float(row["upper"]))
    keys = list(csv.DictReader(Path("with/keys.csv").read_text().splitlines()))
    assert {row["key"]: float(row["coverage"]) for row in keys} == {k: np.mean(one) for k, one in inside.items()}
    share = f"{100.0 * np.mean(inside['a'] + inside['b']):.3g}%"
    assert f"intervals covered {share} of the labels, where 80% is promised\n" in shown
    assert "worst keys, by loss saved" in shown
    page = Path("with/report.html").read_text()
    assert re.search(rf"covered by intervals.{{0,100}}>{share}<.{{0,100}}>promised: 80%<", page, re.DOTALL)
    assert run([*command, "-o", "without", "--no-report"]) == 0
    assert "covered" not in capsys.readouterr().out
    assert "coverage" not in Path("without/keys.csv").read_text()


def test_the_command_writes_both_ends_and_an_update_goes_on_with_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{one['k']},{one['n']},{one['x']:.5f},{one['y']:.5f}" for one in noisy_records(100)]
    for name, rows in (("whole", lines), ("first", lines[:120]), ("more", lines[120:])):
        Path(f"{name}.csv").write_text("\n".join(["k,n,x,y", *rows]) + "\n")
    options = ["-k", "k", "-t", "y", "--order", "n", "--no-report", "-q"]
    for name in ("whole", "first"):
        assert run(["fleet", f"{name}.csv", *options, "--interval", "0.8", "-o", name]) == 0
    assert run(["update", "first", "more.csv", "--no-report", "-q"]) == 0
    found = {name: sorted(map(tuple, csv.reader(lines_of(name)))) for name in ("whole", "first")}
    assert found["whole"] == found["first"]
    rows = list(csv.DictReader(lines_of("whole")))
    assert list(rows[0]) == ["key", "order", "prediction", "target", "status", "reason", "lower", "upper"]
    assert rows[0]["lower"] == rows[0]["upper"] == ""
    assert all(float(row["lower"]) < float(row["prediction"]) < float(row["upper"]) for row in rows[-50:])
    assert run(["fleet", "whole.csv", *options, "-o", "whole"]) == 2
    assert "this fleet has interval = 0.8, not None" in capsys.readouterr().err
    Path("two.csv").write_text("k,n,x,y\n" + "\n".join(f"a,{i},{i},{'yes' if i % 3 else 'no'}" for i in range(30)))
    assert run(["fleet", "two.csv", *options, "--interval", "0.9"]) == 2
    assert "--interval is for numbers, and the target is one of several classes" in capsys.readouterr().err


def walk(rows, keys="ab", seed=4):
    """Random walks, whose value some rows ahead is far less certain than the next one."""
    values = np.random.default_rng(seed).normal(size=(rows, len(keys))).cumsum(axis=0)
    return [{"k": k, "n": n, "x": 1.0, "y": values[n, j]} for n in range(rows) for j, k in enumerate(keys)]


def test_of_rows_without_labels_between_them_only_the_first_has_an_interval(tmp_path):
    known, after = walk(314)[:600], walk(314)[600:]
    asked = [{**row, "y": None} for row in after]
    first = fleet_of(hold=20).run(known, folder=tmp_path / "f", source="known")
    served = fleet_of(hold=20).run(asked, folder=tmp_path / "f", source="asked").outputs
    there = ~np.isnan(served.intervals()).any(axis=1)
    assert [(row.key, row.order) for row, has in zip(served, there, strict=True) if has] == [("a", 300), ("b", 300)]
    assert not np.isnan(served.prediction).any()
    labels = fleet_of(hold=20).run(after, folder=tmp_path / "f", source="labels").outputs
    assert set(labels.count()) == {"labelled"}
    mine = {(row.key, row.order): ends.tobytes() for row, ends in zip(served, served.intervals(), strict=True)}
    assert {(row.key, row.order): e.tobytes() for row, e in zip(labels, labels.intervals(), strict=True)} == mine
    assert len(first.outputs) == 600


def test_labels_that_always_come_some_rows_late_leave_the_intervals_where_they_are():
    records, state, given = walk(200, "a"), None, []
    for n in range(200):
        state, asked = fleet_of().advance(state, [{**records[n], "y": None}])
        given += [not np.isnan(asked.intervals()).any()]
        if n >= 5:
            state, told = fleet_of().advance(state, [records[n - 5]])
            assert [row.status for row in told] == ["labelled"]
    assert all(given[30:])


def test_withheld_intervals_are_counted_and_coverage_is_of_those_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [f"{row['k']},{row['n']},{row['x']},{row['y']:.5f}" for row in walk(214)]
    bare = [line.rsplit(",", 1)[0] + "," for line in lines]
    for name, rows in (("past", lines[:400]), ("next", bare[400:]), ("labels", lines[400:])):
        Path(f"{name}.csv").write_text("\n".join(["k,n,x,y", *rows]) + "\n")
    options = ["-k", "k", "-t", "y", "--order", "n", "--no-report", "-q"]
    assert run(["fleet", "past.csv", *options, "--interval", "0.8", "-o", "f"]) == 0
    assert "no interval" not in capsys.readouterr().out
    assert run(["update", "f", "next.csv", "--no-report", "-q"]) == 0
    assert "26 rows have no interval: no label of their key was learned since the row before" in capsys.readouterr().out
    assert run(["update", "f", "labels.csv", "--no-report", "-q"]) == 0
    shown = capsys.readouterr().out
    rows = [row for row in csv.DictReader(lines_of("f")) if row["lower"] and row["target"]]
    assert sum(row["status"] == "labelled" for row in rows) == 2
    inside = np.mean([float(row["lower"]) <= float(row["target"]) <= float(row["upper"]) for row in rows])
    assert f"intervals covered {100.0 * inside:.3g}% of the labels, where 80% is promised\n" in shown
