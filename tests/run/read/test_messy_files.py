"""Files as programs and offices leave them: titles, totals, units, empty cells at the end, numbers with groups."""

import numpy as np
import pytest

from undrift.errors import DataError
from undrift.run import Settings, play_file
from undrift.run.play.run_folder import RunFolder
from undrift.run.read.csv_file import _point, find_header
from undrift.stream.cells import is_missing, parse_number, parse_times

ROWS = 60


def rows(delimiter=","):
    rng = np.random.default_rng(0)
    return [delimiter.join((f"{a:.3f}", f"{1000.0 + a + b:.3f}")) for a, b in rng.normal(size=(ROWS, 2))]


def run(folder, lines, **settings):
    """Return the state, the predictions and the numbers of the lines of a run of these lines."""
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    settings = {"target": "y", "speed": "light", **settings}
    state = play_file(str(folder / "t.csv"), folder / "run", Settings(**settings), force=True)
    table = RunFolder(folder / "run").table(state)
    return state, table["yhat"].to_list(), table["line"].to_list()


@pytest.mark.parametrize(
    ("above", "delimiter"),
    [
        (["Report of 2023"], ","),
        (["Report of 2023;", "", ";;"], ";"),
        (["# made by a logger", "# version 3"], "\t"),
        (["sep=;"], ";"),
        (['"sep=|"'], "|"),
    ],
)
def test_what_stands_above_the_names_is_left_out_and_told(tmp_path, above, delimiter):
    _, expected, lines = run(tmp_path, ["x,y", *rows()])
    state, found, places = run(tmp_path, [*above, f"x{delimiter}y", *rows(delimiter)])
    assert found == expected
    assert places == [line + len(above) for line in lines]
    count = "the first line stands" if len(above) == 1 else f"the first {len(above)} lines stand"
    assert state["notes"][0].startswith(f"{count} above the names of the columns")


@pytest.mark.parametrize(
    "lines",
    [
        ["y", "1", "2"],  # one column
        ["y,", "1,", "2,"],
        ["y,", "1,5", "2,6"],  # a column without a name
        [",y", "0,1", "1,2"],  # rows that pandas numbered
        ['"a', 'b",y', "1,2"],  # a name of two lines
        ["y", *(["text"] * 30), "a,b"],
        [],
    ],
)
def test_the_first_line_counts_where_nothing_says_that_it_is_a_title(lines):
    text = iter([f"{line}\n" for line in lines])
    found = find_header(text, None, has_names=True)
    if not lines:
        assert found is None
        return
    assert (found.above, found.text.strip()) == (0, lines[0])
    assert [found.text, *found.below, *text] == [f"{line}\n" for line in lines]


def test_without_names_the_first_line_is_a_row(tmp_path):
    found = find_header(iter(["a,\n", "b,c\n"]), None, has_names=False)
    assert (found.above, found.text) == (0, "a,\n")


def test_errors_below_a_title_name_the_line_of_the_file(tmp_path):
    with pytest.raises(DataError, match=r"t\.csv, line 5: 3 cells where the header has 2"):
        run(tmp_path, ["Report", "", "x,y", "1,2", "1,2,3"])
    with pytest.raises(DataError, match=r"t\.csv, line 2: columns 1 and 2 are both called 'y'"):
        run(tmp_path, ["Report", "y,y", "1,2"])


@pytest.mark.parametrize("last", ["Total,99", "Grand total:,99", "99,SUM"])
def test_a_last_row_of_totals_is_refused_with_the_way_around_it(tmp_path, last):
    lines = [*rows(), last]
    with pytest.raises(
        DataError, match=rf"line {ROWS + 2}: the last row says .*; delete it, or pass --limit {ROWS} to"
    ):
        run(tmp_path, ["x,y", *lines])
    assert run(tmp_path, ["x,y", *lines], limit=ROWS)[1] == run(tmp_path, ["x,y", *rows()])[1]


def test_a_text_that_other_rows_have_too_is_no_total(tmp_path):
    kinds = ["Total" if k % 2 else "part" for k in range(ROWS)]
    lines = [f"{kind},{row}" for kind, row in zip(kinds, rows(), strict=True)]
    assert run(tmp_path, ["kind,x,y", *lines])[0]["rows"] == ROWS


def test_empty_cells_beyond_the_last_name_are_left_out(tmp_path):
    expected = run(tmp_path, ["x,y", *rows()])[1]
    assert run(tmp_path, ["x,y", *(f"{row},, " for row in rows())])[1] == expected
    with pytest.raises(DataError, match="line 2: 3 cells where the header has 2"):
        run(tmp_path, ["x,y", *(f"{row},7" for row in rows())])


def test_a_line_of_units_is_to_be_deleted(tmp_path):
    with pytest.raises(
        DataError, match=r"line 2: 'y' is a column of numbers, got 'kW'.*; if the line holds units, del"
    ):
        run(tmp_path, ["x,y", "C,kW", *rows()])


def test_texts_that_differ_in_case_alone_are_told(tmp_path):
    words = ["Yes", "no", "YES"] * (ROWS // 3)
    state, *_ = run(tmp_path, ["ok,x,y", *(f"{word},{row}" for word, row in zip(words, rows(), strict=True))])
    assert "'ok' holds 'Yes' and 'YES', which count as different; write them alike" in state["notes"]
    numbers = [row.split(",")[0] for row in rows()]
    state, *_ = run(tmp_path, ["x,y", *(f"{x},{word}" for x, word in zip(numbers, words, strict=True))])
    assert "'y' holds 'Yes' and 'YES', which count as different; write them alike" in state["notes"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1'234.5", 1234.5),
        ("1\u2019234\u2019567", 1234567.0),
        ("1 234.5", 1234.5),
        ("-12\u00a0345", -12345.0),
        ("1\u202f234 €", 1234.0),
        ("(1,234.50)", -1234.5),
        ("( 7 )", -7.0),
        ("1 23", None),
        ("1'234 567", None),
        ("(-5)", None),
        ("(five)", None),
    ],
)
def test_groups_of_digits_and_parentheses_are_numbers(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["1 234,5", "1'234,5", "1\u00a0234,5", "1.234,5"])
def test_groups_stand_before_decimal_commas_too(text):
    assert parse_number(_point(text)) == 1234.5


@pytest.mark.parametrize(
    "text", ["n.a.", "<NA>", "NaT", "#VALUE!", "#DIV/0!", "(null)", "\\N", "--", ".", " N/D ", "k.A.", "k. A.", "n/v"]
)
def test_more_spellings_mean_missing(text):
    assert is_missing(text, frozenset())


def test_times_may_end_in_the_name_of_universal_time():
    found = parse_times(
        ["2024-01-31 05:00:00 UTC", "2024-01-31T05:00:00 GMT", "2024-01-31 06:00+01:00"], "iso", frozenset()
    )
    assert set(found.tolist()) == {np.datetime64("2024-01-31T05:00").astype("datetime64[us]").item()}
