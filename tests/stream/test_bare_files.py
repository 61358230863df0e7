"""A file with a time and a value, and nothing else, is learned from its own past."""

import json

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def state(folder):
    return json.loads((folder / "run.json").read_text())


def daily(rows):
    return [str(np.datetime64("2024-01-01") + k) for k in range(rows)]


@pytest.mark.parametrize(
    ("header", "first", "calendar"),
    [("time,value", daily, True), ("index,value", lambda n: [str(k) for k in range(n)], False), ("value", None, False)],
)
def test_lags_and_calendar_are_the_default(tmp_path, header, first, calendar):
    y = np.sin(np.arange(60) * 2.0 * np.pi / 7.0).tolist()
    rows = [f"{v!r}" for v in y] if first is None else [f"{a},{v!r}" for a, v in zip(first(60), y, strict=True)]
    path, out = write(tmp_path / "a.csv", header, rows), tmp_path / "out"
    arguments = ["run", path, "-t", "value", "-o", str(out), "--no-report", "--no-certify", "-q"]
    assert run(arguments) == 0
    features = state(out)["features"]
    assert "value 1 row ago" in features
    assert "value 24 rows ago" in features
    assert ("weekday sin" in features) == calendar
    assert run([*arguments, "--resume"]) == 0


@pytest.mark.parametrize("rows", [1, 60])
def test_tables_in_python_have_the_same_default(tmp_path, rows):
    y = np.sin(np.arange(60) * 2.0 * np.pi / 7.0).tolist()
    table = [{"time": time, "value": value} for time, value in zip(daily(60), y, strict=True)]
    stream = ud.Stream("value", speed="fast")
    answers = [stream.play(table[begin : begin + rows]) for begin in range(0, 60, rows)]
    assert stream.settings.lag == (1, 2, 3, 4, 5, 6, 12, 24)
    assert stream.settings.calendar
    path = write(tmp_path / "a.csv", "time,value", [f"{row['time']},{row['value']!r}" for row in table])
    assert run(["run", path, "-t", "value", "--speed", "fast", "-o", str(tmp_path / "out"), "--no-report", "-q"]) == 0
    expected = pl.read_parquet(tmp_path / "out" / "predictions.parquet")["yhat"][1:].to_list()
    yhat = np.concatenate([part.yhat for part in answers])[1:]
    if rows > 1:
        assert yhat.tolist() == expected
    else:  # a single row does not show that no row has hours
        np.testing.assert_allclose(yhat[20:], expected[20:], atol=0.2)


def test_late_labels_move_the_lags(tmp_path):
    rows = [f"{a},{k % 5}.5" for k, a in enumerate(daily(50))]
    path, out = write(tmp_path / "a.csv", "time,value", rows), tmp_path / "out"
    assert run(["run", path, "-t", "value", "--delay", "3", "-o", str(out), "--no-report", "--no-certify", "-q"]) == 0
    assert state(out)["features"][-8:] == [f"value {3 + k} rows ago" for k in (1, 2, 3, 4, 5, 6, 12, 24)]


def test_a_file_with_features_stays_as_it_is(tmp_path):
    rows = [f"{a},{k % 3},{k % 5}.5" for k, a in enumerate(daily(50))]
    path, out = write(tmp_path / "a.csv", "time,x,value", rows), tmp_path / "out"
    assert run(["run", path, "-t", "value", "-o", str(out), "--no-report", "--no-certify", "-q"]) == 0
    assert state(out)["features"] == ["x"]


def test_learners_are_compared_on_its_own_past(tmp_path, capsys):
    y = np.sin(np.arange(60) * 2.0 * np.pi / 7.0).tolist()
    path = write(tmp_path / "a.csv", "time,value", [f"{a},{v!r}" for a, v in zip(daily(60), y, strict=True)])
    assert run(["compare", path, "-t", "value", "--no-peers", "-q", "--json"]) == 0
    shown = {one["name"]: one["scores"] for one in json.loads(capsys.readouterr().out)["results"]}
    assert shown["OnlineRegressor (fast)"]["rmse"] < 0.5 * shown["last value"]["rmse"]
