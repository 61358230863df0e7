"""Files as people have them: dates and numbers as they write them, newest first, without a header, packed."""

import bz2
import datetime as dt
import json
import lzma
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import ROOT
from tests.run.read.workbooks import workbook
from tests.run.row_files import table, write_csv
from undrift.cli.run import default_folder
from undrift.errors import DataError, InputError, MissingExtraError
from undrift.run import Settings, play_file
from undrift.run.play.run_folder import RunFolder
from undrift.run.read import workbook as measured
from undrift.stream.cells import find_formats, parse_number


def run(path, folder, **settings):
    """Return the state and the table of a run."""
    state = play_file(str(path), folder, Settings(**{"target": "y", "speed": "light", **settings}))
    return state, RunFolder(folder).table(state)


@pytest.fixture
def columns():
    """Numbers, a time, and a target."""
    return {name: cells for name, cells in table(200).items() if name in ("when", "a", "y")}


@pytest.fixture
def plain(columns, tmp_path):
    """What a run of the plain file predicts."""
    return run(write_csv(tmp_path / "plain.csv", columns), tmp_path / "plain")[1]


def same(found, expected):
    return found["yhat"].equals(expected["yhat"]) and found["y"].equals(expected["y"])


@pytest.mark.parametrize(
    "form",
    ["%m/%d/%Y %H:%M", "%d.%m.%Y %H:%M", "%b %d, %Y %I:%M %p", "%d-%b-%Y %H:%M:%S", "%Y/%m/%d %H:%M", "%d/%m/%y %H:%M"],
)
def test_dates_as_people_write_them_are_times(columns, plain, tmp_path, form):
    times = [dt.datetime.fromisoformat(one) for one in columns["when"]]
    written = columns | {"when": [one.strftime(form) for one in times]}
    state, found = run(write_csv(tmp_path / "rows.csv", written), tmp_path / "run")
    assert state["plan"]["time"] == "when"
    assert any(form in note for note in state["notes"])
    assert found["time"].equals(plain["time"])
    assert same(found, plain)


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["1949-01", "1949-02", "1949-03"], "%Y-%m"),
        (["2014-7-1", "2014-7-2", "2014-10-11"], "%Y-%m-%d"),
        (["1/31/2024", "2/1/2024"], "%m/%d/%Y"),
        (["31/1/2024", "1/2/2024"], "%d/%m/%Y"),
        (["01/02/2024", "02/02/2024", "03/02/2024", "04/02/2024"], "%d/%m/%Y"),
        (["2024-01-01T05:00:00Z"], "iso"),
        (["Jan 2024", "Feb 2024"], "%b %Y"),
    ],
)
def test_formats_are_found_from_the_cells(cells, form):
    assert find_formats(cells, 0.9)[0] == form


@pytest.mark.parametrize("cells", [["red", "green", "blue"], ["12-34-5678"], ["May"], ["version 1.2.3"]])
def test_other_texts_are_no_times(cells):
    assert find_formats(cells, 0.9) == []


def test_what_may_be_day_or_month_first_is_not_guessed(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("day,x,y\n05/06/2024,1,2\n07/08/2024,2,5\n")
    with pytest.raises(DataError, match=r"'day' may be written .* or .*; pass one of them as --time-format"):
        run(file, tmp_path / "run")
    assert run(file, tmp_path / "run", time_format="%d/%m/%Y")[0]["rows"] == 2


def test_newest_first_is_refused_and_sorted_on_request(columns, plain, tmp_path):
    file = write_csv(tmp_path / "rows.csv", {name: cells[::-1] for name, cells in columns.items()})
    with pytest.raises(DataError, match=r"the newest rows come first .* pass --sort"):
        run(file, tmp_path / "run")
    state, found = run(file, tmp_path / "run", sort=True)
    assert same(found, plain)
    assert found["line"].to_list() == list(range(201, 1, -1))
    assert state["rows"] == 200


def test_shuffled_rows_are_sorted_across_batches(columns, plain, tmp_path, monkeypatch):
    monkeypatch.setattr("undrift.run.read.csv_file.BATCH_ROWS", 7)
    order = np.random.default_rng(0).permutation(200)
    file = write_csv(tmp_path / "rows.csv", {name: [cells[k] for k in order] for name, cells in columns.items()})
    assert same(run(file, tmp_path / "run", sort=True)[1], plain)


def test_sorting_needs_times(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("x,y\n1,2\n2,3\n3,5\n")
    with pytest.raises(InputError, match="--sort needs a column with times"):
        run(file, tmp_path / "run", sort=True)


def test_decimal_commas_are_found(columns, plain, tmp_path):
    comma = columns | {name: [str(one).replace(".", ",") for one in columns[name]] for name in ("a", "y")}
    assert same(run(write_csv(tmp_path / "rows.csv", comma, ";"), tmp_path / "run")[1], plain)
    quoted = write_csv(tmp_path / "quoted.csv", comma)  # commas between cells too
    assert same(run(quoted, tmp_path / "again")[1], plain)


@pytest.mark.parametrize(
    ("cells", "delimiter", "decimal", "expected"),
    [
        (["1,234", "2,345", "9,876"], ";", None, [1.234, 2.345, 9.876]),
        (["1,234", "2,345", "9,876"], ",", None, [1234.0, 2345.0, 9876.0]),
        (["1,234", "2,345", "9,876"], ";", ".", [1234.0, 2345.0, 9876.0]),
        (["1.234,5", "12", "-0,25"], ";", None, [1234.5, 12.0, -0.25]),
        (["$1,234.50", "$0.99", "$12"], ",", None, [1234.5, 0.99, 12.0]),
        (["12,5 %", "13,25 %", "7 %"], ";", None, [12.5, 13.25, 7.0]),
        (["1.234 €", "2.5 €", "3 €"], ";", None, [1.234, 2.5, 3.0]),
    ],
)
def test_numbers_as_people_write_them(tmp_path, cells, delimiter, decimal, expected):
    file = write_csv(tmp_path / "rows.csv", {"x": [1, 2, 4], "y": cells}, delimiter)
    found = run(file, tmp_path / "run", decimal=decimal, task="regression")[1]
    assert found["y"].to_list() == expected


@pytest.mark.parametrize("text", ["1,23", "1,2345", "12 34", "$", "%", "1.2.3", "--5", "$1,23", "12$3", "5 apples"])
def test_what_is_no_number_stays_a_text(text):
    assert parse_number(text) is None


def test_files_without_a_header(columns, plain, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text((tmp_path / "plain.csv").read_text().split("\n", 1)[1])
    state, found = run(file, tmp_path / "run", target="c3", header=False)
    assert state["features"] == ["c2"]
    assert same(found, plain)
    assert found["line"][0] == 1


def test_packed_files(columns, plain, tmp_path):
    text = (tmp_path / "plain.csv").read_bytes()
    (tmp_path / "rows.csv.bz2").write_bytes(bz2.compress(text))
    (tmp_path / "rows.csv.xz").write_bytes(lzma.compress(text))
    with zipfile.ZipFile(tmp_path / "rows.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rows.csv", text)
    (tmp_path / "wide.csv").write_bytes(text.decode().encode("utf-16"))
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (tmp_path / "rows.json").write_text(json.dumps(rows, indent=1))
    for name in ("rows.csv.bz2", "rows.csv.xz", "rows.zip", "wide.csv", "rows.json"):
        assert same(run(tmp_path / name, tmp_path / f"{name}-run")[1], plain), name


@pytest.mark.parametrize("name", ["rows.csv.bz2", "rows.csv.xz", "rows.zip", "rows.csv.gz"])
def test_damaged_packages_are_one_sentence(plain, tmp_path, name):
    text = (tmp_path / "plain.csv").read_bytes()
    packed = {".bz2": bz2.compress(text), ".xz": lzma.compress(text)}.get(name[-4:].lstrip("v"), b"PK\3\4" + text)
    (tmp_path / name).write_bytes(packed[: len(packed) // 2])
    with pytest.raises((DataError, InputError), match=r"^[^\n]+$"):
        run(tmp_path / name, tmp_path / "run")


def test_archives_of_several_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        archive.writestr("a.csv", "x,y\n1,2\n")
        archive.writestr("b.csv", "x,y\n1,2\n")
    with pytest.raises(DataError, match="2 files inside, where one is needed"):
        run(tmp_path / "rows.zip", tmp_path / "run")


def test_home_folders_are_found(columns, plain, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert same(run("~/plain.csv", tmp_path / "run")[1], plain)


def test_a_spreadsheet_is_read(columns, plain, tmp_path):
    pytest.importorskip("fastexcel")
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    book = workbook(tmp_path / "rows.xlsx", rows)
    assert same(run(book, tmp_path / "run")[1], plain)
    (tmp_path / "bad.xlsx").write_bytes(book.read_bytes()[:300])
    with pytest.raises(DataError, match=r"bad\.xlsx: not a spreadsheet, or damaged"):
        run(tmp_path / "bad.xlsx", tmp_path / "bad")


def test_a_spreadsheet_without_its_reader_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    book = workbook(tmp_path / "rows.xlsx", [["a", "y"], [1.0, 2.0]])
    with pytest.raises(MissingExtraError, match=r"needs fastexcel; .*pip install 'undrift\[cli\]'"):
        run(book, tmp_path / "run")


def test_what_installs_the_commands_installs_the_reader_of_spreadsheets():
    root = ROOT
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(one.startswith("fastexcel") for one in extras["cli"])
    assert "\nfastexcel==" in (root / "locks" / "test.txt").read_text()


def test_a_spreadsheet_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "MOST_BYTES", 4000)
    book = workbook(tmp_path / "rows.xlsx", [["a", "y"], *([1.0, 2.0] for _ in range(200))])
    with pytest.raises(DataError, match="more than 0 MiB when unpacked; save the sheet as CSV"):
        run(book, tmp_path / "run")


def test_an_address_is_to_be_downloaded_first(tmp_path):
    with pytest.raises(InputError, match="an address, not a file; download it first, for example with curl -LO http"):
        run("https://example.org/rows.csv", tmp_path / "run")


def test_a_mistyped_target_is_named_before_the_run_that_is_there(columns, plain, tmp_path):
    path = write_csv(tmp_path / "plain.csv", columns)
    with pytest.raises(InputError, match=r"--target 'Y': .*Did you mean 'y'\?"):
        run(path, tmp_path / "plain", target="Y")
    with pytest.raises(InputError, match="there is a run already"):
        run(path, tmp_path / "plain")


@pytest.mark.parametrize("name", ["sales.xlsx", "sales.json", "sales.csv.xz", "sales.ndjson.zip", "sales.zip", "sales"])
def test_the_folder_of_a_run_is_named_after_its_file_without_endings(name):
    assert default_folder(f"data/{name}") == Path("sales-run")
