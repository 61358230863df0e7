"""`undrift run - --live`: a prediction for each row as soon as it comes, before its label is learned."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import undrift as ud
from undrift.online import Table
from undrift.run import Settings
from undrift.run.play.live import LiveRun

COMMAND = [sys.executable, "-m", "undrift", "run", "-", "--live", "--speed", "light", "--target", "y"]


NOTHING = dict.fromkeys(("id", "prediction", "probability", "probabilities", "lower", "upper"))


def run(lines, *options):
    done = subprocess.run([*COMMAND, *options], input="\n".join(lines), capture_output=True, text=True, timeout=60)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def play(rows, *, id_column=None, **settings):
    """Predictions and complaints of rows, without a process."""
    complaints, lines = [], [one if isinstance(one, str) else json.dumps(one) for one in rows]
    options = Settings(**{"target": "y", "speed": "light", **settings})
    live = LiveRun(options, id_column=id_column)
    said = [SimpleNamespace(**NOTHING | one.as_dict()) for one in live.play(lines, complaints.append)]
    return said, [str(one) for one in complaints]


def test_a_row_is_answered_before_the_next_one_is_sent():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for x in range(4):
            process.stdin.write(json.dumps({"x": x, "y": 2 * x}) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())  # hangs if the answer is held back
            assert answer["line"] == x + 1
            assert (answer["prediction"] is None) == (x == 0)
        process.stdin.close()
        assert process.wait(30) == 0


def test_numbers_texts_and_holes_are_learned_as_by_hand():
    rng = np.random.default_rng(0)
    rows, model, expected = [], ud.OnlineRegressor(speed="light"), []
    for t in range(60):
        kind, hole = "xyz"[t % 3], t % 7 == 6
        x, y = float(rng.normal()), float(rng.normal())
        rows.append({"x": None if hole else x, "kind": kind, "y": y})
        columns = ["x", *(f"kind={one}" for one in "xyz"[: t + 1])]
        z = np.array([[np.nan if hole else x, *(float(name == f"kind={kind}") for name in columns[1:])]])
        served = model.ask(Table(columns, z))
        expected.append(served.yhat if served.known else None)
        model.tell(served, y)
    said, complaints = play(rows)
    assert [one.prediction for one in said] == expected
    assert not complaints
    assert said[-1].lower < said[-1].prediction < said[-1].upper


def test_labels_may_come_later_by_id():
    rows = [{"n": i, "x": float(i)} for i in range(5)]
    labels = [{"n": i, "y": 3.0 * i} for i in (2, 0, 4)]
    said, complaints = play([*rows, *labels, {"n": 9, "x": 1.0}, {"n": 1, "x": 2.0, "y": 3.0}], id_column="n")
    assert [one.id for one in said] == [0, 1, 2, 3, 4, 9]
    model = ud.OnlineRegressor(speed="light")
    served = [model.ask(Table(["x"], np.array([[float(i)]]))) for i in range(5)]
    for i in (2, 0, 4):
        model.tell(served[i], 3.0 * i)
    assert said[-1].prediction == model.ask(Table(["x"], np.array([[1.0]]))).yhat
    assert complaints == ["line 10: 'n' 1 is that of a row that waits for its label"]


@pytest.mark.parametrize(
    ("labels", "options"),
    [(("no", "yes"), {"task": "classification"}), ((False, True), {}), ((7, 3), {"positive": "3"})],
)
def test_two_classes_are_told_by_their_labels(labels, options):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=150)
    rows = [{"x": float(z), "y": labels[int(z > 0.0)]} for z in [-1.0, *Z]]
    said, complaints = play(rows, **options)
    names = [one if isinstance(one, str) else json.dumps(one) for one in labels]
    right = [one.prediction == names[int(z > 0.0)] for one, z in zip(said[50:], Z[49:], strict=True)]
    assert np.mean(right) > 0.9
    for row in said[2:]:
        assert row.probability == row.probabilities[row.prediction] >= 0.5
        assert list(row.probabilities) == names
        assert sum(row.probabilities.values()) == pytest.approx(1.0, rel=1e-12)
    assert not complaints


def test_texts_are_classes_as_they_come():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=150)
    labels = ["no" if z < 0.0 else "yes" if t < 80 or z < 1.0 else "very" for t, z in enumerate([-1.0, *Z])]
    rows = [{"x": float(z), "y": label} for z, label in zip([-1.0, *Z], labels, strict=True)]
    said, complaints = play(rows)
    assert not complaints
    assert said[0].prediction is said[0].probabilities is None
    model, seen = ud.OnlineClassifier(speed="light"), []
    for row, answer in zip(rows, said, strict=True):
        assert list(answer.probabilities or ()) == seen  # in the order in which they came
        served = model.ask({"x": row["x"]})
        if seen:
            assert answer.probabilities == model.served_probabilities(served)
            assert answer.probability == answer.probabilities[answer.prediction] == max(answer.probabilities.values())
            assert sum(answer.probabilities.values()) < 1.0  # a share is kept for a class that was not seen yet
        model.tell(served, row["y"])
        seen += [row["y"]] * (row["y"] not in seen)
    assert seen == ["no", "yes", "very"]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "line 3: not JSON; write one object a line"),
        ("[" * 100_000, "line 3: not JSON; write one object a line"),
        ("[1]", "line 3: a JSON list where an object should be"),
        ('{"x": {}, "y": 1}', "line 3: 'x' holds a list or an object; write plain columns, or --drop 'x'"),
        (
            '{"x": "high", "y": 1}',
            "line 3: 'x' is a column of numbers, got 'high'; correct the cell, pass --na 'high' if it means missing, "
            "or leave it out with --drop 'x'",
        ),
        (
            '{"x": 1, "y": "high"}',
            "line 3: 'y' is a column of numbers, got 'high'; correct the cell, pass --na 'high' if it means missing, "
            "or drop the row",
        ),
        (
            '{"x": 1, "y": 1e80}',
            "line 3: the target 'y' is 1e+80, where numbers up to 1e+75 in size are allowed; correct it, or write it "
            "in larger units",
        ),
        ('{"x": 1, "n": [], "y": 1}', "line 3: 'n' must be a text or a number, got []"),
    ],
)
def test_a_bad_line_is_one_sentence_and_the_others_are_learned(line, sentence):
    good = [{"n": None, "x": 1.0, "y": 1.0}, {"n": None, "x": 2.0, "y": 4.0}]
    said, complaints = play([*good, line, {"n": None, "x": 3.0, "y": 0.0}], id_column="n")
    assert complaints == [sentence]
    assert said[-1].line == 4
    calm, _ = play([*good, {"n": None, "x": 3.0, "y": 0.0}], id_column="n")
    if len(said) == 3:  # a row that was refused before it was predicted leaves no trace
        assert said[-1].prediction == calm[-1].prediction


@pytest.mark.parametrize("huge", ["1e999", "-1e80", "null"])
def test_a_number_too_large_is_missing_as_it_is_in_files(huge):
    rows = ['{"x": 1.0, "y": 1.0}', '{"x": 2.0, "y": 4.0}', f'{{"x": {huge}, "y": 3.0}}', '{"x": 3.0, "y": 0.0}']
    said, complaints = play(rows)
    model = ud.OnlineRegressor(speed="light")
    for answer, x, y in zip(said, (1.0, 2.0, np.nan, 3.0), (1.0, 4.0, 3.0, 0.0), strict=True):
        served = model.ask({"x": x})
        assert answer.prediction == (served.yhat if served.known else None)
        model.tell(served, y)
    assert not complaints


def test_bad_lines_and_changes_are_exit_codes():
    code, said, told = run(['{"x": 1, "y": 1}', "nonsense", '{"x": 2, "y": 2}'])
    assert (code, [one["line"] for one in said]) == (3, [1, 3])
    assert told == "undrift: line 2: not JSON; write one object a line; left out\n"
    rng = np.random.default_rng(0)
    rows = [json.dumps({"x": float(rng.normal()), "y": float(rng.normal() + 3.0 * (t >= 400))}) for t in range(440)]
    code, said, told = run(rows, "--alert")
    events = [one for one in said if "event" in one]
    assert (code, told) == (6, "")
    assert events[0]["event"] == "error leans"
    assert 400 < events[0]["line"] < 440


def test_a_reader_that_has_enough_ends_it_quietly():
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b'{"x": 1, "y": 2}\n')
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b'{"x": 1, "y": 2}\n' * 3)
        process.stdin.flush()
        assert process.wait(30) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--live", "--delay", "1"], "--delay: not with --live, as a label is learned when its line comes; leave it"),
        (["--live", "--sort"], "--sort: not with --live, as rows are learned in the order in which they come"),
        (["--live", "--delimiter", ";"], "--delimiter: not with --live, as rows are JSON objects; leave it out"),
        (["--live", "--decimal", ","], "--decimal: not with --live, as rows are JSON objects; leave it out"),
        (["--live", "--no-header"], "--header: not with --live, as rows are JSON objects; leave it out"),
        (["--live", "--certify"], "--certify: not with --live, as the rows of a pipe cannot be read again"),
        (["--live", "--resume"], "--resume and --force are about a folder; name it with --out"),
        (["--live", "--format", "csv"], "--live reads one JSON object a line, not csv"),
        (["--id", "n"], "--id is for rows as they come; add --live"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words, capsys):
    from undrift.cli.app import run as run_command

    assert run_command(["run", "-", "--target", "y", *options]) == 2
    assert words in capsys.readouterr().err


def test_rows_without_a_label_or_a_feature_are_said_so():
    said, complaints = play([{"y": 1.0}, {"x": 1.0}, {"x": 1.0, "y": 2.0}, {"x": 1.0}])
    assert complaints == ["line 1: there is nothing to predict from"]
    assert [one.prediction for one in said] == [None, None, 2.0]


def test_labels_alone_are_predicted_from_earlier_ones_if_asked_for():
    labels = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 1.0]
    said, complaints = play([{"y": y} for y in labels], lag=(1,))
    stream = ud.Stream("y", speed="light", lag=[1])
    assert [one.prediction for one in said] == [stream.play({"y": y})[0]["prediction"] for y in labels]
    assert said[-1].prediction is not None
    assert not complaints


@pytest.mark.parametrize("folder", [False, True])
def test_a_target_that_no_line_has_is_refused_in_the_end(tmp_path, folder):
    lines = [json.dumps({"x": float(t), "Y": 2.0 * t}) for t in range(3)]
    code, said, err = run(lines, *(["--out", str(tmp_path / "run")] if folder else []))
    assert [one["prediction"] for one in said] == [None] * 3
    assert code == 3
    assert err.splitlines()[-1] == (
        "undrift: --live: no line has 'y', the column to learn; there are x, Y. Did you mean 'Y'?"
    )
    assert run([*lines, json.dumps({"x": 1.0, "y": None})])[0] == 0  # a label may be missing


def test_a_row_whose_label_was_not_learned_yet_is_no_slip():
    assert run([json.dumps({"x": 1.0, "y": 2.0})] * 3, "--limit", "1")[0] == 0
