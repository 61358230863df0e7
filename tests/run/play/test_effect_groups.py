"""What matters in a run is told by column: all features that are made of one move at once."""

import csv
import json

import numpy as np
import pytest

from undrift.run import Settings, play_file


def play(folder, columns, **settings):
    """Run a file of these columns and return its state."""
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    play_file(str(folder / "rows.csv"), folder / "run", Settings(target="y", speed="fast", **settings))
    return json.loads((folder / "run" / "run.json").read_text())


@pytest.mark.parametrize("missing", ["fill", "indicators"])
@pytest.mark.parametrize("task", ["regression", "classification", "multiclass"])
def test_a_text_that_is_noise_matters_less_than_a_weak_number(tmp_path, task, missing):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=1200), rng.normal(size=1200)
    shop = [f"s{k}" if k else "" for k in rng.integers(5, size=1200)]
    y += 0.7 * x
    labels = {
        "regression": y.round(3),
        "classification": np.where(y > 0.0, "up", "down"),
        "multiclass": np.digitize(y, [-0.5, 0.5]).astype(str),
    }
    columns = {"x": x.round(3), "shop=kind": shop, "y": labels[task]}
    state = play(tmp_path, columns, task=task, missing=missing)
    assert state["effects"].keys() == {"x", "shop=kind"}
    assert state["effects"]["shop=kind"] < state["effects"]["x"]


def test_cycles_of_the_calendar_and_many_texts_are_told_by_one_name_each(tmp_path):
    rng = np.random.default_rng(0)
    hours = np.datetime64("2024-01-01T00", "h") + np.arange(600)
    where = [f"place {k}" for k in rng.integers(60, size=600)]
    columns = {"time": hours, "year": rng.normal(size=600).round(3), "where": where}
    columns["y"] = (10.0 * np.sin(np.arange(600) * np.pi / 12.0) + rng.normal(size=600)).round(3)
    state = play(tmp_path, columns, time="time", calendar=True, lag=(1,))
    names = {"year", "hour", "half day", "weekday", "year (made)", "weekend", "where", "y 1 row ago"}
    assert state["effects"].keys() == names
    assert max(state["effects"], key=state["effects"].get) in ("hour", "y 1 row ago")


def test_predictions_made_elsewhere_are_no_features(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    columns = {"x": x.round(3), "theirs": (2.0 * x).round(3), "y": (2.0 * x + 0.1 * rng.normal(size=300)).round(3)}
    assert play(tmp_path, columns, candidate=("theirs",))["effects"].keys() == {"x"}
