"""Spoil files of rows at random: a run must finish, or refuse in one sentence; no traceback, no half-made folder.

Text, NDJSON and Parquet, packed and not, some of them small files that unpack to large ones; memory must stay bounded.

python -m tests.stress.run_fuzz [cases] [seed]
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

import polars as pl
import zstandard

from undrift.cli.app import run

MOST = 600
"""MiB that the process may take at any time."""
NAMES = ["when", "a", "b", "city", "y", "a=b", "", "Ω", "line", "y 1 row ago", "x" * 300, "1", '"', "=1+1", "<b>"]
CELLS = [
    "",
    "1",
    "2.5",
    "-3e8",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "yes",
    "no",
    "maybe",
    "2024-01-01",
    "2024-13-45",
    "?",
    "0",
]
CELLS += ["1e200", "-1e200", "9" * 400, "=1+1", "@x", "[[", "y" * 2000]
CELLS += ["1_000", "\u0663", "1,5", '"', "'", "x" * 1000, "\x00", "\ufeff", "-", "1e75", "1e76", "true", "False", " 7 "]
OPTIONS = [
    [], ["--calendar"], ["--lag", "1,2"], ["--delay", "2"], ["--missing", "skip"], ["--missing", "refuse"],
    ["--missing", "indicators"], ["--task", "classification"], ["--task", "regression"], ["--time", "when"],
    ["--positive", "yes"], ["--half-life", "5"], ["--half-life", "inf"], ["--categories", "3"],
    ["--encoding", "latin-1"], ["--limit", "7"], ["--drop", "a"], ["--time-format", "%d.%d"],
]  # fmt: skip


def case(dice: random.Random) -> bytes:
    """Return a file: mostly orderly, then spoiled."""
    names = dice.sample(NAMES, dice.randint(1, 6))
    if dice.random() < 0.9:
        names = list(dict.fromkeys([*names, "y"]))
    some = ["number", "number", "text", "time", "wild", "label"]
    kinds = [dice.choice(["number", "label", "wild"] if name == "y" else some) for name in names]
    lines = [dice.choice([",", ";"]).join(names)] if dice.random() < 0.1 else [",".join(names)]
    for t in range(dice.choice([0, 2, 5, *[40] * 5, *[300] * 10])):
        row = []
        for kind in kinds:
            if kind == "wild" and dice.random() < 0.02:
                row.append(dice.choice(CELLS))
            elif kind == "text":
                row.append(dice.choice(["p", "q", "r"]))
            elif kind == "label":
                row.append(dice.choice(["yes", "no"]))
            elif kind == "time":
                row.append(f"2024-01-{t % 28 + 1:02d} {t % 24:02d}:00")
            else:
                row.append(f"{dice.gauss(0, 1):.3f}")
        if dice.random() < 0.0001:
            row.append("more")
        lines.append(",".join(row))
    content = bytearray(dice.choice(["\n", "\r\n"]).join(lines).encode("utf-8"))
    for _ in range(dice.choice([0, 0, 0, 1, 3])):
        if content:
            content[dice.randrange(len(content))] = (
                dice.randrange(256) if dice.random() < 0.1 else dice.choice(b"0123456789.,;-e \n")
            )
    return bytes(content)


def as_ndjson(dice: random.Random, content: bytes) -> bytes:
    """Return the rows as objects, some of them strange ones."""
    strange = [
        "[" * 5000 + "]" * 5000,
        '{"y": ' * 3000,
        "null",
        "[]",
        "{}",
        '{"y": {"a": 1}}',
        '{"y": ' + "9" * 5000 + "}",
    ]
    lines = []
    text = io.StringIO(content.decode("utf-8", "replace"), newline="")
    with contextlib.suppress(csv.Error):
        for row in csv.DictReader(text):
            row.pop(None, None)
            cells = {name: _value(cell) if dice.random() < 0.8 else cell for name, cell in row.items()}
            lines.append(dice.choice(strange) if dice.random() < 0.001 else json.dumps(cells))
    return "\n".join(lines).encode()


def _value(cell: str | None) -> object:
    try:
        return float(cell or "")
    except ValueError:
        return cell


def as_parquet(dice: random.Random, content: bytes) -> bytes:
    """Return the rows as Parquet: numbers, times and texts, pages of several kinds."""
    out = io.BytesIO()
    try:
        frame = pl.read_csv(content, try_parse_dates=dice.random() < 0.5, truncate_ragged_lines=True)
    except pl.exceptions.PolarsError:
        return content
    if dice.random() < 0.1:
        frame = frame.with_columns(nested=pl.lit([1.0, 2.0]), long=pl.lit("ab" * dice.choice([5, 50_000])))
    packing = dice.choice(["uncompressed", "snappy", "zstd", "gzip"])
    frame.write_parquet(out, compression=packing, row_group_size=dice.choice([7, 100, 10_000]), data_page_size=1000)
    return out.getvalue()


def packed(dice: random.Random, content: bytes) -> tuple[str, bytes]:
    """Return an ending and the bytes, in two pieces, now and then with a long line or many rows behind them."""
    tail = dice.choice([b""] * 8 + [b"0" * (1 << 25), b"\n" * (1 << 22), b'"a\n",' * (1 << 20)])
    ending = dice.choice([".gz", ".zst"])
    pack = gzip.compress if ending == ".gz" else zstandard.compress
    cut = dice.randrange(len(content) + 1)
    return ending, pack(content[:cut]) + pack(content[cut:]) + (pack(tail) if tail else b"")


def spoil(dice: random.Random, content: bytes) -> bytes:
    """Change some bytes, or cut the end off."""
    out = bytearray(content)
    for _ in range(dice.choice([0, 0, 1, 2])):
        if out:
            out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out[: dice.randrange(len(out))] if out and dice.random() < 0.1 else out)


def file(dice: random.Random) -> tuple[str, bytes]:
    """Return a file of any kind: its ending and its bytes."""
    content, kind = case(dice), dice.choice(["csv", "csv", "csv", "ndjson", "parquet"])
    if kind == "parquet":
        return ".parquet", spoil(dice, as_parquet(dice, content))
    content = as_ndjson(dice, content) if kind == "ndjson" else content
    if dice.random() < 0.6:
        return f".{kind}", content
    ending, content = packed(dice, content)
    return f".{kind}{ending}", spoil(dice, content)


def peak(forget: bool = False) -> int:
    """Return the most MiB the process took since it was told to forget; 0 where the system does not say."""
    if not Path("/proc/self/clear_refs").exists():
        return 0
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) // 1024 if found else 0


def main(cases: int = 300, seed: int = 0) -> int:
    dice = random.Random(seed)
    codes: dict[int, int] = {}
    bad = largest = 0
    with tempfile.TemporaryDirectory() as base:
        os.chdir(base)
        for k in range(cases):
            (ending, content), options = file(dice), dice.choice(OPTIONS)
            Path(f"f{ending}").write_bytes(content)
            peak(forget=True)
            out, err = io.StringIO(), io.StringIO()
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = run(["run", f"f{ending}", "-t", "y", "--speed", "fast", "--quiet", "--json", *options])
            except BaseException:
                code = -1
                traceback.print_exc()
            codes[code] = codes.get(code, 0) + 1
            finished = (
                os.path.exists("f-run/run.json")
                and json.loads(Path("f-run/run.json").read_text())["status"] == "finished"
            )
            fine = (
                code in (0, 2, 3) and (code == 0) == finished and (code == 0 or len(err.getvalue().splitlines()) == 1)
            )
            most = peak()
            largest = max(largest, most)
            if not fine or most > MOST:
                bad += 1
                print(f"case {k}: {ending}, {most} MiB, code {code}, finished {finished}, options {options}")
                print(f"said {err.getvalue()!r:.300}")
                print(content[:400])
            shutil.rmtree("f-run", ignore_errors=True)
            Path(f"f{ending}").unlink()
        os.chdir("/")
    print(f"{cases} cases, exit codes {codes}, {bad} bad, {largest} MiB")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
