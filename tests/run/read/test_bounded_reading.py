"""Small files that unpack to huge ones, endless lines, cut and joined streams: memory stays flat."""

import gzip
import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
import zstandard

from undrift.errors import DataError, InputError
from undrift.run import Settings, compare_file
from undrift.run.finish import compare
from undrift.run.read import csv_file, ndjson, parquet, parquet_pages
from undrift.run.read.source import Source
from undrift.run.read.unpack import ZstdReader
from undrift.run.read.verified_file import VerifiedFile

MOST = 300
"""MiB that a process may take while it reads."""
SPEND = """
import pathlib, re, sys
from undrift.cli.app import run
code = run(sys.argv[1:])
used = pathlib.Path("/proc/self/status").read_text()  # rusage would count what the tests held before the process began
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", used)[1]) // 1024, file=sys.stderr)
sys.exit(code)
"""


def spend(folder, *arguments, stdout=subprocess.PIPE, **process):
    """Run a command in a process of its own: exit code, what it said, its largest memory in MiB."""
    command = [sys.executable, "-c", SPEND, *arguments]
    done = subprocess.run(command, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120, **process)
    *said, most = done.stderr.splitlines()
    return done.returncode, "\n".join(said), int(most)


def run(folder, *arguments, **process):
    return spend(folder, "run", *arguments, "-t", "y", "--speed", "fast", "-q", "--no-report", **process)


def zstd_bomb(head, repeated, gigabytes):
    """Return a .zst of some bytes and then so many gigabytes of others, in frames of 64 MiB."""
    piece = zstandard.compress(repeated * ((1 << 26) // len(repeated)))
    return zstandard.compress(head) + piece * int(gigabytes * 16)


def gzip_bomb(head, repeated, gigabytes):
    piece = gzip.compress(repeated * ((1 << 24) // len(repeated)))
    return gzip.compress(head) + piece * int(gigabytes * 64)


HEAD = b"x,y\n1,2.5\n3,5.1\n2,2.2\n"
BOMBS = {
    "a line without end.csv.zst": (lambda: zstd_bomb(HEAD, b"0", 3), "line 5: longer than 4 MiB, the most a line may"),
    "a line without end.csv.gz": (lambda: gzip_bomb(HEAD, b"0", 3), "line 5: longer than 4 MiB, the most a line may"),
    "a header without end.csv.zst": (lambda: zstd_bomb(b"x", b",y", 1), "line 1: longer than 4 MiB"),
    "a quote without end.csv.zst": (
        lambda: zstd_bomb(HEAD + b'"', b'a\n","', 1),
        "a row of more than 4 MiB over several lines; is there a quote that never closes?",
    ),
    "a value without end.ndjson.zst": (lambda: zstd_bomb(b'{"y": 1, "x": "', b"a", 1), "line 1: longer than 4 MiB"),
    "lists in lists.ndjson": (
        lambda: b'{"y": 1, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "line 1: lists or objects too deep in one another; write plain columns",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_in_little_memory(tmp_path, name):
    make, sentence = BOMBS[name]
    (tmp_path / name).write_bytes(make())
    assert (tmp_path / name).stat().st_size < 5_000_000
    code, said, most = run(tmp_path, name)
    assert (code, len(said.splitlines())) == (3, 1), said
    assert sentence in said
    assert most < MOST


@pytest.mark.parametrize("pack", [zstd_bomb, gzip_bomb])
def test_a_limit_stops_the_unpacking(tmp_path, pack):
    ending = "zst" if pack is zstd_bomb else "gz"
    (tmp_path / f"rows.csv.{ending}").write_bytes(pack(HEAD, b"7,8.5\n", 4))
    code, said, most = run(tmp_path, f"rows.csv.{ending}", "--limit", "10")
    assert (code, said) == (0, "")
    assert most < MOST


def test_lines_of_the_standard_input_are_bounded_too(tmp_path):
    with (tmp_path / "long.csv").open("wb") as file:
        file.write(HEAD + b"0" * (1 << 26))
    with (tmp_path / "long.csv").open("rb") as file:
        code, said, most = run(tmp_path, "-", stdin=file)
    assert (code, most < MOST) == (3, True)
    assert "stdin, line 5: longer than 4 MiB" in said


def test_wide_and_long_rows_come_in_smaller_batches(tmp_path, monkeypatch):
    lines = [f"{k},{'z' * (k % 700)}" for k in range(300)]
    for module, name in ((csv_file, "t.csv"), (ndjson, "t.ndjson")):
        monkeypatch.setattr(module, "BATCH_CHARACTERS", 1000)
        if name == "t.csv":
            (tmp_path / name).write_text("\n".join(["y,s", *lines]))
        else:
            pairs = (line.split(",") for line in lines)
            (tmp_path / name).write_text("".join(f'{{"y": {y}, "s": "{s}"}}\n' for y, s in pairs))
        batches = list(Source(str(tmp_path / name), Settings(target="y")).batches())
        assert [int(y) for batch in batches for y in batch.columns["y"]] == list(range(300))
        assert max(sum(map(len, batch.columns["s"])) for batch in batches) < 2000
        assert len(batches) > 30
    monkeypatch.setattr(parquet, "BATCH_CHARACTERS", 1000)
    pl.DataFrame({"y": range(300), "s": [line.split(",")[1] for line in lines]}).write_parquet(tmp_path / "t.parquet")
    batches = list(Source(str(tmp_path / "t.parquet"), Settings(target="y")).batches())
    assert np.concatenate([batch.columns["y"] for batch in batches]).tolist() == list(range(300))
    assert np.concatenate([batch.lines for batch in batches]).tolist() == list(range(1, 301))
    assert max(sum(map(len, batch.columns["s"])) for batch in batches) < 2000


def test_too_many_columns_are_refused(tmp_path, monkeypatch):
    names = [f"c{k}" for k in range(40)]
    (tmp_path / "t.csv").write_text(",".join(names) + "\n")
    (tmp_path / "t.ndjson").write_text("".join(f'{{"{name}": 1}}\n' for name in names))
    pl.DataFrame({name: [1.0] for name in names}).write_parquet(tmp_path / "t.parquet")
    for module, ending, said in (
        (csv_file, "csv", "line 1: 40 columns, where 17 are allowed"),
        (ndjson, "ndjson", "line 18: more than 17 different keys"),
        (parquet, "parquet", "40 columns, where 17 are allowed"),
    ):
        monkeypatch.setattr(module, "MAX_COLUMNS", 17)
        with pytest.raises(DataError, match=said):
            list(Source(str(tmp_path / f"t.{ending}"), Settings(target="y")).batches())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pieces"), [("csv", 3), ("json", 1)])
def test_predictions_are_not_collected(tmp_path, kind, pieces):
    (tmp_path / "past.csv").write_bytes(HEAD + b"1,2.5\n3,5.1\n2,2.2\n" * 30)
    assert run(tmp_path, "past.csv", "-o", "run")[0] == 0
    each = 1 << 19
    (tmp_path / "rows.csv.zst").write_bytes(zstandard.compress(b"x\n1\n") + zstandard.compress(b"7\n" * each) * pieces)
    assert (tmp_path / "rows.csv.zst").stat().st_size < 1000
    options = ["--json"] if kind == "json" else []
    with (tmp_path / f"said.{kind}").open("wb") as file:
        code, said, most = spend(tmp_path, "predict", "run", "rows.csv.zst", "-q", *options, stdout=file)
    assert (code, said) == (0, "")
    assert most < MOST
    rows = 1 + pieces * each
    if kind == "csv":
        with (tmp_path / "said.csv").open("rb") as file:
            assert sum(1 for _ in file) == rows + 1
    else:
        found = json.loads((tmp_path / "said.json").read_bytes())
        assert found["rows"] == rows
        assert [len(column) for column in found["predictions"].values()] == [rows] * 4


# --- Zstandard --------------------------------------------------------------------------------------------------------


def frames(rng):
    """Return some texts packed in every way a frame can be, and the texts joined."""
    texts, packed = [], []
    for k, size in enumerate((0, 1, 100, 70_000, 300_000, 1_000_000)):
        text = bytes(size) if k % 2 else rng.integers(0, 4, size, dtype=np.uint8).tobytes()
        for checksum in (False, True):
            for known in (False, True):
                one = zstandard.ZstdCompressor(level=1 + k, write_checksum=checksum, write_content_size=known)
                packed.append(one.compress(text))
                stream = one.compressobj()  # the size is unknown to the header
                packed.append(stream.compress(text) + stream.flush())
                texts += [text, text]
    skipped = (0x184D2A53).to_bytes(4, "little") + (70_000).to_bytes(4, "little") + bytes(70_000)
    return [packed[0], skipped, *packed[1:], skipped], b"".join(texts)


def unpack(packed):
    reader = ZstdReader(io.BytesIO(packed), "t.csv.zst")
    return io.BufferedReader(reader).read()


def test_frames_of_every_kind_are_unpacked():
    parts, expected = frames(np.random.default_rng(0))
    assert unpack(b"".join(parts)) == expected
    assert unpack(b"") == b""


def test_a_step_unpacks_a_block_at_most():
    reader = ZstdReader(io.BytesIO(zstandard.compress(bytes(1 << 26))), "t.csv.zst")
    buffer = bytearray(1 << 25)
    assert reader.readinto(buffer) <= 1 << 17


def test_a_stream_cut_anywhere_is_said_to_be_cut():
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(b"a,b\n" * 300)
    for end in range(1, len(packed)):
        with pytest.raises(EOFError):
            unpack(packed[:end])
    for junk in (b"x", b"PK\x03\x04 and more"):
        with pytest.raises(EOFError):
            unpack(packed + junk)


def test_a_window_that_takes_too_much_memory_is_refused():
    wide = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    packed = stream.compress(b"a,b\n") + stream.flush()
    with pytest.raises(DataError, match="unpacking it takes 256 MiB of memory, more than 128; compress it again with"):
        unpack(packed)
    with pytest.raises(DataError, match="unpacking it takes more MiB of memory than 128; compress it again with"):
        unpack(zstandard.compress(b"a,b\n") + packed)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_joined_and_cut_files(tmp_path, ending):
    pack = gzip.compress if ending == "gz" else zstandard.compress
    parts = pack(b"x,y\n" + b"1,2\n" * 500), pack(b"3,4\n" * 500)
    path = tmp_path / f"t.csv.{ending}"
    path.write_bytes(b"".join(parts))
    batches = list(Source(str(path), Settings(target="y")).batches())
    assert [len(batch.lines) for batch in batches] == [1000]
    path.write_bytes(b"".join(parts)[:-5])
    with pytest.raises(DataError, match="cut off or damaged after line "):
        list(Source(str(path), Settings(target="y")).batches())


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_a_page_that_unpacks_to_too_much_is_refused(tmp_path):
    pl.DataFrame({"y": [1.0, 2.0], "x": [1.0, 3.0], "s": ["a" * 70_000_000, "b"]}).write_parquet(
        tmp_path / "bomb.parquet", compression="zstd", statistics=False
    )
    assert (tmp_path / "bomb.parquet").stat().st_size < 10_000
    code, said, most = run(tmp_path, "bomb.parquet")
    assert (code, most < MOST) == (3, True)
    assert "a page of column 's' unpacks to 67 MiB, where 64 are allowed; write the file again with smaller" in said
    code, said, most = run(tmp_path, "bomb.parquet", "--drop", "s")
    assert (code, said, most < MOST) == (0, "", True)


def test_long_cells_of_parquet_are_unpacked_few_at_a_time(tmp_path):
    arrow, written = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cell, path = "ab" * 200_000, tmp_path / "cells.parquet"
    part = arrow.table({"y": np.arange(100.0), "x": np.arange(100.0) % 7.0, "s": [f"{cell}{k}" for k in range(100)]})
    with written.ParquetWriter(path, part.schema, compression="zstd", use_dictionary=False) as file:
        for _ in range(40):  # 1.6 GB in all
            file.write_table(part)
    assert path.stat().st_size < 5_000_000
    code, said, most = run(tmp_path, "cells.parquet")
    assert (code, len(said.splitlines())) == (3, 1)
    assert "row 11: 's' holds a text of 400,002 characters, more than 1,000; leave it out with --drop 's'" in said
    assert most < MOST


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_of_other_writers_are_understood(tmp_path, version):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as written

    rng = np.random.default_rng(0)
    cells = {"x": rng.normal(size=9000), "s": ["a", None, "ccc"] * 3000, "i": np.arange(9000), "b": [True, None] * 4500}
    for packing in ("none", "snappy", "gzip", "zstd"):
        path = tmp_path / f"{packing}.parquet"
        written.write_table(
            arrow.table(cells), path, compression=packing, data_page_version=version, data_page_size=5000,
            row_group_size=4000, use_dictionary=["s"], write_page_checksum=True, column_encoding=None,
        )  # fmt: skip
        file = VerifiedFile(path, str(path))
        pages = list(parquet_pages.page_headers(file, (), 100))
        facts = written.ParquetFile(path).metadata
        for column, name in enumerate(cells):
            chunks = [facts.row_group(group).column(column) for group in range(facts.num_row_groups)]
            mine = [page for other, page in pages if other == name]
            counted = sum((page.get(5) or page.get(8) or {1: 0})[1] for page in mine)
            assert counted == sum(chunk.num_values for chunk in chunks) == 9000
            assert sum(page[3] for page in mine) < sum(chunk.total_compressed_size for chunk in chunks)
            assert sum(page[2] for page in mine) < sum(chunk.total_uncompressed_size for chunk in chunks)
        assert 8.0 + 8.0 < parquet_pages.row_bytes(file, (), 100) < 40.0
        assert parquet_pages.row_bytes(file, ("x", "i"), 100) < 16.0


def test_parquet_spoiled_anywhere_is_refused_or_read(tmp_path, capfd):
    pl.DataFrame({"x": np.arange(50.0), "s": ["a", "b"] * 25, "y": np.arange(50.0)}).write_parquet(
        tmp_path / "t.parquet"
    )
    good, rng, path = (tmp_path / "t.parquet").read_bytes(), np.random.default_rng(0), tmp_path / "bad.parquet"
    ends, sentences = set(), []
    for _ in range(300):
        bad = bytearray(good)
        for at in rng.integers(4, len(good), size=rng.integers(1, 4)):
            bad[at] = rng.integers(256)
        path.write_bytes(bad[: rng.integers(12, len(bad))] if rng.random() < 0.1 else bad)
        try:
            for _ in Source(str(path), Settings(target="y")).batches():
                ends.add("read")
        except DataError as error:
            ends.add("refused")
            sentences.append(str(error))
    assert ends == {"read", "refused"}
    assert all(len(sentence.splitlines()) == 1 for sentence in sentences)


def test_parquet_needs_a_file():
    with pytest.raises(InputError, match="name a file"):
        Source("-", Settings(target="y", format="parquet"))


def test_a_comparison_stops_at_its_limit_whatever_is_labelled(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "ROWS", 50)
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2.5\n3,5.1\n" * 10 + "1,\n" * 1000)
    assert compare_file(str(tmp_path / "t.csv"), Settings(target="y"), peers=False)[1] == 50
    assert compare_file(str(tmp_path / "t.csv"), Settings(target="y", limit=30), peers=False)[1] == 30


def test_reading_that_would_take_hours_stops_when_asked(tmp_path):
    (tmp_path / "blank.csv.zst").write_bytes(zstd_bomb(HEAD, b"\n", 64))
    command = [sys.executable, "-m", "undrift", "run", "blank.csv.zst", "-t", "y"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "blank-run").exists():  # from then on it reads
            time.sleep(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (143, "undrift: interrupted; blank-run is as it was before\n")


@pytest.mark.parametrize("limit", [1, 7, 4096, 5000])
def test_nothing_after_the_limit_is_read(tmp_path, limit):
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2.5\n" * limit + "a,row,too,long\n")
    (tmp_path / "t.ndjson").write_text('{"x": 1, "y": 2.5}\n' * limit + "not JSON\n")
    pl.DataFrame({"x": [1.0] * (limit + 9), "y": [2.5] * (limit + 9)}).write_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.ndjson", "t.parquet"):
        batches = list(Source(str(tmp_path / name), Settings(target="y", limit=limit)).batches())
        assert sum(len(batch.lines) for batch in batches) == limit
    for name in ("t.csv", "t.ndjson"):
        with pytest.raises(DataError):
            list(Source(str(tmp_path / name), Settings(target="y")).batches())
