"""`undrift run --alert`: what changed on the way is told, and nothing else about the run changes."""

import json

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run as undrift
from undrift.events import Event, EventKind
from undrift.report import render
from undrift.run import Interrupted, Settings, play_file, write_report
from undrift.run.play.recorder import RunWatch
from undrift.stream import Answers
from undrift.stream.features import Rows

ROWS, CHANGE = 9000, 6000


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A stream whose level moves, whose sensor then sticks, and that gets a new kind of row."""
    rng = np.random.default_rng(0)
    t = np.arange(ROWS)
    a, b = rng.normal(size=ROWS), rng.normal(size=ROWS)
    y = 2.0 * a - b + 0.5 * rng.normal(size=ROWS) + 3.0 * (t >= CHANGE)
    b[7000:] = b[7000]
    kind = np.where(t == 8500, "new", np.where(rng.random(ROWS) < 0.5, "p", "q"))
    path = tmp_path_factory.mktemp("alerts") / "data.csv"
    pl.DataFrame({"a": a, "b": b, "kind": kind, "y": y}).write_csv(path)
    return path


def settings(*, alert):
    return Settings(target="y", speed="fast", alert=alert)


def test_changes_are_told_and_predictions_stay(file, tmp_path, capsys):
    options = ["--target", "y", "--speed", "fast", "--no-report"]
    code = undrift(["run", str(file), *options, "--alert", "--out", str(tmp_path / "a"), "--json"])
    told = json.loads(capsys.readouterr().out)["events"]
    assert code == 6
    assert undrift(["run", str(file), *options, "--out", str(tmp_path / "b"), "--quiet"]) == 0
    both = [pl.read_parquet(tmp_path / one / "predictions.parquet") for one in "ab"]
    assert both[0].equals(both[1])
    first = {one["kind"]: one for one in reversed(told)}
    assert told[0]["kind"].startswith("error")
    assert CHANGE < told[0]["row"] - 1 <= CHANGE + 20  # lines count from the header
    assert CHANGE < first["memory shortened"]["row"] - 1 <= CHANGE + 200
    assert first["feature frozen"]["feature"] == "b"
    assert 7000 < first["feature frozen"]["row"] <= 7050
    assert first["new category"]["row"] == 8502  # later than the rows from which columns are found


@pytest.mark.slow
def test_an_interrupted_watch_goes_on(file, tmp_path):
    whole = play_file(str(file), tmp_path / "whole", settings(alert=True))
    batches = iter(range(100))
    with pytest.raises(Interrupted):
        play_file(str(file), tmp_path / "cut", settings(alert=True), stop=lambda: next(batches) > 0)
    resumed = play_file(str(file), tmp_path / "cut", settings(alert=True), resume=True)
    assert resumed["events"] == whole["events"] != []
    lines = (tmp_path / "cut" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == whole["events"]
    page = write_report(tmp_path / "whole", render).read_text()
    listed = page[page.index('id="changed"') : page.index('id="moves"')]
    assert listed.count("<tr><td") == len(whole["events"])
    assert f"{whole['events'][0]['row']:,}</td><th" in listed
    play_file(str(file), tmp_path / "whole", settings(alert=False), force=True)
    assert not (tmp_path / "whole" / "events.jsonl").exists()
    assert 'id="changed"' not in write_report(tmp_path / "whole", render).read_text()


def test_events_are_in_the_order_of_rows_where_lines_are_not():
    """As in a file that is sorted while it is read: of a row, what its features show comes first."""

    class EveryRow:
        def add_rows(self, lines, names, Z):
            return [Event(EventKind.FEATURE_SHIFTED, line, "x", "shifted") for line in lines]

        def add_round(self, line, *scored):
            return [Event(EventKind.ERROR_LEANS, line, None, "leans")]

    stream = ud.Stream("y", speed="light")
    stream.play([{"x": float(t % 3), "y": float(t % 5)} for t in range(20)])
    watch, lines = RunWatch(stream, 1), np.array([7, 3, 5])
    watch.watch = EveryRow()
    rows = Rows(lines, None, np.zeros((3, 1)), np.ones(3))
    answers = Answers(np.arange(3), lines, None, np.zeros(3), np.ones(3, dtype=bool))
    watch.look(stream.features, rows, answers)
    assert [event.row for event in watch.events] == [7, 7, 3, 3, 5, 5]
    assert [event.feature for event in watch.events] == ["x", None] * 3
