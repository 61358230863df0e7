"""A stream answers the same bits however rows come: frames, dicts, row by row, asked and told, or from a file."""

import copy
import csv
import pickle

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.stream.tables import CASES, ROWS, ask_and_tell, play_by_row, require_same
from undrift.run import Settings, play_file

CUT = 77


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows(
            [str(cell).lower() if isinstance(cell, bool) else cell for cell in row.values()] for row in rows
        )
    return str(path)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_library_are_lists_of_rows(name, library):
    rows = CASES[name].rows()
    module = pytest.importorskip(library)
    frame = module.Table.from_pylist(rows) if library == "pyarrow" else module.DataFrame(rows)
    stream, expected = CASES[name].stream(), CASES[name].stream()
    require_same(stream.play(frame), expected.play(rows))
    assert stream.model == expected.model
    assert stream == expected or stream.classes == ["0", "1"]
    require_same(stream.play(rows), expected.play(rows))  # flags included
    assert stream.model == expected.model


@pytest.mark.parametrize("name", CASES)
def test_rows_one_by_one_are_those_of_a_table(name):
    rows = CASES[name].rows()
    whole = CASES[name].stream()
    expected = whole.play(rows)
    assert expected.known.sum() > len(expected) - 12
    stream = CASES[name].stream().infer(rows)
    require_same(play_by_row(stream, rows), expected)
    assert stream == whole
    asked = CASES[name].stream().infer(rows)
    require_same(ask_and_tell(asked, rows), expected)
    assert asked.rounds == whole.rounds


@pytest.mark.parametrize("name", CASES)
def test_a_run_over_a_file_is_the_stream_of_its_rows(name, tmp_path):
    case, rows = CASES[name], CASES[name].rows()
    stream = case.stream()
    answers = stream.play(rows)
    settings = Settings.from_dict({"target": case.target, "speed": "light", "seed": 3, **case.settings})
    play_file(write_csv(tmp_path / "t.csv", rows), tmp_path / "run", settings)
    saved = ud.load(tmp_path / "run")
    assert saved.model == stream.model
    assert saved.classes == stream.classes
    table = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    columns = answers.columns()
    if answers.classes is None:
        columns["yhat"] = columns.pop("prediction")
    else:
        columns["yhat"] = columns.pop("label")
        del columns["probability"]
    for column, values in columns.items():
        expected = [None if value is None or value != value else value for value in np.asarray(values).tolist()]
        if column == "time":
            assert table[column].to_numpy().tolist() == np.asarray(values).tolist()
        else:
            assert table[column].to_list() == expected, column
    future = [{key: cell for key, cell in row.items() if key != case.target} for row in rows[-20:]]
    require_same(saved.predict(future), stream.predict(future))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle", "save"])
def test_a_stream_goes_on_from_any_copy(name, way, tmp_path):
    rows, whole = CASES[name].rows(), CASES[name].stream()
    expected = whole.play(rows)
    stream, parts = CASES[name].stream().infer(rows), []
    for begin, end in ((0, 0), (0, 1), (1, 40), (40, CUT), (CUT, ROWS)):
        if end > begin:
            parts.append(stream.play(rows[begin:end]))
        if way == "copy":
            twin = stream.copy()
        elif way == "deepcopy":
            twin = copy.deepcopy(stream)
        elif way == "pickle":
            twin = pickle.loads(pickle.dumps(stream))
        else:
            stream.save(tmp_path / "stream.undrift")
            twin = ud.load(tmp_path / "stream.undrift")
        assert twin == stream
        assert twin.settings == stream.settings
        stream = twin
    require_same(ud.stream.answers.join_answers(parts), expected)
    assert stream == whole


@pytest.mark.parametrize("name", CASES)
def test_a_copy_is_of_its_own(name):
    rows, stream = CASES[name].rows(), CASES[name].stream()
    stream.play(rows[:CUT])
    before = pickle.dumps(stream)
    twin = stream.copy()
    twin.play(rows[CUT:])
    twin.ask(rows[0])
    assert pickle.dumps(stream) == before
    assert twin != stream


@pytest.mark.parametrize("name", CASES)
def test_a_prediction_changes_nothing_and_is_that_of_the_row_that_comes_next(name):
    case, rows = CASES[name], CASES[name].rows()
    stream = case.stream()
    stream.play(rows[:CUT])
    before = pickle.dumps(stream)
    row = {key: cell for key, cell in rows[CUT].items() if key != case.target}
    stream.predict(rows[CUT:])
    predicted = stream.predict(row)
    stream.explain(row)
    assert pickle.dumps(stream) == before
    expected = stream.copy().play(rows[CUT])
    if len(expected):  # it is not left out
        columns, wanted = predicted.columns(), expected.columns()
        assert columns.keys() == wanted.keys()
        for column in columns:
            np.testing.assert_array_equal(np.asarray(columns[column]), np.asarray(wanted[column]), err_msg=column)


@pytest.mark.parametrize("name", ["delay", "weight and delay", "several classes, delayed"])
def test_rows_that_wait_in_one_way_are_settled_in_another(name):
    """Labels that `play` brought with a delay are learned when due, whether rows are played or asked after them."""
    rows, case = CASES[name].rows(), CASES[name]
    whole = case.stream()
    expected = whole.play(rows)
    stream = case.stream().infer(rows)
    first = stream.play(rows[:CUT])
    rest, waiting = [], []
    for row in rows[CUT:]:
        rest.append(stream.ask({key: cell for key, cell in row.items() if key != case.target}))
        waiting.append((rest[-1], row[case.target]))
        if len(waiting) > case.settings["delay"]:
            stream.tell(*waiting.pop(0))
    require_same(ud.stream.answers.join_answers([first, *rest]), expected)


def test_answers_are_columns_of_any_frame():
    rows, stream = CASES["quantiles and level"].rows(), CASES["quantiles and level"].stream()
    answers = stream.play(rows)
    frame = pl.DataFrame(answers.columns())
    assert frame.columns == ["prediction", "lower", "upper", "q0.1", "q0.5", "q0.95"]
    assert answers.level == 0.7
    assert answers[0] == dict.fromkeys(frame.columns)
    last = frame.row(-1, named=True)
    assert answers[len(answers) - 1] == last
    assert last["q0.1"] < last["q0.5"] < last["q0.95"]
    wider = stream.predict(rows[:5], level=0.95, quantiles=[0.5])
    assert list(wider.columns()) == ["prediction", "lower", "upper", "q0.5"]
    assert (wider.lower < stream.predict(rows[:5]).lower).all()
