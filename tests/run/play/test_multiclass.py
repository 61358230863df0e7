"""Runs of several classes: one probability for each, classes that appear later, and the same bits after any stop."""

import json
import os

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.run.row_files import require_same_learning, write_csv
from undrift.baselines import ClassBaselines
from undrift.cli.app import run as undrift
from undrift.errors import ConditionError, DataError, InputError
from undrift.report import render
from undrift.report.formatting import percent
from undrift.run import Settings, certify_run, play_file, read_run, update_run
from undrift.run.finish.certificates import replay_run
from undrift.run.finish.compare import compare_file
from undrift.run.play import run_loop
from undrift.run.play.run_folder import RunFolder
from undrift.run.read import csv_file

CLASSES = ["red", "green", "blue", "grey, dark"]


def columns(rows=300, late=200, seed=0):
    """Return rows of three classes, and a fourth that appears late; a few labels are missing."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 3))
    scores = 3.0 * Z @ np.eye(3, 4) + rng.gumbel(size=(rows, 4))
    scores[:late, 3] = -np.inf
    labels = [CLASSES[k] for k in np.argmax(scores, axis=1)]
    for t in range(7, rows, 41):
        labels[t] = ""
    return {"a": Z[:, 0].round(5).tolist(), "b": Z[:, 1].round(5).tolist(), "c": Z[:, 2].round(5).tolist(), "y": labels}


SETTINGS = Settings(target="y", speed="fast")


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 40)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 2)


def frame(folder):
    return pl.read_parquet(folder / "predictions.parquet")


@pytest.mark.parametrize("delay", [0, 5])
def test_predictions_are_those_of_the_model_row_by_row(tmp_path, delay, small_batches):
    data = columns()
    path = str(write_csv(tmp_path / "t.csv", data))
    state = play_file(path, tmp_path / "run", Settings(target="y", speed="fast", delay=delay))
    table = frame(tmp_path / "run")
    assert state["task"] == "multiclass"
    assert sorted(state["classes"]) == sorted(CLASSES)
    model = ud.OnlineClassifier(speed="fast")
    Z = np.array([data[name] for name in "abc"]).T
    waiting, losses, right = [], [], []
    for t, label in enumerate(data["y"]):
        served = model.ask(Z[t])
        names = model.classes
        row = {name: table[f"p({name})"][t] for name in CLASSES}
        p = dict(zip(names, np.exp(np.atleast_1d(served.yhat)), strict=True)) if names else {}
        assert {name for name, one in row.items() if one is not None} == set(names), t
        assert all(row[name] == pytest.approx(p[name], rel=1e-12) for name in names)
        assert (table["y"][t] or "") == label
        if names:
            assert table["yhat"][t] == max(names, key=p.get)
            if label:
                losses.append(-np.log(p[label] if label in p else 1.0 - sum(p.values())))
                right.append(table["yhat"][t] == label)
        waiting.append((served, label or np.nan))
        if len(waiting) > delay:
            model.tell(*waiting.pop(0))
    scores = state["scores"]["model"]
    assert scores["log-loss"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert scores["accuracy"] == pytest.approx(np.mean(right), rel=1e-12)
    assert ud.load(tmp_path / "run" / "model.undrift").model.classes == model.classes
    run = read_run(tmp_path / "run")
    assert np.sum(run.losses("undrift")) == pytest.approx(np.sum(losses), rel=1e-9)
    for name in ("same as last time", "most frequent"):
        assert np.mean(run.losses(name)) == pytest.approx(state["scores"][name]["log-loss"], rel=1e-12)


def test_baselines_are_the_last_class_and_the_most_frequent_one(tmp_path):
    data = columns(80)
    data["y"] = [data["y"][t - t % 4] for t in range(80)]
    play_file(str(write_csv(tmp_path / "t.csv", data)), tmp_path / "run", SETTINGS)
    table, last, counts = frame(tmp_path / "run"), None, {}
    for t, label in enumerate(data["y"]):
        if t > 40:  # until then classes stayed too seldom for the last one to be likely
            assert table["same as last time"][t] == last
        assert table["most frequent"][t] == max(counts, key=counts.get, default=None)
        if label:
            last, counts[label] = label, counts.get(label, 0) + 1


@pytest.mark.parametrize("delay", [0, 3])
def test_classes_of_so_many_rows_ago_are_as_likely_as_they_stayed(delay):
    rng, lags, K = np.random.default_rng(2), [4, 5, 8], 3
    y = rng.integers(0, K, size=90).astype(np.float64)
    y[rng.random(90) < 0.15] = np.nan
    whole = ClassBaselines(delay=delay, lags=lags).play(y, K)
    cut = ClassBaselines(delay=delay, lags=lags)
    parts = [cut.play(y[a:b], K) for a, b in ((0, 2), (2, 2), (2, 40), (40, 41), (41, 90))]
    for k, guess in enumerate(whole):
        assert np.concatenate([part[k] for part in parts]).tobytes() == guess.tobytes()
    for mine, usual in zip(whole, ClassBaselines(delay=delay).play(y, K), strict=False):
        assert mine.tobytes() == usual.tobytes()

    def repeat(t, lag):
        """Return what the class of so many rows ago gives each class; None where it is not known."""
        if t < lag or np.isnan(y[t - lag]):
            return None
        seen = y[: t - delay][~np.isnan(y[: t - delay])]
        pairs = [(y[i], y[i - lag]) for i in range(lag, t - delay) if not np.isnan(y[i] + y[i - lag])]
        same, classes, known = sum(a == b for a, b in pairs), sorted(set(seen)), len(seen) / (len(seen) + 1.0)
        stays = (same + 1.0) / (len(pairs) + 2.0) if len(classes) > 1 else 1.0
        p = np.full(K, np.nan)
        p[np.array(classes, int)] = known * (1.0 - stays) / max(len(classes) - 1.0, 1.0)
        p[int(y[t - lag])] = known * stays
        return p

    for t in range(90):
        four, five, eight = (repeat(t, lag) for lag in lags)
        four, five = (whole[0][t] if p is None else p for p in (four, five))
        for p, expected in zip(whole[2:], (four, five, four if eight is None else eight), strict=True):
            np.testing.assert_allclose(p[t], expected, rtol=1e-12)


def test_classes_are_held_against_the_last_season_and_an_update_goes_on(tmp_path):
    rng = np.random.default_rng(5)
    day = rng.integers(0, 3, size=24)
    label = [CLASSES[k] for k in np.where(rng.random(400) < 0.1, rng.integers(0, 3, size=400), np.resize(day, 400))]
    when = (np.datetime64("2024-01-01T00:00") + np.arange(400) * np.timedelta64(1, "h")).astype(str).tolist()
    data = {"when": when, "a": rng.normal(size=400).tolist(), "y": label}
    for name, rows in (("whole", 400), ("first", 250)):
        path = write_csv(tmp_path / f"{name}.csv", {column: cells[:rows] for column, cells in data.items()})
        play_file(str(path), tmp_path / name, SETTINGS)
    update_run(tmp_path / "first", str(tmp_path / "whole.csv"))
    states = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("whole", "first")]
    assert states[1]["scores"].keys() == states[0]["scores"].keys()
    run = read_run(tmp_path / "first")
    for name, scores in states[0]["scores"].items():
        assert states[1]["scores"][name] == pytest.approx(scores)
        if name != "model":
            assert np.mean(run.losses(name)) == pytest.approx(scores["log-loss"])
    losses = {name: float(np.mean(run.losses(name))) for name in run.baselines}
    seasons = {"same as 24 rows ago", "same as 168 rows ago"}
    assert set(sorted(losses, key=losses.get)[:2]) == seasons
    table = frame(tmp_path / "whole")
    assert table["same as 24 rows ago"][100:].to_list() == label[76:-24]
    task, _, results = compare_file(str(tmp_path / "whole.csv"), SETTINGS, peers=False)
    naive = {result.name: result.scores["log-loss"] for result in results if result.kind == "naive"}
    assert task == "multiclass"
    assert set(sorted(naive, key=naive.get)[:2]) == seasons


class Crash(BaseException):
    """Stands for a kill: nothing may catch it."""


@pytest.mark.parametrize("delay", [0, 3])
def test_a_crash_at_any_rename_costs_nothing(tmp_path, monkeypatch, small_batches, delay):
    settings = Settings(target="y", speed="fast", delay=delay)
    path = str(write_csv(tmp_path / "t.csv", columns(160, late=100)))
    play_file(path, tmp_path / "whole", settings)
    whole, state = frame(tmp_path / "whole"), json.loads((tmp_path / "whole" / "run.json").read_text())
    replace, crashes = os.replace, 0
    for at in range(1, 30, 13 if delay else 5):
        calls = 0

        def failing(a, b, at=at):
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise Crash
            replace(a, b)

        folder = tmp_path / f"run{at}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", failing)
            try:
                play_file(path, folder, settings)
            except Crash:
                crashes += 1
        again = play_file(path, folder, settings, resume=True)
        assert frame(folder).equals(whole), at
        assert again["scores"] == state["scores"]
        assert ud.load(folder / "model.undrift") == ud.load(tmp_path / "whole" / "model.undrift")
        if calls <= at:
            break
    assert crashes >= (1 if delay else 2)


def test_rows_that_come_tomorrow_are_learned_as_in_one_file(tmp_path):
    data = columns(200, late=150)
    head = {name: values[:120] for name, values in data.items()}
    path = write_csv(tmp_path / "t.csv", head)
    play_file(str(path), tmp_path / "run", SETTINGS)
    play_file(str(write_csv(tmp_path / "whole.csv", data)), tmp_path / "whole", SETTINGS)
    write_csv(path, data)
    found = update_run(tmp_path / "run", str(path))
    assert found.added == 80
    assert RunFolder(tmp_path / "run").table(found.state).equals(frame(tmp_path / "whole"))
    require_same_learning(ud.load(tmp_path / "run"), ud.load(tmp_path / "whole"))
    assert found.state["scores"]["model"]["log-loss"] == pytest.approx(
        json.loads((tmp_path / "whole" / "run.json").read_text())["scores"]["model"]["log-loss"]
    )
    assert replay_run(tmp_path / "whole")


def test_the_model_predicts_other_rows_with_a_column_for_each_class(tmp_path, capsys):
    path = str(write_csv(tmp_path / "t.csv", columns()))
    play_file(path, tmp_path / "run", SETTINGS)
    assert undrift(["predict", str(tmp_path / "run"), path, "-o", str(tmp_path / "p.parquet"), "-q"]) == 0
    table, stream = pl.read_parquet(tmp_path / "p.parquet"), ud.load(tmp_path / "run" / "model.undrift")
    each = table.select([f"p({name})" for name in stream.classes]).to_numpy()
    assert (each.sum(axis=1) < 1.0).all()  # a share is kept for a class that was not seen yet
    np.testing.assert_allclose(each.sum(axis=1), 1.0, atol=0.02)
    assert table["label"].to_list() == [stream.classes[k] for k in each.argmax(axis=1)]
    assert table["probability"].to_list() == each.max(axis=1).tolist()
    proba = dict(zip(stream.model.classes, stream.model.predict_proba(pl.read_csv(path).drop("y")).T, strict=True))
    for k, name in enumerate(stream.classes):
        np.testing.assert_allclose(each[:, k] / each.sum(axis=1), proba[name], rtol=1e-12)


def test_what_several_classes_cannot_have_is_one_sentence(tmp_path):
    path = str(write_csv(tmp_path / "t.csv", columns(60)))
    play_file(path, tmp_path / "run", SETTINGS)
    with pytest.raises(ConditionError, match="proofs cover runs that predict a number or one of two classes"):
        certify_run(tmp_path / "run")
    (note,) = read_run(tmp_path / "run").notes
    assert note.startswith("Not certified: proofs cover runs that predict a number")
    text = render(read_run(tmp_path / "run"), tmp_path / "report.html").read_text()
    assert text.index('<section id="proven">') < text.index(f"<p>{note}</p>")
    assert '<div class="notes">' not in text
    for options in ({"lag": (1,)}, {"positive": "red"}):
        with pytest.raises(InputError, match=r"has several classes \(.*\), but --.* is for numbers or two classes"):
            play_file(path, tmp_path / "other", SETTINGS.replace(task="multiclass", **options))


def test_the_terminal_tells_several_classes_in_plain_words(tmp_path, capsys):
    path = str(write_csv(tmp_path / "t.csv", columns(300)))
    assert undrift(["run", path, "-t", "y", "--speed", "light", "--out", str(tmp_path / "run")]) == 0
    told = capsys.readouterr()
    assert "certif" not in told.err  # nothing is announced that cannot be done
    assert "proofs cover runs that predict a number or one of two classes" in told.err
    data = read_run(tmp_path / "run")
    right = percent(float(np.mean((data.yhat == data.y)[data.predicted])))
    first, second, *_ = told.out.splitlines()
    assert "one of 4 classes: " in first
    assert all(name in first for name in CLASSES)
    assert second.endswith(f"; it named the right class in {right} of rows.")


def test_one_class_too_many_is_refused_where_it_comes(tmp_path, monkeypatch):
    monkeypatch.setattr("undrift.stream.labels.MOST_CLASSES", 3)
    path = str(write_csv(tmp_path / "t.csv", columns(300)))
    with pytest.raises(DataError, match=r"t\.csv, line \d+: the target 'y' is 'grey, dark', one class more than the 3"):
        play_file(path, tmp_path / "run", SETTINGS)


def test_changes_are_told_of_several_classes_too(tmp_path):
    data = columns(1200, late=1200)
    swap = {"red": "blue", "blue": "green", "green": "red", "": ""}
    data["y"] = [one if t < 900 else swap[one] for t, one in enumerate(data["y"])]
    path = str(write_csv(tmp_path / "t.csv", data))
    state = play_file(path, tmp_path / "run", Settings(target="y", speed="light", alert=True))
    assert state["events"]
    assert 900 < state["events"][0]["row"] < 960


def test_compare_ranks_ours_beside_the_naive_guesses(tmp_path):
    path = str(write_csv(tmp_path / "t.csv", columns(150)))
    task, rows, results = compare_file(path, Settings(target="y"), peers=False)
    assert (task, rows) == ("multiclass", 150)
    assert sorted(one.kind for one in results) == ["naive"] * 2 + ["undrift"] * 4
    assert list(results[0].scores) == ["log-loss", "accuracy"]
