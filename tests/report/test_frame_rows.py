"""`run_frame` takes frames as people have them: each gives a run, or one sentence that says what to do."""

import datetime as dt
import logging

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.stream.frames import read_table

pd = pytest.importorskip("pandas")
ROWS = 48


def frame(**columns):
    given = {"x": np.arange(ROWS) % 5.0, "y": np.arange(ROWS) % 5.0 + 1.0}
    return pd.DataFrame(given | columns, index=np.arange(ROWS) * 3 + 7)


def run(table, folder, **options):
    return ud.run_frame(table, folder, target="y", speed="light", certify=False, **options)


@pytest.mark.parametrize("library", ["pandas", "an index", "polars"])
def test_times_with_a_zone_are_learned_as_those_of_later_files_are(tmp_path, caplog, library):
    times = pd.date_range("2024-06-01", periods=ROWS, freq="h", tz="Europe/Berlin")
    table = frame().set_axis(times) if library == "an index" else frame(time=times)
    table = pl.from_pandas(table) if library == "polars" else table
    with caplog.at_level(logging.INFO, logger="undrift"):
        done = run(table, tmp_path / "run", calendar=True)
    assert "'time' is in the zone Europe/Berlin; it is learned as UTC, as files with zones are" in caplog.text
    assert done.data.time[0] == np.datetime64("2024-05-31T22:00", "us")
    frame(time=times).to_parquet(tmp_path / "rows.parquet", index=False)
    settings = ud.run.Settings(target="y", speed="light", calendar=True)
    ud.run.play_file(str(tmp_path / "rows.parquet"), tmp_path / "file", settings)
    np.testing.assert_array_equal(done.data.yhat, ud.run.read_run(tmp_path / "file").yhat)
    caplog.clear()
    run(frame(time=times.tz_localize(None)), tmp_path / "plain", calendar=True)
    assert "zone" not in caplog.text


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (pd.Categorical(["a", "b"] * 24), ["a", "b"]),
        (pd.array([1, None] * 24, dtype="Int64"), [1.0, np.nan]),
        (pd.array([True, None] * 24, dtype="boolean"), [1.0, np.nan]),
        (pd.array(["a", None] * 24, dtype="string"), ["a", None]),
        (np.array([1.5, None] * 24, dtype=object), [1.5, None]),
        (np.array([1, "a"] * 24, dtype=object), ["1", "a"]),
        (
            pd.period_range("2024-01-01", periods=ROWS, freq="h"),
            [np.datetime64("2024-01-01T00", "us"), np.datetime64("2024-01-01T01", "us")],
        ),
        ([dt.date(2024, 1, 1)] * ROWS, [np.datetime64("2024-01-01", "us")] * 2),
        ([None] * ROWS, [None, None]),
    ],
)
def test_columns_of_every_kind_are_read(column, cells):
    found = read_table("run_frame", frame(c=column)).columns["c"]
    assert len(found) == ROWS
    np.testing.assert_array_equal(found[:2], cells)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (frame(c=[[1]] * ROWS), "column 'c' holds list, no number, text or time; leave it out with drop="),
        (frame(c=pd.to_timedelta(np.arange(ROWS), unit="h")), "column 'c' holds lengths of time .Duration"),
        (frame(c=1j), "column 'c' holds complex, no number"),
        (frame().set_axis([0, 1], axis=1), "column names must be texts, got 0; rename the columns"),
        (pd.concat([frame(), frame().x], axis=1), "column names must differ, 'x' comes twice"),
        (frame().rename_axis("x"), "the index and a column are both called 'x'; rename the index"),
        (pl.LazyFrame({"y": [1.0]}), "got LazyFrame; collect it"),
        ({"y": [1.0]}, "a dict is one row, but this one holds lists"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_leaves_nothing(tmp_path, table, sentence):
    with pytest.raises(InputError, match=f"^run_frame: .*{sentence}"):
        run(table, tmp_path / "run")
    assert not any(tmp_path.iterdir())


def test_columns_that_are_left_out_may_hold_anything(tmp_path):
    assert run(frame(c=1j, d=[[1]] * ROWS), tmp_path / "run", drop=["c", "d"]).data.features == ["x"]


def test_levels_of_an_index_with_names_are_columns(tmp_path):
    levels = pd.MultiIndex.from_arrays([np.arange(ROWS) % 3, np.arange(ROWS) % 2], names=["shop", "shift"])
    assert run(frame().set_axis(levels), tmp_path / "run").data.features == ["shop", "shift", "x"]


def test_a_frame_that_was_refused_can_be_given_again_and_force_replaces_a_run(tmp_path):
    with pytest.raises(InputError, match="'load'"):
        ud.run_frame(frame(), tmp_path / "run", target="load")
    assert run(frame(), tmp_path / "run").data.rounds == ROWS
    with pytest.raises(InputError, match="force=True"):
        run(frame()[:30], tmp_path / "run")
    with pytest.raises(InputError, match="'load'"):
        ud.run_frame(frame()[:30], tmp_path / "run", target="load", force=True)
    assert len(pl.read_parquet(tmp_path / "run-rows.parquet")) == ROWS  # what failed changed nothing
    assert run(frame()[:30], tmp_path / "run", force=True).data.rounds == 30
    assert sorted(one.name for one in tmp_path.iterdir()) == ["run", "run-rows.parquet"]
