"""CSV files that we write hold no text a spreadsheet would run, and numbers stay numbers."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undrift.run.tables import escape_formula, unescape_formula

START = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@given(st.text(alphabet="'=+-@\t\r\n\uff1d1.e ax_", max_size=8) | st.text())
def test_texts_come_back_and_none_is_a_formula(text):
    written = escape_formula(text)
    assert unescape_formula(written) == text
    if written.startswith(START):
        float(written)  # only a number may begin so


@pytest.mark.parametrize("cell", [None, -1.5, 3, "-1.5", "+2e3", "-inf", "oslo", "a=b", "", "'s-Hertogenbosch"])
def test_numbers_and_ordinary_texts_stay_as_they_are(cell):
    assert escape_formula(cell) is cell


KEYS = ['=HYPERLINK("x")', "+x", "-x", "@SUM(1)", "-5", "'=2", "plain"]


def write(name, **columns):
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def read(text, name):
    return [row[name] for row in csv.DictReader(io.StringIO(text, newline=""))]


def test_a_fleet_writes_no_formula(call):
    write("t.csv", key=KEYS * 12, x=[k % 7 for k in range(84)], y=[(k * k) % 11 for k in range(84)])
    assert call("fleet", "t.csv", "-t", "y", "--key", "key", "-q")[0] == 0
    for name in ("keys.csv", "predictions.csv"):
        found = set(read(Path("t-fleet", name).read_text(encoding="utf-8"), "key"))
        assert {unescape_formula(key) for key in found} == set(KEYS)
        assert [key for key in found if key.startswith(START)] == ["-5"]


def test_predicted_labels_are_no_formulas(call):
    x = np.random.default_rng(0).normal(size=200)
    write("t.csv", x=x, y=np.where(x > 0.0, "=1+1", "@b"))
    assert call("run", "t.csv", "-t", "y", "-q", "--no-report")[0] == 0
    code, out, _ = call("predict", "t-run", "t.csv")
    assert (code, set(read(out, "label"))) == (0, {"'=1+1", "'@b"})
    assert call("predict", "t-run", "t.csv", "-o", "said.csv", "-q")[0] == 0
    assert Path("said.csv").read_text(encoding="utf-8") == out
