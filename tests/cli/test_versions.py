"""`undrift versions` and `undrift rollback`, and how many versions the commands that learn keep."""

import json
import signal
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.helpers import edit_state
from tests.serve.server_process import fetch, running_server

QUIET = ("--no-report", "-q")
OPTIONS = ("-t", "y", "--speed", "light", "--no-certify", *QUIET)


def write(name, begin, end):
    rng = np.random.default_rng(begin)
    rows = [f"{x:.5f},{x + e:.5f}" for x, e in rng.normal(size=(end - begin, 2))]
    Path(name).write_text("\n".join(["x,y", *rows]) + "\n")
    return name


@pytest.fixture
def grown(call):
    """A run with three versions in the folder `a-run`."""
    assert call("run", write("a.csv", 0, 50), *OPTIONS)[0] == 0
    for name, begin in (("b.csv", 50), ("c.csv", 60)):
        assert call("update", "a-run", write(name, begin, begin + 10), *QUIET)[0] == 0
    return call


def listed(call, folder="a-run"):
    code, out, err = call("versions", folder, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)["versions"]


def test_versions_are_a_table(grown):
    code, out, err = grown("versions", "a-run")
    assert (code, err) == (0, "")
    table = [line.split() for line in out.splitlines() if line.strip()]
    assert table[0] == ["version", "parent", "made", "by", "learned", "last", "rows", "labels", "rmse", "size"]
    state = json.loads(Path("a-run/run.json").read_text())
    for line, version, parent, by, path, rows in zip(
        table[2:], "123", "-12", ("run", "update", "update"), ("a.csv", "b.csv", "c.csv"), (50, 60, 70), strict=True
    ):
        assert line[:2] == [version, parent]
        assert line[3:7] == [by, path, str(rows), str(rows)]
        assert line[9:] == (["kB", "current"] if version == "3" else ["kB"])
    assert float(table[-1][7]) == pytest.approx(state["scores"]["model"]["rmse"], rel=1e-3)


def test_versions_are_json(grown):
    code, out, _ = grown("versions", "a-run", "--json")
    assert code == 0
    shown = json.loads(out)
    assert (shown["run"], shown["measure"]) == ("a-run", "rmse")
    assert {*shown["versions"][0]} == {
        "number", "parent", "when", "by", "path", "rows", "rounds", "scores", "score", "complete", "size", "current",
    }  # fmt: skip
    state = json.loads(Path("a-run/run.json").read_text())
    assert shown["versions"][2]["scores"] == state["scores"]
    assert shown["versions"][2]["score"] == state["scores"]["model"]["rmse"]


def test_classes_are_scored_by_their_log_loss(call):
    Path("k.csv").write_text("x,y\n" + "".join(f"{t % 5},{'no' if t % 5 < 2 else 'yes'}\n" for t in range(60)))
    assert call("run", "k.csv", *OPTIONS)[0] == 0
    shown = json.loads(call("versions", "k-run", "--json")[1])
    assert shown["measure"] == "log-loss"
    assert 0.0 < shown["versions"][0]["score"] < 0.7


def test_a_rollback_says_where_the_run_is(grown):
    before = pl.read_parquet("a-run/predictions.parquet")
    assert grown("rollback", "a-run", "--to", 1, *QUIET) == (
        0,
        "a-run is at version 1: 50 rows, 50 labels\nkept: versions 2, 3\n",
        "",
    )
    assert pl.read_parquet("a-run/predictions.parquet").equals(before[:50])
    assert grown("rollback", "a-run", "--to", 1, *QUIET)[1].startswith("a-run is at version 1 already: 50 rows")
    code, out, err = grown("rollback", "a-run", "--to", 3, "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert (shown["version"], shown["rows"], shown["report"]) == (3, 70, "a-run/report.html")
    assert {*shown} == {"run", "version", "report", "rows", "rounds", "task", "scores"}
    assert "70 rows" in Path("a-run/report.html").read_text()
    assert pl.read_parquet("a-run/predictions.parquet").equals(before)
    assert grown("rollback", "a-run", "--to", 2, "--no-report")[0] == 0
    assert not Path("a-run/report.html").exists()


def test_every_command_goes_on_from_the_version_that_is_current(grown):
    model = ud.load("a-run")
    predicted = grown("predict", "a-run", "a.csv")
    assert grown("rollback", "a-run", "--to", 2, *QUIET)[0] == 0
    assert ud.load("a-run") != model
    assert grown("predict", "a-run", "a.csv") != predicted
    assert grown("update", "a-run", "c.csv", *QUIET)[0] == 0
    assert ud.load("a-run") == model
    assert grown("predict", "a-run", "a.csv") == predicted
    assert [(one["number"], one["parent"]) for one in listed(grown)] == [(1, None), (2, 1), (3, 2), (4, 2)]
    assert grown("rollback", "a-run", "--to", 1, *QUIET)[0] == 0
    assert grown("certify", "a-run", "--replay")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("rollback", "a-run", "--to", 8), 2, "a-run: there is no version 8; there are 1, 2, 3"),
        (("rollback", "none", "--to", 1), 2, "none: no run here (run.json is missing); name a folder of `undrift run`"),
        (("versions", "none"), 2, "none: no run here (run.json is missing); name a folder of `undrift run`"),
        (("versions", "a.csv"), 2, "a.csv: no run here (run.json is missing); name a folder of `undrift run`"),
        (("update", "a-run", "new.csv", "--versions", 0, "-q"), 2,
         "versions must be at least 1, which keeps the current version only, got 0"),
        (("run", "a.csv", "-t", "y", "--live", "--versions", 3), 2,
         "--versions is about a folder; name it with --out, or leave it out"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(grown, arguments, code, sentence):
    write("new.csv", 70, 80)
    before = {file.name: file.read_bytes() for file in Path("a-run").iterdir() if file.is_file()}
    assert grown(*arguments) == (code, "", f"undrift: {sentence}\n")
    assert {file.name: file.read_bytes() for file in Path("a-run").iterdir() if file.is_file()} == before


def test_the_option_is_for_runs_only(call):
    Path("s.csv").write_text("shop,x,y\n" + "".join(f"{'ab'[t % 2]},{t % 3},{t % 5}\n" for t in range(60)))
    write("new.csv", 0, 10)
    assert call("fleet", "s.csv", "-k", "shop", "-t", "y", *QUIET)[0] == 0
    assert call("forecast", "s.csv", "-t", "y", "-H", "2", *QUIET, "-o", "ahead")[0] == 0
    for folder, kind in (("s-fleet", "fleet"), ("ahead", "forecast")):
        words = f"{folder}: only runs keep versions, and this is the folder of a {kind}; leave out --versions"
        assert call("update", folder, "s.csv", "--versions", 3) == (2, "", f"undrift: {words}\n")
        assert call("serve", folder, "--versions", 2)[2].endswith(" no versions; leave out --versions\n")
        for command in (("versions", folder), ("rollback", folder, "--to", 1)):
            code, out, err = call(*command)
            assert (code, out) == (2, "")
            assert "no versions; copy" in err


def test_a_damaged_folder_has_the_code_of_bad_data(grown):
    edit_state(Path("a-run/run.json"), versions=3)
    for command in (("versions", "a-run"), ("rollback", "a-run", "--to", 1)):
        code, out, err = grown(*command)
        assert (code, out, err.count("\n")) == (3, "", 1)


def test_run_and_update_keep_as_many_versions_as_they_are_told(call):
    assert call("run", write("a.csv", 0, 30), *OPTIONS, "--versions", 2)[0] == 0
    for begin in (30, 40, 50):
        assert call("update", "a-run", write("n.csv", begin, begin + 10), *QUIET)[0] == 0
    assert [one["number"] for one in listed(call)] == [3, 4]
    assert call("update", "a-run", write("n.csv", 60, 70), *QUIET, "--versions", 1)[0] == 0
    assert [one["number"] for one in listed(call)] == [5]
    assert {path.name for path in Path("a-run").iterdir()} == {
        "run.json", "model.undrift", "trace.undrift", "predictions.parquet", ".undrift",
    }  # fmt: skip


def test_a_pipe_makes_a_version_when_it_ends(call):
    def lines(begin):
        rows = [json.dumps({"x": t % 7, "y": t % 5}) for t in range(begin, begin + 30)]
        Path("rows.ndjson").write_text("\n".join(rows) + "\n")
        return "rows.ndjson"

    live = ("--live", "-t", "y", "--speed", "light", "-o", "live", "-q", "--no-report")
    assert call("run", lines(0), *live, "--versions", 3)[0] == 0
    for begin in (30, 60, 90):
        assert call("run", lines(begin), *live, "--resume")[0] == 0
    found = listed(call, "live")
    assert [(one["number"], one["by"], one["rows"]) for one in found] == [
        (2, "live", 60),
        (3, "live", 90),
        (4, "live", 120),
    ]
    assert call("rollback", "live", "--to", 2, *QUIET)[0] == 0
    assert ud.load("live").rounds == 60


def test_a_service_makes_a_version_when_it_ends_and_locks_the_folder(grown):
    with running_server("a-run", "--versions", "2") as (process, url):
        status, text = fetch(f"{url}predict", json.dumps({"rows": [{"x": 0.5}, {"x": 1.5}]}))
        assert status == 200, text
        number = json.loads(text)["predictions"][0]["id"]
        assert fetch(f"{url}learn", json.dumps({"labels": [{"id": number, "y": 1.0}]}))[0] == 200
        code, _, err = grown("rollback", "a-run", "--to", 1)
        assert code == 2
        assert "is writing this run; wait for it to end" in err
        assert len(listed(grown)) == 3  # reading needs no lock
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert [(one["number"], one["by"], one["current"]) for one in listed(grown)] == [
        (3, "update", False),
        (4, "serve", True),
    ]
    code, out, err = grown("rollback", "a-run", "--to", 3, "--no-report")
    assert (code, err) == (0, "undrift: a-run: the rows that wait for their labels are given up (1)\n")
    assert "70 rows" in out
