"""`undrift update` of a fleet: new rows, nothing twice, the same bits as one long file."""

import csv
import json
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from undrift.cli.app import run

COMMON = ["--no-report", "--quiet", "--json"]
OPTIONS = ["-k", "shop", "-t", "y", *COMMON]


def lines(rows, seed=0, shops="abc"):
    rng = np.random.default_rng(seed)
    x, shop = rng.normal(size=rows), rng.integers(0, len(shops), size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(60, "s")
    y = (1.0 + shop) * x + 0.1 * rng.normal(size=rows)
    return [f"{t},{shops[s]},{a:.6f},{b:.6f}" for t, s, a, b in zip(times, shop, x, y, strict=True)]


def write(path, rows, header="time,shop,x,y"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return str(path)


def states(folder):
    db = sqlite3.connect(folder / "fleet.db")
    try:
        return dict(db.execute("SELECT key, state FROM states").fetchall())
    finally:
        db.close()


def table(folder, name):
    with (folder / name).open() as file:
        return sorted(map(tuple, csv.reader(file)))


def assert_same(a, b):
    assert states(a) == states(b)
    assert table(a, "predictions.csv") == table(b, "predictions.csv")
    assert table(a, "keys.csv") == table(b, "keys.csv")


@pytest.fixture
def begun(tmp_path):
    """A fleet of 300 of 400 rows, beside one of all."""
    rows = lines(400)
    for name, end in (("first", 300), ("whole", 400)):
        path = write(tmp_path / f"{name}.csv", rows[:end])
        assert run(["fleet", path, *OPTIONS, "--time", "time", "-o", str(tmp_path / name)]) == 0
    return tmp_path


def update(folder, path):
    return run(["update", str(folder), str(path), *COMMON])


def test_rows_day_by_day_are_the_same_as_one_file(begun, capsys):
    rows = lines(400)
    for day in (range(290, 350), range(350, 400)):
        capsys.readouterr()
        assert update(begun / "first", write(begun / f"{day.start}.csv", [rows[i] for i in day])) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["added"], shown["skipped"], shown["rounds"]) == (50, 0, 400)
    assert states(begun / "first").keys() == states(begun / "whole").keys()
    learned = json.loads((begun / "first" / "run.json").read_text())["learned"]
    assert [(one["rows"], one["skipped"]) for one in learned] == [(300, 0), (60, 10), (50, 0)]
    again = [row for row in table(begun / "first", "predictions.csv") if row[4] != "duplicate"]
    assert again == table(begun / "whole", "predictions.csv")


def test_new_rows_alone_leave_the_same_states(begun):
    assert update(begun / "first", write(begun / "more.csv", lines(400)[300:])) == 0
    assert_same(begun / "first", begun / "whole")


def test_a_file_that_grew_is_continued_behind_what_was_learned(begun, capsys):
    write(begun / "first.csv", lines(400)[:350])
    assert update(begun / "first", begun / "first.csv") == 0
    capsys.readouterr()
    write(begun / "first.csv", lines(400))
    assert update(begun / "first", begun / "first.csv") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["added"], shown["skipped"]) == (50, 350)
    assert_same(begun / "first", begun / "whole")


def test_rows_without_an_order_are_all_new(tmp_path):
    rows = [line.split(",", 1)[1] for line in lines(400)]
    for name, end in (("first", 300), ("whole", 400)):
        path = write(tmp_path / f"{name}.csv", rows[:end], "shop,x,y")
        assert run(["fleet", path, *OPTIONS, "-o", str(tmp_path / name)]) == 0
    assert update(tmp_path / "first", write(tmp_path / "more.csv", rows[300:], "shop,x,y")) == 0
    assert_same(tmp_path / "first", tmp_path / "whole")


def test_classes_stay_as_the_first_file_had_them(tmp_path):
    rows = [f"{'ab'[i % 2]},{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(120)]
    options = ["-k", "shop", "-t", "y", *COMMON]
    for name, end in (("first", 70), ("whole", 120)):
        path = write(tmp_path / f"{name}.csv", rows[:end], "shop,x,y")
        assert run(["fleet", path, *options, "-o", str(tmp_path / name)]) == 0
    assert update(tmp_path / "first", write(tmp_path / "more.csv", rows[70:], "shop,x,y")) == 0
    assert_same(tmp_path / "first", tmp_path / "whole")


def test_what_was_learned_changes_nothing(begun, capsys):
    folder = begun / "first"
    before = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    assert update(folder, begun / "first.csv") == 0
    assert "this very file was learned already" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
    more = write(begun / "more.csv", lines(400)[300:])
    assert update(folder, more) == 0
    assert update(folder, more) == 0
    assert run(["fleet", str(begun / "first.csv"), *OPTIONS, "--time", "time", "-o", str(folder)]) == 0
    assert_same(folder, begun / "whole")
    assert update(folder, more) == 0


def test_a_plan_that_is_missing_or_damaged_is_one_sentence(begun, capsys):
    (begun / "first" / "run.json").write_text("{")
    assert update(begun / "first", begun / "whole.csv") == 3
    assert "run.json: cannot be read" in capsys.readouterr().err
    (begun / "first" / "run.json").unlink()
    assert update(begun / "first", begun / "whole.csv") == 2
    assert "give its undrift fleet command again first" in capsys.readouterr().err


def test_an_update_that_is_killed_is_done_again(begun):
    code = (
        "import os, signal, sys\n"
        "from undrift.cli.app import run\n"
        "from undrift.run.fleet import play\n"
        "play.write_result = lambda *some: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run(['update', sys.argv[1], sys.argv[2], '--no-report', '-q'])\n"
    )
    folder, more = begun / "first", write(begun / "more.csv", lines(400)[300:])
    killed = subprocess.run([sys.executable, "-c", code, str(folder), more], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert states(folder) == states(begun / "whole")  # its rows are saved, its tables are not
    assert update(folder, more) == 0
    assert_same(folder, begun / "whole")


def without_labels(rows):
    return [f"{line.rsplit(',', 1)[0]}," for line in rows]


def asked_and_told(tmp_path, name="shops", options=()):
    """A fleet of 300 rows, updated with 60 rows without labels; return the folder, and these rows with labels."""
    rows = lines(360)
    folder, path = tmp_path / name, write(tmp_path / "begin.csv", rows[:300])
    assert run(["fleet", path, *OPTIONS, "--time", "time", *options, "-o", str(folder)]) == 0
    assert update(folder, write(tmp_path / "asked.csv", without_labels(rows[300:]))) == 0
    return folder, rows[300:]


def statuses(folder):
    return [row[4] for row in table(folder, "predictions.csv")]


def test_labels_of_rows_that_were_predicted_are_learned_when_a_later_file_brings_them(tmp_path, capsys):
    folder, rows = asked_and_told(tmp_path)
    predicted = {row[:3] for row in table(folder, "predictions.csv") if row[4] == "predicted"}
    assert len(predicted) == 60
    capsys.readouterr()
    assert update(folder, write(tmp_path / "told.csv", rows[:40])) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["added"], shown["labelled"], shown["skipped"], shown["rounds"]) == (0, 40, 0, 340)
    labelled = {row[:3] for row in table(folder, "predictions.csv") if row[4] == "labelled"}
    assert len(labelled) == 40
    assert labelled < predicted  # the prediction that counts is the one that was served
    capsys.readouterr()
    assert update(folder, write(tmp_path / "again.csv", [*rows[:20], rows[45]])) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["added"], shown["labelled"], shown["skipped"], shown["rounds"]) == (0, 1, 20, 341)
    assert statuses(folder).count("labelled") == 41


def test_an_update_says_how_many_labels_came(tmp_path, capsys):
    folder, rows = asked_and_told(tmp_path)
    capsys.readouterr()
    assert run(["update", str(folder), write(tmp_path / "told.csv", rows), "--no-report"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("0 new rows, 60 labels of rows predicted before\n")
    assert "no row that is new" not in said.err


def test_an_update_with_labels_that_is_killed_is_done_again(tmp_path):
    whole, rows = asked_and_told(tmp_path, "whole")
    folder, _ = asked_and_told(tmp_path, "killed")
    more = write(tmp_path / "told.csv", rows)
    for when in ("StateStore.put", "StateStore.add_outputs"):
        kill(folder, more, f"from undrift.fleet.state_store import StateStore\n{when}")
        assert statuses(folder).count("labelled") == 0
    kill(folder, more, "from undrift.run.fleet import play\nplay.write_result")
    assert update(folder, more) == 0
    assert update(whole, more) == 0
    assert_same(folder, whole)


def kill(folder, path, function):
    """Update a fleet in a process of its own that is killed when it calls a function."""
    code = (
        f"import os, signal, sys\nfrom undrift.cli.app import run\n"
        f"{function} = lambda *some, **more: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run(['update', sys.argv[1], sys.argv[2], '--no-report', '-q'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder), path], check=False)
    assert killed.returncode == -signal.SIGKILL


def test_more_rows_than_are_held_are_let_go_and_told(tmp_path):
    folder, rows = asked_and_told(tmp_path, options=["--hold", "5"])
    assert statuses(folder).count("expired") == 60 - 3 * 5
    assert update(folder, write(tmp_path / "told.csv", rows)) == 0
    assert statuses(folder).count("labelled") == 3 * 5
    assert json.loads((folder / "run.json").read_text())["settings"]["hold"] == 5


def test_a_column_of_times_that_is_not_used_is_named_at_the_first_command(tmp_path, capsys):
    days = [f"2024-{1 + k // 28:02d}-{1 + k % 28:02d},{line.split(',', 1)[1]}" for k, line in enumerate(lines(120))]
    path = write(tmp_path / "a.csv", days, "day,shop,x,y")
    command = ["fleet", path, "-k", "shop", "-t", "y", "--no-report"]
    said = "undrift: 'day' holds times and is not used: no later file can bring labels of rows that were predicted "
    for k, (options, told) in enumerate(
        [([], True), (["--features", "x"], True), (["--time", "day"], False), (["--drop", "day"], False)]
    ):
        assert run([*command, *options, "-o", str(tmp_path / str(k))]) == 0
        err = capsys.readouterr().err
        assert (said in err) == told
        assert ("pass --time 'day' if labels come later\n" in err) == told


def test_rows_without_an_order_cannot_be_told_their_labels_which_is_said(tmp_path, capsys):
    rows = [line.split(",", 1)[1] for line in lines(360)]
    folder, path = tmp_path / "shops", write(tmp_path / "begin.csv", rows[:300], "shop,x,y")
    assert run(["fleet", path, "-k", "shop", "-t", "y", "--no-report", "-o", str(folder)]) == 0
    assert "--order or --time" not in capsys.readouterr().err
    path = write(tmp_path / "asked.csv", without_labels(rows[300:]), "shop,x,y")
    assert run(["update", str(folder), path, "--no-report"]) == 0
    assert (
        "asked.csv: 60 rows without a target were predicted, and no later file can bring their labels, as only an "
        "order or a time tells which row is which; name its column with --order or --time"
    ) in capsys.readouterr().err
