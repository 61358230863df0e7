"""What people try first: a column left out, a row of a frame, a target that is misspelt, answers beside the truth."""

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import DataError, InputError, ModelFileError

pd = pytest.importorskip("pandas")


def table(rows=120):
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    frame = {"x": x, "shop": ["a", "b"] * (rows // 2), "note": [f"n{t}" for t in range(rows)], "sales": 2.0 * x + 0.1}
    return pd.DataFrame(frame, index=np.arange(rows) * 2 + 5)


@pytest.mark.parametrize("kind", ["frame", "rows"])
def test_columns_are_left_out(kind):
    frame = table()
    given = frame if kind == "frame" else frame.to_dict("records")
    stream = ud.Stream("sales", drop=["note"], speed="light")
    answers = stream.play(given)
    other = ud.Stream("sales", speed="light")
    assert answers.yhat.tolist()[1:] == other.play(frame.drop(columns="note")).yhat.tolist()[1:]
    assert stream.features.columns == ["x", "shop"]
    stream.play(frame.drop(columns="note"))  # later rows need not have it
    with pytest.raises(InputError, match=r"drop=\['nose'\]: the table has no such column.*Did you mean 'note'"):
        ud.Stream("sales", drop=["nose"]).play(frame)


def test_a_row_of_a_frame_is_a_row():
    frame = table()
    stream = ud.Stream("sales", drop=["note"], speed="light")
    stream.play(frame[:100])
    assert stream.predict(frame.iloc[100]).yhat == stream.predict(frame[100:101]).yhat
    with pytest.raises(InputError, match=r"frame must be a data frame.*for an array make one: pd\.DataFrame"):
        stream.predict(np.zeros((2, 3)))


def test_a_table_without_the_target_is_not_learned():
    frame = table()
    stream = ud.Stream("sales", drop=["note"], speed="light")
    stream.play(frame)
    before = stream.copy()
    for learn in (stream.play, stream.learn):
        with pytest.raises(InputError, match=r"has no column 'sales' to learn; it has .*Did you mean 'Sales'"):
            learn(frame.rename(columns={"sales": "Sales"}))
    assert stream == before
    with pytest.raises(InputError, match="target must be the name of the column to predict, got a DataFrame"):
        ud.Stream(frame)


def test_answers_stand_beside_the_truth():
    frame = table()
    stream = ud.Stream("sales", drop=["note"], speed="light")
    out = stream.play(frame).to_frame()
    assert list(out.index) == list(frame.index)
    assert np.isnan(out.prediction.iloc[0])
    assert out.prediction.iloc[1:].tolist() == stream.copy().clone().play(frame)["prediction"][1:].tolist()
    later = stream.predict(frame[100:], quantiles=0.5)
    assert list(later.to_frame().columns) == ["prediction", "lower", "upper", "q0.5"]
    assert later.to_frame("polars").equals(pl.DataFrame(later.columns()))
    skipped = ud.Stream("sales", drop=["note"], missing="skip", speed="light")
    frame.loc[[7, 11], "x"] = np.nan
    assert list(skipped.play(frame).to_frame().index) == [name for name in frame.index if name not in (7, 11)]


def test_rows_whose_earlier_labels_are_not_known_have_no_interval():
    frame = table()
    stream = ud.Stream("sales", drop=["note"], lag=[1], speed="light")
    stream.play(frame[:100])
    blind = stream.predict(frame[100:105].drop(columns="sales"), quantiles=[0.5])
    assert np.isnan(blind.lower).tolist() == np.isnan(blind.quantiles[:, 0]).tolist() == [False] + [True] * 4
    assert not np.isnan(stream.predict(frame[100:105]).lower).any()


def timed_table(rows=120, name=None):
    frame = table(rows).drop(columns="note")
    frame["size"] = pd.cut(frame["x"], [-9.0, -0.5, 0.5, 9.0])
    frame["month"] = pd.period_range("2024-01", periods=rows, freq="M")
    frame["open"] = pd.array([None, True, False] * (rows // 3), dtype="boolean")
    frame["staff"] = pd.array([4, None] * (rows // 2), dtype="Int64")
    frame.index = pd.date_range("2024-01-01", periods=rows, freq="h", name=name)
    return frame


@pytest.mark.parametrize("name", [None, "when"])
@pytest.mark.parametrize("zone", [None, "Europe/Vienna"])
def test_a_row_of_a_frame_keeps_the_time_that_names_it(name, zone):
    frame = timed_table(name=name).tz_localize(zone)
    stream = ud.Stream("sales", calendar=True, speed="light")
    stream.play(frame[:100])
    for t in (100, 110):
        row, block = frame.iloc[t], frame[t : t + 1]
        expected = stream.predict(block)
        assert stream.predict(row).columns() == expected.columns()
        assert stream.predict(block.reset_index(names=name or "time").to_dict("records")).yhat == expected.yhat
        assert stream.explain(row) == stream.explain(block)
        out = stream.predict(row).to_frame()
        pd.testing.assert_frame_equal(out, expected.to_frame(), check_freq=False, check_names=False)
    single, whole = stream.copy(), stream.copy()
    for _, row in frame[100:].iterrows():
        single.learn(row)
    whole.learn(frame[100:])
    assert single == whole
    first = ud.Stream("sales", calendar=True, speed="light")
    first.learn(frame.iloc[0])
    assert first.schema.time == "time"


def test_rows_of_a_frame_with_periods_are_rows():
    frame = timed_table()
    frame.index = frame.index.to_period("h")
    stream = ud.Stream("sales", calendar=True, speed="light")
    stream.play(frame[:100])
    assert stream.predict(frame.iloc[100]).columns() == stream.predict(frame[100:101]).columns()


def test_a_row_that_left_its_index_out_is_refused_with_the_way_to_keep_it():
    frame = table().rename_axis("order").drop(columns="note")
    stream = ud.Stream("sales", features=["x", "order"], speed="light")
    stream.play(frame.set_index(frame.index % 7 + 0.5).rename_axis("order"))
    with pytest.raises(
        InputError, match=r"no column 'order', which was learned; .* pass frame\.iloc\[\[0\]\] in place of"
    ):
        stream.predict(frame.iloc[0])


def test_quantiles_in_percent_are_refused_with_what_they_are():
    stream = ud.Stream("sales", speed="light")
    stream.play(table().drop(columns="note"))
    with pytest.raises(InputError, match=r"levels must be in \[0.005, 0.995\], got 10; 10% is 0.1"):
        stream.predict(table()[:2], quantiles=[10, 50])


def test_a_column_of_a_frame_is_no_row():
    stream = ud.Stream("sales", speed="light")
    stream.play(table().drop(columns="note"))
    with pytest.raises(InputError, match=r"a Series must be one row.*, got 5 as a name; for a column"):
        stream.predict(table()["x"])


def test_no_rows_of_a_frame_give_a_frame_of_the_same_kind():
    frame = timed_table()
    stream = ud.Stream("sales", speed="light")
    stream.play(frame)
    for answers in (stream.predict(frame[:0]), stream.play(frame[:0]), stream.ask(frame[:0])):
        out = answers.to_frame()
        assert isinstance(out, pd.DataFrame)
        assert list(out.columns) == ["time", "prediction", "lower", "upper"]
        assert out.index.equals(frame.index[:0])


@pytest.mark.parametrize("learned", ["flags", "False", "FALSE", "false", "0"])
def test_flags_are_the_same_classes_however_they_are_spelt(learned):
    frame = table().drop(columns="note")
    flags = frame["sales"] > 0.0
    spelt = {"flags": flags, "False": flags.astype(str), "0": flags.astype(int)}
    spelt |= {"FALSE": spelt["False"].str.upper(), "false": spelt["False"].str.lower()}
    stream = ud.Stream("sales", speed="light")
    stream.play(frame.assign(sales=spelt[learned]))
    later = [stream.copy() for _ in spelt]
    for one, labels in zip(later, spelt.values(), strict=True):
        one.learn(frame.assign(sales=labels))
        assert one == later[0]
    for label in (True, np.True_, 1, "True", "TRUE", "true", "1"):
        one = stream.copy()
        one.tell(one.ask(frame.iloc[3]), label)
        assert one.rounds == stream.rounds + 1


def test_a_stream_is_loaded_from_a_run_and_not_from_another_model(tmp_path):
    frame = table().drop(columns="note")
    run = ud.run_frame(frame, tmp_path / "run", target="sales", speed="light")
    assert ud.Stream.load(tmp_path / "run") == run.stream == ud.load(tmp_path / "run")
    ud.OnlineRegressor(speed="light").save(tmp_path / "other.undrift")
    with pytest.raises(
        ModelFileError, match=r"other\.undrift: holds a 'OnlineRegressor', not a Stream; use undrift\.load"
    ):
        ud.Stream.load(tmp_path / "other.undrift")


def test_answers_have_rows_by_number_and_columns_by_name():
    stream = ud.Stream("sales", speed="light")
    answers = stream.play(table().drop(columns="note"))
    with pytest.raises(InputError, match="no column 'yhat'; there are prediction, lower, upper"):
        answers["yhat"]
    with pytest.raises(InputError, match=r"a row is a number and a column a text, got .*; to_frame\(\) takes the rest"):
        answers[:2]
    assert answers[np.int64(3)] == [*answers][3] == answers[-117]


def test_a_number_where_times_were_learned_is_shown_as_people_write_it():
    rows = [{"t": f"2024-01-{t % 28 + 1:02d}", "x": t % 5, "sales": t % 7} for t in range(28)]
    stream = ud.Stream("sales", calendar=True, speed="light")
    stream.play(rows)
    with pytest.raises(DataError, match=r"row 1: 't' should be a time, got 3\.5; correct it"):
        stream.predict(pd.DataFrame({"t": [3.5], "x": [1]}))
