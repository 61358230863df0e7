"""undrift demo | predict | certify | compare | synth | doctor: what the user sees."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

import undrift as ud
from undrift.cli import doctor
from undrift.cli.app import COMMANDS
from undrift.cli.app import run as undrift
from undrift.run import read_run
from undrift.run.read.unpack import ZSTD
from undrift.streams import synthetic


@pytest.fixture
def finished(call):
    """A finished run of a small stream, in the folder s-run."""
    assert call("synth", "abrupt", "s.csv", "-n", 800, "-d", 3)[0] == 0
    assert call("run", "s.csv", "-t", "y", "--speed", "fast", "--no-report", "--no-certify", "--quiet")[0] == 0
    return call


def test_the_demo_ends_with_a_few_lines_and_a_report(call):
    code, out, err = call("demo", "--out", "d")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) in (6, 7)
    assert lines[0] == (
        "Predicted 'departures' (a number) 8,759 times in nyc_departures.csv.gz, each time before it was known."
    )
    data = read_run("d")
    error = np.sqrt(np.mean((data.yhat - data.y)[1:] ** 2))  # nothing is known before the first label
    naive = {name: np.sqrt(np.mean((guess - data.y)[1:] ** 2)) for name, guess in data.baselines.items()}
    assert min(naive, key=naive.get) == "same as 168 rows ago"  # the same hour of last week
    best = naive["same as 168 rows ago"]
    assert best < 0.4 * naive["last value"]
    assert lines[1].startswith(
        f"Typical error (RMSE) {error:.3g}, {1 - error / best:.0%} less than the best naive guess "
        f"('same as 168 rows ago': {best:.2f}); mean absolute error 1."
    )
    assert lines[3].startswith("The data changed around rows ")
    assert lines[-1].startswith("Report: d/report.html")
    assert 100_000 < Path("d/report.html").stat().st_size < 2_000_000
    assert read_run("d").learned[0]["sha256"]
    assert "certifying" in err


def test_predict_says_what_the_model_would(finished):
    rng = np.random.default_rng(0)
    future = pl.DataFrame({f"x{j}": rng.normal(size=20) for j in (1, 2, 3)})
    future.write_csv("future.csv")
    code, out, _ = finished("predict", "s-run", "future.csv")
    assert code == 0
    frame = pl.read_csv(out.encode())
    stream = ud.load("s-run/model.undrift")
    model, answers = stream.model, stream.predict(future)
    assert frame["prediction"].to_list() == answers.yhat.tolist()
    assert frame["lower"].to_list() == answers.lower.tolist()
    low, high = model.predict_interval(future, 0.9)
    assert frame["prediction"].to_numpy() == pytest.approx(model.predict(future))
    assert frame["lower"].to_numpy() == pytest.approx(low)
    assert frame["upper"].to_numpy() == pytest.approx(high)
    assert frame["line"].to_list() == list(range(2, 22))
    code, out, err = finished("predict", "s-run/model.undrift", "future.csv", "-o", "p.parquet")
    assert code == 0
    assert "20 rows predicted, p.parquet" in err
    assert pl.read_parquet("p.parquet")["prediction"].to_list() == model.predict(future).tolist()
    code, out, _ = finished("predict", "s-run", "future.csv", "--json")
    assert json.loads(out)["predictions"]["prediction"] == model.predict(future).tolist()
    assert stream == ud.load("s-run/model.undrift") == ud.load("s-run")


def test_predict_refuses_what_does_not_fit(finished):
    pl.DataFrame({"x1": [1.0], "x3": [1.0], "x22": [1.0]}).write_csv("narrow.csv")
    code, _, err = finished("predict", "s-run", "narrow.csv")
    assert code == 2
    assert "narrow.csv has no column 'x2', which the model needs; there are x1, x3, x22. Did you mean 'x22'?" in err
    assert "no run here" in finished("predict", "nowhere", "narrow.csv")[2]
    assert "are written as .csv" in finished("predict", "s-run", "s.csv", "-o", "p.xml")[2]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('{"x1": 1, "x2": 2, "x3": 3}\n', []),
        ('\ufeff [\n {"x1": 1, "x2": 2, "x3": 3}]\n', []),
        ('{"x1": 1, "x2": 2, "x3": 3}\n', ["--format", "ndjson"]),
        ("x1,x2,x3\n1,2,3\n", []),
        ("x1,x2,x3\n1,2,3\n", ["--format", "csv"]),
    ],
)
def test_predict_reads_what_comes_from_the_standard_input(finished, monkeypatch, text, options):
    """JSON is told from CSV by its first character."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    code, out, err = finished("predict", "s-run", "-", *options)
    assert (code, err) == (0, "")
    expected = ud.load("s-run/model.undrift").model.predict(pl.DataFrame({"x1": [1.0], "x2": [2.0], "x3": [3.0]}))
    assert pl.read_csv(out.encode())["prediction"].to_list() == pytest.approx(expected.tolist())


def test_predict_refuses_a_format_that_there_is_not(finished):
    code, _, err = finished("predict", "s-run", "s.csv", "--format", "xml")
    assert code == 2
    assert "format must be one of" in err


def test_predict_knows_classes_texts_and_late_labels(call):
    rng = np.random.default_rng(0)
    city = rng.choice(["a", "b"], size=600)
    label = np.where((city == "a") ^ (rng.random(600) < 0.1), "up", "down")
    pl.DataFrame({"city": city, "x": rng.normal(size=600), "y": label}).write_csv("t.csv")
    call("run", "t.csv", "-t", "y", "--lag", "2", "--speed", "fast", "--no-report", "--no-certify")
    pl.DataFrame({"city": ["a", "b", "somewhere new"], "x": [0.0, 0.0, None]}).write_csv("f.csv")
    code, out, _ = call("predict", "t-run", "f.csv")
    frame = pl.read_csv(out.encode())
    assert code == 0
    assert frame["label"].to_list()[:2] == ["up", "down"]
    assert frame.columns == ["line", "label", "probability", "p(down)", "p(up)"]
    assert frame["probability"].to_list() == frame.select(pl.max_horizontal("p(down)", "p(up)")).to_series().to_list()
    assert frame["p(up)"].to_list()[0] > 0.7
    assert frame["p(up)"].to_list()[1] < 0.3
    assert frame["p(up)"].is_between(0.0, 1.0).all()


def test_certify_holds_and_its_exit_codes(finished):
    code, out, _ = finished("certify", "s-run", "--replay")
    assert code == 0
    assert "replayed: the same bits" in out
    assert out.count("holds") == 3
    assert "16 pieces: a linear predictor refitted every 50 rows on average; its kind: any linear predictor that" in out
    assert "measured: how far the loss was above the comparator's" in out
    code, out, _ = finished("certify", "s-run", "--within", "-99.9", "--json")
    assert code == 4
    assert json.loads(out)["failed"] == ["best fixed", "16 pieces", "smooth"]
    for one in json.loads(out)["certificates"]:
        assert one["regret"] <= one["hindsight"]["bound"] <= one["regret"] + 0.05 * one["comparator_loss"]
    assert {one["name"] for one in read_run("s-run").certificates} == {"best fixed", "16 pieces", "smooth"}
    frame = pl.read_parquet("s-run/predictions.parquet")
    frame.with_columns(pl.col("yhat") + 1e-9).write_parquet("s-run/predictions.parquet")
    code, out, _ = finished("certify", "s-run", "--replay")
    assert code == 4
    assert "OTHER PREDICTIONS" in out
    Path("s.csv").unlink()
    code, _, err = finished("certify", "s-run")
    assert code == 5
    assert "its rows cannot be read again" in err
    assert any(note.startswith("Not certified") for note in read_run("s-run").notes)


def test_compare_ranks_ours_beside_peers_and_naive_guesses(call):
    call("synth", "gradual", "s.csv", "-n", 300, "-d", 2)
    code, out, _ = call("compare", "s.csv", "-t", "y", "--json", "--quiet")
    answer = json.loads(out)
    assert code == 0
    assert answer["rows"] == 300
    kinds = {one["kind"] for one in answer["results"]}
    assert {"undrift", "naive", "river", "scikit-learn"} <= kinds
    errors = [one["scores"]["rmse"] for one in answer["results"]]
    assert errors == sorted(errors)
    stream = synthetic("gradual", rounds=300, dim=2)
    by_hand = np.mean(np.abs(ud.OnlineRegressor().play(stream.Z, stream.y).yhat - stream.y)[1:])
    ours = next(one for one in answer["results"] if one["name"] == "OnlineRegressor (best)")
    assert ours["scores"]["mean absolute error"] == pytest.approx(by_hand)
    call("synth", "seasonal", "c.csv", "-n", 300, "--task", "classification")
    code, out, _ = call("compare", "c.csv", "-t", "y", "--quiet")
    assert code == 0
    assert "log-loss" in out
    assert "ARFClassifier" in out


@pytest.mark.parametrize("kind", ["abrupt", "gradual", "seasonal", "recurring"])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_synth_writes_a_stream_and_its_truth(call, kind, task):
    code, out, _ = call("synth", kind, "s.parquet", "--task", task, "-n", 400, "--truth", "u.csv.gz", "--seed", 3)
    assert code == 0
    assert "try: undrift run s.parquet --target y" in out
    stream = synthetic(kind, task=task, rounds=400, seed=3)
    frame, truth = pl.read_parquet("s.parquet"), pl.read_csv("u.csv.gz")
    names = [f"x{j}" for j in range(1, 6)]
    assert frame.select(names).to_numpy() == pytest.approx(stream.Z)
    assert frame["y"].to_numpy() == pytest.approx(stream.y)
    Z, u = frame.select(names).to_numpy(), truth.select(names).to_numpy()
    scale = 1.0 if task == "regression" else 0.5
    assert truth["yhat"].to_numpy() == pytest.approx(np.sum(Z * u, axis=1) / scale)


def test_synth_refuses_other_kinds(call):
    code, _, err = call("synth", "sudden", "s.csv")
    assert code == 2
    assert "kind must be one of abrupt, gradual, seasonal, recurring, got 'sudden'" in err
    assert "streams are written as .csv" in call("synth", "abrupt", "s.xls")[2]


def test_synth_replaces_a_file_only_when_told_to(call):
    Path("s.csv").write_text("mine")
    code, _, err = call("synth", "abrupt", "s.csv", "-n", 30)
    assert code == 2
    assert "s.csv: there is a file already; replace it with --force, or name another one" in err
    assert Path("s.csv").read_text() == "mine"
    assert call("synth", "abrupt", "s.csv", "-n", 30, "--force")[0] == 0
    assert Path("s.csv").read_text().startswith("x1,")


def test_doctor_checks_the_install(call, monkeypatch):
    code, out, _ = call("doctor")
    assert code == 0
    assert out.count("fine") == 3
    code, out, _ = call("doctor", "--json")
    assert json.loads(out)["fine"] is True
    assert json.loads(out)["extras"]["cli"]["polars"] == pl.__version__

    def broken():
        raise ArithmeticError("two and two are five")

    monkeypatch.setitem(doctor.CHECKS, "arithmetic", broken)
    code, out, _ = call("doctor")
    assert code == 1
    assert "BROKEN arithmetic: ArithmeticError: two and two are five" in out


@pytest.mark.parametrize("name", ["polars", ZSTD])
def test_a_missing_extra_prints_the_install_line(call, monkeypatch, name):
    call("synth", "abrupt", "s.csv", "-n", 300)
    Path("s.csv.zst").write_bytes(zstandard.compress(Path("s.csv").read_bytes()))
    monkeypatch.setitem(sys.modules, name, None)
    code, out, err = call("run", "s.csv.zst", "-t", "y", "-q")
    assert (code, out) == (1, "")
    assert f"needs {name}; install it with: pip install 'undrift[cli]'" in err
    assert err.count("\n") == 1
    assert not Path("s-run/run.json").exists()


def test_every_command_has_help_and_json(capsys):
    for name in COMMANDS:
        if name == "adam":
            continue
        assert undrift([name, "--help"]) == 0
        assert "--json" in capsys.readouterr().out


def test_starting_up_imports_no_optional_library():
    program = (
        "import sys; sys.argv = ['undrift', {!r}]; from undrift.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('polars', 'plotly', 'river', 'sklearn', 'matplotlib', 'torch', 'jax') if m in sys.modules])"
    )
    for argument in ("--version", "--help"):
        run = subprocess.run(
            [sys.executable, "-c", program.format(argument)], capture_output=True, text=True, check=True
        )
        assert run.stdout.splitlines()[-1] == "[]"


def test_completion_is_offered(capsys):
    assert undrift(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out


def test_the_package_can_be_run_as_a_module():
    asked = [sys.executable, "-m", "undrift", "--version"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == f"undrift {ud.__version__}\n"
