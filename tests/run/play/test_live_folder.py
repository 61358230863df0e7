"""`run --live --out`: what was committed is there after any end, and the next pipe goes on from it to the same bits."""

import json
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.cli.app import run as undrift
from undrift.errors import ConditionError
from undrift.report import render
from undrift.run import Settings, certify_run, play_file, predict_file, read_run, replay_run
from undrift.run.play import live
from undrift.run.play.run_folder import RunFolder
from undrift.stream import stream as stream_module

ROWS = 120


def rows(task="number", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS).round(6)
    y = (2.0 * x + (np.arange(ROWS) % 3 == 1) + 0.3 * rng.normal(size=ROWS)).round(6)
    label = {
        "number": lambda t: float(y[t]),
        "flag": lambda t: bool(y[t] > 0.3),
        "class": lambda t: "low" if y[t] < -0.5 else "mid" if y[t] < 1.0 or t < 40 else "high",
    }[task]
    return [{"x": float(x[t]), "shop": "abc"[t % 3], "y": label(t)} for t in range(ROWS)]


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def committed(folder):
    return json.loads((folder / "run.json").read_text())


def table(folder):
    return RunFolder(folder).table(committed(folder))


@pytest.fixture
def pipe(tmp_path, monkeypatch, capsys):
    """Return a function that sends lines through `run --live` and returns the answers."""
    monkeypatch.setattr(live, "ROWS_PER_COMMIT", 10)

    def send(lines, *options, code=0, folder="run"):
        path = write(tmp_path / "lines.ndjson", lines)
        out = ["--out", str(tmp_path / folder), "--no-report"] if folder else []
        capsys.readouterr()
        given = ["run", path, "--live", "-t", "y", "--speed", "light", *out, *options]
        found = undrift(given)
        shown = capsys.readouterr()
        assert found == code, shown.err
        send.complaints = shown.err
        return [json.loads(line) for line in shown.out.splitlines()]

    return send


def plain(answers):
    return [{key: value for key, value in answer.items() if key != "line"} for answer in answers]


OPTIONS = {
    "number": [],
    "flag": [],
    "class": [],
    "quantiles": ["--quantiles", "0.1,0.5", "--level", "0.7"],
    "lag": ["--lag", "1,3"],
    "events": ["--alert"],
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_pipe_leaves_the_run_that_its_answers_say(pipe, tmp_path, kind):
    lines = rows(kind if kind in ("flag", "class") else "number")
    answers = pipe(lines, *OPTIONS[kind])
    assert plain(answers) == plain(pipe(lines, *OPTIONS[kind], folder=None))
    state, frame = committed(tmp_path / "run"), table(tmp_path / "run")
    assert (state["status"], state["rows"], state["rounds"]) == ("finished", ROWS, ROWS)
    assert frame["line"].to_list() == list(range(1, ROWS + 1))
    assert frame["yhat"].to_list() == [answer["prediction"] for answer in answers]
    if kind in ("flag", "class"):
        for name in state["classes"]:
            expected = [(answer.get("probabilities") or {}).get(name) for answer in answers]
            assert frame[f"p({name})"].to_list() == expected
        assert answers[-1]["probability"] == answers[-1]["probabilities"][answers[-1]["prediction"]]
    else:
        for name in ("lower", "upper", *(["q0.1", "q0.5"] if kind == "quantiles" else [])):
            assert frame[name].to_list() == [answer.get(name) for answer in answers]
    stream = ud.load(tmp_path / "run")
    assert stream.rounds == ROWS
    assert len(read_run(tmp_path / "run").y) == ROWS
    future = write(tmp_path / "future.ndjson", [{key: row[key] for key in ("x", "shop")} for row in lines[:5]])
    frames = pl.concat(predict_file(tmp_path / "run", future).frames())
    column = "label" if stream.classes else "prediction"
    questions = [{key: row[key] for key in ("x", "shop")} for row in lines[:5]]
    assert frames[column].to_list() == [*stream.predict(questions).columns()[column]]


@pytest.mark.parametrize("kind", OPTIONS)
def test_pipes_one_after_the_other_are_one_pipe(pipe, tmp_path, kind):
    lines = rows(kind if kind in ("flag", "class") else "number")
    whole = pipe(lines, *OPTIONS[kind], folder="whole")
    parts = pipe(lines[:33], *OPTIONS[kind])
    for begin, end in ((33, 34), (34, 70), (70, ROWS)):
        parts += pipe(lines[begin:end], *OPTIONS[kind], "--resume")
    assert plain(parts) == plain(whole)
    first, second = table(tmp_path / "whole"), table(tmp_path / "run")
    assert first.drop("line").equals(second.drop("line"))
    assert ud.load(tmp_path / "run").model == ud.load(tmp_path / "whole").model
    scores = committed(tmp_path / "run")["scores"]
    assert scores == committed(tmp_path / "whole")["scores"]


@pytest.mark.parametrize("kind", ["number", "flag", "class", "quantiles", "lag"])
def test_rows_wait_for_their_labels_across_a_resume(pipe, tmp_path, kind):
    lines = [{"n": f"row {t}", **row} for t, row in enumerate(rows(kind if kind in ("flag", "class") else "number"))]
    late = {t for t in range(20, 60) if t % 4 == 0}

    def events(begin, end):
        """Yield rows, and labels that come long after them, the later ones first."""
        for t in range(begin, end):
            yield {key: cell for key, cell in lines[t].items() if key != "y"} if t in late else lines[t]
            if t >= 70 and late and 130 - t in late:
                yield {"n": f"row {130 - t}", "y": lines[130 - t]["y"]}

    options = [*OPTIONS[kind], "--id", "n"]
    whole = pipe([*events(0, ROWS)], *options, folder="whole")
    parts = pipe([*events(0, 64)], *options)
    waiting = ud.load(tmp_path / "run").references
    assert [*waiting] == [f"row {t}" for t in sorted(late)]
    assert committed(tmp_path / "run")["rows"] == 64
    assert committed(tmp_path / "run")["rounds"] == 64 - len(late)
    parts += pipe([*events(64, 90)], *options, "--resume")
    parts += pipe([*events(90, ROWS)], *options, "--resume")
    assert plain(parts) == plain(whole)
    assert not [*ud.load(tmp_path / "run").references]
    assert ud.load(tmp_path / "run").model == ud.load(tmp_path / "whole").model
    first, second = table(tmp_path / "whole"), table(tmp_path / "run")
    assert first.height == ROWS
    assert first.drop("line").equals(second.drop("line"))


def test_columns_may_come_while_rows_wait(pipe, tmp_path):
    lines = [{"n": t, "x": row["x"]} for t, row in enumerate(rows())]
    sent = []
    for t, line in enumerate(lines):
        sent.append(line | ({"z": float(t % 5)} if t > 15 else {}) | ({"shop": "ab"[t % 2]} if t > 25 else {}))
        if t >= 8:
            sent.append({"n": t - 8, "y": rows()[t - 8]["y"]})
    whole = pipe(sent, "--id", "n", folder="whole")
    parts = pipe(sent[:60], "--id", "n") + pipe(sent[60:], "--id", "n", "--resume")
    assert plain(parts) == plain(whole)
    assert plain(whole) == plain(pipe(sent, "--id", "n", folder=None))
    assert committed(tmp_path / "run")["features"] == ["x", "z", "shop=a", "shop=b"]
    assert ud.load(tmp_path / "run").model == ud.load(tmp_path / "whole").model


def test_rows_that_are_given_up_are_recorded_without_a_label(pipe, tmp_path, monkeypatch):
    monkeypatch.setattr(stream_module, "MOST_WAITING", 5)
    lines = [{"n": t, **row} for t, row in enumerate(rows()[:60])]
    for t in range(20, 40):
        del lines[t]["y"]
    answers = pipe([*lines, {"n": 30, "y": 1.0}], "--id", "n", code=3)
    assert "line 61: no row with 'n' 30 waits for its label" in pipe.complaints
    frame = table(tmp_path / "run")
    assert len(answers) == 60
    assert frame.height == 56
    assert frame["y"].null_count() == 16
    assert sorted(frame["line"].to_list()) == [t for t in range(1, 61) if t not in range(37, 41)]
    assert [*ud.load(tmp_path / "run").references] == [36, 37, 38, 39]  # as the row that came last waits first of all


KILLER = """
import os, signal, sys
from undrift.cli.app import run
from undrift.run.play import live
live.ROWS_PER_COMMIT = 10
count, real = [0], os.replace
def replace(a, b):
    count[0] += 1
    if count[0] == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)
    real(a, b)
os.replace = replace
sys.exit(run(sys.argv[2:]))
"""


@pytest.mark.parametrize("kind", ["number", "class"])
@pytest.mark.parametrize("renames", [3, 9, 17, 26])
def test_a_pipe_that_is_killed_goes_on_from_what_was_committed(pipe, tmp_path, kind, renames):
    lines = [{"n": t, **row} for t, row in enumerate(rows(kind))]
    labels = [{"n": t, "y": lines[t].pop("y")} for t in (3, 12, 25)]
    whole = pipe([*lines, *labels], "--id", "n", folder="whole")
    path = write(tmp_path / "killed.ndjson", lines)
    given = ["run", path, "--live", "-t", "y", "--speed", "light", "--id", "n", "--out", str(tmp_path / "run")]
    command = [sys.executable, "-c", KILLER, str(renames), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert plain(answers) == plain(whole)[: len(answers)]
    held = committed(tmp_path / "run")["rows"] if (tmp_path / "run" / "run.json").exists() else 0
    assert held % 10 <= 3
    assert len(answers) - 10 - 3 <= held <= len(answers)
    if held:
        assert len(table(tmp_path / "run")) == held - sum(t < held for t in (3, 12, 25))
    rest = pipe([*lines[held:], *labels], "--id", "n", "--resume")
    assert plain(rest) == plain(whole)[held:]
    first, second = table(tmp_path / "whole"), table(tmp_path / "run")
    assert first.drop("line").equals(second.drop("line"))
    assert ud.load(tmp_path / "run").model == ud.load(tmp_path / "whole").model


def test_rows_that_came_one_by_one_are_not_certified(pipe, tmp_path):
    """Its lines are no rows of a file: labels stand in lines of their own, in the very order in which they came."""
    lines = [{"n": t, **row} for t, row in enumerate(rows())]
    sent = []
    for t, line in enumerate(lines):
        sent.append({key: cell for key, cell in line.items() if key != "y"})
        if t >= 5:
            sent.append({"n": t - 5, "y": lines[t - 5]["y"]})
    pipe(sent, "--id", "n")
    path = tmp_path / "file.ndjson"
    play_file(write(path, rows()[:60]), tmp_path / "file", Settings(target="y", speed="light"))
    assert certify_run(tmp_path / "file")["certificates"]
    pipe(rows()[60:], "--resume", folder="file")
    for folder in ("run", "file"):
        for check in (certify_run, replay_run):
            with pytest.raises(ConditionError, match="its rows came one by one, and labels after them"):
                check(tmp_path / folder)
        assert committed(tmp_path / folder)["certificates"] == []


def test_reports_name_coefficients_in_the_order_in_which_they_were_learned(pipe, tmp_path):
    """A number that comes after texts stands before them in a row, and behind them in the model."""
    lines = [row | ({"z": float(t % 7)} if t > 30 else {}) for t, row in enumerate(rows())]
    for line in lines:
        line["y"] += 5.0 * line.get("z", 0.0)
    pipe(lines)
    run, model = read_run(tmp_path / "run"), ud.load(tmp_path / "run").model
    assert run.features == ["x", "z", "shop=a", "shop=b", "shop=c"]
    assert (
        list(run.coef_names) == [*model.names, "(intercept)"] == ["x", "shop=a", "shop=b", "shop=c", "z", "(intercept)"]
    )
    coefficients = dict(zip(run.coef_names, run.coef[-1], strict=True))
    assert coefficients["x"] == pytest.approx(2.0, abs=0.5)
    assert coefficients["z"] == pytest.approx(5.0, abs=0.5)
    assert committed(tmp_path / "run")["effects"].keys() == {"x", "z", "shop"}
    assert render(run, tmp_path / "report.html").exists()


def test_a_run_is_not_replaced_or_gone_on_with_by_mistake(pipe, tmp_path):
    pipe(rows()[:30])
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()}
    pipe(rows()[:30], code=2)
    pipe([], "--resume", code=3)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()} == before
    pipe(rows()[30:60], "--force")
    assert committed(tmp_path / "run")["rows"] == 30
    assert table(tmp_path / "run")["y"].to_list() == [row["y"] for row in rows()[30:60]]


def test_a_pipe_without_rows_or_labels_leaves_no_finished_run(pipe, tmp_path):
    pipe([], code=3)
    assert not (tmp_path / "run" / "run.json").exists()
    pipe([{"x": 1.0}, {"x": 2.0}], code=3)
    pipe(rows()[:20], "--resume" if (tmp_path / "run" / "run.json").exists() else "--force")
    assert committed(tmp_path / "run")["status"] == "finished"


def test_columns_and_texts_may_come_while_snapshots_are_kept(pipe, tmp_path):
    """Wider rows may have other families of models, which have no weight in earlier snapshots."""
    lines = [
        {"sku": f"s{t}", "promo": t % 3 == 0, "staff": None if t in (0, 1) else t % 5, "y": float(t % 7) + 0.5}
        for t in range(60)
    ]
    pipe(lines, "--speed", "best")
    run = read_run(tmp_path / "run")
    assert len(run.spectrum_round) > 2
    assert run.candidate_weights.shape == (len(run.spectrum_round), len(run.candidates))
    assert np.isfinite(run.candidate_weights).all()
    render(run, tmp_path / "report.html")


def test_a_column_that_is_misspelt_in_a_pipe_is_refused(pipe):
    lines = [*rows()[:20], {"x": 1.0, "shp": "a", "y": 2.0}, {"x": 1.0, "y": 2.0}]
    answers = pipe(lines, code=3, folder=None)
    assert [answer["line"] for answer in answers] == [*range(1, 21), 22]  # a column that is left out is missing
