"""A run that was killed and resumed is the run that never was: the same bits."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from tests.run.row_files import table, without_times, write_csv
from undrift import store
from undrift.errors import InputError, ModelFileError
from undrift.run import Interrupted, Settings, play_file
from undrift.run.play import run_loop
from undrift.run.read import csv_file

SETTINGS = Settings(target="y", drop=("hot",), speed="fast", lag=(1, 3), calendar=True)


class Crash(BaseException):
    """Stands for a kill: nothing may catch it."""


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 64)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 2)


def result(folder):
    """Return everything a run left behind but for times and paths."""
    state = without_times(json.loads((folder / "run.json").read_text()))
    files = [_bits(folder / name) for name in ("model.undrift", "trace.undrift")]
    frame = pl.read_parquet(folder / "predictions.parquet")
    return state, files, [(name, frame[name].to_numpy().tobytes()) for name in frame.columns]


def _bits(path):
    header, arrays = store.read(path)
    return header, {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("delay", [0, 5])
def test_a_crash_at_any_rename_costs_nothing(tmp_path, monkeypatch, small_batches, delay):
    settings = Settings(**{**SETTINGS.as_dict(), "delay": delay, "lag": (delay + 1, delay + 3)})
    columns = table(400)
    columns["city"][300:] = ["Kiel"] * 100  # a text that comes late
    path = str(write_csv(tmp_path / "t.csv", columns))
    play_file(path, tmp_path / "whole", settings)
    expected = result(tmp_path / "whole")
    replace, crashes = os.replace, 0
    for at in range(0, 60, 2 if delay == 0 else 9):
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
        play_file(path, folder, settings, resume=True)
        assert result(folder) == expected, at
        assert sorted(file.name for file in folder.iterdir() if file.name != ".undrift") == [
            "model.undrift",
            "predictions.parquet",
            "run.json",
            "trace.undrift",
        ]
        if calls <= at:
            break
    assert crashes >= (6 if delay == 0 else 2)


def test_stopping_at_a_batch_leaves_a_run_that_goes_on(tmp_path, small_batches):
    path = str(write_csv(tmp_path / "t.csv", table(500)))
    play_file(path, tmp_path / "whole", SETTINGS)
    asked = iter([False, True])
    with pytest.raises(Interrupted):
        play_file(path, tmp_path / "run", SETTINGS, stop=lambda: next(asked, True))
    assert json.loads((tmp_path / "run" / "run.json").read_text())["rows"] == 128
    said = []
    play_file(path, tmp_path / "run", SETTINGS, resume=True, log=said.append)
    assert said[1:] == [f"{tmp_path / 'run'}: continuing after 128 rows"]
    assert result(tmp_path / "run") == result(tmp_path / "whole")
    play_file(path, tmp_path / "run", SETTINGS, resume=True, log=said.append)
    assert said[-1] == f"{tmp_path / 'run'}: this run is finished, 500 rows; nothing to do"


def test_a_process_that_is_killed_is_resumed_bit_for_bit(tmp_path):
    path = str(write_csv(tmp_path / "t.csv", table(40_000)))
    play_file(path, tmp_path / "whole", Settings(target="y", drop=("hot",), speed="fast"))
    command = [sys.executable, "-c", "from undrift.cli import main; main()", "run", path, "-t", "y", "--drop", "hot"]
    command += ["--speed", "fast", "--out", str(tmp_path / "run"), "--resume", "--no-report", "--no-certify", "--quiet"]
    dice, kills = random.Random(0), 0
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not (tmp_path / "run" / "run.json").exists():
            time.sleep(0.01)
        time.sleep(dice.uniform(0.0, 0.05))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    assert kills == 2
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert result(tmp_path / "run") == result(tmp_path / "whole")


@pytest.mark.parametrize("speed", ["light", "best", "max"])
def test_every_speed_is_resumed_bit_for_bit_after_a_kill(tmp_path, small_batches, speed):
    path = str(write_csv(tmp_path / "t.csv", table(3000)))
    settings = Settings(target="y", drop=("hot",), speed=speed, delay=3)
    play_file(path, tmp_path / "whole", settings)
    program = (
        "from undrift.run import Settings, play_file; from undrift.run.play import run_loop; "
        "from undrift.run.read import csv_file; csv_file.BATCH_ROWS = 64; run_loop.BATCHES_PER_COMMIT = 2; "
        f"play_file({path!r}, {str(tmp_path / 'run')!r}, Settings(target='y', drop=('hot',), speed={speed!r}, delay=3))"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    while not (tmp_path / "run" / "run.json").exists() or _rows(tmp_path / "run") < 300:  # forests are in work by then
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 300 <= _rows(tmp_path / "run") < 3000
    play_file(path, tmp_path / "run", settings, resume=True)
    assert result(tmp_path / "run") == result(tmp_path / "whole")


def _rows(folder):
    return json.loads((folder / "run.json").read_text())["rows"]


def test_another_file_or_other_settings_are_refused(tmp_path, small_batches):
    path = write_csv(tmp_path / "t.csv", table(200))
    folder = tmp_path / "run"
    play_file(str(path), folder, SETTINGS)
    before = result(folder)
    with pytest.raises(InputError, match="there is a run already; continue it with --resume, replace it with --force"):
        play_file(str(path), folder, SETTINGS)
    with pytest.raises(InputError, match=r"this run has seed = 0, not 1; resume with the same settings"):
        play_file(str(path), folder, Settings(**{**SETTINGS.as_dict(), "seed": 1}), resume=True)
    other = write_csv(tmp_path / "u.csv", table(200, seed=1))
    with pytest.raises(InputError, match=r"a run of another file \(.*t\.csv, or its contents then\)"):
        play_file(str(other), folder, SETTINGS, resume=True)
    assert result(folder) == before
    play_file(str(other), folder, SETTINGS, force=True)
    assert result(folder) != before
    stranger = tmp_path / "photos"
    stranger.mkdir()
    (stranger / "cat.png").touch()
    with pytest.raises(InputError, match=r"photos: the folder holds other files \(cat\.png\)"):
        play_file(str(path), stranger, SETTINGS)


def test_a_damaged_run_is_refused(tmp_path, small_batches):
    path = write_csv(tmp_path / "t.csv", table(200))
    folder = tmp_path / "run"
    with pytest.raises(Interrupted):
        play_file(str(path), folder, SETTINGS, stop=lambda: True)
    model = next(folder.glob("model-*"))
    model.write_bytes(model.read_bytes()[:-20])
    with pytest.raises(ModelFileError, match="cut off or damaged"):
        play_file(str(path), folder, SETTINGS, resume=True)
    (folder / "run.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"run\.json: cannot be read"):
        play_file(str(path), folder, SETTINGS, resume=True)
