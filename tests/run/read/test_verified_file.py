"""A file that changes while it is read: no row is learned that the recorded digest does not cover."""

import hashlib
import json
import os

import polars as pl
import pytest

from tests.run.row_files import table, write_csv, write_ndjson
from undrift.errors import DataError
from undrift.run import Settings, certify_run, play_file, read_run, replay_run
from undrift.run.read import csv_file, ndjson, parquet, verified_file
from undrift.run.read.source import Source

SETTINGS = Settings(target="y", drop=("hot", "city"), speed="fast")


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(verified_file, "PIECE", 2048)
    for module in (csv_file, ndjson):
        monkeypatch.setattr(module, "BATCH_ROWS", 64)
    monkeypatch.setattr(parquet, "BATCH_ROWS", 64)
    monkeypatch.setattr(parquet, "SLICE", 64)


def write(path, rows=3000, seed=0):
    columns = table(rows, seed)
    if path.suffix == ".parquet":
        pl.DataFrame(columns).write_parquet(path)
    else:
        (write_csv if path.suffix == ".csv" else write_ndjson)(path, columns)
    return path


def once(act):
    """Return what acts when it is first told of progress."""
    calls = iter([act])
    return lambda _: next(calls, lambda: None)()


def append(path, text):
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("name", ["t.csv", "t.ndjson"])
def test_what_is_appended_meanwhile_is_not_seen(tmp_path, name):
    path = write(tmp_path / name)
    before, more = path.read_bytes(), write(tmp_path / f"more{path.suffix}", 200, 1).read_text().split("\n", 1)[1]
    play_file(str(path), tmp_path / "run", SETTINGS, progress=once(lambda: append(path, more)))
    assert len(path.read_bytes()) > len(before)
    run = read_run(tmp_path / "run")
    assert run.rounds == 3000
    assert run.learned[0]["sha256"] == hashlib.sha256(before).hexdigest()
    assert run.learned[0]["size"] == len(before)
    assert certify_run(tmp_path / "run")["certificates"][0]["rounds"] == 3000
    assert replay_run(tmp_path / "run")


def overwrite(path):
    """Change one digit near the end, in place, so that neither the size nor the file is another one."""
    content = bytearray(path.read_bytes())
    at = next(at for at in range(len(content) - 60, 0, -1) if content[at] in b"123456789")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"0")


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("act", [overwrite, cut])
@pytest.mark.parametrize("name", ["t.csv", "t.ndjson", "t.parquet"])
def test_what_changes_meanwhile_is_refused(tmp_path, name, act):
    path = write(tmp_path / name)
    whole = Source(str(path), SETTINGS)
    labels = [float(y) for batch in whole.batches() for y in batch.columns["y"]]
    with pytest.raises(DataError, match=r"changed while it was read, and what was learned would be of two files"):
        play_file(str(path), tmp_path / "run", SETTINGS, progress=once(lambda: act(path)))
    state = (
        json.loads((tmp_path / "run" / "run.json").read_text()) if (tmp_path / "run" / "run.json").exists() else None
    )
    if state is not None:
        assert state["status"] == "running"
        assert read_run(tmp_path / "run").y.tolist() == labels[: state["rounds"]]


def test_parquet_that_is_replaced_meanwhile_is_refused(tmp_path):
    path, other = write(tmp_path / "t.parquet"), write(tmp_path / "other.parquet", seed=1)
    with pytest.raises(DataError, match="changed while it was read"):
        play_file(str(path), tmp_path / "run", SETTINGS, progress=once(lambda: other.replace(path)))


def test_text_that_is_replaced_meanwhile_is_read_to_its_end(tmp_path):
    path, other = write(tmp_path / "t.csv"), write(tmp_path / "other.csv", seed=1)
    before = path.read_bytes()
    play_file(str(path), tmp_path / "run", SETTINGS, progress=once(lambda: other.replace(path)))
    run = read_run(tmp_path / "run")
    assert run.y.tolist() == table(3000)["y"]
    assert run.learned[0]["sha256"] == hashlib.sha256(before).hexdigest()


def test_a_line_that_is_being_written_is_not_taken_for_a_whole_one(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3,4\n5,6")
    source = Source(str(path), SETTINGS)
    assert len(next(source.batches()).lines) == 3  # nobody writes: a file may end without a line end
    append(path, "78\n")
    with pytest.raises(DataError, match="line 4: someone is writing this line; start again with a copy of the file"):
        list(source.batches())
    assert list(next(Source(str(path), SETTINGS, size=15).batches()).columns["y"]) == ["2", "4", "6"]
