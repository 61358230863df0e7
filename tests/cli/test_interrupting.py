"""`undrift run` that is told to stop ends with a run that goes on, whatever it was doing and whoever told it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

if os.name != "posix":
    pytest.skip("sends signals as POSIX has them", allow_module_level=True)

SCRIPT = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what runs the tests may have told it to ignore them
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
from undrift.cli import main
main()
"""


@pytest.fixture
def work_folder(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{j}": rng.normal(size=200_000) for j in range(3)})
    frame.with_columns(y=pl.col("x0") + pl.Series(rng.normal(size=200_000))).write_csv(tmp_path / "s.csv")
    return tmp_path


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "run", *arguments, "-t", "y", "-o", "run", "-q", "--no-report", "--no-certify"],
        cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_commit(folder):
    while not (folder / "run" / "run.json").exists():
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_told_to_stop_goes_on_where_it_stopped(work_folder, number):
    process = start(work_folder, "s.csv", "--speed", "fast")
    wait_for_commit(work_folder)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (128 + number, "")
    state = json.loads((work_folder / "run" / "run.json").read_text())
    assert state["status"] == "running"
    assert error == f"undrift: interrupted; run holds {state['rows']:,} rows; continue with --resume\n"
    assert not list((work_folder / "run" / ".undrift").glob("tmp-*"))


def test_a_run_that_waits_for_its_input_stops_at_once(work_folder):
    process = start(work_folder, "-", "--limit", "100000")
    with (work_folder / "s.csv").open() as file:
        process.stdin.write("".join(file.readline() for _ in range(5 * 4096)))  # the fifth batch is cut off
    process.stdin.flush()
    wait_for_commit(work_folder)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    rows = json.loads((work_folder / "run" / "run.json").read_text())["rows"]
    assert rows == 4 * 4096
    assert error == f"undrift: interrupted; run holds {rows:,} rows; start again\n"


def test_a_finished_run_whose_report_was_interrupted_says_so(work_folder, monkeypatch, capsys):
    from undrift import run
    from undrift.cli.app import run as undrift

    monkeypatch.chdir(work_folder)
    real = run.write_report

    def interrupted(folder, render):
        before = signal.getsignal(signal.SIGTERM)
        assert before is not signal.SIG_DFL  # the command listens
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(run, "write_report", interrupted)
    given = ["run", "s.csv", "-t", "y", "--speed", "fast", "-q", "--limit", "2000", "-o", "run"]
    assert undrift(given) == 128 + signal.SIGTERM
    sentence = "undrift: interrupted; the run in run is finished; what is missing of it comes with --resume\n"
    assert capsys.readouterr().err == sentence
    monkeypatch.setattr(run, "write_report", real)
    assert undrift([*given, "--resume"]) == 0
    assert (work_folder / "run" / "report.html").exists()
