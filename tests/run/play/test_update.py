"""`undrift update` of a run: new rows, nothing twice, the same bits as one long file."""

import json
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run
from undrift.errors import LearnedBeforeError
from undrift.run import certify_run, update_run
from undrift.run.play.run_folder import RunFolder

OPTIONS = ["-t", "y", "--lag", "1,3", "--calendar", "--no-report", "--no-certify", "-q"]


def lines(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, kind = rng.normal(size=rows), rng.integers(0, 3, size=rows)
    y = x + kind + 0.1 * rng.normal(size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(3600, "s")
    return [f"{t},{a:.6f},{'abc'[k]},{b:.6f}" for t, a, k, b in zip(times, x, kind, y, strict=True)]


def write(path, rows):
    path.write_text("\n".join(["time,x,kind,y", *rows]) + "\n")
    return str(path)


def state(folder):
    return json.loads((folder / "run.json").read_text())


def assert_same(a, b, *, line=True):
    one, two = (RunFolder(folder).table(state(folder)) for folder in (a, b))
    names = [name for name in one.columns if line or name != "line"]
    assert one.columns == two.columns
    assert one.select(names).equals(two.select(names))
    assert ud.load(a / state(a)["model"]) == ud.load(b / state(b)["model"])
    assert state(a)["rows"] == state(b)["rows"]
    for name, scores in state(a)["scores"].items():
        assert scores == pytest.approx(state(b)["scores"][name])


@pytest.fixture
def begun(tmp_path):
    """A finished run of 200 of 300 rows, beside one of all."""
    rows = lines(300)
    write(tmp_path / "first.csv", rows[:200])
    write(tmp_path / "whole.csv", rows)
    for name in ("first", "whole"):
        assert run(["run", str(tmp_path / f"{name}.csv"), *OPTIONS, "-o", str(tmp_path / name)]) == 0
    return tmp_path


def test_rows_day_by_day_are_the_same_as_one_file(begun, capsys):
    rows = lines(300)
    for day in (range(195, 240), range(240, 300)):
        path = write(begun / f"{day.start}.csv", [rows[i] for i in day])
        assert run(["update", str(begun / "first"), path, "--no-report", "-q"]) == 0
    assert "300 rows, 60 of them new" in capsys.readouterr().out
    assert_same(begun / "first", begun / "whole", line=False)
    assert certify_run(begun / "first")["certificates"] == certify_run(begun / "whole")["certificates"]


def test_a_file_that_grew_is_continued_behind_what_was_learned(begun, capsys):
    write(begun / "first.csv", lines(300))
    assert run(["update", str(begun / "first"), str(begun / "first.csv"), "--json", "-q"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["added"], shown["skipped"]) == (100, 200)
    assert_same(begun / "first", begun / "whole")
    assert (begun / "first" / "report.html").exists()
    assert certify_run(begun / "first")["certificates"] == certify_run(begun / "whole")["certificates"]


def test_late_labels_wait_for_the_next_file(begun):
    rows = lines(300)
    late = [*OPTIONS[:2], "--delay", "5", "--no-report", "--no-certify", "-q"]
    for name, end in (("late", 200), ("late-whole", 300)):
        path = write(begun / f"{name}.csv", rows[:end])
        assert run(["run", path, *late, "-o", str(begun / name)]) == 0
    more = write(begun / "more.csv", rows[200:])
    assert run(["update", str(begun / "late"), more, "--no-report", "-q"]) == 0
    assert_same(begun / "late", begun / "late-whole", line=False)


def test_what_was_learned_changes_nothing(begun, capsys):
    folder = begun / "first"
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert run(["update", str(folder), str(begun / "first.csv")]) == 0
    assert "this very file was learned already; nothing was changed" in capsys.readouterr().err
    assert run(["update", str(folder), str(begun / "first.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 0
    with pytest.raises(LearnedBeforeError, match="this very file was learned already"):
        update_run(folder, str(begun / "first.csv"))
    assert run(["update", str(folder), write(begun / "b.csv", ["2025-01-01,x,a,2"])]) == 3
    assert run(["update", str(folder), write(begun / "c.csv", ["2025-01-01,high,a,2"])]) == 3
    assert (
        "got 'high'; correct the cell, empty it if it means missing, or run the first file" in capsys.readouterr().err
    )
    assert run(["update", str(begun), str(begun / "first.csv")]) == 2
    assert "nothing to go on with" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


def test_files_mean_what_their_names_say_after_an_update(begun):
    folder, rows = begun / "first", lines(300)
    names = {file.name for file in folder.iterdir()}
    for number, day in enumerate((range(200, 250), range(250, 300)), start=1):
        path = write(begun / f"{day.start}.csv", [rows[i] for i in day])
        assert run(["update", str(folder), path, "--no-report", "-q"]) == 0
        assert len(pl.read_parquet(folder / "predictions.parquet")) == day.stop
        assert ud.load(folder / "model.undrift").rounds == state(folder)["rounds"]
        names |= {f"run-v{number}.json", f"model-v{number}.undrift", f"trace-v{number}.undrift"}
        assert {file.name for file in folder.iterdir()} == names
    assert (state(folder)["parts"], state(folder)["model"]) == (["predictions.parquet"], "model.undrift")


@pytest.mark.parametrize("renames", [5, 8, 11])
def test_names_that_a_kill_left_are_made_good_by_the_next_update(begun, renames):
    folder, rows = begun / "first", lines(300)
    more = [write(begun / f"{day.start}.csv", [rows[i] for i in day]) for day in (range(200, 250), range(250, 300))]
    kill_update(folder, more[0], renames)
    assert len(RunFolder(folder).table(state(folder))) in (200, 250)
    for path in more:
        assert run(["update", str(folder), path, "--no-report", "-q"]) == 0
    assert len(pl.read_parquet(folder / "predictions.parquet")) == 300
    assert ud.load(folder / "model.undrift") == ud.load(begun / "whole" / "model.undrift")


def kill_update(folder, path, renames):
    """Update in a process that is killed at one of its renames, or not if there are fewer; return its exit code."""
    code = (
        "import os, signal, sys\n"
        "from undrift.cli.app import run\n"
        "count, real = [0], os.replace\n"
        "def replace(a, b):\n"
        "    count[0] += 1\n"
        "    if count[0] == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(a, b)\n"
        "os.replace = replace\n"
        "run(['update', sys.argv[2], sys.argv[3], '--no-report', '-q'])\n"
    )
    return subprocess.run([sys.executable, "-c", code, str(renames), str(folder), path], check=False).returncode


def test_an_update_that_is_killed_is_done_again(begun):
    folder, more = begun / "first", write(begun / "more.csv", lines(300)[200:])
    assert kill_update(folder, more, 4) == -signal.SIGKILL
    if state(folder)["rows"] == 200:
        assert run(["update", str(folder), more, "--no-report", "-q"]) == 0
    assert_same(folder, begun / "whole", line=False)


@pytest.mark.parametrize(("name", "other"), [("x", "xx"), ("y", "Y"), ("kind", "kin")])
def test_a_file_that_lacks_a_column_is_not_learned(begun, capsys, name, other):
    path = begun / "slip.csv"
    header = "time,x,kind,y".replace(f",{name}", f",{other}", 1)
    path.write_text("\n".join([header, *lines(200)[180:]]) + "\n")
    before = (begun / "first" / "run.json").read_bytes()
    assert run(["update", str(begun / "first"), str(path)]) == 2
    err = capsys.readouterr().err
    assert f"has no column '{name}', which this run learns" in err
    assert err.endswith("For rows without labels there is undrift predict.\n") == (name == "y")
    assert (begun / "first" / "run.json").read_bytes() == before
