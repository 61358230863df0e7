"""`undrift compare` tells how each learner did when it is done, and keeps what is done when it is told to stop."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from undrift._internal.stopping import StopRequest
from undrift.cli.app import run
from undrift.errors import InputError
from undrift.run import FileComparison, Interrupted, Settings
from undrift.run.finish import compare
from undrift.run.finish.peers import Contender, choose_contenders

SCRIPT = """
import hashlib, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):  # what runs the tests may have told it to ignore them
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
from undrift.cli.app import run
from undrift.run.finish import compare
from undrift.run.finish.peers import Contender

how, *command = sys.argv[1:]
compare.absent_libraries = lambda: []

def play_endlessly(Z, y, context):
    print("endless", file=sys.stderr, flush=True)
    if how == "compiled":  # one long call, which no signal handler can enter
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    time.sleep(600)

compare.installed_peers = lambda task, seed: [
    Contender("slow", "Slower still", play_endlessly, 2e6), Contender("slow", "Slow", play_endlessly, 1e6)
]
sys.exit(run(command))
"""


@pytest.fixture
def small_file(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{a},{a + b}\n" for a, b in rng.normal(size=(60, 2)))
    (tmp_path / "s.csv").write_text("x,y\n" + rows)
    return tmp_path / "s.csv"


def contender(name, microseconds, library="slow"):
    return Contender(library, name, lambda Z, y, context: np.zeros(len(y)), microseconds)


@pytest.mark.skipif(os.name != "posix", reason="sends signals as POSIX has them")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["python", "compiled"])
def test_what_is_done_is_shown_when_it_is_told_to_stop(small_file, how, number):
    command = [sys.executable, "-c", SCRIPT, how, "compare", "s.csv", "-t", "y", "--json"]
    process = subprocess.Popen(
        command, cwd=small_file.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = []
    while (line := process.stderr.readline()) not in ("endless\n", ""):
        said.append(line)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    answer = json.loads(out)
    assert answer["missing"] == ["Slow", "Slower still"]
    done = {one["name"] for one in answer["results"]}
    ours = [f"OnlineRegressor ({speed})" for speed in ("fast", "best, no trees", "best", "max")]
    assert done == {"last value", "running mean", *ours}
    assert error == "undrift: interrupted; missing in the table: Slow, Slower still\n"
    assert said[0].startswith("6 learners on 60 rows, roughly ")
    assert [line.split(":")[0] for line in said[1:]] == ours


def test_each_learner_is_told_when_it_is_done_the_cheapest_first(small_file, monkeypatch):
    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [contender("C", 3e5), contender("A", 1e5)])
    comparison = FileComparison(str(small_file), Settings(target="y"))
    told, shown = [], []
    comparison.play(log=told.append, show=lambda name, share: shown.append((name, share)))
    assert [line.split(":")[0] for line in told] == [name for name, _ in shown]
    assert [name for name, _ in shown][-2:] == ["A", "C"]
    shares = [share for _, share in shown]
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert comparison.missing == []


def test_a_learner_that_swallows_the_request_to_stop_is_not_counted(small_file, monkeypatch):
    stop = StopRequest()

    def play(Z, y, context):
        try:
            stop.request()
        except Interrupted:
            return np.zeros(len(y))

    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [Contender("slow", "Deaf", play, 1e6)])
    comparison = FileComparison(str(small_file), Settings(target="y"))
    with pytest.raises(Interrupted):
        comparison.play(stop=stop)
    assert comparison.missing == ["Deaf"]
    assert "Deaf" not in [one.name for one in comparison.results]


def test_learners_are_chosen_by_parts_of_their_names_or_by_library():
    found = [
        contender("Forest, every 250", 4.0),
        contender("Forest, every 1,000", 1.0),
        contender("Line", 2.0, "river"),
    ]

    def chosen(**words):
        return [one.name for one in choose_contenders(found, **words)]

    assert chosen() == ["Forest, every 1,000", "Line", "Forest, every 250"]
    assert chosen(only=["forest"]) == ["Forest, every 1,000", "Forest, every 250"]
    assert chosen(only=["River", "250"]) == ["Line", "Forest, every 250"]
    assert chosen(without=["slow"]) == ["Line"]
    assert chosen(only=["forest"], without=["250"]) == ["Forest, every 1,000"]
    with pytest.raises(InputError, match=r"--without 'Lime': no learner is called that.* Did you mean 'Line'\?"):
        chosen(without=["Lime"])


def test_only_and_without_choose_learners_and_naive_guesses_stay(small_file, call):
    code, out, error = call("compare", small_file, "-t", "y", "--only", "fast,best", "--without", "best", "--json")
    assert code == 0
    assert {one["name"] for one in json.loads(out)["results"]} == {
        "OnlineRegressor (fast)", "last value", "running mean",
    }  # fmt: skip
    assert error.startswith(
        "1 learner on 60 rows, roughly 1 s; Ctrl-C shows those that are done\nOnlineRegressor (fast): "
    )


def test_other_libraries_keep_to_one_thread(small_file, monkeypatch):
    pytest.importorskip("sklearn.ensemble")
    from threadpoolctl import threadpool_info

    seen = []

    def play(Z, y, context):
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "openmp")
        return np.zeros(len(y))

    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [Contender("slow", "Threads", play, 1e6)])
    FileComparison(str(small_file), Settings(target="y"), only=["Threads"]).play()
    assert set(seen) == {1}


def add_column(small_file, name, cells):
    lines = small_file.read_text().splitlines()
    rows = [f"{line},{cell}" for line, cell in zip(lines[1:], cells, strict=True)]
    small_file.write_text("\n".join([f"{lines[0]},{name}", *rows]) + "\n")


def test_a_given_column_is_scored_where_it_has_a_prediction_beside_everyone_else_on_those_rows(
    small_file, monkeypatch, capsys
):
    x, y = np.loadtxt(small_file, delimiter=",", skiprows=1).T
    add_column(small_file, "mine", ["" if k < 10 else value for k, value in enumerate(x)])
    add_column(small_file, "other", ["" if k % 2 or k < 10 else 0.5 * value for k, value in enumerate(x)])
    add_column(small_file, "whole", 2.0 * x)
    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [])
    command = ["compare", str(small_file), "-t", "y", "--candidate", "mine,other,whole"]
    assert run([*command, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    found = {one["name"]: one for one in facts["results"]}
    own = np.sqrt(np.mean((y[10:] - x[10:]) ** 2))
    assert found["mine"]["scores"]["rmse"] == pytest.approx(own)
    assert found["mine"]["same_rows"]["mine"] == pytest.approx(own)
    assert [found[name]["rows"] for name in ("mine", "other", "whole", "last value")] == [50, 25, 59, 59]
    last = np.sqrt(np.mean((y[10:] - y[9:-1]) ** 2))
    assert found["last value"]["same_rows"]["mine"] == pytest.approx(last)
    assert found["last value"]["same_rows"]["other"] == pytest.approx(np.sqrt(np.mean((y[10::2] - y[9:-1:2]) ** 2)))
    assert set(found["whole"]["same_rows"]) == {"mine", "other"}
    names = [one["name"] for one in facts["results"]]
    for one in facts["results"]:  # the column stands among the others by the rows it has
        if one["kind"] != "given":
            assert (names.index(one["name"]) < names.index("mine")) == (one["same_rows"]["mine"] <= own)
    assert run(command) == 0
    said = capsys.readouterr().out
    assert "rmse where 'mine'" in said
    assert (
        "'mine' has a prediction in 50 of the 59 rows that are scored, and is scored in these alone: "
        "\"rmse where 'mine'\" is everyone's score in the same rows."
    ) in said
    assert "in its place" not in said


def test_a_given_column_without_any_prediction_is_left_out_with_a_word(small_file, monkeypatch, capsys):
    add_column(small_file, "mine", [1.0] + [""] * 59)  # the first row is not scored
    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [])
    assert run(["compare", str(small_file), "-t", "y", "--candidate", "mine"]) == 0
    said = capsys.readouterr().out
    assert "'mine' is left out: it is empty in every row that is scored." in said
    assert "where 'mine'" not in said


def test_a_comparison_says_who_is_not_installed(small_file, monkeypatch, capsys):
    add_column(small_file, "mine", [1.0] * 60)
    monkeypatch.setattr(compare, "absent_libraries", lambda: ["lightgbm"])
    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [])
    command = ["compare", str(small_file), "-t", "y", "--candidate", "mine"]
    assert run(command) == 0
    said = capsys.readouterr()
    assert "left out, as they are not installed: lightgbm; pip install lightgbm" in said.err
    assert "where 'mine'" not in said.out
    assert run([*command, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["not_installed"] == ["lightgbm"]
    assert facts["notes"][0] == "ours weigh the given predictions too"
    assert run([*command, "--only", "lightgbm"]) == 2
    assert "--only 'lightgbm': lightgbm is not installed here; pip install lightgbm" in capsys.readouterr().err


def test_the_settings_of_a_run_are_honoured_and_the_table_says_who_cannot(small_file, call, tmp_path):
    pytest.importorskip("river")
    add_column(small_file, "w", [1.0, 2.0] * 30)
    add_column(small_file, "t", range(0, 180, 3))
    (tmp_path / "run.toml").write_text('target = "y"\nweight = "w"\ntime = "t"\nelapsed = true\ndelay = 4\n')
    command = ["compare", small_file, "--settings", tmp_path / "run.toml", "--only", "fast,Linear"]
    code, out, _ = call(*command, "--json")
    assert code == 0
    answer = json.loads(out)
    assert {result["rows"] for result in answer["results"]} == {60 - 1 - 4}
    results = {result["name"]: result for result in answer["results"]}
    assert set(results["OnlineRegressor (fast)"]["intervals"]) == {"90% coverage", "pinball"}
    assert results["LinearRegression"]["intervals"] == {}
    code, out, _ = call(*command)
    lines = out.splitlines()
    for note in (
        "Every learner gets labels 4 rows late; rows before the first known label are not scored.",
        "These take no weights and learn every row once: the naive guesses, BayesianLinearRegression.",
        "Only ours forget by the time between rows; other learners have no such option.",
        "'w' says how often each row counts in learning; it is no feature, and scores count every row once.",
    ):
        assert note in lines
    assert "90% coverage" in out
    (tmp_path / "run.toml").write_text('target = "y"\nalert = true\n')
    code, _, error = call(*command)
    assert code == 2
    assert "compare: --alert is not supported: a comparison does not watch the stream; undrift run does" in error
