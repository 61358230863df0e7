"""Columns that come later in single rows are taken in where they come, as an estimator takes in named features."""

import datetime as dt
import math
from itertools import pairwise

import numpy as np
import pytest

import undrift as ud
from tests.stream.tables import require_same
from undrift.errors import InputError
from undrift.stream.answers import join_answers

RNG = np.random.default_rng(2)
X = RNG.normal(size=(80, 2)).round(6)
Y = (X[:, 0] + 2.0 * X[:, 1] + 0.1 * RNG.normal(size=80)).round(6)


def numbers_by_hand(later):
    """Return what an estimator says whose second feature comes after so many rows."""
    model, said = ud.OnlineRegressor(speed="light"), []
    for t, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        served = model.ask({"a": x[0]} | ({"b": x[1]} if t >= later else {}))
        said.append(served.yhat if served.known else math.nan)
        model.tell(served, y)
    return model, said


@pytest.mark.parametrize("later", [1, 20, 79])
def test_a_number_that_comes_later_is_a_feature_from_there_on(later):
    model, said = numbers_by_hand(later)
    stream, answers = ud.Stream("y", speed="light"), []
    for t, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        hole = {"b": None} if t % 2 else {}  # a column without a value is not known yet
        answers.append(stream.play({"a": x[0], "y": y} | ({"b": x[1]} if t >= later else hole)))
    np.testing.assert_array_equal(join_answers(answers).columns()["prediction"], said)
    assert stream.model == model
    assert stream.schema.numbers == ("a", "b")
    assert stream.features.names == ["a", "b"]


def test_texts_and_times_come_later_too():
    stream = ud.Stream("y", speed="light", calendar=True, time="when")
    begin = dt.datetime(2024, 1, 5)
    for t, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        row = {"when": begin + dt.timedelta(hours=t), "a": x[0], "y": y}
        row |= {"shop": "uv"[t % 2]} if t >= 30 else {}
        row |= {"b": x[1]} if t >= 50 else {}
        stream.play(row)
    assert stream.schema.numbers == ("a", "b")
    assert stream.features.text_features.texts == {"shop": ["u", "v"]}
    assert {"shop=u", "shop=v"} <= {*stream.features.names}
    assert stream.schema.time == "when"
    assert stream.predict({"when": begin, "a": 1.0, "b": 5.0})[0]["prediction"] > 3.0


def test_a_time_is_found_in_the_row_that_begins_and_is_no_feature_later():
    stream = ud.Stream("y", speed="light")
    for t in range(20):
        answers = stream.play({"when": f"2024-01-{t + 1:02d}", "a": float(t), "y": float(t)})
        assert answers.time[0] == np.datetime64(f"2024-01-{t + 1:02d}")
    assert stream.features.names == ["a"]
    late = ud.Stream("y", speed="light")
    late.play({"a": 1.0, "y": 1.0})
    late.play({"a": 2.0, "when": "2024-01-01", "y": 2.0})
    assert late.schema.time is None  # which began without one; the text is one like any other
    assert late.predict({"a": 1.0, "when": "2024-01-01"})[0]["prediction"] is not None


def test_columns_come_in_rows_of_a_batch_as_in_single_rows():
    rows = [{"a": x[0], "y": y} for x, y in zip(X.tolist(), Y.tolist(), strict=True)]
    for t in range(25, 80):
        rows[t]["b"] = X[t, 1]
    for t in range(40, 80):
        rows[t]["shop"] = "uvw"[t % 3]
    single, batched = ud.Stream("y", speed="light"), ud.Stream("y", speed="light")
    expected = join_answers([single.play(row) for row in rows])
    cuts = (0, 1, 25, 40, 60, 80)  # where columns come for the first time; texts come in between, too
    answers = [batched.play(rows[begin:end]) for begin, end in pairwise(cuts)]
    require_same(join_answers(answers), expected)
    assert batched == single
    assert single.features.names == ["a", "b", "shop=v", "shop=w", "shop=u"]


@pytest.mark.parametrize("way", ["play", "ask"])
def test_a_stream_with_columns_that_came_later_is_saved_and_goes_on(tmp_path, way):
    stream = ud.Stream("y", speed="light", lag=[2])
    for t in range(40):
        row = {"a": X[t, 0]} | ({"b": X[t, 1], "shop": "uv"[t % 2]} if t > 10 else {})
        if way == "play":
            stream.play({**row, "y": Y[t]})
        else:
            stream.tell(stream.ask(row), Y[t])
        if t in (5, 11, 30):
            stream.save(tmp_path / "stream.undrift")
            again = ud.load(tmp_path / "stream.undrift")
            assert again == stream
            stream = again
    assert [*stream.features.groups][:2] == ["a", "b"]
    assert len(stream.features.groups) == 4  # the earlier label, and the shops


def test_predictions_take_no_column_in():
    stream = ud.Stream("y", speed="light")
    for t in range(30):
        stream.play({"a": X[t, 0], "y": Y[t]})
    before = stream.copy()
    plain = stream.predict({"a": 1.0}).yhat[0]
    assert stream.predict({"a": 1.0, "b": 3.0, "shop": "u"}).yhat[0] == plain
    assert stream == before


def test_chosen_features_are_all_that_come():
    stream = ud.Stream("y", speed="light", features=["a", "b"])
    for t in range(30):
        stream.play({"a": X[t, 0], "z": 1.0, "y": Y[t]} | ({"b": X[t, 1], "shop": "u"} if t > 10 else {}))
    assert stream.features.names == ["a", "b"]


def test_what_single_rows_cannot_show_is_refused():
    with pytest.raises(InputError, match="elapsed=True needs the usual time between rows, which a single row does not"):
        ud.Stream("y", elapsed=True).play({"when": "2024-01-01", "a": 1.0, "y": 1.0})
    with pytest.raises(InputError, match="calendar=True needs a column with times; none was found, name it with time="):
        ud.Stream("y", calendar=True).play({"a": 1.0, "y": 1.0})


def test_labels_of_single_rows_are_two_classes_only_if_they_are_flags():
    for first, second, task, classes in (
        (True, False, "classification", ["false", "true"]),
        ("b", "a", "multiclass", ["b", "a"]),
        (1.5, 2.5, "regression", None),
    ):
        stream = ud.Stream("y", speed="light")
        stream.play({"a": 1.0, "y": first})
        stream.play({"a": 2.0, "y": second})
        assert (stream.task, stream.classes) == (task, classes)
    stream = ud.Stream("y", speed="light", positive="up")
    for label in ("up", "down", "up"):
        stream.play({"a": 1.0, "y": label})
    assert (stream.task, stream.classes) == ("classification", ["down", "up"])


BEGIN = dt.datetime(2024, 1, 5)


def row_with_two_times(t, second):
    return {"when": BEGIN + dt.timedelta(hours=t), "opened": second, "a": X[t, 0], "y": Y[t]}


@pytest.mark.parametrize("start", [0, 20])
def test_a_second_time_is_left_out_of_single_rows_as_of_tables(start):
    stream, batched = ud.Stream("y", speed="light"), ud.Stream("y", speed="light")
    rows = [row_with_two_times(t, BEGIN - dt.timedelta(days=t) if t >= start else None) for t in range(40)]
    for row in rows:
        stream.play(row)
    batched.play(rows[0])
    batched.play(rows[1:])
    assert stream.features.names == ["a"]
    assert stream.notes == ["'opened' is a second time and was left out"]
    assert stream == batched
    serving = ud.Stream("y", speed="light")
    assert serving.ask(rows[30]).time[0] == np.datetime64(rows[30]["when"])
    with pytest.raises(InputError, match=r"features=\['opened'\]: that is a time, not a feature"):
        ud.Stream("y", features=["opened", "a"]).play(rows[30])


def test_times_in_a_column_of_texts_are_texts():
    stream = ud.Stream("y", speed="light")
    rows = [{"a": X[t, 0], "shop": "uv"[t % 2], "y": Y[t]} for t in range(40)]
    stream.play(rows)
    expected = stream.predict({**rows[0], "shop": "2024-01-05T00:00:00"}).yhat
    assert stream.predict({**rows[0], "shop": BEGIN}).yhat == expected
    stream.play({**rows[0], "shop": BEGIN})
    assert stream.features.text_features.texts["shop"][-1] == "2024-01-05T00:00:00.000000"


def test_a_column_of_missing_times_is_missing_where_numbers_or_texts_were_learned():
    stream = ud.Stream("y", speed="light")
    rows = [{"a": X[t, 0], "shop": "uv"[t % 2], "y": Y[t]} for t in range(40)]
    stream.play(rows)
    hole = np.datetime64("NaT")
    given = {"a": hole, "shop": hole}
    assert stream.predict([given] * 2).yhat.tolist() == stream.predict([{"a": None, "shop": None}] * 2).yhat.tolist()
