"""Spreadsheets are measured before they are unpacked: a small file never fills the memory."""

import contextlib
import subprocess
import sys
import zipfile

import numpy as np
import polars as pl
import pytest

from tests.run.read.test_bounded_reading import MOST, run
from tests.run.read.workbooks import number, shared_text, workbook, write_ods, write_xls, write_xlsx
from tests.run.row_files import table, write_csv
from undrift.errors import DataError
from undrift.run import Settings, play_file
from undrift.run.play.run_folder import RunFolder
from undrift.run.read import workbook as measured
from undrift.run.read.source import Source

NAMES = '<row r="1"><c t="inlineStr"><is><t>x</t></is></c><c t="inlineStr"><is><t>y</t></is></c></row>'
SPANS, TEXTS = "more than 8,388,608 cells; delete stray cells", "the texts of its cells add up to more than 256 MiB"
CELL = "table:table-cell office:value-type"


def ods_row(*cells, repeated=1):
    return f'<table:table-row table:number-rows-repeated="{repeated}">{"".join(cells)}</table:table-row>'


def lie(path):
    """Let the zip state that its sheet has a hundred bytes when it is unpacked."""
    with zipfile.ZipFile(path) as book:
        size = book.getinfo("xl/worksheets/sheet1.xml").file_size
    path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))


FORGED = {
    "one cell in the last corner.xlsx": (
        lambda path: write_xlsx(path, NAMES + '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'),
        "spans 1,048,576 rows and 16,384 columns",
    ),
    "a cell far to the right of its row.xlsx": (
        lambda path: write_xlsx(path, NAMES + "<row><c/></row>" * 70 + '<row><c r="AAAAA900000"><v>1</v></c></row>'),
        SPANS,
    ),
    "a dimension that lies.xlsx": (
        lambda path: write_xlsx(
            path, NAMES + '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', head='<dimension ref="A1:B2"/>'
        ),
        SPANS,
    ),
    "one long text in many cells.xlsx": (
        lambda path: write_xlsx(
            path, NAMES + '<row><c t="s"><v>0</v></c></row>' * 90_000, f"<si><t>{'x' * 32_000}</t></si>"
        ),
        TEXTS,
    ),
    "a size that lies.xlsx": (
        lambda path: lie(write_xlsx(path, NAMES + " " * (1 << 29))),
        "more than 256 MiB when unpacked",
    ),
    "a row repeated a million times.ods": (
        lambda path: write_ods(
            path, ods_row(f'<{CELL}="float" office:value="1" table:number-columns-repeated="16384"/>', repeated=1048576)
        ),
        SPANS,
    ),
    "empty cells without end.ods": (
        lambda path: write_ods(
            path, ods_row('<table:table-cell table:number-columns-repeated="4000000000"/>', "<table:table-cell/>")
        ),
        SPANS,
    ),
    "a text repeated.ods": (
        lambda path: write_ods(
            path, ods_row(f'<{CELL}="string"><text:p>{"x" * 1000}</text:p></table:table-cell>', repeated=1_000_000)
        ),
        TEXTS,
    ),
    "one cell in the last corner.xls": (
        lambda path: write_xls(path, number(0, 0, 1.0) + number(65535, 65535, 1.0), []),
        SPANS,
    ),
    "one long text in many cells.xls": (
        lambda path: write_xls(path, b"".join(shared_text(r, 0, 0) for r in range(20_000)), ["x" * 8000]),
        TEXTS,
    ),
    "sectors that are only stated.xls": (
        lambda path: path.write_bytes(
            (whole := write_xls(path, number(0, 0, 1.0), []).read_bytes())[:64] + b"\xff\xff\xff\x0f" + whole[68:]
        ),
        "more sectors stated than there are",
    ),
    "texts that are only stated.xls": (
        lambda path: write_xls(path, number(0, 0, 1.0), [], stated=2**31 - 1),
        "not a spreadsheet, or damaged (2147483647 shared texts)",
    ),
}


READ = """
import pathlib, re, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from undrift.errors import DataError
from undrift.run import Settings
from undrift.run.read.source import Source
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    try:
        print(path.name, len(list(Source(str(path), Settings(target="y")).batches())))
    except DataError as error:
        print(error)
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_forged_spreadsheets_are_refused_in_little_memory(tmp_path):
    for name, (make, _) in FORGED.items():
        make(tmp_path / name)
        assert (tmp_path / name).stat().st_size < 1_000_000
    done = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True, timeout=120)
    *said, most = done.stdout.splitlines()
    assert len(said) == len(FORGED), done.stderr
    for line, name in zip(said, sorted(FORGED), strict=True):
        assert f"{name}: " in line
        assert FORGED[name][1] in line
    assert int(most) < MOST


def test_a_forged_spreadsheet_ends_a_command_with_one_sentence(tmp_path):
    name = "one cell in the last corner.xlsx"
    FORGED[name][0](tmp_path / name)
    assert (tmp_path / name).stat().st_size < 3_900
    code, said, most = run(tmp_path, name)
    assert (code, len(said.splitlines()), most < MOST) == (3, 1, True), said
    assert "spans 1,048,576 rows and 16,384 columns, more than 8,388,608 cells" in said


def test_a_limit_reads_no_more_of_a_sheet_than_its_rows(tmp_path):
    write_xlsx(
        tmp_path / "long.xlsx",
        NAMES + "<row><c><v>1</v></c><c><v>2.5</v></c></row><row><c><v>2</v></c><c><v>4</v></c></row>" * 750_000,
    )
    code, said, most = run(tmp_path, "long.xlsx", "--limit", "100")
    assert code == 0, said
    assert most < MOST


def cells(path, **settings):
    """Return the cells that are read, by column."""
    batches = list(Source(str(path), Settings(target="y", **settings)).batches())
    return {name: [cell for batch in batches for cell in batch.columns[name]] for name in batches[0].columns}


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_a_limit_gives_the_first_rows(tmp_path, limit):
    rows = [["x", "y"], *([float(k), k / 2] for k in range(40))]
    book = workbook(tmp_path / "rows.xlsx", rows)
    whole = cells(book)
    assert cells(book, limit=limit) == {name: column[:limit] for name, column in whole.items()}


def test_a_limit_counts_rows_that_hold_something(tmp_path):
    body = "".join(
        f'<row r="{3 * k}"><c r="A{3 * k}"><v>{k}</v></c><c r="B{3 * k}"><v>1</v></c></row>' for k in range(1, 9)
    )
    book = write_xlsx(tmp_path / "gaps.xlsx", NAMES + body)
    assert cells(book, limit=4) == {"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0] * 4}


def test_sheets_with_prefixed_names_are_cut_too(tmp_path):
    book = write_xlsx(tmp_path / "plain.xlsx", NAMES + "<row><c><v>1</v></c><c><v>2</v></c></row>" * 9)
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(tmp_path / "prefixed.xlsx", "w") as new:
        for name in old.namelist():
            text = old.read(name).decode()
            if "sheet1" in name:
                text = (
                    text.replace("</", "</p:")
                    .replace("<", "<p:")
                    .replace("<p:/p:", "</p:")
                    .replace("xmlns=", "xmlns:p=")
                )
            new.writestr(name, text)
    assert cells(tmp_path / "prefixed.xlsx", limit=2) == {"x": [1.0, 1.0], "y": [2.0, 2.0]}


def test_formatted_empty_cells_below_a_table_do_no_harm(tmp_path):
    far = '<row r="1048576"><c r="A1048576" s="1"/><c r="XFD1048576" s="1"></c></row>'
    book = write_xlsx(
        tmp_path / "formats.xlsx", NAMES + '<row r="2"><c r="A2"><v>1</v></c><c r="B2"><v>2</v></c></row>' + far
    )
    assert cells(book) == {"x": [1.0], "y": [2.0]}

    def empty(repeats):
        return f'<table:table-cell table:number-columns-repeated="{repeats}"/>'

    def texts(*names):
        return "".join(f'<{CELL}="string"><text:p>{name}</text:p></table:table-cell>' for name in names)

    numbers = "".join(f'<{CELL}="float" office:value="{k}"/>' for k in (1, 2))
    rows = [
        ods_row(texts("x", "y"), empty(16382)),
        ods_row(numbers, empty(16382)),
        ods_row(empty(16384), repeated=1048574),
    ]
    assert cells(write_ods(tmp_path / "formats.ods", "".join(rows))) == {"x": [1.0], "y": [2.0]}


def test_a_workbook_of_the_old_format_is_read(tmp_path):
    texts = ["x", "y", "long " * 20]
    head = shared_text(0, 0, 0) + shared_text(0, 1, 1)
    body = b"".join(number(r, 0, r) + shared_text(r, 1, 2) for r in range(1, 400))
    found = cells(write_xls(tmp_path / "old.xls", head + body, texts))
    assert found == {"x": list(np.arange(1.0, 400.0)), "y": [texts[2]] * 399}


def test_spreadsheets_give_what_the_same_rows_as_csv_give(tmp_path):
    columns = {name: cells for name, cells in table(60).items() if name in ("a", "b", "city", "y")}
    csv = write_csv(tmp_path / "rows.csv", columns)
    frame = pl.DataFrame(columns)
    rows = [list(columns), *frame.fill_null("").rows()]
    book = workbook(tmp_path / "rows.xlsx", [list(row) for row in rows])
    tables = []
    for path in (csv, book):
        state = play_file(str(path), tmp_path / path.suffix[1:], Settings(target="y", speed="light"))
        tables.append(RunFolder(tmp_path / path.suffix[1:]).table(state))
    assert tables[0]["yhat"].equals(tables[1]["yhat"])


def test_binary_workbooks_and_document_types_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "rows.xlsb", "w") as book:
        book.writestr("xl/workbook.bin", "")
    with pytest.raises(DataError, match=r"a binary workbook \(.xlsb\), which is not read; save it as .xlsx or CSV"):
        cells(tmp_path / "rows.xlsb", format="excel")
    book = write_xlsx(tmp_path / "plain.xlsx", NAMES)
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(tmp_path / "typed.xlsx", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"<!DOCTYPE worksheet>" + old.read(name) if "sheet1" in name else old.read(name))
    with pytest.raises(
        DataError, match=r"not a spreadsheet, or damaged \(xl/worksheets/sheet1.xml declares a document"
    ):
        cells(tmp_path / "typed.xlsx")


def test_damaged_spreadsheets_give_one_sentence(tmp_path):
    rng = np.random.default_rng(0)
    body = NAMES + "<row><c><v>1</v></c><c><v>2</v></c></row>" * 30
    old = write_xls(tmp_path / "rows.xls", b"".join(number(r, c, 1.0) for r in range(40) for c in range(2)), ["x", "y"])
    files = [write_xlsx(tmp_path / "rows.xlsx", body, "<si><t>x</t></si>"), old]
    files.append(write_ods(tmp_path / "rows.ods", ods_row(f'<{CELL}="float" office:value="1"/>', repeated=9)))
    for path in files:
        whole = path.read_bytes()
        for _ in range(60):
            spoiled = bytearray(whole)
            for at in rng.integers(len(whole), size=rng.integers(1, 20)):
                spoiled[at] = rng.integers(256)
            cut = len(whole) if rng.random() < 0.7 else rng.integers(1, len(whole))
            path.write_bytes(spoiled[:cut])
            with contextlib.suppress(DataError):
                list(Source(str(path), Settings(target="y")).batches())


def test_the_rectangle_that_is_allowed_is_the_one_that_is_stated(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "MOST_CELLS", 12)
    body = "<row><c><v>1</v></c><c><v>2</v></c></row>"
    assert cells(write_xlsx(tmp_path / "six.xlsx", NAMES + 5 * body))["x"] == [1.0] * 5
    with pytest.raises(DataError, match="spans 7 rows and 2 columns, more than 12 cells"):
        cells(write_xlsx(tmp_path / "seven.xlsx", NAMES + 6 * body))
