"""Numbers that are often missing get a feature that tells where, in every command that reads the run's files."""

import json

import numpy as np
import pytest

from undrift.run import Settings, play_file, predict_file, update_run
from undrift.run.play.run_folder import RunFolder


def columns(share=0.3, rows=400, seed=0):
    """Three numbers: `a` is missing in a share of the rows and tells by that, `b` with it, `c` seldom."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, rows))
    gone, seldom = np.arange(rows) % 100 < 100 * share, np.arange(rows) % 100 < 5
    y = a + 3.0 * gone + c + 0.1 * rng.normal(size=rows)
    return {
        "a": ["" if hole else f"{x:.4f}" for x, hole in zip(a, gone, strict=True)],
        "b": ["NA" if hole else f"{x:.4f}" for x, hole in zip(b, gone, strict=True)],
        "c": ["" if hole else f"{x:.4f}" for x, hole in zip(c, seldom, strict=True)],
        "y": [f"{x:.4f}" for x in y],
    }


def write(path, cells, rows=None):
    lines = [",".join(row) for row in zip(*cells.values(), strict=True)][:rows]
    path.write_text("\n".join([",".join(cells), *lines]) + "\n")
    return str(path)


def played(folder, cells, name="run", **settings):
    state = play_file(write(folder / "t.csv", cells), folder / name, Settings(target="y", speed="light", **settings))
    return state, RunFolder(folder / name).table(state)


def test_numbers_that_are_often_missing_have_an_indicator_and_it_is_told(tmp_path):
    state, _ = played(tmp_path, columns())
    assert state["features"] == ["a", "b", "c", "a missing"]  # b is missing in the same rows
    assert (
        "'a': missing in 10% of all 400 rows or more, so a feature tells where; --missing fill leaves it out"
        in (state["notes"])
    )
    plain, _ = played(tmp_path, columns(), "plain", missing="fill")
    assert plain["features"] == ["a", "b", "c"]
    assert state["scores"]["model"]["rmse"] < 0.7 * plain["scores"]["model"]["rmse"]


@pytest.mark.parametrize(("share", "found"), [(0.09, []), (0.1, ["a missing"]), (1.0, [])])
def test_a_tenth_of_the_first_rows_is_often(tmp_path, share, found):
    state, _ = played(tmp_path, columns(share))
    assert state["features"] == ["a", "b", "c", *found]


def test_it_stands_before_lags_and_is_one_with_its_column_in_what_matters(tmp_path):
    state, _ = played(tmp_path, columns() | {"a missing": columns()["c"]}, lag=(1,))
    assert state["features"][-2:] == ["a missing (made)", "y 1 row ago"]
    assert state["effects"].keys() == {"a", "b", "c", "a missing", "y 1 row ago"}


def test_updates_and_predictions_know_it(tmp_path):
    cells = columns()
    _, whole = played(tmp_path, cells)
    play_file(write(tmp_path / "first.csv", cells, 250), tmp_path / "first", Settings(target="y", speed="light"))
    update_run(tmp_path / "first", str(tmp_path / "t.csv"))
    updated = RunFolder(tmp_path / "first").table(json.loads((tmp_path / "first" / "run.json").read_text()))
    assert updated["yhat"].equals(whole["yhat"])
    rows = {"a": ["", "0.5"], "b": ["", "0"], "c": ["0", "0"]}
    frame = next(iter(predict_file(tmp_path / "run", write(tmp_path / "next.csv", rows)).frames()))
    assert abs(frame["prediction"][0] - frame["prediction"][1]) > 1.0
