"""Rows out of pandas and polars: a row of a frame goes by its names, and what is no number is told what to do."""

import decimal

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
ROWS = 60


def frame(**columns):
    rng = np.random.default_rng(3)
    given = {
        "x": rng.normal(size=ROWS),
        "b": rng.random(ROWS) < 0.5,
        "i": pd.array([None if t == 3 else t % 7 for t in range(ROWS)], dtype="Int64"),
    }
    return pd.DataFrame(given | columns, index=np.arange(ROWS) * 3 + 7)


def played(table=None):
    model, table = ud.OnlineRegressor(speed="fast"), frame() if table is None else table
    model.play(table, pd.Series(2.0 * frame()["x"] + 1.0))
    return model


@pytest.mark.parametrize("row", [5, 3])  # the latter lacks a value
def test_a_row_of_a_frame_is_the_mapping_of_its_names(row):
    model, table = played(), frame()
    series, plain = table.iloc[row], {name: table[name].iloc[row] for name in ("i", "b", "x")}
    assert model.predict(series) == model.predict(plain) == model.predict(table.iloc[[row]])[0]
    assert model.predict(series[["i", "x", "b"]]) == model.predict(plain)
    assert model.predict_interval(series) == model.predict_interval(plain)
    other = model.copy()
    model.learn(series, 2.0)
    other.learn(plain, 2.0)
    assert model == other
    assert model.ask(series).yhat == other.ask(plain).yhat


def test_a_row_of_numbers_goes_by_its_names_too():
    model, table = ud.OnlineRegressor(speed="fast"), frame()[["x"]].assign(z=3.0)
    model.play(table, table["x"])
    assert model.predict(table.iloc[5][["z", "x"]]) == model.predict(table.iloc[5])


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.5, None] * 30, dtype=object),
        [decimal.Decimal("1.5"), None] * 30,
        pd.array([1.5, None] * 30, dtype="Float64"),
    ],
)
def test_numbers_in_a_column_of_objects_are_numbers(column):
    assert played(frame(c=column)) == played(frame(c=[1.5, np.nan] * 30))


def test_a_column_of_nulls_is_missing():
    table = pl.from_pandas(frame())
    assert played(table.with_columns(c=pl.lit(None))) == played(table.with_columns(c=pl.lit(None, pl.Float64)))


TEXTS = "encode texts as 0 and 1, or learn these rows by ud.Stream, which takes texts"
TIMES = r"leave times out, or learn these rows by ud\.Stream\(\.\.\., calendar=True\), which makes features of them"


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (pd.Categorical(["a", "b"] * 30), f"feature 'c' must be numbers, got Categorical; {TEXTS}"),
        (["a", "b"] * 30, f"feature 'c' must be numbers, got String; {TEXTS}"),
        (np.array([1, "b"] * 30, dtype=object), f"feature 'c' must be a number, got 'b'; {TEXTS}"),
        (pd.date_range("2024", periods=ROWS), f"feature 'c' must be numbers, got Datetime.*; {TIMES}"),
        (np.full(ROWS, 1j), "feature 'c' must be a number, got a complex"),
    ],
)
def test_what_is_no_number_is_told_what_to_do(column, sentence):
    with pytest.raises(InputError, match=sentence):
        played(frame(c=column))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda m: m.learn([1.0, "a"], 1.0), f"z must be an array of numbers, got .*; {TEXTS}"),
        (lambda m: m.learn({"x": pd.Timestamp("2024")}, 1.0), f"must be a number, got a Timestamp; {TIMES}"),
        (lambda m: m.learn({"x": np.complex128(1j)}, 1.0), "must be a number, got a complex"),
        (lambda m: m.play(frame(), frame()["x"].astype(str)), "got a Series .*; texts as labels are for Online"),
        (lambda m: m.play(frame(), frame()["x"].astype(object)), r"got a Series .*; convert it with astype\(float\)"),
        (lambda m: m.play(frame(), frame()[["x"]]), r"shape \(60, 1\); pass its one column"),
        (lambda m: m.play(pd.DataFrame(np.ones((2, 2))), [1.0, 2.0]), "rename that column, or pass an array"),
    ],
)
def test_labels_and_rows_of_other_kinds_are_told_what_to_do(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(ud.OnlineRegressor(speed="fast"))


def test_booleans_with_holes_are_labels():
    labels = [t % 3 == 0 for t in range(ROWS)]
    holes, plain = ud.OnlineClassifier(speed="fast"), ud.OnlineClassifier(speed="fast")
    holes.play(frame(), pd.array([*labels[:-1], None], dtype="boolean"))
    plain.play(frame(), [*map(float, labels[:-1]), np.nan])
    assert holes.predict_proba(frame().iloc[0]).tolist() == plain.predict_proba(frame().iloc[0]).tolist()
    assert holes.predict(frame().iloc[0]) in (True, False)
