"""Spoil real files as people and programs do: every command must give a result, or one sentence with its exit code.

The files are the packaged one and those of the data folder, UNDRIFT_DATA, by default ../shared/data. A result holds no
NaN, nor infinity, and no warning is shown; a refusal is one line and comes without results.

python -m tests.stress.spoiled_files [cases] [seed]
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

import undrift
from tests.helpers import DATA
from undrift.cli.app import run

LINES = 150
"""Lines of a file that are used."""
Dice = random.Random
Lines = list[str]


class RealFile(NamedTuple):
    """The beginning of a real file."""

    name: str
    target: str
    text: str


def real_files() -> list[RealFile]:
    """Return the files that are here."""
    paths = [Path(undrift.__file__).parent / "data" / "nyc_departures.csv.gz"]
    if DATA.exists():
        paths += [*sorted(DATA.glob("*.csv.gz")), *sorted((DATA / "forecast").glob("*.csv.gz"))]
    found = []
    for path in paths:
        with gzip.open(path, "rt") as file:
            lines = [line for line, _ in zip(file, range(LINES), strict=False)]
        found.append(RealFile(path.name, lines[0].strip().split(",")[-1], "".join(lines)))
    return found


def _cells(lines: Lines) -> list[Lines]:
    return [line.split(",") for line in lines]


def _lines(cells: list[Lines]) -> Lines:
    return [",".join(row) for row in cells]


def _change_some(dice: Dice, lines: Lines, change: Callable[[str], str], share: float) -> Lines:
    """Return the lines with a share of the cells below the header changed."""
    cells = _cells(lines)
    for row in cells[1:]:
        for j in range(len(row)):
            if dice.random() < share:
                row[j] = change(row[j])
    return _lines(cells)


def _change_column(dice: Dice, lines: Lines, change: Callable[[str], str], share: float = 1.0) -> Lines:
    cells, j = _cells(lines), dice.randrange(len(lines[0].split(",")))
    for row in cells[1:]:
        if j < len(row) and dice.random() < share:
            row[j] = change(row[j])
    return _lines(cells)


def double_a_column(dice: Dice, lines: Lines) -> Lines:
    """Two columns of one name, or of two."""
    j, other = dice.randrange(len(lines[0].split(","))), dice.choice(["", " 2", " "])
    return _lines(
        [[*row, (row[j] if j < len(row) else "") + (other if k == 0 else "")] for k, row in enumerate(_cells(lines))]
    )


def break_quotes(dice: Dice, lines: Lines) -> Lines:
    """A quote that is never closed, or stands in the middle of a cell."""
    return _change_some(
        dice, lines, lambda cell: dice.choice(['"{}', '{}"', '"{}"', "'{}", '"{}""']).format(cell), 0.003
    )


def mix_dates(dice: Dice, lines: Lines) -> Lines:
    """Times that are written in several ways."""
    ways = ["{}Z", "{}+02:00", "12/31/2013", "31.12.2013 05:00", "2013-02-30", "1388500000", "Jan 3, 2014", "2013/1/2"]
    cells = _cells(lines)
    for row in cells[1:]:
        if dice.random() < dice.choice([0.02, 0.5]):
            row[0] = dice.choice(ways).format(row[0])
    return _lines(cells)


def mix_separators(dice: Dice, lines: Lines) -> Lines:
    other = dice.choice([";", "\t", "|", " "])
    share = dice.choice([0.02, 0.5, 1.0])
    return [line.replace(",", other) if dice.random() < share else line for line in lines]


def write_numbers_otherwise(dice: Dice, lines: Lines) -> Lines:
    """Decimal commas in quotes, units, signs of money, thousands, accountants' minus, other digits."""
    ways = [
        '"{},5"',
        "{} kg",
        "${}",
        "{} €",
        "{}%",
        '"1,{}"',
        "({})",
        "{}-",
        "\u0661\u0662",
        "1e400",
        "0x1F",
        "{}f",
        "\u2212{}",
    ]
    way = dice.choice(ways)
    return _change_column(dice, lines, way.format, dice.choice([0.01, 0.3, 1.0]))


def lose_cells(dice: Dice, lines: Lines) -> Lines:
    word = dice.choice(["", "NA", "null", "-", "?", "#N/A", "missing", "-999", "nan", " "])
    return _change_some(dice, lines, lambda cell: word, dice.choice([0.01, 0.2, 0.9]))


def empty_a_column(dice: Dice, lines: Lines) -> Lines:
    return _change_column(dice, lines, lambda cell: "")


def freeze_a_column(dice: Dice, lines: Lines) -> Lines:
    return _change_column(dice, lines, lambda cell: dice.choice(["7"]))


def write_large_numbers(dice: Dice, lines: Lines) -> Lines:
    word = dice.choice(["1e300", "-1e308", "inf", "-inf", "1e76", "9" * 400, "5e-324", "-0.0"])
    return _change_some(dice, lines, lambda cell: word, dice.choice([0.002, 0.1]))


def put_words_into_numbers(dice: Dice, lines: Lines) -> Lines:
    word = dice.choice(["n.a. (see note)", "=1+1", "<5", "true", "☃", "\u0000", "a" * 1200, "broken\\", "\u202e12"])
    return _change_column(dice, lines, lambda cell: word, dice.choice([0.005, 0.2, 1.0]))


def write_a_huge_field(dice: Dice, lines: Lines) -> Lines:
    cells, k = _cells(lines), dice.randrange(1, len(lines))
    cells[k][dice.randrange(len(cells[k]))] = dice.choice(["x", "9", '"', "é"]) * dice.choice(
        [5_000, 400_000, 5_000_000]
    )
    return _lines(cells)


def add_or_drop_cells(dice: Dice, lines: Lines) -> Lines:
    """Rows with a cell more or less than the header."""
    out = [lines[0]]
    for line in lines[1:]:
        chance = dice.random()
        out.append(line + ",9" if chance < 0.005 else line.rsplit(",", 1)[0] if chance < 0.01 else line)
    return out


def add_trailing_commas(dice: Dice, lines: Lines) -> Lines:
    return [line + "," for line in lines]


def drop_the_header(dice: Dice, lines: Lines) -> Lines:
    return lines[1:]


def rename_columns(dice: Dice, lines: Lines) -> Lines:
    names = lines[0].split(",")
    names[dice.randrange(len(names))] = dice.choice(
        ["", " ", "a=b", "Ω", "x" * 5000, '"a', "time", "line", "yhat", "1"]
    )
    return [",".join(names), *lines[1:]]


def add_lines_about(dice: Dice, lines: Lines) -> Lines:
    """A title, a line of units, comments, a footer with totals."""
    extra = dice.choice(
        ["# made by a logger", "sep=,", "Report of 2013", "", "[unit]" + ",[unit]" * lines[0].count(",")]
    )
    where = dice.choice([0, 1, len(lines)])
    return [*lines[:where], extra, *lines[where:]]


def add_blank_lines(dice: Dice, lines: Lines) -> Lines:
    return [one for line in lines for one in ([line, ""] if dice.random() < 0.05 else [line])]


def turn_around(dice: Dice, lines: Lines) -> Lines:
    return [lines[0], *reversed(lines[1:])]


def shuffle_rows(dice: Dice, lines: Lines) -> Lines:
    return [lines[0], *dice.sample(lines[1:], len(lines) - 1)]


def repeat_rows(dice: Dice, lines: Lines) -> Lines:
    return [one for line in lines for one in [line] * (2 if dice.random() < 0.1 else 1)]


def repeat_the_header(dice: Dice, lines: Lines) -> Lines:
    k = dice.randrange(1, len(lines) + 1)
    return [*lines[:k], lines[0], *lines[k:]]


def keep_few_rows(dice: Dice, lines: Lines) -> Lines:
    return lines[: dice.choice([0, 1, 2, 3, 8])]


def make_a_text_column(dice: Dice, lines: Lines) -> Lines:
    """A column of few or many texts, so that every way of learning them is taken."""
    many = dice.choice([2, 19, 21, 60, 10_000])
    return [lines[0] + ",kind", *(f"{line},k{dice.randrange(many)}" for line in lines[1:])]


ROW_SPOILS = (
    double_a_column, break_quotes, mix_dates, mix_separators, write_numbers_otherwise, lose_cells, empty_a_column,
    freeze_a_column, write_large_numbers, put_words_into_numbers, write_a_huge_field, add_or_drop_cells,
    add_trailing_commas, drop_the_header, rename_columns, add_lines_about, add_blank_lines, turn_around, shuffle_rows,
    repeat_rows, repeat_the_header, keep_few_rows, make_a_text_column,
)  # fmt: skip


def encode(dice: Dice, text: str) -> tuple[str, bytes]:
    """Return what became of the bytes, and the bytes."""
    way = dice.choice(["utf-8"] * 25 + ["utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "utf-32", "cp037"])
    ends = dice.choice(["\n"] * 15 + ["\r\n", "\r", "\n\r"])
    return f"{way} {ends!r}", text.replace("\n", ends).encode(way, "replace")


def damage(dice: Dice, content: bytes) -> tuple[str, bytes]:
    """Flip bytes, cut the end off, or leave it."""
    way, out = dice.choice(["whole"] * 20 + ["flipped", "cut", "torn", "empty"]), bytearray(content)
    if way == "flipped" and out:
        for _ in range(dice.choice([1, 3, 30])):
            out[dice.randrange(len(out))] = dice.randrange(256)
    elif way == "cut" and out:
        del out[dice.randrange(len(out)) :]
    elif way == "torn" and out:
        a = dice.randrange(len(out))
        del out[a : a + dice.randrange(200)]
    elif way == "empty":
        out.clear()
    return way, bytes(out)


def pack(dice: Dice, content: bytes, lines: Lines) -> tuple[str, bytes]:
    """Return an ending and a file: plain, packed, of another format, or called what it is not."""
    way = dice.choice(
        [".csv"] * 25 + [".csv.gz", ".csv.zst", ".csv.zip", ".tsv", ".parquet", ".ndjson", ".json", ".xlsx"]
    )
    if way == ".csv.gz" and dice.random() < 0.7:
        return way, gzip.compress(content)
    if way == ".parquet" and dice.random() < 0.7:
        with contextlib.suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException):
            out = io.BytesIO()
            pl.read_csv("\n".join(lines).encode(), truncate_ragged_lines=True, infer_schema_length=50).write_parquet(
                out
            )
            return way, out.getvalue()
    if way in (".ndjson", ".json") and len(lines) > 1:
        names = lines[0].split(",")
        rows = [dict(zip(names, map(_json_value, line.split(",")), strict=False)) for line in lines[1:]]
        text = json.dumps(rows) if way == ".json" else "\n".join(map(json.dumps, rows))
        return way, text.encode()
    return way, content


def _json_value(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell or None


class SpoiledFile(NamedTuple):
    """A file that something was done to, and the command that is given it."""

    ending: str
    content: bytes
    command: list[str]
    """The command with {} for the file, without its folder."""
    story: str
    """What was done."""


def spoil(dice: Dice, files: list[RealFile]) -> SpoiledFile:
    """Return a file that was spoiled in one to three ways, and a command for it."""
    real = dice.choice(files)
    lines, done = real.text.splitlines(), [real.name]
    for change in dice.sample(ROW_SPOILS, dice.choice([0, 1, 1, 1, 1, 2])):
        if len(lines) > 1:
            lines = change(dice, lines)
            done.append(change.__name__)
    way, content = encode(dice, "\n".join(lines) + dice.choice(["\n", ""]))
    damaged, content = damage(dice, content)
    ending, content = pack(dice, content, lines)
    return SpoiledFile(ending, content, _command(dice, real), ", ".join([*done, way, damaged, ending]))


def _command(dice: Dice, real: RealFile) -> list[str]:
    names = real.text.splitlines()[0].split(",")
    kind = dice.choice(["run"] * 8 + ["fleet", "forecast"])
    if kind == "fleet":
        more = dice.choice([[], ["--time", names[0], "--calendar"], ["--categories", "3"], ["--delay", "2"]])
        return ["fleet", "{}", "-k", dice.choice(names[1:-1] or names), "-t", real.target, *more]
    if kind == "forecast":
        return ["forecast", "{}", "-t", real.target, "--horizon", "5"]
    more = dice.choice([[], [], ["--lag", "1,2"], ["--calendar"], ["--delay", "3"], ["--sort"], ["--missing", "skip"]])
    more = more if dice.random() < 0.9 else [*more, dice.choice(["--no-header", "--alert"])]
    return ["run", "{}", "-t", real.target, "--speed", "light", "--no-certify", *more]


def find_fault(one: SpoiledFile, folder: Path) -> str | None:
    """Return what is wrong with how a command takes a file in an empty folder, or None."""
    name, out = folder / f"f{one.ending}", folder / "out"
    name.write_bytes(one.content)
    said, told = io.StringIO(), io.StringIO()
    command = [word.format(name) if word == "{}" else word for word in one.command]
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("error")
            code = int(run([*command, "--no-report", "--quiet", "-o", str(out)]))
    except BaseException:
        return traceback.format_exc()
    error = said.getvalue()
    if code in (0, 6):
        return next(_unusable_numbers(out), None) or (
            f"an error with code {code}: {error}" if code == 0 and error else None
        )
    if code == 1 and "install it with: pip install" in error and error.count("\n") == 1:
        return None  # a spreadsheet, and nothing here that reads one
    if code not in (2, 3):
        return f"exit code {code}: {error}"
    if len(error.splitlines()) != 1 or "Traceback" in error or len(error) > 1000:
        return f"not one sentence: {error:.2000}"
    if told.getvalue():
        return f"results beside an error: {told.getvalue():.500}"
    return None


def _unusable_numbers(out: Path) -> Iterator[str]:
    """Yield which numbers of a result are NaN or infinite."""
    for path in (*out.glob("*.parquet"), *out.glob("predictions.csv")):
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path, glob=False)
        else:
            frame = pl.read_csv(path, glob=False, infer_schema=False).select(
                pl.col("prediction", "target").cast(pl.Float64)
            )
        for name, kind in frame.schema.items():
            unbounded = path.name.startswith("forecasts") and name in ("lower", "upper")  # as long as little is known
            fine = ~frame[name].is_nan() if kind.is_float() and unbounded else None
            fine = frame[name].is_finite() if kind.is_float() and not unbounded else fine
            if fine is not None and not fine.fill_null(value=True).all():
                yield f"{path.name}: '{name}' has numbers that are none"


def main(cases: int = 1000, seed: int = 0) -> int:
    dice, files = random.Random(seed), real_files()
    codes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as base:
        for k in range(cases):
            one, folder = spoil(dice, files), Path(base, str(k))
            folder.mkdir()
            fault = find_fault(one, folder)
            codes["bad" if fault else "result" if (folder / "out").exists() else "sentence"] += 1
            if fault:
                print(f"case {k}: {one.story}\n{' '.join(one.command)}\n{fault}\n{one.content[:300]!r}\n", flush=True)
            shutil.rmtree(folder)
    print(f"{cases} spoiled files, seed {seed}: {dict(codes)}")
    return 1 if codes["bad"] else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
