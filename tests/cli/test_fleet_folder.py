"""The folder of `undrift fleet`: one writer, one question, nothing learned twice, nothing of others touched."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.run.fleet import play as fleet_play

OPTIONS = ("-k", "pump", "-t", "heat", "--order", "n", "--no-report", "--quiet", "-o", "out")
# Tests that are run by nohup would hand down that SIGHUP is ignored.
HEAR = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
COMMAND = [sys.executable, "-c", f"{HEAR}; from undrift.cli import main; main()", "fleet"]


def pumps(rounds=40, pumps=5):
    rng = np.random.default_rng(0)
    n = rounds * pumps
    columns = {
        "n": np.repeat(np.arange(rounds), pumps),
        "pump": np.tile(np.arange(pumps), rounds),
        "load": rng.normal(size=n),
    }
    return pl.DataFrame(columns).with_columns(speed=rng.normal(size=n), heat=pl.col("load") * 2 + rng.normal(size=n))


def results(folder="out"):
    """Everything that was learned and said."""
    with contextlib.closing(sqlite3.connect(Path(folder, "fleet.db"))) as db:
        states = db.execute("SELECT key, state FROM states ORDER BY key").fetchall()
        done = db.execute("SELECT records FROM progress").fetchall()
    return states, done, Path(folder, "predictions.csv").read_bytes(), Path(folder, "keys.csv").read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("-t", "speed"), "this fleet has target = 'heat', not 'speed'"),
        (("-k", "speed"), "this fleet has key = 'pump', not 'pump, speed'"),
        (("--wait", "3"), "this fleet has wait = 0, not 3"),
        (("-f", "load"), "this fleet has features = ['load', 'speed'], not ['load']"),
        (("--limit", "100"), "this fleet has limit = None, not 100"),
        (("--na", "-1"), "this fleet has na = [], not ['-1']"),
        (("--seed", "3"), "this fleet has model seed = 0, not 3"),
        (("--speed", "best"), "this fleet has model speed = 'light', not 'best'"),
        (("--task", "regression"), "this fleet has task = 'auto', not 'regression'"),
    ],
)
def test_a_fleet_that_was_asked_something_else_is_refused(call, change, words):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    before = results()
    code, out, err = call("fleet", "pumps.csv", *OPTIONS, *change)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "replace it with --force, or choose another folder with --out" in err
    assert results() == before
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    assert results() == before


def test_without_order_is_another_question_too(call):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    options = ("-k", "pump", "-t", "heat", "--drop", "n", "--no-report", "-o", "out")
    code, _, err = call("fleet", "pumps.csv", *options)
    assert code == 2
    assert "this fleet has order = 'n', not None" in err


def test_a_file_that_grew_is_not_learned_again(call):
    pumps(40).write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    before = results()
    pumps(41).write_csv("pumps.csv")
    code, out, err = call("fleet", "pumps.csv", *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "out: the fleet of another file, or of this one before it changed; learn new rows with undrift update" in err
    assert results() == before


def test_force_replaces_a_fleet_by_what_a_new_folder_would_hold(call):
    pumps(40).write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    pumps(41).write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS, "--wait", "2", "--force")[0] == 0
    assert call("fleet", "pumps.csv", *OPTIONS, "--wait", "2", "-o", "fresh")[0] == 0
    assert results() == results("fresh")
    assert sorted(os.listdir("out")) == sorted(os.listdir("fresh"))
    assert call("fleet", "pumps.csv", *OPTIONS, "--force", "-o", "third")[0] == 0  # where there is none


@pytest.mark.parametrize("change", [("-t", "nope"), ("--order", "speed"), ("--wait", "soon"), ("-f", "nope")])
def test_force_destroys_nothing_before_the_new_fleet_works(call, change):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    before = results()
    assert call("fleet", "pumps.csv", *OPTIONS, *change, "--force")[0] in (2, 3)
    assert results() == before


def test_force_keeps_the_old_fleet_if_the_first_batch_fails(call, monkeypatch):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    before = results()

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("undrift.fleet.executor.Executor.advance", fail)
        code, _, err = call("fleet", "pumps.csv", *OPTIONS, "--seed", "1", "--force")
    assert (code, err) == (1, "undrift: out: the disk is full; make room, then give the same command again\n")
    assert results() == before


def test_files_of_others_stay(call):
    pumps().write_csv("pumps.csv")
    Path("out").mkdir()
    Path("out/keys.csv").write_text("mine")
    for more in ((), ("--force",)):
        code, out, err = call("fleet", "pumps.csv", *OPTIONS, *more)
        assert (code, out) == (2, "")
        assert "keys.csv: this is not a file that undrift wrote there" in err
    assert {path.name: path.read_text() for path in Path("out").iterdir()} == {"keys.csv": "mine"}
    Path("out/keys.csv").rename("out/mine.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    assert call("fleet", "pumps.csv", *OPTIONS, "--seed", "1", "--force")[0] == 0
    assert Path("out/mine.csv").read_text() == "mine"


@pytest.mark.parametrize("name", ["fleet.db", "predictions.csv", "keys.csv", "report.html"])
def test_links_are_not_followed(call, name):
    pumps().write_csv("pumps.csv")
    Path("out").mkdir()
    Path("precious").write_text("precious")
    Path("out", name).symlink_to(Path("precious").absolute())
    code, out, err = call("fleet", "pumps.csv", *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert Path("precious").read_text() == "precious"


def test_a_second_process_is_turned_away(call):
    pumps().write_csv("pumps.csv")
    with fleet_play.Folder("out", "fleet").hold_lock():
        code, out, err = call("fleet", "pumps.csv", *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is writing this fleet; wait for it to end" in err


def test_even_without_a_lock_no_record_is_learned_twice(tmp_path, monkeypatch):
    """A second writer that got past the lock finds that the progress is not what it was."""
    rows = [{"k": n % 3, "x": 1.0, "y": float(n)} for n in range(90)]
    fleet = ud.Fleet(ud.DiscountedVAW(), key="k", features=["x"], target="y")
    whole = fleet.run(rows)

    def interfere(done):
        if done == 30:
            fleet.run(rows, folder=tmp_path, batch=30)

    with monkeypatch.context() as patch:
        patch.setattr(fleet_play.Folder, "hold_lock", lambda self: contextlib.nullcontext())
        patch.setattr(fleet_play.Folder, "claim", lambda *_: None)
        patch.setattr(fleet_play.Folder, "adopt", lambda *_: None)
        message = "another process wrote to this fleet meanwhile (90 records instead of 30); nothing was learned twice"
        with pytest.raises(InputError, match=re.escape(message)):
            fleet.run(rows, folder=tmp_path, batch=30, progress=interfere)
    kept = fleet.run(rows, folder=tmp_path, batch=30)
    assert kept.outputs.canonical() == whole.outputs.canonical()
    assert dict(kept.states) == dict(whole.states)


def test_other_records_under_the_same_name_are_refused_in_python(tmp_path):
    fleet = ud.Fleet(ud.DiscountedVAW(), key="k", features=["x"], target="y")
    rows = [{"k": n % 3, "x": 1.0, "y": float(n)} for n in range(90)]
    fleet.run(rows, folder=tmp_path, source="monday", batch=40)
    for other in (rows[1:], rows[:80], [*rows[:50], {**rows[50], "y": 0.0}, *rows[51:]]):
        with pytest.raises(
            InputError, match="the first 90 records of the source 'monday' are not the ones that were learned"
        ):
            fleet.run(other, folder=tmp_path, source="monday")
    grown = fleet.run([*rows, rows[0]], folder=tmp_path, source="monday", batch=7)  # another cut is the same records
    assert grown.outputs.count() == {"ok": 91}
    with pytest.raises(InputError, match="made with target = 'y', not 'x'"):
        ud.Fleet(ud.DiscountedVAW(), key="k", features=["y"], target="x").run(rows, folder=tmp_path)


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_a_file_in_the_way_is_one_sentence(call, out):
    pumps().write_csv("pumps.csv")
    Path("file").write_text("mine")
    code, stdout, err = call("fleet", "pumps.csv", *OPTIONS, "-o", out)
    assert (code, stdout, err.count("\n")) == (2, "", 1)
    assert "a file is in the way of the folder" in err
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize(
    ("code", "exit_code", "sentence"),
    [
        (sqlite3.SQLITE_FULL, 1, "out: the disk is full; make room, then give the same command again"),
        (sqlite3.SQLITE_READONLY, 2, "out: cannot be written (said so); make it writable, or choose another folder"),
        (sqlite3.SQLITE_CANTOPEN, 2, "out: cannot be written (said so); make it writable, or choose another folder"),
        (sqlite3.SQLITE_IOERR, 2, "out: cannot be written (said so); make it writable, or choose another folder"),
        (sqlite3.SQLITE_BUSY, 2, "out: another process is writing this fleet; wait for it to end"),
        (sqlite3.SQLITE_CORRUPT, 3, "fleet.db: damaged, or not a fleet of undrift's; choose another folder"),
    ],
)
def test_what_the_disk_answers_is_one_sentence(call, monkeypatch, code, exit_code, sentence):
    pumps().write_csv("pumps.csv")

    def refuse(*_):
        error = sqlite3.OperationalError("said so")
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr("undrift.fleet.state_store._make_or_check", refuse)
    got, out, err = call("fleet", "pumps.csv", *OPTIONS)
    assert (got, out, err.count("\n")) == (exit_code, "", 1)
    assert sentence in err
    assert "--resume" not in err


def test_help_does_not_offer_the_standard_input(call):
    assert "standard input" not in call("fleet", "--help")[1]


def started(file, folder, *more):
    command = [*COMMAND, str(file), "-k", "pump", "-t", "heat", "--order", "n", "--quiet", "-o", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_within_moments_and_the_same_command_continues(tmp_path, number):
    file = tmp_path / "pumps.csv"
    pumps(16_000, 40).write_csv(file)
    process = started(file, tmp_path / "out")
    while not (tmp_path / "out" / "fleet.db").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.startswith("undrift: interrupted; ")
    assert "the same command continues" in err
    assert err.count("\n") == 1
    left = {path.name for path in (tmp_path / "out").glob("*")}
    assert left <= {".undrift", "fleet.db", "fleet.db-journal"}


def test_what_a_killed_fleet_left_is_removed(call):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    expected = results()
    own = Path("out/.undrift")
    (own / "tmp-0123abcd-predictions.csv").write_bytes(bytes(1000))
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    assert [path.name for path in own.iterdir() if path.name.startswith("tmp-")] == []
    assert results() == expected


def test_a_fleet_moved_without_its_manifest_goes_on(call):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS)[0] == 0
    expected = results()
    Path("elsewhere").mkdir()
    shutil.copy("out/fleet.db", "elsewhere/fleet.db")
    code, out, _ = call("fleet", "pumps.csv", *OPTIONS, "-o", "elsewhere", "--json")
    assert (code, json.loads(out)["rounds"]) == (0, 200)
    assert results("elsewhere") == expected
