"""CSV files are split block by block where lines are rows; rows, batches and errors are those of the csv module."""

import gzip
import random

import pytest

from undrift.errors import UndriftError
from undrift.run import Settings
from undrift.run.read import csv_file, source
from undrift.run.read.source import Source

CELLS = ("", "abc", "12", "NA", "two words", "Total", "1.234,5", "é", "\u2028", "a\x00b", "\x0c", "a\rb")
QUOTED = ("a", 'x""y', "two\nlines", "", "1.5", "a\r\nb", "a,b;c")
ENCODINGS = ("utf-8", "utf-8", "latin-1", "cp1252", "utf-16", "shift_jis", "utf-7", "utf-8-sig")


def write_file(folder, dice):
    """Return a file as programs, people and accidents leave them, and the settings to read it with."""
    delimiter, width = dice.choice(",,;\t|"), dice.choice([1, 2, 3, 6])
    quotes, spoiled, blank = (dice.choice(chances) for chances in ((0.0, 0.0, 0.3), (0.0, 0.0, 0.02), (0.0, 0.1)))
    decimal = "." if delimiter == "," else dice.choice(".,")

    def cell():
        if dice.random() < quotes:
            return f'"{dice.choice(QUOTED)}"'
        if dice.random() < spoiled:
            return dice.choice(('x"y', '"open', " ", f"1{delimiter}2", *CELLS))
        return f"{dice.gauss(0, 10):.{dice.randint(0, 4)}f}".replace(".", decimal)

    lines = ["a title"] * (dice.random() < 0.1) + [delimiter.join(f"c{j}" for j in range(width))]
    for _ in range(dice.choice([1, 10, 200])):
        ragged = dice.choice([-1, 1]) if dice.random() < 0.2 * spoiled else 0
        lines.append(delimiter.join(cell() for _ in range(max(1, width + ragged))))
        lines += [dice.choice(["", " ", delimiter * (width - 1)])] * (dice.random() < blank)
    end = dice.choice(["\n", "\n", "\r\n", "\n\n"])
    encoding = dice.choice(ENCODINGS)
    text = "\ufeff" * (dice.random() < 0.1) + end.join(lines) + end * (dice.random() < 0.8)
    raw = text.encode(encoding, "ignore")
    if dice.random() < 0.1:
        at = dice.randrange(len(raw))
        raw = raw[:at] + dice.choice([b"\xff", b"\x81", b"\xc3"]) + raw[at + 1 :]
    path = folder / "t.csv"
    if dice.random() < 0.1:
        packed = gzip.compress(raw)
        path, raw = folder / "t.csv.gz", packed[: int(len(packed) * dice.choice([1.0, 0.7]))]
    path.write_bytes(raw)
    limit = dice.choice([None, None, 5, 50])
    return str(path), Settings(target="c0", limit=limit, encoding="utf-8" if encoding == "utf-16" else encoding)


def read(path, settings):
    """Return the batches of a file, its notes, and the error that ends it."""
    batches, opened = [], Source(path, settings)
    try:
        for lines, columns in opened.batches():
            batches += [(lines.tolist(), {name: list(cells) for name, cells in columns.items()})]
    except UndriftError as error:
        return batches, opened.notes, str(error)
    return batches, opened.notes, None


@pytest.mark.parametrize("seed", range(150))
def test_blocks_that_are_split_at_once_give_the_rows_of_the_csv_module(tmp_path, monkeypatch, seed):
    dice = random.Random(seed)
    path, settings = write_file(tmp_path, dice)
    monkeypatch.setattr(csv_file, "BATCH_ROWS", dice.choice([4096, 7, 64]))
    monkeypatch.setattr(csv_file, "BATCH_CHARACTERS", dice.choice([1 << 22, 500, 60]))
    at_once = read(path, settings)
    monkeypatch.setattr(source, "BLOCK", dice.choice([1, 13, 100, 1000]))
    assert read(path, settings) == at_once
    monkeypatch.setattr(source, "LINEWISE", frozenset())
    monkeypatch.setattr(csv_file, "_split_block", lambda *block: None)
    assert read(path, settings) == at_once


@pytest.mark.parametrize("cell", ["1.5", '"1.5"'])
def test_lines_that_are_rows_never_reach_the_slow_path(tmp_path, monkeypatch, cell):
    (tmp_path / "t.csv").write_text("x,y\r\n" + f"{cell},2\r\n" * 500)
    monkeypatch.setattr(source, "BLOCK", 100)
    monkeypatch.setattr(csv_file, "_read_rows", None)
    batches, _, error = read(str(tmp_path / "t.csv"), Settings(target="y"))
    assert (batches[0][1]["x"], error) == (["1.5"] * 500, None)


def test_many_empty_lines_are_no_long_row(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "MAX_LINE_BYTES", 50)
    (tmp_path / "t.csv").write_text("x,y\n1,2\n" + "\n" * 200 + "3,4\n")
    batches, _, error = read(str(tmp_path / "t.csv"), Settings(target="y"))
    assert (batches, error) == ([([2, 203], {"x": ["1", "3"], "y": ["2", "4"]})], None)
