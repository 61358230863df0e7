"""Certificates of runs that were updated: those of one long file, read again from all the files that were learned."""

import os

import numpy as np
import pytest

from tests.helpers import edit_state
from undrift.cli.app import run
from undrift.errors import ConditionError
from undrift.run import Settings, certify_run, play_file, read_run, replay_run, update_run
from undrift.run.play.run_folder import RunFolder
from undrift.serve import open_service

ROWS, FIRST = 300, 180
FAST = {"target": "y", "speed": "fast", "drop": ("label",)}


def lines(rows=ROWS, seed=0):
    """Times, a number with holes, a text of which a kind comes late, the target, and a target of two classes."""
    rng = np.random.default_rng(seed)
    x, kind = rng.normal(size=rows), rng.integers(0, 3, size=rows)
    kind[: rows // 2] %= 2
    y = x + kind + 0.1 * rng.normal(size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(3600, "s")
    cells = ["" if k % 17 == 3 else f"{a:.6f}" for k, a in enumerate(x)]
    return [
        f"{t},{a},{'abc'[k]},{b:.6f},{'yes' if b > 1.0 else 'no'}"
        for t, a, k, b in zip(times, cells, kind, y, strict=True)
    ]


def write(path, rows, *, timed=True):
    table = [HEADER, *rows]
    path.write_text("\n".join(table if timed else [row.split(",", 1)[1] for row in table]) + "\n")
    return str(path)


HEADER = "time,x,kind,y,label"


def certified(folder):
    """Return the certificates of a folder, which plays to the same bits again."""
    assert replay_run(folder)
    return certify_run(folder)["certificates"]


@pytest.fixture
def whole(tmp_path):
    """Return the certificates of a run over one long file."""

    def find(settings, *, timed=True, rows=None):
        path = write(tmp_path / "whole.csv", lines() if rows is None else rows, timed=timed)
        play_file(path, tmp_path / "whole", settings)
        return certified(tmp_path / "whole")

    return find


SETTINGS = {
    "plain": Settings(**FAST),
    "lags and calendar": Settings(**FAST, lag=(1, 3), calendar=True),
    "late labels": Settings(**FAST, delay=4),
    "two classes": Settings(target="label", drop=("y",), speed="fast"),
    "rows left out": Settings(**FAST, missing="skip"),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("how", ["appended", "later files", "without times"])
def test_a_run_with_updates_has_the_certificates_of_one_long_file(tmp_path, whole, name, how):
    settings, timed, rows = SETTINGS[name], how != "without times", lines()
    if not timed and settings.calendar:
        pytest.skip("a calendar needs times")
    first = write(tmp_path / "first.csv", rows[:FIRST], timed=timed)
    play_file(first, tmp_path / "run", settings)
    for begin, end in ((FIRST, 230), (230, ROWS)):
        if how == "appended":
            update_run(tmp_path / "run", write(tmp_path / "first.csv", rows[:end]))
        else:
            again = 20 if timed else 0  # rows that were learned before are skipped by their times
            path = write(tmp_path / f"{begin}.csv", rows[begin - again : end], timed=timed)
            assert update_run(tmp_path / "run", path).skipped == again
    found = certified(tmp_path / "run")
    assert found == whole(settings, timed=timed)
    assert found[0]["rounds"] == len(read_run(tmp_path / "run").y)
    assert read_run(tmp_path / "run").certificates == found


def test_files_are_read_again_in_the_order_in_which_their_rows_were_learned(tmp_path, whole):
    """The first file grows after another one was learned: its new rows come last."""
    rows = lines()
    play_file(write(tmp_path / "a.csv", rows[:FIRST]), tmp_path / "run", Settings(**FAST))
    update_run(tmp_path / "run", write(tmp_path / "b.csv", rows[FIRST:220]))
    update_run(tmp_path / "run", write(tmp_path / "a.csv", [*rows[:FIRST], *rows[220:260]]))
    update_run(tmp_path / "run", write(tmp_path / "b.csv", [*rows[FIRST:220], *rows[260:]]))
    assert certified(tmp_path / "run") == whole(Settings(**FAST))


def test_files_that_grew_since_are_read_as_far_as_they_were_learned(tmp_path, whole):
    rows = lines()
    play_file(write(tmp_path / "a.csv", rows[:FIRST]), tmp_path / "run", Settings(**FAST))
    update_run(tmp_path / "run", write(tmp_path / "b.csv", rows[FIRST:]))
    for name in ("a.csv", "b.csv"):
        with (tmp_path / name).open("a") as file:
            file.write("2030-01-01T00:00:00,1.0,d,5.0,yes\n")
    assert certified(tmp_path / "run") == whole(Settings(**FAST))


def test_a_limit_is_of_the_first_file(tmp_path, whole):
    rows, settings = lines(), Settings(**FAST, limit=FIRST)
    play_file(write(tmp_path / "a.csv", rows[:200]), tmp_path / "run", settings)
    for day in (range(FIRST, 250), range(250, ROWS)):
        update_run(tmp_path / "run", write(tmp_path / f"{day.start}.csv", [rows[t] for t in day]))
        assert RunFolder(tmp_path / "run").state()["settings"]["limit"] == FIRST
    assert certified(tmp_path / "run") == whole(Settings(**FAST))


def test_sorted_files_are_learned_once_when_they_grow(tmp_path, whole):
    rows, settings = lines(), Settings(**FAST, sort=True)
    path = write(tmp_path / "a.csv", rows[:FIRST][::-1])
    play_file(path, tmp_path / "run", settings)
    done = update_run(tmp_path / "run", write(tmp_path / "a.csv", [*rows[:FIRST][::-1], *rows[FIRST:][::-1]]))
    assert (done.added, done.skipped) == (ROWS - FIRST, FIRST)
    assert certified(tmp_path / "run") == whole(settings)


def test_a_file_without_a_new_row_may_grow(tmp_path, whole):
    rows = lines()
    play_file(write(tmp_path / "a.csv", rows[:FIRST]), tmp_path / "run", Settings(**FAST))
    assert update_run(tmp_path / "run", write(tmp_path / "b.csv", rows[100:FIRST])).added == 0
    assert update_run(tmp_path / "run", write(tmp_path / "b.csv", rows[100:])).added == ROWS - FIRST
    assert certified(tmp_path / "run") == whole(Settings(**FAST))


def test_a_later_file_that_is_missing_or_has_changed_is_named(tmp_path):
    rows = lines()
    play_file(write(tmp_path / "a.csv", rows[:FIRST]), tmp_path / "run", Settings(**FAST))
    path = tmp_path / "b.csv"
    update_run(tmp_path / "run", write(path, rows[FIRST:]))
    text = path.read_text()
    path.write_text(text.replace(",a,", ",b,"))
    for check in (certify_run, replay_run):
        with pytest.raises(ConditionError, match=r"run: .*b\.csv has changed since the run; certify needs"):
            check(tmp_path / "run")
    path.unlink()
    for check in (certify_run, replay_run):
        with pytest.raises(ConditionError, match=r"its rows cannot be read again: .*b\.csv does not exist"):
            check(tmp_path / "run")
    path.write_text(text)
    assert certified(tmp_path / "run")


def test_an_update_certifies_again_where_certificates_were_asked_for(tmp_path, capsys):
    rows = lines()
    options = ["-t", "y", "--drop", "label", "--speed", "fast", "-q"]
    for name, end in (("first", FIRST), ("whole", ROWS)):
        path = write(tmp_path / f"{name}.csv", rows[:end])
        assert run(["run", path, *options, "-o", str(tmp_path / name)]) == 0
    more = write(tmp_path / "more.csv", rows[FIRST:])
    assert run(["update", str(tmp_path / "first"), more, "-q"]) == 0
    first, all_rows = (read_run(tmp_path / name) for name in ("first", "whole"))
    assert first.certificates == all_rows.certificates
    report = (tmp_path / "first" / "report.html").read_text()
    assert "Not certified" not in report
    # an update that was killed before its certificates and its report
    edit_state(tmp_path / "first" / "run.json", certificates=[])
    os.utime(tmp_path / "first" / "report.html", (0, 0))
    assert run(["update", str(tmp_path / "first"), more, "-q"]) == 0
    assert read_run(tmp_path / "first").certificates == all_rows.certificates
    assert (tmp_path / "first" / "report.html").stat().st_mtime > 0
    # a run that was not certified stays so
    path = write(tmp_path / "third.csv", rows[:FIRST])
    assert run(["run", path, *options, "--no-report", "-o", str(tmp_path / "third")]) == 0
    assert run(["update", str(tmp_path / "third"), more, "--no-report", "-q"]) == 0
    assert read_run(tmp_path / "third").certificates == []


def test_a_service_that_learned_rows_is_refused_and_an_idle_one_is_not(tmp_path, whole):
    rows = lines()
    play_file(write(tmp_path / "a.csv", rows[:FIRST]), tmp_path / "run", Settings(**FAST))
    with open_service(tmp_path / "run"):
        pass
    update_run(tmp_path / "run", write(tmp_path / "b.csv", rows[FIRST:]))
    assert certified(tmp_path / "run") == whole(Settings(**FAST))
    with open_service(tmp_path / "run") as service:
        service.predict([{"time": "2025-01-01T00:00:00", "x": 1.0, "kind": "a"}])
    with pytest.raises(
        ConditionError, match="run: its rows came one by one, and labels after them; certify runs of files"
    ):
        certify_run(tmp_path / "run")


def test_a_run_that_began_with_a_model_is_refused(tmp_path):
    play_file(write(tmp_path / "a.csv", lines()), tmp_path / "run", Settings(**FAST))
    with open_service(tmp_path / "run" / "model.undrift"):
        pass
    with pytest.raises(ConditionError, match=r"began with model\.undrift, whose rows are not known; certify runs of"):
        certify_run(tmp_path / "run" / "model-service")
