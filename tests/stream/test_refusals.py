"""What a stream refuses is one sentence in the words of Python, and leaves it as it was."""

import datetime as dt
import math
import pickle

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.stream.tables import CASES
from undrift.errors import DataError, InputError, UndriftError

GOOD = [{"x": float(t % 7), "shop": "ab"[t % 2], "y": float(t % 5)} for t in range(60)]


def started(**settings):
    stream = ud.Stream("y", **{"speed": "light", **settings})
    stream.play(GOOD)
    return stream


def require_refused(stream, call, words):
    """Assert that a call is refused in one short sentence, and that the stream is as it was, also to the eye."""
    before, held = stream.copy(), pickle.dumps(stream)
    with pytest.raises(UndriftError, match=words) as caught:
        call(stream)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert "--" not in sentence.replace("'--'", "")
    assert stream == before
    assert pickle.dumps(stream) == held
    answers = [one.predict({"x": 1.0, "shop": "a"}) if one.features is not None else None for one in (stream, before)]
    assert answers[0] is None or answers[0][0] == answers[1][0]


BAD_ROWS = {
    "a text among numbers": (
        [{"x": "high", "shop": "a", "y": 1.0}],
        r"'x' is a column of numbers, got 'high'; correct the cell, give None if it is missing, or begin.*drop=\['x'\]",
    ),
    "a list": ([{"x": [1.0], "shop": "a", "y": 1.0}], "column 'x' holds list, no number, text or time.*drop=\\['x'\\]"),
    "an object": ([{"x": 1.0, "shop": {"a": 1}, "y": 1.0}], "column 'shop' holds dict.*drop=\\['shop'\\]"),
    "a complex number": ([{"x": 1j, "shop": "a", "y": 1.0}], "column 'x' holds complex"),
    "a text as label": ([{"x": 1.0, "shop": "a", "y": "much"}], "'y' is a column of numbers, got 'much'"),
    "a time among numbers": (
        [{"x": dt.datetime(2024, 1, 1), "shop": "a", "y": 1.0}],
        "'x' (is a column of|holds times among) numbers",
    ),
    "a text too long": (
        [{"x": 1.0, "shop": "s" * 1001, "y": 1.0}],
        "'shop' holds a text of 1,001 characters.*drop=\\['shop'\\]",
    ),
    "no row of known columns": ([{"z": 1.0, "y": 1.0}], "the table has no column 'x', which was learned"),
    "a slip of a name": (
        [{"x": 1.0, "shopp": "a", "y": 1.0}],
        "column 'shopp' is unknown and 'shop' is missing. Did you mean 'shop'",
    ),
    "a name that is no text": ([{"x": 1.0, "shop": "a", 3: 1.0}], "column names must be texts, got 3"),
    "a list of numbers": ([1.0, 2.0], "rows must be a data frame, a list of dicts or one dict, got a list with"),
    "an array": (np.ones((3, 2)), "frame must be a data frame"),
    "nothing": (None, "frame must be a data frame"),
    "a frame lacking a column": (
        pl.DataFrame({"x": [1.0], "y": [1.0]}),
        "the table has no column 'shop', which was learned; it has x, y; add it, with missing values where it is not",
    ),
    "a frame with a column that is misspelt": (
        pl.DataFrame({"x": [1.0], "Shop": ["a"], "y": [1.0]}),
        "no column 'shop', which was learned; it has x, Shop, y; rename 'Shop' if that is it",
    ),
    "a dict of lists": ({"x": [1.0], "shop": ["a"], "y": [1.0]}, "a dict is one row, but.*pass pd.DataFrame"),
    "lengths of time": (
        pl.DataFrame({"x": [dt.timedelta(hours=1)], "shop": ["a"], "y": [1.0]}),
        r"column 'x' holds lengths of time \(Duration.*learned as numbers, such as seconds; leave it out with drop=",
    ),
    "a time of day": ([{"x": dt.time(9), "shop": "a", "y": 1.0}], "column 'x' holds times of day.*, such as seconds"),
    "a file": ("rows.csv", "frame must be a data frame.*got str; read the file first, for example with pd.read_csv"),
    "rows still to come": (iter(GOOD), "frame must be a data frame.*for rows that are dicts pass list"),
    "a lazy frame": (pl.LazyFrame({"x": [1.0], "shop": ["a"], "y": [1.0]}), "frame must be a data frame.*collect it"),
    "a column of lists": (
        pl.DataFrame({"x": [[1.0]], "shop": ["a"], "y": [1.0]}),
        "column 'x' holds List.*drop=\\['x'\\]",
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_change_nothing(name):
    rows, words = BAD_ROWS[name]
    stream = started()
    require_refused(stream, lambda found: found.play(rows), words)
    if "label" not in name:
        require_refused(stream, lambda found: found.ask(rows), words)
        if "too long" not in name:  # which has no feature
            require_refused(stream, lambda found: found.predict(rows), words)
    if isinstance(rows, list) and isinstance(rows[0], dict) and "name" not in name and "columns" not in name:
        require_refused(stream, lambda found: found.play([*GOOD, *rows, *GOOD]), words)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_column_names_of_frames_are_different_texts(library):
    stream = started()
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        twice = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["x", "x", "y"])
        require_refused(stream, lambda found: found.play(twice), "column names must differ, 'x' comes twice")
        numbered = pd.DataFrame([[1.0, 2.0]])
        require_refused(stream, lambda found: found.play(numbered), "column names must be texts, got 0")
        indexed = pd.DataFrame({"x": [1.0]}, index=pd.Index([2.0], name="x"))
        require_refused(stream, lambda found: found.play(indexed), "the index and a column are both called 'x'")
    else:
        require_refused(stream, lambda found: found.play(pl.DataFrame({"z": [1.0]})), "the table has no column 'x'")


@pytest.mark.parametrize("place", [0, 5000, 9000])
def test_a_bad_cell_far_down_is_named_by_its_row_and_nothing_before_it_is_learned(place):
    rows = [dict(row) for row in GOOD * 160]
    rows[place]["x"] = "high"
    fresh = ud.Stream("y", speed="light")
    with pytest.raises(DataError, match=f"the table, row {place + 1}: 'x' is a column of numbers, got 'high'"):
        fresh.play(rows)
    assert fresh == ud.Stream("y", speed="light")
    assert (fresh.features, fresh.rounds) == (None, 0)
    stream = started()
    require_refused(stream, lambda found: found.play(rows), f"the table, row {place + 1}: 'x' is a column")


@pytest.mark.parametrize("empty", [[], pl.DataFrame(), pl.DataFrame({"x": [], "y": []})])
def test_a_stream_does_not_begin_without_rows(empty):
    stream = ud.Stream("y")
    for call in (lambda found: found.play(empty), lambda found: found.ask(empty), lambda found: found.infer(empty)):
        require_refused(stream, call, "the table has no rows")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"z": 1.0}, {"z": 2.0}], r"target='y': the table has no such column|'y'"),
        ([{"x": 1.0, "y": None}, {"x": 2.0, "y": None}], "the target 'y' is missing in"),
        ([{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 2.0}], "the target 'y' is 2 in every row"),
        ([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "a"}], "the target 'y' is 'a' in every row"),
        ({"x": None, "y": 1.0}, "the table, row 1: there is nothing to predict from"),
    ],
)
def test_first_rows_that_nothing_can_be_learned_from_are_refused(rows, words):
    require_refused(ud.Stream("y"), lambda found: found.play(rows), words)


def test_nothing_is_predicted_before_the_first_row():
    stream = ud.Stream("y")
    for call in (
        lambda found: found.predict(GOOD[0]),
        lambda found: found.explain(GOOD[0]),
        lambda found: found.tell(1, 2.0),
    ):
        require_refused(stream, call, "nothing was learned yet|no row")


def test_a_third_class_is_refused_where_it_stands():
    stream = CASES["two classes"].stream()
    rows = CASES["two classes"].rows()
    stream.play(rows)
    third = [*rows[:30], {**rows[0], "two": "maybe"}, *rows]
    words = (
        r"the table, row 31: the target 'two' is 'maybe', a third class after .*; begin again with task='multiclass'"
    )
    before = stream.copy()
    with pytest.raises(DataError, match=words):
        stream.play(third)
    assert stream == before
    waiting = stream.ask(rows[:2])
    before = stream.copy()
    with pytest.raises(DataError, match="a third class after 'no' and 'yes'"):
        stream.tell(waiting, ["yes", "maybe"])
    assert stream == before
    stream.tell(waiting, ["yes", "no"])


def test_the_class_beyond_the_most_is_refused(monkeypatch):
    monkeypatch.setattr("undrift.stream.labels.MOST_CLASSES", 3)
    case = CASES["several classes"]
    rows, stream = case.rows(), case.stream()
    stream.play(rows)
    asked = stream.ask(rows[0])
    before = stream.copy()
    for call in (
        lambda: stream.play([rows[0], {**rows[1], "kind": "fourth"}]),
        lambda: stream.tell(asked, "fourth"),
    ):
        with pytest.raises(DataError, match="the target 'kind' is 'fourth', one class more than the 3 allowed"):
            call()
        assert stream == before


def test_weights_and_probabilities_out_of_range_are_refused():
    for name, bad, words in (
        ("weight", {"w": -1.0}, "the weight 'w' is -1, but must be in"),
        ("weight", {"w": None}, "the weight 'w' is missing, but must be in"),
        (
            "two classes with a candidate",
            {"odds": 1.5},
            "the candidate 'odds' is 1.5, but for two classes it must be a",
        ),
    ):
        case = CASES[name]
        stream, rows = case.stream(), case.rows()
        stream.play(rows)
        before = stream.copy()
        for call in (stream.play, stream.ask):
            with pytest.raises(DataError, match=words):
                call([*rows[:3], {**rows[3], **bad}])
            assert stream == before


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf, "2", [1.0]])
def test_a_weight_that_is_none_is_refused_with_the_label(weight):
    stream = started()
    asked = stream.ask(GOOD[0], "a")
    require_refused(stream, lambda found: found.tell(asked, 1.0, weight=weight), "weight must be")


@pytest.mark.parametrize("label", ["much", [1.0], {"y": 1.0}, math.inf, 1e80, dt.datetime(2024, 1, 1), 1j])
def test_a_label_of_the_wrong_kind_is_refused_and_its_row_waits_on(label):
    stream = started()
    asked = stream.ask(GOOD[0], "a")
    require_refused(stream, lambda found: found.tell("a", label), "'y'|label")
    stream.tell(asked, 1.0)


def test_a_row_is_told_once_and_by_a_name_that_is_known():
    stream = started()
    asked = stream.ask(GOOD[:3], ["a", "b", "c"])
    for reference in ("z", 999, -1, 0, 3.5, True, None, ("z",), ["a", "z"]):
        require_refused(stream, lambda found, row=reference: found.tell(row, 1.0), "no row")
    with pytest.raises(InputError, match="a label for each row, got 1 labels for 2 rows"):
        stream.tell(["a", "b"], 1.0)
    require_refused(
        stream, lambda found: found.tell(asked, [1.0, 2.0]), "a label for each row, got 2 labels for 3 rows"
    )
    for label in (1.0, "abc", {"a": 1.0, "b": 2.0, "c": 3.0}, None):
        require_refused(stream, lambda found, label=label: found.tell(asked, label), "got 1 labels for 3 rows")
    stream.tell("b", 2.0)
    never = "no row with the reference 'b' waits for its label; it came before, or the row was never asked"
    require_refused(stream, lambda found: found.tell("b", 2.0), never)
    require_refused(
        stream, lambda found: found.tell({"prediction": 1.0}, 2.0), "tell takes what ask returned.*got a dict"
    )
    require_refused(stream, lambda found: found.tell(asked, [1.0, 2.0, 3.0]), "no row 62 waits for its label")
    require_refused(stream, lambda found: found.tell(int(asked.serial[1]), 2.0), "no row")
    stream.tell(asked.serial.tolist()[0], 1.0)
    require_refused(stream, lambda found: found.tell("a", 1.0), "no row with the reference 'a' waits")
    assert stream.references == {"c": 63}


def test_the_label_of_a_row_that_was_played_cannot_be_told_again():
    case = CASES["delay"]
    stream, rows = case.stream(), case.rows()
    stream.play(rows)
    before = stream.copy()
    for serial in (len(rows), len(rows) - 2, 1):
        with pytest.raises(InputError, match=f"no row {serial} waits for its label"):
            stream.tell(serial, 1.0)
        assert stream == before


def test_a_reference_that_was_used_up_is_not_taken_for_a_serial_number():
    stream = ud.Stream("y", speed="light").infer(GOOD)
    for number in (2, 1, 7):
        stream.ask(GOOD[number], number)  # the rows are 1, 2 and 3
    stream.tell(2, 0.5)  # row 1
    require_refused(stream, lambda found: found.tell(2, 0.5), "no row with the reference 2 waits for its label")
    assert stream.waiting == [2, 3]
    stream.tell(1, 1.5)
    stream.tell(7, 2.5)
    assert stream.rounds == 3


def test_numbers_of_arrays_are_references_like_any_other():
    stream = ud.Stream("y", speed="light").infer(GOOD)
    stream.ask(GOOD[:2], [np.int64(70), np.str_("a")])
    assert pickle.loads(pickle.dumps(stream)) == stream
    assert dict(stream.references) == {70: 1, "a": 2}
    stream.tell(np.int64(70), np.float64(1.0))
    stream.tell(2, 2.0)
    assert (stream.rounds, stream.waiting) == (2, [])


@pytest.mark.parametrize(
    "reference",
    [["a"], ["a", "a"], ["a", "b", "c"], [True, "b"], [None, "b"], "ab", [math.nan, 1], [math.inf, 1], [["a"], "b"]],
)
def test_references_are_one_for_each_row_and_not_in_use(reference):
    stream = started()
    require_refused(stream, lambda found: found.ask(GOOD[:2], reference), "reference")
    stream.ask(GOOD[:2], ["a", "b"])
    require_refused(
        stream, lambda found: found.ask(GOOD[2:4], ["c", "b"]), "the reference 'b' waits for its label already"
    )


def test_explain_takes_one_row():
    stream = started()
    for rows in ([], GOOD[:2]):
        require_refused(stream, lambda found, rows=rows: found.explain(rows), "explain takes one row, got")


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, math.nan, "0.9"])
def test_levels_are_between_0_and_1(share):
    stream = started()
    require_refused(stream, lambda found: found.predict(GOOD[0], level=share), "level")
    require_refused(stream, lambda found: found.predict(GOOD[0], quantiles=[share]), "quantiles|level")


@pytest.mark.parametrize("name", ["sort", "header", "encoding", "decimal", "delimiter", "format", "limit", "alert"])
def test_settings_of_files_are_refused(name):
    with pytest.raises(InputError, match=f"Stream: {name} is for files; leave it out, or use undrift.run.play_file"):
        ud.Stream("y", **{name: None})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lags": [1]}, "there is no setting 'lags'.*Did you mean 'lag'"),
        ({"missing": "drop"}, "missing must be one of"),
        ({"level": 2.0}, "level must be in"),
        ({"lag": [2], "delay": 2}, "lag 2 is not known yet when labels are 2 rows late"),
        ({"drop": ["y"]}, "the target 'y' cannot be dropped"),
        ({"nonnegative": True, "task": "classification"}, "nonnegative is for targets that are numbers"),
    ],
)
def test_wrong_settings_are_refused_by_name(settings, words):
    with pytest.raises(InputError, match=words) as caught:
        ud.Stream("y", **settings).play([{"x": 1.0, "y": "no"}, {"x": 2.0, "y": "yes"}] * 20)
    assert "--" not in str(caught.value)


def test_columns_that_were_inferred_are_not_inferred_again():
    stream = started()
    require_refused(stream, lambda found: found.infer(GOOD), "the columns are known already")
