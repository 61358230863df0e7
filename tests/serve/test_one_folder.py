"""One folder: a run, a service, updates and rollbacks leave what one long run over the same rows leaves, to the bit."""

import json
import shutil

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift import store
from undrift.cli.app import run
from undrift.run import Settings, list_versions, play_file, predict_file, read_run, rollback_run, update_run
from undrift.run.service.service import Label
from undrift.serve import open_service

FIRST, SERVED, ROWS = 200, 260, 330
CASES = {
    "numbers": {"lag": (1, 3), "calendar": True, "quantiles": (0.1, 0.5, 0.9)},
    "weights": {"weight": "count", "elapsed": True},
    "two classes": {"calendar": True},
    "several classes": {"speed": "light"},
    "candidate": {"candidate": ("guess",), "missing": "indicators"},
    "alerts": {"alert": True},
}


def draw(case):
    """Return rows with a time, numbers with holes, a text, a weight, a guess, and the target."""
    rng = np.random.default_rng(4)
    rows, level = [], 10.0
    for t in range(ROWS):
        x, shop = rng.normal(), "abcd"[int(rng.integers(0, 4))]
        level = 0.7 * level + x + {"a": 1.0, "b": 3.0, "c": 5.0, "d": 2.0}[shop] + 4.0 * (t > 230) + 0.1 * rng.normal()
        y = level
        if case == "two classes":
            y = "high" if level > 9.0 else "low"
        if case == "several classes":  # the last one comes while the run is served
            y = "low" if level < 8.0 else "mid" if level < 10.0 else "high" if level < 12.0 or t < 210 else "top"
        when = np.datetime64("2024-03-01T00:00") + np.timedelta64(60 * t + 30 * (t % 7 == 0), "m")
        row = {"time": str(when), "x": x if t % 11 else None, "shop": shop, "count": float(1 + t % 3)}
        rows.append({**row, "guess": level + rng.normal() if t % 5 else None, "y": y})
    return rows


def write(path, rows):
    pl.DataFrame(rows).write_csv(path)
    return str(path)


def settings(case):
    asked = CASES[case]
    drop = tuple(name for name in ("count", "guess") if name not in (asked.get("weight"), *asked.get("candidate", ())))
    return Settings(**{"target": "y", "time": "time", "speed": "fast", "drop": drop, **asked})


def serve(folder, rows):
    """Serve rows as a run learns them: each label before the next row."""
    with open_service(folder) as service:
        for row in rows:
            (answer,) = service.predict([{name: cell for name, cell in row.items() if name != "y"}])
            service.learn([Label(answer.id, row["y"])])


def leave_killed(folder, rows, copy):
    """Serve rows, and copy the folder as a kill would leave it: nothing is committed, all is in the journal."""
    with open_service(folder) as service:
        for row in rows:
            (answer,) = service.predict([{name: cell for name, cell in row.items() if name != "y"}])
            service.learn([Label(answer.id, row["y"])])
        shutil.copytree(folder, copy)


def state(folder):
    return json.loads((folder / "run.json").read_text())


def require_equal(folder, other):
    """Fail unless two folders hold the same predictions, stream, scores and record, but for where rows stood."""
    mine, theirs = (pl.read_parquet(path / "predictions.parquet").drop("line") for path in (folder, other))
    assert mine.columns == theirs.columns
    for name in mine.columns:
        if mine[name].dtype == pl.Float64:
            assert mine[name].to_numpy().tobytes() == theirs[name].to_numpy().tobytes(), name
        else:
            assert mine[name].equals(theirs[name], null_equal=True), name
    one, two = state(folder), state(other)
    for name in ("rows", "rounds", "scores", "effects", "combination", "arms", "classes", "features", "latest"):
        assert one[name] == two[name], name
    assert [event["sentence"] for event in one["events"]] == [event["sentence"] for event in two["events"]]
    assert ud.load(folder).model == ud.load(other).model
    (_, first), (_, second) = (store.read(path / "trace.undrift") for path in (folder, other))
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], name)


@pytest.mark.parametrize("case", CASES)
def test_run_service_update_and_rollback_equal_one_long_run(tmp_path, case):
    rows = draw(case)
    files = {n: write(tmp_path / f"{n}.csv", rows[:n]) for n in (FIRST, SERVED, ROWS)}
    whole = {n: tmp_path / f"whole {n}" for n in files}
    for n, file in files.items():
        play_file(file, whole[n], settings(case))
    folder = tmp_path / "run"
    play_file(files[FIRST], folder, settings(case))
    serve(folder, rows[FIRST:SERVED])
    require_equal(folder, whole[SERVED])
    update_run(folder, write(tmp_path / "rest.csv", rows[SERVED:]))
    require_equal(folder, whole[ROWS])
    assert [(one.by, one.rows) for one in list_versions(folder)] == [
        ("run", FIRST),
        ("serve", SERVED),
        ("update", ROWS),
    ]
    for number, n in ((2, SERVED), (1, FIRST), (3, ROWS), (2, SERVED)):
        rollback_run(folder, number)
        require_equal(folder, whole[n])
        assert not (folder / "report.html").exists()
        assert run(["report", str(folder)]) == 0
        assert f"{n:,} rows of 200.csv" in (folder / "report.html").read_text()
    update_run(folder, write(tmp_path / "again.csv", rows[SERVED:]))
    require_equal(folder, whole[ROWS])


@pytest.mark.parametrize("case", ["numbers", "several classes"])
def test_an_update_after_a_killed_service_begins_with_what_is_in_its_journal(tmp_path, case):
    rows = draw(case)
    first, whole = (write(tmp_path / f"{n}.csv", rows[:n]) for n in (FIRST, ROWS))
    play_file(whole, tmp_path / "whole", settings(case))
    play_file(first, tmp_path / "run", settings(case))
    leave_killed(tmp_path / "run", rows[FIRST:SERVED], tmp_path / "killed")
    assert state(tmp_path / "killed")["rows"] == FIRST
    assert run(["update", str(tmp_path / "killed"), write(tmp_path / "rest.csv", rows[SERVED:]), "-q"]) == 0
    require_equal(tmp_path / "killed", tmp_path / "whole")
    assert [one.by for one in list_versions(tmp_path / "killed")] == ["run", "serve", "update"]


def test_a_pipe_goes_on_from_what_a_killed_service_left_in_its_journal(tmp_path, monkeypatch):
    rows = draw("numbers")
    play_file(write(tmp_path / "first.csv", rows[:FIRST]), tmp_path / "run", settings("numbers"))
    leave_killed(tmp_path / "run", rows[FIRST:SERVED], tmp_path / "killed")
    lines = "".join(json.dumps(row) + "\n" for row in rows[SERVED:])
    (tmp_path / "rest.ndjson").write_text(lines)
    words = [
        "run",
        str(tmp_path / "rest.ndjson"),
        "--live",
        "-t",
        "y",
        "--resume",
        "-o",
        str(tmp_path / "killed"),
        "-q",
    ]
    assert run(words) == 0
    play_file(write(tmp_path / "whole.csv", rows), tmp_path / "whole", settings("numbers"))
    require_equal(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.parametrize("read", ["load", "predict", "report"])
def test_a_folder_is_read_whole_while_its_service_commits(tmp_path, monkeypatch, read):
    """The file that a reader is about to open goes with the commit that follows."""
    rows = draw("numbers")
    play_file(write(tmp_path / "first.csv", rows[:FIRST]), tmp_path / "run", settings("numbers"))
    ahead = write(tmp_path / "ahead.csv", [{**row, "y": None} for row in rows[SERVED : SERVED + 2]])
    with open_service(tmp_path / "run") as service:
        commits, at = [], iter(rows[FIRST:])

        def commit_before(call):
            def read_late(*args, **options):
                if len(commits) < 2:
                    row = next(at)
                    (answer,) = service.predict([{name: cell for name, cell in row.items() if name != "y"}])
                    service.learn([Label(answer.id, row["y"])])
                    commits.append(service.save())
                return call(*args, **options)

            return read_late

        monkeypatch.setattr(store, "read", commit_before(store.read))
        if read == "load":
            assert ud.load(tmp_path / "run").rounds == FIRST + 2
        elif read == "predict":
            assert sum(map(len, predict_file(tmp_path / "run", ahead).frames())) == 2
        else:
            assert read_run(tmp_path / "run").rounds == FIRST + 2
        assert len(commits) == 2
