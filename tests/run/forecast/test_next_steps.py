"""next.csv: the steps after the last row, for people and spreadsheets."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.forecast.series import seasonal
from tests.helpers import edit_state
from undrift.cli.app import run
from undrift.forecast import Forecaster

TIMES = np.datetime64("2024-01-01T00:00:00", "s") + np.arange(80) * np.timedelta64(3600, "s")


def write(path, rows, names=("value",), *, timed=True):
    """Write a file of some hours, or of the values alone."""
    values = np.column_stack([seasonal(80, 12, seed=k) for k in range(len(names))])
    lines = [",".join([*(["time"] if timed else []), *names])]
    lines += [",".join([*([str(TIMES[i])] if timed else []), *(repr(float(x)) for x in values[i])]) for i in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def read(folder):
    with Path(folder, "next.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_folder_has_the_next_steps_and_an_update_replaces_them(tmp_path, capsys):
    out = tmp_path / "out"
    names = ("value", "=other")
    first, more = write(tmp_path / "a.csv", range(60), names), write(tmp_path / "b.csv", range(60, 70), names)
    for arguments, rows in (
        (["forecast", first, "-t", "value,=other", "-H", "8", "-o", str(out), "--no-report"], 60),
        (["update", str(out), more, "--no-report"], 70),
    ):
        assert run(arguments) == 0
        shown = capsys.readouterr().out
        assert f"next steps: {out / 'next.csv'}; everything is in {out}\n" in shown
        found = read(out)
        assert list(found[0]) == ["series", "step", "time", "forecast", "lower", "upper"]
        assert [row["series"] for row in found] == ["value"] * 8 + ["'=other"] * 8
        assert [row["time"] for row in found[:8]] == [row["time"] for row in found[8:]]
        assert [row["time"] for row in found[:8]] == [str(one) for one in TIMES[rows : rows + 8]]
        state = json.loads((out / "run.json").read_text())
        said = Forecaster.load(out / state["files"]["model"]).forecast()
        assert [float(row["forecast"]) for row in found] == said.yhat.ravel().tolist()
        assert [float(row["upper"]) for row in found] == said.upper.ravel().tolist()
        table = [line.split() for line in shown.splitlines() if line.strip()[:1].isdigit() and ":00" in line]
        assert [line[0] for line in table] == ["1", "2", "3", "4", "5", "8"]
        assert " ".join(table[-1][1:3]) == str(TIMES[rows + 7]).replace("T", " ")


def test_without_times_steps_have_the_numbers_of_their_rows(tmp_path, capsys):
    out = tmp_path / "out"
    path = write(tmp_path / "a.csv", range(60), timed=False)
    assert run(["forecast", path, "-t", "value", "-H", "3", "-o", str(out), "--json", "--no-report"]) == 0
    assert json.loads(capsys.readouterr().out)["next"] == str(out / "next.csv")
    assert [(row["step"], row["time"]) for row in read(out)] == [("1", "60"), ("2", "61"), ("3", "62")]


def test_one_row_with_a_time_has_steps_without_times(tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["forecast", write(tmp_path / "a.csv", [0]), "-t", "value", "-H", "2", "-o", str(out)]) == 0
    assert [row["time"] for row in read(out)] == ["", ""]
    assert "next steps of value" in capsys.readouterr().out


def test_forecasts_by_key_have_the_same_next_steps_of_their_own(tmp_path):
    out = ["-o", str(tmp_path / "out"), "-H", "2", "--no-report"]
    (tmp_path / "k.csv").write_text("shop,sold\n" + "".join(f"{'ab'[k % 2]},{k % 7}\n" for k in range(40)))
    assert run(["forecast", write(tmp_path / "a.csv", range(60)), "-t", "value", *out]) == 0
    columns = list(read(tmp_path / "out")[0])
    assert run(["forecast", str(tmp_path / "k.csv"), "-t", "sold", "--key", "shop", "--force", *out]) == 0
    found = read(tmp_path / "out")
    assert list(found[0]) == columns
    assert [(row["series"], row["step"], row["time"]) for row in found] == [
        ("a", "1", "20"), ("a", "2", "21"), ("b", "1", "20"), ("b", "2", "21"),
    ]  # fmt: skip


def test_a_file_of_somebody_else_is_not_replaced(tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "next.csv").write_text("mine\n")
    assert run(["forecast", write(tmp_path / "a.csv", range(60)), "-t", "value", "-o", str(out)]) == 2
    assert "not a file that undrift wrote" in capsys.readouterr().err
    assert (out / "next.csv").read_text() == "mine\n"


@pytest.mark.parametrize("files", [[], None, {"next": 3}])
def test_a_state_that_names_no_files_is_called_damaged(tmp_path, files, capsys):
    out, path = tmp_path / "out", write(tmp_path / "a.csv", range(60))
    assert run(["forecast", path, "-t", "value", "-H", "2", "-o", str(out), "--no-report", "-q"]) == 0
    edit_state(out / "run.json", files=files)
    capsys.readouterr()
    for command in ("predict", "update"):
        assert run([command, str(out), path]) == 3
        (sentence,) = capsys.readouterr().err.splitlines()
        assert re.fullmatch(
            rf"undrift: {re.escape(str(out))}/run\.json: damaged or edited \(.+\); "
            "learn its file again: undrift forecast FILE --force",
            sentence,
        )
