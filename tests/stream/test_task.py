"""Numbers or classes: one rule for `run` and `fleet`, and a refusal where either could be meant."""

import json
import re

import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run as undrift
from undrift.errors import DataError, InputError
from undrift.run import play_file, update_run
from undrift.run.read.rows_in_order import read_first_rows
from undrift.run.read.source import Source
from undrift.stream import task
from undrift.stream.first_rows import FirstRows
from undrift.stream.schema import infer_schema
from undrift.stream.settings import Settings
from undrift.stream.task import infer_task

ROWS = 300


def column(values):
    return [values[k * k % 7 % len(values)] for k in range(ROWS)]


def write(path, values, rows=ROWS):
    pl.DataFrame({"k": "a", "x": [k % 11 / 3 for k in range(rows)], "y": values[:rows]}, strict=False).write_csv(path)
    return str(path)


def planned(path, **more):
    source = Source(path, Settings(target="y", drop=("k",), **more))
    roles = infer_schema(read_first_rows(source)[0])
    return roles.task, roles.classes


def fleet(path, capsys, *more):
    code = undrift(
        ["fleet", path, "-k", "k", "-t", "y", "--no-report", "--json", "--quiet", "-o", f"{path}-fleet", *more]
    )
    seen = capsys.readouterr()
    if code:
        return code, seen.err
    found = json.loads(seen.out)
    return found["task"], None if found["classes"] is None else tuple(found["classes"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1], ("classification", ("0", "1"))),
        ([-1, 1], ("classification", ("-1", "1"))),
        ([1, 2], ("classification", ("1", "2"))),
        ([20, 10], ("classification", ("10", "20"))),
        (["yes", "no"], ("classification", ("no", "yes"))),
        (["true", "false"], ("classification", ("false", "true"))),
        (["b", "a"], ("classification", ("a", "b"))),
        (["fraud", "ok"], ("classification", ("ok", "fraud"))),
        (["Pass", "fail"], ("classification", ("Pass", "fail"))),
        (["bad", "good"], ("classification", ("good", "bad"))),
        ([0.5, 1.5], ("regression", None)),
        ([0.5, 1, 2], ("regression", None)),
        (list(range(20)), ("regression", None)),
    ],
)
def test_run_and_fleet_agree(tmp_path, capsys, values, expected):
    values = [k * k % 23 for k in range(ROWS)] if len(values) == 20 else column(values)
    path = write(tmp_path / "t.csv", values)
    assert planned(path) == expected
    assert fleet(path, capsys) == expected


@pytest.mark.parametrize("values", [[0, 1, 2], [1, 2, 3, 4, 5], [3, 7, -2], ["a", "b", "c"]])
def test_a_handful_of_whole_numbers_or_texts_are_several_classes(tmp_path, capsys, values):
    path = write(tmp_path / "t.csv", [values[k % len(values)] for k in range(ROWS)])
    assert planned(path) == ("multiclass", tuple(map(str, values)))
    assert planned(path, task="classification") == planned(path, task="multiclass") == planned(path)
    roles = infer_schema(read_first_rows(Source(path, Settings(target="y", drop=("k",))))[0])
    shown = ", ".join(map(str, sorted(values)))
    note = f"The target holds {len(values)} different whole numbers ({shown}), taken as classes; if they count or "
    assert roles.notes == (() if "a" in values else (f"{note}grade something, pass --task regression",))
    assert fleet(path, capsys) == planned(path)
    if "a" not in values:
        assert (
            planned(path, task="regression")
            == fleet(path, capsys, "--task", "regression", "--force")
            == ("regression", None)
        )


@pytest.mark.parametrize(
    ("option", "given"),
    [("--positive", {"positive": "1"}), ("--candidate", {"candidate": ("x",)}), ("--lag", {"lag": (1,)})],
)
def test_options_for_two_classes_are_refused_for_several(tmp_path, option, given):
    path = write(tmp_path / "t.csv", [k % 3 for k in range(ROWS)])
    sentence = f"has several classes (0, 1, 2), but {option} is for numbers or two classes; pass --task regression"
    with pytest.raises(InputError, match=re.escape(sentence)):
        planned(path, task="classification", **given)


@pytest.mark.parametrize("given", [{"candidate": ["x"]}, {"lag": [1]}])
def test_a_single_row_with_a_text_does_not_show_how_many_classes_there_are(given):
    rows = [{"a": float(k), "x": 0.5, "y": "no" if k % 2 else "yes"} for k in range(4)]
    sentence = r"first row holds a text, but .* pass task='classification' if there are two"
    with pytest.raises(InputError, match=sentence):
        ud.Stream("y", speed="light", **given).learn(rows[0])
    stream = ud.Stream("y", task="classification", speed="light", **given)
    for row in rows:
        stream.learn(row)
    assert stream.classes == ["yes", "no"]


def test_two_classes_may_be_the_first_of_several(tmp_path):
    path = write(tmp_path / "t.csv", column(["yes", "no"]))
    assert planned(path, task="multiclass") == ("multiclass", ("yes", "no"))
    path = write(tmp_path / "one.csv", ["yes"] * ROWS)
    with pytest.raises(DataError, match="is 'yes' in every row; there is nothing to learn"):
        planned(path, task="multiclass")


def test_too_many_classes_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", [f"t{k % 101}" for k in range(ROWS)])
    with pytest.raises(DataError, match="has 101 classes in all 300 rows, where 100 are allowed; join rare ones"):
        planned(path)


def test_few_rows_of_a_handful_of_whole_numbers_are_numbers(tmp_path, capsys):
    path = write(tmp_path / "t.csv", [k % 5 for k in range(50)], rows=50)
    assert planned(path) == fleet(path, capsys) == ("regression", None)


@pytest.mark.parametrize("value", [0, 1, -1])
def test_one_label_in_all_first_rows_is_refused_with_what_to_pass(tmp_path, value):
    source = Source(write(tmp_path / "t.csv", [value] * ROWS), Settings(target="y", drop=("k",)))
    with pytest.raises(DataError, match=f"is {value} in the first 300 rows: pass --task regression if it is a number"):
        infer_schema(FirstRows(source, list(source.batches()), whole=False))


def test_a_class_that_first_comes_far_down_is_learned(tmp_path, capsys):
    labels = ["ok"] * 9000 + ["bad", "ok"] * 10 + ["worse"]
    path = write(tmp_path / "t.csv", labels, rows=len(labels))
    code = undrift(
        [
            "fleet",
            path,
            "-k",
            "k",
            "-t",
            "y",
            "--positive",
            "ok",
            "--json",
            "-o",
            str(tmp_path / "f"),
            "--no-report",
            "-q",
        ]
    )
    found = json.loads(capsys.readouterr().out)
    assert (code, found["task"], found["rounds"]) == (0, "classification", 9020)
    assert found["problems"] == {"poison: target 'y' is 'worse', neither 'bad' nor 'ok'": 1}


@pytest.mark.parametrize(("positive", "first"), [("1", "2"), ("2", "1")])
def test_the_positive_class_can_be_named(tmp_path, capsys, positive, first):
    path = write(tmp_path / "t.csv", column([1, 2]))
    expected = ("classification", (first, positive))
    assert planned(path, positive=positive) == fleet(path, capsys, "--positive", positive) == expected


def test_a_folder_keeps_the_positive_class_that_was_decided_when_it_was_made(tmp_path, monkeypatch):
    """Earlier versions took the later text of fraud and ok."""
    path = write(tmp_path / "t.csv", column(["fraud", "ok"]))
    with monkeypatch.context() as earlier:
        earlier.setattr(task, "ALL_WELL", ())
        earlier.setattr(task, "NEGATIVE", ("no",))
        before = play_file(path, tmp_path / "run", Settings(target="y", drop=("k",), speed="fast"))
    assert before["classes"] == ["fraud", "ok"]
    pl.DataFrame({"k": "a", "x": [0.5], "y": ["ok"]}).write_csv(tmp_path / "more.csv")
    assert update_run(tmp_path / "run", str(tmp_path / "more.csv")).state["classes"] == ["fraud", "ok"]
    assert planned(path) == ("classification", ("ok", "fraud"))


def test_one_inference_is_used_by_both():
    from undrift.stream import schema as run_columns
    from undrift.stream.keyed import columns as fleet_columns

    assert fleet_columns.infer_schema is run_columns.infer_schema
    assert run_columns.infer_task is infer_task
