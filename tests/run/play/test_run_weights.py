"""`undrift run --weight` and `--elapsed`: the numbers of the estimator, in the plan, exactly resumed and updated."""

import html
import re

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.run.row_files import require_same_learning
from undrift.cli.run import summary_lines
from undrift.errors import ConditionError, DataError, InputError
from undrift.report import render
from undrift.report.formatting import duration
from undrift.report.half_life import memory_length
from undrift.run import Interrupted, Settings, certify_run, play_file, read_run, update_run, write_report
from undrift.run.play import run_loop
from undrift.run.play.run_loop import load_stream

ROWS = 700


def frame(seed=0):
    rng = np.random.default_rng(seed)
    steps = np.where(rng.random(ROWS) < 0.1, rng.choice([0, 30, 7200, 400_000], ROWS), 60)
    time = np.datetime64("2024-01-01T00:00:00", "us") + np.cumsum(steps).astype("timedelta64[s]")
    X = rng.normal(size=(ROWS, 2))
    weight = np.where(rng.random(ROWS) < 0.5, 1.0, rng.choice([0.0, 0.5, 3.0], ROWS))
    y = X[:, 0] - X[:, 1] * np.linspace(1.0, 3.0, ROWS) + rng.normal(size=ROWS)
    return pl.DataFrame({"time": time, "a": X[:, 0], "b": X[:, 1], "w": weight, "y": y})


SETTINGS = {"target": "y", "speed": "fast", "weight": "w", "elapsed": True}


@pytest.mark.parametrize("delay", [0, 3])
def test_a_run_is_the_estimator_told_weights_and_times(tmp_path, delay):
    table = frame()
    table.write_csv(tmp_path / "rows.csv")
    state = play_file(str(tmp_path / "rows.csv"), tmp_path / "run", Settings(**SETTINGS, delay=delay))
    assert state["plan"]["spacing"] == 60.0
    assert state["features"] == ["a", "b"]
    assert any("memories forget by time: one round is 60 seconds" in note for note in state["notes"])
    seconds = np.diff(table["time"].to_numpy()).astype("timedelta64[s]").astype(float)
    model, y = ud.OnlineRegressor(speed="fast"), table["y"].to_numpy()
    elapsed = np.concatenate(([1.0], seconds / 60.0))
    rows, weight = table.select("a", "b"), table["w"].to_numpy()
    trace = model.play(rows, y, delay=delay, weight=weight, elapsed=elapsed)
    yhat = pl.read_parquet(tmp_path / "run" / "predictions.parquet")["yhat"].to_numpy()
    np.testing.assert_array_equal(yhat[delay + 1 :], trace.yhat[delay + 1 :])
    with pytest.raises(ConditionError, match="memories forget by rows, and this one has --weight or --elapsed"):
        certify_run(tmp_path / "run")


def test_new_rows_go_on_in_the_same_unit_of_time_after_the_last_row(tmp_path):
    table = frame(1)
    table.write_csv(tmp_path / "all.csv")
    table[:400].write_csv(tmp_path / "first.csv")
    table.write_csv(tmp_path / "second.csv")
    play_file(str(tmp_path / "all.csv"), tmp_path / "whole", Settings(**SETTINGS))
    play_file(str(tmp_path / "first.csv"), tmp_path / "parts", Settings(**SETTINGS))
    update_run(tmp_path / "parts", str(tmp_path / "second.csv"))
    require_same_learning(*(load_stream(tmp_path / name / "model.undrift") for name in ("whole", "parts")))


def test_memory_is_told_as_time_where_it_forgets_by_time(tmp_path):
    frame().write_csv(tmp_path / "rows.csv")
    play_file(str(tmp_path / "rows.csv"), tmp_path / "run", Settings(**SETTINGS))
    data = read_run(tmp_path / "run")
    assert data.memory_unit == 60.0
    length = memory_length(data.half_lives, data.spectrum)
    words = length.words(lambda minutes: duration(60.0 * minutes))
    (said,) = [line for line in summary_lines(data, {"folder": "run", "report": None}) if line.startswith("Memory")]
    assert said == f"Memory it found best: an observation counts half after about {words}."
    page = render(data, tmp_path / "report.html").read_text()
    text = page.split('<script type="application/json" id="numbers">')[0]
    assert f"The memory it found best: a row counts half after {words}" in text
    assert f'<div class="value">{duration(60.0 * length.average)}</div>' in text
    assert re.search(r"effective half-life starts at [\d.]+ (seconds|minutes|hours|days) and ends at", text)
    assert not re.search(r"half-life \(rows\)|\d rows \(about", page)


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(run_loop, "rows_per_batch", lambda *_: 100)
    frame(3).write_csv(tmp_path / "rows.csv")
    path, settings = str(tmp_path / "rows.csv"), Settings(**SETTINGS, delay=2)
    play_file(path, tmp_path / "whole", settings)
    asked = iter([False, False])
    with pytest.raises(Interrupted):
        play_file(path, tmp_path / "run", settings, stop=lambda: next(asked, True))
    play_file(path, tmp_path / "run", settings, resume=True)
    whole, run = (load_stream(str(tmp_path / name / "model.undrift")) for name in ("whole", "run"))
    assert whole == run


def test_what_cannot_be_used_is_refused_with_its_place(tmp_path):
    table = frame(2)
    table.with_columns(pl.when(pl.int_range(ROWS) == 5).then(-1.0).otherwise(pl.col("w")).alias("w")).write_csv(
        tmp_path / "bad.csv"
    )
    with pytest.raises(
        DataError, match=r"bad.csv, line 7: the weight 'w' is -1, but must be in \[0, 1e\+50\]; correct it"
    ):
        play_file(str(tmp_path / "bad.csv"), tmp_path / "run", Settings(**SETTINGS))
    table.drop("time").write_csv(tmp_path / "timeless.csv")
    with pytest.raises(InputError, match="--elapsed needs a column with times; none was found, name it with --time"):
        play_file(str(tmp_path / "timeless.csv"), tmp_path / "run", Settings(**SETTINGS))
    with pytest.raises(InputError, match="the weight 'y' cannot be the target"):
        Settings(target="y", weight="y")


@pytest.mark.parametrize(("factor", "told"), [(1000.0, "counts 1,000 times"), (0.01, "counts 0.01 times"), (1.0, None)])
def test_weights_that_make_usual_rows_count_far_from_once_are_told_with_what_to_do(tmp_path, factor, told):
    """On stderr and in the report, before the wrecked model is believed."""
    table = frame().with_columns(pl.col("w") * factor)
    table.write_csv(tmp_path / "rows.csv")
    said = []
    state = play_file(str(tmp_path / "rows.csv"), tmp_path / "run", Settings(**SETTINGS), log=said.append)
    notes = [note for note in state["plan"]["notes"] if "'w'" in note]
    assert set(notes) <= set(said)
    assert (
        notes[0] == "'w' says how often each row counts in learning; it is no feature, and scores count every row once"
    )
    assert [one for one in notes[1:] if told and told in one and "so that a usual row counts once" in one] == notes[1:]
    assert len(notes) == 1 + (told is not None)
    page = html.unescape(write_report(tmp_path / "run", render).read_text())
    assert all(note in page for note in notes)
