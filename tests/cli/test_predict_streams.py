"""undrift predict of files without end: rows come out as they come in, and it stops when it is told to."""

import contextlib
import json
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import weakref
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

from undrift import load
from undrift.run import predict_file
from undrift.run.tables import TableFile, as_csv

POSIX = pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
SCRIPT = """
import hashlib, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what runs the tests may have told it to ignore them
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
from undrift.run import tables
if sys.argv[1] == "stuck":  # one long call into compiled code, which no signal handler can enter
    def join_parquet(parts, path):
        path.write_bytes(b"PAR1")
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    tables.join_parquet = join_parquet
from undrift.cli import main
del sys.argv[1]
main()
"""


@pytest.fixture(params=["numbers", "lags", "labels"])
def run(request, call):
    """A run over 300 rows; the 9000 rows after it, more than two batches, with texts, times and gaps, as a file."""
    rng, count = np.random.default_rng(0), 9300
    y = np.cumsum(rng.normal(size=count))
    rows = pl.DataFrame(
        {
            "when": [datetime(2024, 1, 1) + timedelta(minutes=7 * k, microseconds=k % 3) for k in range(count)],
            "x": rng.normal(size=count),
            "city": rng.choice(["Oslo", "=Rome", "Bonn"], size=count),
            "y": np.where(y > np.median(y[:300]), '=yes, "really"', "@no") if request.param == "labels" else y,
        }
    )
    rows[:300].write_csv("past.csv")
    gap = pl.int_range(pl.len()) % 997 == 5
    future = rows[300:].with_columns(
        pl.when(gap).then(None).otherwise("when").alias("when"), pl.when(gap).then(math.inf).otherwise("x").alias("x")
    )
    future.drop([] if request.param == "lags" else ["y"]).write_csv("future.csv")
    options = ["--lag", "1,3"] if request.param == "lags" else []
    assert call("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run", *options)[0] == 0
    return call


def test_what_comes_in_parts_is_what_the_whole_would_be(run):
    found = predict_file("run", "future.csv")
    frames = list(found.frames())
    assert [len(frame) for frame in frames] == [4096, 4096, 808]
    whole = pl.concat(frames, rechunk=True)
    expected = as_csv(whole)
    assert run("predict", "run", "future.csv", "-q") == (0, expected, "")
    code, out, err = run("predict", "run", "future.csv", "-o", "said.csv")
    assert code == 0
    assert Path("said.csv").read_bytes() == expected.encode()
    assert err.splitlines() == ["9,000 rows predicted, said.csv", *(f"undrift: {note}" for note in found.notes)]
    shown = whole["prediction" if "prediction" in whole.columns else "p(@no)"].to_numpy()
    assert f"from {shown.min():.4g} to {shown.max():.4g}, {shown.mean():.4g} on average" in out
    assert run("predict", "run", "future.csv", "-o", "said.parquet", "-q") == (0, "", "")
    whole.write_parquet("expected.parquet")
    assert Path("said.parquet").read_bytes() == Path("expected.parquet").read_bytes()
    texts = whole.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict"))
    columns = {
        name: [None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in texts[name]]
        for name in texts.columns
    }
    facts = {"rows": 9000, "target": "y", "file": None, "notes": list(found.notes), "predictions": columns}
    assert run("predict", "run", "future.csv", "-q", "--json") == (0, json.dumps(facts, indent=2) + "\n", "")
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_parts_of_parquet_are_joined_in_order(call, monkeypatch):
    monkeypatch.setattr("undrift.run.tables.PART", 2)
    Path("past.csv").write_text("x,y\n" + "1,2.5\n3,5.1\n2,2.2\n" * 30)
    Path("future.csv").write_text("x\n" + "".join(f"{k % 7}\n" for k in range(30_000)))
    assert call("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run")[0] == 0
    assert call("predict", "run", "future.csv", "-q", "-o", "said.parquet") == (0, "", "")
    assert pl.read_parquet("said.parquet").equals(pl.concat(predict_file("run", "future.csv").frames()))


def test_texts_the_run_never_met_take_no_room(call):
    Path("past.csv").write_text("x,c,y\n" + "1,a,2.5\n3,b,5.1\n2,,2.2\n" * 30)
    assert (
        call("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run", "--missing", "fill")[0]
        == 0
    )
    cells = ["a", "b", "", *(f"new {k}" for k in range(12_000))]
    Path("future.csv").write_text("x,c\n" + "".join(f"1,{cell}\n" for cell in cells))
    found = predict_file("run", "future.csv")
    said = pl.concat(found.frames())["prediction"].to_list()
    assert found.features == ["x", "c=a", "c=b"]
    model = load("run/model.undrift").model
    rows = [{"x": 1.0, "c=a": 1.0, "c=b": 0.0}, {"x": 1.0, "c=a": 0.0, "c=b": 1.0}]
    rows += [{"x": 1.0, "c=a": math.nan, "c=b": math.nan}, {"x": 1.0, "c=a": 0.0, "c=b": 0.0, "c=new 0": 1.0}]
    assert said[:4] == model.predict(rows).tolist()
    assert set(said[3:]) == {said[3]}


@pytest.mark.parametrize("name", ["said.csv", "said.parquet"])
def test_frames_are_let_go_once_they_are_written(tmp_path, monkeypatch, name):
    monkeypatch.setattr("undrift.run.tables.PART", 3)
    made, most = [], []

    def frames():
        for k in range(50):
            frame = pl.DataFrame({"line": np.arange(10) + 10 * k})
            made.append(weakref.ref(frame))
            most.append(sum(one() is not None for one in made))
            yield frame
            del frame

    TableFile(tmp_path / name).write(frames())
    assert max(most) <= 2 * 3  # those of a part, and of the one before
    read = pl.read_csv if name.endswith("csv") else pl.read_parquet
    assert read(tmp_path / name)["line"].to_list() == list(range(500))


def test_an_error_on_the_way_leaves_the_old_file_and_nothing_else(call):
    Path("past.csv").write_text("x,y\n" + "1,2.5\n3,5.1\n2,2.2\n" * 30)
    Path("future.csv").write_text("x\n" + "1\n" * 9000 + "one\n")
    assert call("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run")[0] == 0
    for name in ("said.csv", "said.parquet"):
        Path(name).write_text("old")
        before = sorted(os.listdir())
        code, out, err = call("predict", "run", "future.csv", "-o", name)
        assert (code, out) == (3, "")
        assert "line 9002: 'x' is a column of numbers, got 'one'; correct the cell, empty it if it means missing" in err
        assert err.endswith("or run the first file again with --drop 'x'\n")
        assert (sorted(os.listdir()), Path(name).read_text()) == (before, "old")
    for name, sentence in (("nowhere/said.csv", "there is no such folder"), ("run.csv", "a folder is there")):
        Path("run.csv").mkdir(exist_ok=True)
        code, _, err = call("predict", "run", "future.csv", "-o", name)
        assert (code, len(err.splitlines())) == (2, 1)
        assert sentence in err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run, and a small file of thirty billion rows."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "past.csv").write_text("x,y\n" + "1,2.5\n3,5.1\n2,2.2\n" * 30)
    command = ["run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run"]
    assert (
        subprocess.run([sys.executable, "-m", "undrift", *command], cwd=folder, stdout=subprocess.DEVNULL).returncode
        == 0
    )
    piece = zstandard.compress(b"7\n" * (1 << 25))
    (folder / "rows.csv.zst").write_bytes(zstandard.compress(b"x\n1\n") + piece * 1000)
    return folder


@pytest.fixture
def endless(made, tmp_path):
    """A copy of them for one test."""
    return Path(shutil.copytree(made, tmp_path / "made"))


@pytest.fixture
def start(endless):
    """Return a function that starts undrift predict with that run."""
    started = []

    def begin(*arguments, how="plain"):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, how, "predict", "run", *arguments],
            cwd=endless, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


NOT_COMPLETE = "undrift: interrupted; the output is not complete, start again\n"


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_rows_come_at_once_and_end_when_told(start, number):
    process = start("rows.csv.zst")
    rows = [process.stdout.readline() for _ in range(20_000)]
    process.send_signal(number)
    rows += process.stdout
    assert (process.wait(timeout=60), process.stderr.read()) == (128 + number, NOT_COMPLETE)
    assert rows[0] == "line,prediction,lower,upper\n"
    assert (len(rows) - 1) % 4096 == 0  # whole batches, so whole rows


@POSIX
def test_a_reader_that_does_not_read_does_not_keep_it(start):
    process = start("rows.csv.zst")
    select.select([process.stdout], [], [])
    time.sleep(0.5)  # the pipe is full by now
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=60), process.stderr.read()) == (128 + signal.SIGTERM, NOT_COMPLETE)


@POSIX
def test_a_reader_that_leaves_ends_it_quietly(start):
    process = start("rows.csv.zst")
    assert process.stdout.readline() == "line,prediction,lower,upper\n"
    process.stdout.close()
    assert (process.wait(timeout=60), process.stderr.read()) == (1, "")


@POSIX
def test_json_that_is_interrupted_is_not_begun(start):
    process = start("-", "--json")
    process.stdin.write("x\n" + "1\n" * 200_000)  # more than a pipe holds: it has read most of this when we go on
    process.stdin.flush()
    process.send_signal(signal.SIGTERM)
    assert (process.wait(timeout=60), process.stdout.read(), process.stderr.read()) == (143, "", NOT_COMPLETE)


@POSIX
@pytest.mark.parametrize("name", ["said.csv", "said.parquet"])
def test_a_file_that_is_interrupted_is_as_it_was_before(endless, start, name):
    (endless / name).write_text("old")
    before = sorted(os.listdir(endless))
    process = start("rows.csv.zst", "-o", name)
    while sorted(os.listdir(endless)) == before:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (143, "", f"undrift: interrupted; {name} is as it was before\n")
    assert sorted(os.listdir(endless)) == before
    assert (endless / name).read_text() == "old"


@POSIX
def test_a_call_that_cannot_be_interrupted_leaves_nothing_either(endless, start):
    (endless / "few.csv").write_text("x\n" + "1\n" * 65 * 4096)
    before = sorted(os.listdir(endless))
    process = start("few.csv", "-o", "said.parquet", how="stuck")
    while not list(endless.glob(".said.parquet.*/whole")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (143, "undrift: interrupted; said.parquet is as it was before\n")
    assert sorted(os.listdir(endless)) == before


def test_the_folder_of_the_run_comes_first(call):
    Path("past.csv").write_text("x,y\n" + "1,2.5\n3,5.1\n2,2.2\n" * 30)
    assert call("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "--no-report", "-o", "run")[0] == 0
    code, out, err = call("predict", "past.csv", "run")
    assert (code, out) == (2, "")
    assert err == "undrift: run is a folder and past.csv a file; the folder of the run comes first\n"
