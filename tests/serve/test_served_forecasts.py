"""The folder of forecasts that are served: as one long run leaves it, through kills at every write."""

import contextlib
import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import edit_state
from undrift._internal.state_file import JOURNAL
from undrift.errors import UndriftError
from undrift.run import certify_forecasts, forecast_file, update_forecast
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.service import served_forecasts
from undrift.run.service.folder_journal import open_journal
from undrift.serve.open_service import open_forecasts
from undrift.stream.settings import ForecastSettings

ROWS, FIRST, SERVED = 150, 100, 130


def make_rows(kind):
    """Rows of two series an hour apart, with holes and gaps, of one without times, or of months."""
    rng, t = np.random.default_rng(0), np.arange(ROWS)
    load = 10.0 + 3.0 * np.sin(t / 4.0) + 0.1 * rng.normal(size=ROWS)
    wind = rng.normal(size=ROWS).cumsum()
    if kind == "untimed":
        return [{"load": y} for y in load.tolist()]
    if kind == "months":
        times = [f"{np.datetime64('2010-01', 'M') + k}-15" for k in range(ROWS)]
        return [{"when": time, "load": y} for time, y in zip(times, load.tolist(), strict=True)]
    times = [str(np.datetime64("2024-03-01T00", "h") + k).replace("T", " ") + ":00" for k in range(ROWS)]
    rows = [
        {"when": when, "load": a, "wind": b} for when, a, b in zip(times, load.tolist(), wind.tolist(), strict=True)
    ]
    for k in (20, 105, 112):
        rows[k]["wind"] = None
    return [row for k, row in enumerate(rows) if k not in (40, 108, 109, 117, 141)]


def write_csv(path, rows):
    lines = [",".join(rows[0])]
    lines += [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def forecast(path, folder, rows, **options):
    names = tuple(name for name in rows[0] if name != "when")
    settings = ForecastSettings(target=names, time="when" if "when" in rows[0] else None, horizon=6, **options)
    forecast_file(write_csv(path, rows), folder, settings)
    return folder


def contents(folder):
    """Return everything that a folder of forecasts says, but for how it came about."""
    opened = ForecastFolder(folder)
    state = opened.read_state()
    tables = {name: opened.read_table(state, name) for name in ("forecasts", "values")}
    model = opened.read_model(state).snapshot()
    arrays = {name: array.tobytes() for name, array in model[1].items()}
    next_steps = (folder / state["files"]["next"]).read_text()
    facts = {name: state[name] for name in ("settings", "plan", "rows", "last", "seasons", "scores")}
    return facts, tables["forecasts"].rows(), tables["values"].rows(), model[0], arrays, next_steps


def same(found, expected):
    """Assert that two folders hold the same bits; NaN is not equal to itself, so rows are compared as texts."""
    assert [repr(part) for part in found] == [repr(part) for part in expected]


@pytest.fixture(scope="module", params=["hours", "untimed", "months"])
def whole(request, tmp_path_factory):
    """Rows, and what one long run over them leaves."""
    base = tmp_path_factory.mktemp(request.param)
    rows = make_rows(request.param)
    return rows, contents(forecast(base / "whole.csv", base / "whole", rows))


@pytest.mark.parametrize("often", [False, True])
def test_a_service_between_two_files_is_one_long_run(tmp_path, whole, monkeypatch, often):
    rows, expected = whole
    if often:
        monkeypatch.setattr(served_forecasts, "ROWS_PER_COMMIT", 4)
        monkeypatch.setattr(served_forecasts, "LEAST_REST", 0.0)
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    for begin, end in ((FIRST, 115), (115, SERVED)):
        before = ForecastFolder(folder).read_state()["rows"]
        with open_forecasts(folder) as service:
            for k in range(begin, end, 3):
                assert service.learn(rows[k : min(k + 3, end)]).repeated == 0
                service.tend()
            assert (ForecastFolder(folder).read_state()["rows"] > before) is often
    state = ForecastFolder(folder).read_state()
    assert [entry["by"] for entry in state["learned"]] == ["forecast", "serve"]
    assert state["learned"][1]["rows"] == state["rows"] - state["learned"][0]["rows"]
    assert not any((folder / name).exists() for name in JOURNAL)
    certificates, _ = certify_forecasts(folder)
    assert all(one["holds"] for one in certificates)
    result = update_forecast(folder, write_csv(tmp_path / "rest.csv", rows[SERVED:]))
    assert result.added == expected[0]["rows"] - state["rows"]
    same(contents(folder), expected)


def test_origins_that_are_kept_are_those_of_one_long_run(tmp_path):
    rows = make_rows("untimed")
    expected = contents(forecast(tmp_path / "whole.csv", tmp_path / "whole", rows, every=7))
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST], every=7)
    with open_forecasts(folder) as service:
        for row in rows[FIRST:SERVED]:
            service.learn([row])
    update_forecast(folder, write_csv(tmp_path / "whole again.csv", rows[SERVED:]))
    same(contents(folder), expected)


def test_a_file_that_grew_holds_what_the_service_learned(tmp_path):
    rows = make_rows("untimed")
    expected = contents(forecast(tmp_path / "whole.csv", tmp_path / "whole", rows))
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    with open_forecasts(folder) as service:
        service.learn(rows[FIRST:SERVED])
    result = update_forecast(folder, write_csv(tmp_path / "first.csv", rows))
    assert (result.added, result.skipped) == (ROWS - SERVED, SERVED)
    same(contents(folder), expected)


def leave_killed(folder, rows):
    """Serve rows and leave the folder as a kill does."""
    with open_forecasts(folder) as service:
        for k in range(0, len(rows), 5):
            service.learn(rows[k : k + 5])
            if k == 10:
                service.save()
        service.close = service.journal.close


def test_an_update_takes_in_what_a_killed_service_left_in_its_journal(tmp_path, whole):
    rows, expected = whole
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    leave_killed(folder, rows[FIRST:SERVED])
    assert ForecastFolder(folder).read_state()["journal"]["id"]
    update_forecast(folder, write_csv(tmp_path / "rest.csv", rows[SERVED:]))
    assert not any((folder / name).exists() for name in JOURNAL)
    same(contents(folder), expected)


def test_a_copy_without_the_list_of_our_files_goes_on(tmp_path, whole):
    rows, expected = whole
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    leave_killed(folder, rows[FIRST:SERVED])
    shutil.rmtree(folder / ".undrift")
    shutil.copytree(folder, tmp_path / "copy")
    with open_forecasts(tmp_path / "copy") as service:
        assert service.learn(rows[SERVED:]).repeated == 0
    same(contents(tmp_path / "copy"), expected)


def change(journal, statement):
    with contextlib.closing(sqlite3.connect(journal, isolation_level=None)) as base:
        base.execute(statement)


def test_a_journal_of_another_state_is_refused(tmp_path):
    rows = make_rows("untimed")
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    other = forecast(tmp_path / "other.csv", tmp_path / "other", rows[:FIRST])
    leave_killed(folder, rows[FIRST:SERVED])
    leave_killed(other, rows[FIRST:SERVED])
    more = write_csv(tmp_path / "rest.csv", rows[SERVED:])
    journal = folder / JOURNAL[0]
    kept = journal.read_bytes()
    before = contents(folder)

    def refuse(words):
        for use in (lambda: update_forecast(folder, more), lambda: open_forecasts(folder).__enter__()):
            with pytest.raises(UndriftError, match=words) as refused:
                use()
            assert "\n" not in str(refused.value)
        same(contents(folder), before)

    journal.write_bytes((other / JOURNAL[0]).read_bytes())
    refuse("the journal of another folder of forecasts; put the right one back")
    journal.unlink()
    refuse("empty, or missing, though this folder of forecasts was served; put it back")
    journal.write_bytes(kept)
    change(journal, "UPDATE snapshot SET sequence = sequence + 1")
    refuse("its snapshot after entry 3 is missing")
    journal.write_bytes(kept)
    change(journal, "DELETE FROM journal WHERE first = (SELECT min(first) FROM journal)")
    refuse("is missing, or does not match its checksum")
    journal.write_bytes(kept)
    assert update_forecast(folder, more).added == ROWS - SERVED


def test_a_journal_with_rows_that_no_folder_names_is_refused(tmp_path):
    rows = make_rows("untimed")
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    before = (folder / "run.json").read_bytes()
    leave_killed(folder, rows[FIRST:SERVED])
    state = json.loads(before) | {"files": ForecastFolder(folder).read_state()["files"]}
    opened, words = ForecastFolder(folder), "not the journal of this folder of forecasts as it is now; move it away"
    with (
        opened.hold_lock(),
        open_journal(opened.files, durable=False) as journal,
        pytest.raises(UndriftError, match=words),
    ):
        served_forecasts.find_facts(journal, state.get("journal"), "folder of forecasts")


def test_refused_rows_are_undone_and_the_next_ones_learned(tmp_path):
    rows = make_rows("hours")
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    with open_forecasts(folder) as service:
        service.learn(rows[FIRST:110])
        before = service.forecast()
        service.journal._base.execute("PRAGMA query_only = 1")
        with pytest.raises(UndriftError, match="cannot be written"):
            service.learn(rows[110:111])
        service.journal._base.execute("PRAGMA query_only = 0")
        assert service.forecast() == before
        back = [{"when": "2024-03-06 00:00", "load": 1.0}, {"when": "2024-03-05 23:00", "load": 1.0}]
        with pytest.raises(UndriftError, match="'when' goes back to 2024-03-05 23:00:00; sort the rows and drop"):
            service.learn(back)
        assert service.learn(rows[110:SERVED]).learned == SERVED - 110
    update_forecast(folder, write_csv(tmp_path / "rest.csv", rows[SERVED:]))
    same(contents(folder), contents(forecast(tmp_path / "whole.csv", tmp_path / "whole", rows)))


def test_a_full_disk_is_told_and_the_next_commit_makes_up_for_it(tmp_path, whole, monkeypatch):
    rows, expected = whole
    monkeypatch.setattr(served_forecasts, "ROWS_PER_COMMIT", 4)
    monkeypatch.setattr(served_forecasts, "LEAST_REST", 0.0)
    folder = forecast(tmp_path / "first.csv", tmp_path / "out", rows[:FIRST])
    written = []

    def fill(frame, path):
        written.append(path)
        if len(written) % 2 == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        frame.write_parquet(path)

    with open_forecasts(folder) as service:
        before = ForecastFolder(folder).read_state()
        with monkeypatch.context() as patch:
            patch.setattr("undrift.run.forecast.forecast_folder.write_parquet", fill)
            for k in range(FIRST, 120, 5):
                service.learn(rows[k : k + 5])
                service.tend()
                assert "the disk is full" in service.failure
        assert ForecastFolder(folder).read_state() == before
        service.learn(rows[120:SERVED])
        service.tend()
        assert service.failure is None
        assert ForecastFolder(folder).read_state()["rows"] > before["rows"]
    state = ForecastFolder(folder).read_state()
    assert {path.name for path in folder.iterdir()} == {"run.json", ".undrift", *state["files"].values()}
    update_forecast(folder, write_csv(tmp_path / "rest.csv", rows[SERVED:]))
    same(contents(folder), expected)


KILLED = """
import json, os, signal, sys
from undrift.run.service import journal, served_forecasts
from undrift.serve.open_service import open_forecasts
served_forecasts.ROWS_PER_COMMIT, served_forecasts.LEAST_REST = 6, 0.0
writes, real = 0, os.replace

def count():
    global writes
    writes += 1
    if writes == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)

def replace(a, b):
    count()
    real(a, b)
    count()

class Transaction(journal._Transaction):
    def __exit__(self, kind, error, trace):
        count()
        super().__exit__(kind, error, trace)
        count()

os.replace, journal._Transaction = replace, Transaction
rows = json.load(open(sys.argv[3]))
with open_forecasts(sys.argv[1]) as service:
    place = service.model.rows
    for k in range(0, len(rows), 4):
        some = rows[k : k + 4]
        later = [row for row in rows[k + 4 : k + 10] if "tool" in row]
        ahead = [{name: row[name] for name in ("when", "tool", "price")} for row in later]
        learned, repeated = service.learn(some + ahead)
        print(learned, repeated, flush=True)
        service.tend()
print("ended", writes, flush=True)
"""


def serve_and_kill(folder, rows, write):
    """Serve rows in a process that dies at a write; return how many were acknowledged, and the writes if it lived."""
    words = [sys.executable, "-c", KILLED, str(folder), str(write), str(rows)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    counts = [line for line in done.stdout.splitlines() if not line.startswith("ended")]
    ended = [line for line in done.stdout.splitlines() if line.startswith("ended")]
    return counts, int(ended[0].split()[1]) if ended else None


@pytest.fixture(scope="module")
def killable(tmp_path_factory):
    """A folder to serve, the rows, what an undisturbed service leaves, and how often it writes."""
    base, rows = tmp_path_factory.mktemp("killable"), make_rows("hours")
    folder = forecast(base / "first.csv", base / "out", rows[:FIRST])
    (base / "rows.json").write_text(json.dumps(rows[FIRST:124]))
    calm = base / "calm"
    shutil.copytree(folder, calm)
    _, writes = serve_and_kill(calm, base / "rows.json", 0)
    return base, rows, contents(calm), writes


def try_kill(killable, tmp_path, write, *, update):
    base, rows, expected, _ = killable
    folder = tmp_path / f"killed {write}"
    shutil.copytree(base / "out", folder)
    acknowledged, ended = serve_and_kill(folder, base / "rows.json", write)
    if update and ended is None:  # an update alone takes in what was acknowledged
        update_forecast(folder, write_csv(tmp_path / "rest.csv", rows[124:]))
        found = ForecastFolder(folder).read_table(ForecastFolder(folder).read_state(), "values").rows()
        values = {f"{when:%Y-%m-%d %H:%M}": load for when, load, _ in found}
        assert len(values) == len(found)
        learned = sum(int(line.split()[0]) for line in acknowledged)
        assert all(values[row["when"]] == row["load"] for row in rows[FIRST : FIRST + learned])
        return
    again, ended = serve_and_kill(folder, base / "rows.json", 0)
    assert ended is not None
    repeated = sum(int(line.split()[1]) for line in again)
    assert (
        4 * len(acknowledged) <= repeated <= 4 * len(acknowledged) + 4
    )  # one request may be in the journal unanswered
    same(contents(folder), expected)
    assert not any((folder / name).exists() for name in JOURNAL)


@pytest.mark.parametrize("write", [3, 8, 15, 22, 29, 36, 43, 50])
def test_a_kill_at_a_write_loses_nothing_and_repeats_nothing(killable, tmp_path, write):
    try_kill(killable, tmp_path, write, update=False)
    try_kill(killable, tmp_path, write + 2, update=True)


@pytest.mark.slow
def test_a_kill_at_any_write_loses_nothing_and_repeats_nothing(killable, tmp_path):
    for write in range(1, killable[3] + 1):
        try_kill(killable, tmp_path, write, update=write % 2 == 0)


def make_known_rows(kind):
    """The rows of `make_rows`, with columns known in advance: texts, of which new ones come up, and numbers."""
    rng = np.random.default_rng(1)
    names = np.array([f"tool {k}" for k in range(30)])[np.minimum(rng.integers(0, 30, ROWS), np.arange(ROWS) // 4)]
    rows = make_rows(kind)
    for k, row in enumerate(rows):
        row["tool"] = None if k in (50, 110) else str(names[k])
        row["price"] = None if k in (100, 111) else float(rng.normal())
    return rows


def known_cells(row):
    return {name: row[name] for name in ("when", "tool", "price") if name in row}


def forecast_known(path, folder, rows, begin, end, **options):
    """Forecast some rows of a file that goes on with all rows to come, which have no values yet."""
    series = [name for name in rows[0] if name in ("load", "wind")]
    cells = rows[begin:end] + [{**row, **dict.fromkeys(series)} for row in rows[end:]]
    settings = ForecastSettings(
        target=tuple(series), time="when" if "when" in rows[0] else None, horizon=6, known=("tool", "price"), **options
    )
    if begin:
        update_forecast(folder, write_csv(path, cells))
    else:
        forecast_file(write_csv(path, cells), folder, settings)
    return folder


@pytest.mark.parametrize("kind", ["hours", "untimed", "months"])
@pytest.mark.parametrize("options", [{}, {"missing": "indicators", "alert": True, "quantiles": (0.1,)}])
def test_rows_with_columns_known_in_advance_are_one_long_run(tmp_path, kind, options, monkeypatch):
    monkeypatch.setattr(served_forecasts, "ROWS_PER_COMMIT", 7)
    monkeypatch.setattr(served_forecasts, "LEAST_REST", 0.0)
    rows = make_known_rows(kind)
    expected = contents(forecast_known(tmp_path / "whole.csv", tmp_path / "whole", rows, 0, len(rows), **options))
    folder = forecast_known(tmp_path / "first.csv", tmp_path / "out", rows, 0, FIRST, **options)
    for begin, end in ((FIRST, 115), (115, SERVED)):
        with open_forecasts(folder) as service:
            for k in range(begin, end, 3):
                last = min(k + 3, end)
                sent = rows[k:last] + [known_cells(row) for row in rows[last : last + 12]]
                assert service.learn(sent) == (last - k, 0)
                service.tend()
            if end == 115:
                service.close = service.journal.close  # as a kill leaves it
    forecast_known(tmp_path / "rest.csv", folder, rows, SERVED, len(rows))
    same(contents(folder), expected)


def test_rows_to_come_are_kept_until_they_come(tmp_path):
    rows = make_known_rows("hours")
    folders = [forecast_known(tmp_path / f"{k}.csv", tmp_path / f"{k}", rows, 0, FIRST) for k in range(2)]
    with open_forecasts(folders[0]) as service:
        for k in range(FIRST, 110):
            service.learn([rows[k], *(known_cells(row) for row in rows[k + 1 : k + 12])])
    with open_forecasts(folders[1]) as service:
        service.learn([known_cells(row) for row in rows[FIRST : FIRST + 30]])
        service.close = service.journal.close
    with open_forecasts(folders[1]) as service:
        service.learn([{name: cell for name, cell in row.items() if name != "tool"} for row in rows[FIRST:105]])
    with open_forecasts(folders[1]) as service:
        for row in rows[105:110]:
            service.learn([row])
        with pytest.raises(UndriftError, match="rows to come, with columns known in advance alone, must follow those"):
            service.learn([known_cells(rows[110]), rows[111]])
        with pytest.raises(UndriftError, match="'tool' must be a text, or null, got 3"):
            service.learn([{**rows[110], "tool": 3}])
        with pytest.raises(UndriftError, match="'price' must be a number of at most"):
            service.learn([{**rows[110], "price": "high"}])
    same(contents(folders[1]), contents(folders[0]))


def test_a_series_and_a_known_column_of_one_name_are_not_served(tmp_path):
    lines = [f"2024-01-{d:02d},{s},{d},{d % 3}" for d in range(1, 20) for s in ("a", "promo")]
    (tmp_path / "a.csv").write_text("\n".join(["time,shop,value,promo", *lines]) + "\n")
    settings = ForecastSettings(target=("value",), series="shop", known=("promo",), horizon=2)
    forecast_file(str(tmp_path / "a.csv"), tmp_path / "out", settings)
    with (
        pytest.raises(UndriftError, match="'promo' is a series and a column known in advance; rename one of them"),
        open_forecasts(tmp_path / "out"),
    ):
        pass


@pytest.fixture(scope="module")
def killable_known(tmp_path_factory):
    """The same as `killable`, with columns known in advance, which are sent for the steps to come too."""
    base, rows = tmp_path_factory.mktemp("killable known"), make_known_rows("hours")
    folder = forecast_known(base / "first.csv", base / "out", rows, 0, FIRST, alert=True)
    (base / "rows.json").write_text(json.dumps(rows[FIRST:124]))
    calm = base / "calm"
    shutil.copytree(folder, calm)
    _, writes = serve_and_kill(calm, base / "rows.json", 0)
    return base, rows, contents(calm), writes


@pytest.mark.parametrize("write", [3, 9, 16, 24, 33, 41, 50])
def test_a_kill_at_a_write_loses_nothing_that_is_known_in_advance(killable_known, tmp_path, write):
    try_kill(killable_known, tmp_path, write, update=False)
    try_kill(killable_known, tmp_path, write + 2, update=True)


@pytest.mark.parametrize("ahead", [[[10**15, ["a", 1.0]]], [[FIRST + 5, ["a"]]], [["soon", ["a", 1.0]]], [[]], 3])
def test_forged_cells_of_rows_to_come_are_one_sentence(tmp_path, ahead):
    rows = make_known_rows("untimed")
    folder = forecast_known(tmp_path / "first.csv", tmp_path / "out", rows, 0, FIRST)
    edit_state(folder / "run.json", ahead=ahead)

    def serve_a_row():
        with open_forecasts(folder) as service:
            service.close = service.journal.close
            service.learn(rows[FIRST : FIRST + 1])

    with pytest.raises(UndriftError) as refused:
        serve_a_row()
    assert "\n" not in str(refused.value)
