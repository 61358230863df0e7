"""Versions of a run: going back and forward is exact, whatever is killed on the way, and nothing unnamed is left."""

import contextlib
import json
import os
import shutil

import numpy as np
import pytest

import undrift as ud
from tests.helpers import edit_state
from undrift._internal import lock_file
from undrift._internal.folder import Folder
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.report import render
from undrift.run import (
    ForecastSettings,
    Settings,
    certify_run,
    forecast_file,
    list_versions,
    play_file,
    predict_file,
    read_run,
    rollback_run,
    update_run,
    write_report,
)
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.state import drop_versions, find_ancestors
from undrift.run.service.service import Label
from undrift.serve import open_service

SETTINGS = Settings(target="y", lag=(1, 3), calendar=True, speed="fast")
DAYS = {"a": (0, 80), "b": (80, 120), "c": (120, 150)}
"""Files of rows, learned one after the other."""
OURS = ["files.jsonl", "lock"]
STANDARD = {"run.json", "model.undrift", "trace.undrift", "predictions.parquet"}


def lines(rows, seed=0):
    rng = np.random.default_rng(seed)
    x, kind = rng.normal(size=rows), rng.integers(0, 3, size=rows)
    y = x + kind + 0.1 * rng.normal(size=rows)
    times = np.datetime64("2024-01-01T00:00:00") + np.arange(rows) * np.timedelta64(3600, "s")
    return [f"{t},{a:.6f},{'abc'[k]},{b:.6f}" for t, a, k, b in zip(times, x, kind, y, strict=True)]


def write(path, rows):
    path.write_text("\n".join(["time,x,kind,y", *rows]) + "\n")
    return str(path)


def state_of(folder):
    return json.loads((folder / "run.json").read_text())


def files_of(folder):
    return {file.name for file in folder.iterdir() if file.is_file()}


def describe(folder):
    """Return the bits of the version that a folder is at: predictions, stream, record, scores, the ledger."""
    state = state_of(folder)
    frame = RunFolder(folder).table(state)
    learned = [{name: entry[name] for name in ("sha256", "rows", "skipped")} for entry in state["learned"]]
    columns = {
        name: frame[name].to_numpy().tobytes() if frame[name].dtype.is_numeric() else frame[name].to_list()
        for name in frame.columns
    }
    words = {name: state[name] for name in ("rows", "rounds", "scores", "features", "carry", "problems", "status")}
    files = [(folder / state[name]).read_bytes() for name in ("model", "trace")]
    return columns, files, learned, words


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders that learned a, then b, then c, and stopped after one, two or three; and what each holds."""
    base = tmp_path_factory.mktemp("versions")
    rows = lines(150)
    for name, (begin, end) in DAYS.items():
        write(base / f"{name}.csv", rows[begin:end])
    play_file(str(base / "a.csv"), base / "1", SETTINGS)
    for before, after, name in (("1", "2", "b"), ("2", "3", "c")):
        shutil.copytree(base / before, base / after)
        update_run(base / after, str(base / f"{name}.csv"))
    write(base / "next.csv", lines(170)[150:])
    return base, {number: describe(base / str(number)) for number in (1, 2, 3)}


@pytest.fixture
def run(made, tmp_path):
    """A run with three versions."""
    shutil.copytree(made[0] / "3", tmp_path / "run")
    return tmp_path / "run"


def predict(folder, base):
    return [frame.to_dict(as_series=False) for frame in predict_file(folder, str(base / "next.csv")).frames()]


def named_files(folder):
    """Return the names of all files that `run.json` names."""
    found = set(STANDARD)
    for version in state_of(folder)["versions"]:
        names = version["files"] or {}
        found |= {names[name] for name in ("state", "model", "trace", "table") if names.get(name)}
    return found


def require_tidy(folder):
    """Assert that nothing is in the folder but what `run.json` names."""
    assert files_of(folder) - {"report.html"} == named_files(folder)
    assert sorted(file.name for file in (folder / ".undrift").iterdir()) == OURS


@pytest.mark.parametrize("way", [[1], [2], [2, 1], [1, 2], [1, 3], [1, 3, 2], [2, 3, 1, 2, 3], [1, 2, 1, 3]])
def test_a_version_is_what_a_folder_is_that_never_went_further(made, run, way):
    base, expected = made
    for number in way:
        rollback_run(run, number)
        assert describe(run) == expected[number]
        assert predict(run, base) == predict(base / str(number), base)
        require_tidy(run)
    assert ud.load(run) == ud.load(base / str(way[-1]))
    versions = list_versions(run)
    assert [one.number for one in versions] == [1, 2, 3]
    assert [one.parent for one in versions] == [None, 1, 2]
    assert [one.rows for one in versions] == [80, 120, 150]
    assert [one.current for one in versions] == [one.number == way[-1] for one in versions]
    assert all(one.complete and one.size > 10_000 for one in versions)


@pytest.mark.parametrize("way", [[1], [1, 2], [3, 1], [1, 3, 1]])
def test_what_is_learned_again_gives_the_same_bits(made, run, way):
    base, expected = made
    for number in way:
        rollback_run(run, number)
    for number, name in ((2, "b"), (3, "c")):
        if number > way[-1]:
            update_run(run, str(base / f"{name}.csv"))
            assert describe(run) == expected[number]
            require_tidy(run)
    for number, bits in expected.items():
        rollback_run(run, number)
        assert describe(run) == bits


def test_predictions_of_a_line_of_versions_are_one_table(run):
    assert not list(run.glob("predictions-*"))
    rollback_run(run, 1)
    assert [path.name for path in run.glob("predictions-*")] == ["predictions-v3.parquet"]  # of 2 and 3
    rollback_run(run, 3)
    assert not list(run.glob("predictions-*"))


def test_two_lines_of_versions_live_beside_each_other(made, run):
    base, expected = made
    rollback_run(run, 1)
    update_run(run, str(base / "c.csv"))  # b is left out
    other = describe(run)
    assert [(one.number, one.parent) for one in list_versions(run)] == [(1, None), (2, 1), (3, 2), (4, 1)]
    for number in (3, 4, 2, 4, 1, 3):
        rollback_run(run, number)
        assert describe(run) == (other if number == 4 else expected[number])
        require_tidy(run)


@pytest.mark.parametrize(("keep", "kept"), [(1, [4]), (2, [1, 4]), (3, [1, 3, 4]), (9, [1, 2, 3, 4])])
def test_versions_that_were_rolled_back_go_first(made, run, keep, kept):
    base, expected = made
    rollback_run(run, 1)
    update_run(run, str(base / "b.csv"), versions=keep)
    assert [one.number for one in list_versions(run)] == kept
    parents = {1: None, 2: 1, 3: 2 if 2 in kept else 1, 4: 1 if 1 in kept else None}
    assert [one.parent for one in list_versions(run)] == [parents[number] for number in kept]
    require_tidy(run)
    for number in kept:
        rollback_run(run, number)
        assert describe(run) == expected[2 if number == 4 else number]
    rollback_run(run, 4)
    update_run(run, str(base / "c.csv"))  # as many as before
    assert len(list_versions(run)) == min(keep, 5)
    assert list_versions(run)[-1].number == 5  # no number is given twice


def test_the_oldest_versions_go_when_a_folder_is_full(tmp_path):
    rows, folder = lines(100), tmp_path / "run"
    play_file(write(tmp_path / "0.csv", rows[:50]), folder, SETTINGS, versions=3)
    for k in range(5):
        update_run(folder, write(tmp_path / "k.csv", rows[50 + 10 * k : 60 + 10 * k]))
        require_tidy(folder)
    assert [(one.number, one.parent) for one in list_versions(folder)] == [(4, None), (5, 4), (6, 5)]
    sizes = [one.size for one in list_versions(folder)]
    whole = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    assert whole == sum(sizes) + (folder / "predictions.parquet").stat().st_size
    rollback_run(folder, 4)
    assert state_of(folder)["rows"] == 80


def test_the_children_of_a_dropped_version_become_those_of_its_parent():
    def entry(number, parent):
        return {"number": number, "parent": parent}

    versions = [entry(1, None), entry(2, 1), entry(3, 2), entry(4, 2), entry(5, 4)]
    assert find_ancestors(versions, 5) == {1, 2, 4, 5}
    assert drop_versions(versions, 4, 5) == [entry(1, None), entry(2, 1), entry(4, 2), entry(5, 4)]
    assert drop_versions(versions, 2, 5) == [entry(4, None), entry(5, 4)]
    assert drop_versions(versions, 2, 3) == [entry(2, None), entry(3, 2)]
    assert drop_versions(versions, 9, 3) == versions


def test_an_update_that_learns_nothing_makes_no_version(made, run, tmp_path):
    assert update_run(run, write(tmp_path / "old.csv", lines(90, seed=1))).added == 0
    assert [one.number for one in list_versions(run)] == [1, 2, 3]
    require_tidy(run)
    rollback_run(run, 1)
    rollback_run(run, 3)
    assert state_of(run)["learned"][-1]["skipped"] == 90


def test_reports_and_certificates_work_after_a_rollback(made, run):
    base, _ = made
    write_report(run, render)
    rollback_run(run, 1)
    assert not (run / "report.html").exists()  # it was of another version
    assert len(read_run(run).y) == 80
    assert b"80 rows" in write_report(run, render).read_bytes()
    found = certify_run(run)["certificates"]
    assert found == certify_run(base / "1")["certificates"]
    rollback_run(run, 3)
    assert state_of(run)["certificates"] == []
    rollback_run(run, 1)
    assert state_of(run)["certificates"] == json.loads(json.dumps(found))  # certificates belong to their version


def test_a_version_of_a_file_that_grew_is_learned_again(tmp_path):
    rows, path, folder = lines(120), tmp_path / "grows.csv", tmp_path / "run"
    play_file(write(path, rows[:80]), folder, SETTINGS)
    before = describe(folder)
    update_run(folder, write(path, rows))
    after = describe(folder)
    rollback_run(folder, 1)
    assert describe(folder) == before
    assert update_run(folder, str(path))[1:3] == (40, 80)
    assert describe(folder) == after


def test_new_classes_and_columns_of_a_later_version_do_not_come_back(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{x:.4f},{'pqr'[int(x > 0)]}" for x in rng.normal(size=60)]
    later = [f"{x:.4f},{'pqr'[k % 3]}" for k, x in enumerate(rng.normal(size=60))]
    for name, some in (("first", rows), ("later", later)):
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,label", *some]) + "\n")
    settings = Settings(target="label", task="multiclass", speed="light")
    play_file(str(tmp_path / "first.csv"), tmp_path / "run", settings)
    before = describe(tmp_path / "run")
    update_run(tmp_path / "run", str(tmp_path / "later.csv"))
    after = describe(tmp_path / "run")
    assert "p(r)" in after[0]
    for number, bits in ((1, before), (2, after), (1, before)):
        rollback_run(tmp_path / "run", number)
        assert describe(tmp_path / "run") == bits


# ---- kills ---------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a kill: nothing is done after it."""


@contextlib.contextmanager
def kill_at(monkeypatch, step):
    """Let nothing change on the disk from the step-th change on, as if the process were dead; count the changes."""
    changes, locks, acquire = [0], [], lock_file.acquire

    def acquire_lock(*given):
        locks.append(acquire(*given))
        return locks[-1]

    def dying(real):
        def call(*given, **named):
            changes[0] += 1
            if changes[0] > step:
                raise Killed
            return real(*given, **named)

        return call

    with monkeypatch.context() as patch:
        for name in ("replace", "link", "unlink", "write", "ftruncate"):
            patch.setattr(os, name, dying(getattr(os, name)))
        patch.setattr(lock_file, "acquire", acquire_lock)
        with contextlib.suppress(Killed):
            yield changes
    for fd in locks:  # as the system does when a process dies
        with contextlib.suppress(OSError):
            os.close(fd)


def steps_of(monkeypatch, folder, act):
    """Return how many changes a whole command makes."""
    with kill_at(monkeypatch, 10_000) as changes:
        act(folder)
    assert changes[0] < 10_000
    return changes[0]


@pytest.mark.parametrize(("first", "number"), [(3, 1), (1, 3), (1, 2)])
def test_a_rollback_that_is_killed_leaves_one_version_or_the_other(made, run, tmp_path, monkeypatch, first, number):
    base, expected = made
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # these tests end no power supply
    if first != 3:
        rollback_run(run, first)
    shutil.copytree(run, tmp_path / "whole")
    steps = steps_of(monkeypatch, tmp_path / "whole", lambda folder: rollback_run(folder, number))
    assert steps > 20
    seen = set()
    for step in range(steps + 1):
        folder = tmp_path / f"run{step}"
        shutil.copytree(run, folder)
        with kill_at(monkeypatch, step):
            rollback_run(folder, number)
        at = state_of(folder)["version"]
        seen.add(at)
        assert at in (first, number)
        assert describe(folder) == expected[at], step
        assert predict(folder, base) == predict(base / str(at), base)
        if step % 3 == 0:
            rollback_run(folder, number)
            assert describe(folder) == expected[number], step
        elif step % 3 == 1:
            rollback_run(folder, first)
            assert describe(folder) == expected[first], step
        else:  # a command that knows nothing of versions
            update_run(folder, write(tmp_path / "d.csv", lines(170)[150:]))
        require_tidy(folder)
        for other in (1, 2, 3):
            rollback_run(folder, other)
            assert describe(folder) == expected[other], step
        shutil.rmtree(folder)
    assert seen == {first, number}


def test_an_update_that_is_killed_leaves_the_version_before_or_a_new_one(made, tmp_path, monkeypatch):
    base, expected = made
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    shutil.copytree(base / "2", tmp_path / "whole")
    steps = steps_of(monkeypatch, tmp_path / "whole", lambda folder: update_run(folder, str(base / "c.csv")))
    assert steps > 20
    seen = set()
    for step in range(steps + 1):
        folder = tmp_path / f"run{step}"
        shutil.copytree(base / "2", folder)
        with kill_at(monkeypatch, step):
            update_run(folder, str(base / "c.csv"))
        at = state_of(folder)["version"]
        seen.add(at)
        assert describe(folder) == expected[at], step
        if at == 2:
            update_run(folder, str(base / "c.csv"))
        for other in (1, 3):
            rollback_run(folder, other)
            assert describe(folder) == expected[other], step
        require_tidy(folder)
        shutil.rmtree(folder)
    assert seen == {2, 3}


# ---- services ------------------------------------------------------------------------------------------------------


def serve(folder, ids, labels=()):
    """Serve a row for each id that is expected, and learn some labels; return the ids."""
    row = {"x": 0.5, "kind": "a", "time": "2024-02-01 00:00:00"}
    with open_service(folder) as service:
        given = [service.predict([row])[0].id for _ in ids]
        assert given == list(ids)
        service.learn([Label(number, 1.0) for number in labels] or [Label(given[0], 1.0)])
        return given


def test_a_service_makes_a_version_when_it_ends(made, run):
    expected = made[1]
    with open_service(run):
        pass
    assert describe(run) == expected[3]  # nobody asked for anything
    assert [one.number for one in list_versions(run)] == [1, 2, 3]
    serve(run, [1, 2, 3])
    served = describe(run)
    assert [(one.by, one.path, one.complete) for one in list_versions(run)][3:] == [("serve", "undrift serve", True)]
    with open_service(run) as service:
        assert service.waiting == 2
    assert [one.number for one in list_versions(run)] == [1, 2, 3, 4]
    for number in (2, 3, 4):
        rollback_run(run, number)
        assert describe(run) == (served if number == 4 else expected[number])
        require_tidy(run)


def test_no_service_goes_on_with_the_journal_of_another_version(made, run):
    said = []
    serve(run, [1, 2, 3])
    rollback_run(run, 3, log=said.append)
    assert said == [f"{run}: the rows that wait for their labels are given up (2)"]
    assert not (run / "journal.sqlite").exists()
    serve(run, [4])  # no id is given twice: a client may still hold 2 and 3
    with open_service(run) as service:
        assert service.learn([Label(2, 1.0)]).learned == 0
        assert service.models.stream.rounds == 151
    rollback_run(run, 4)  # of the first service
    serve(run, [5])
    assert [(one.number, one.parent) for one in list_versions(run)][-3:] == [(3, 2), (4, 3), (6, 4)]  # 5 is left


def leave_killed(run, folder):
    """Copy a run as a kill leaves it: a commit without a version, and two requests that only the journal has."""
    row = {"x": 0.5, "kind": "a", "time": "2024-02-01 00:00:00"}
    with open_service(run) as service:
        service.predict([row] * 3)
        service.learn([Label(1, 1.0)])
        service.save()
        service.predict([row] * 4)
        service.learn([Label(2, 1.0)])
        shutil.copytree(run, folder)
    return folder


def test_a_service_that_was_killed_goes_on_with_its_version(made, run, tmp_path):
    folder = leave_killed(run, tmp_path / "killed")
    assert [(one.number, one.complete) for one in list_versions(folder)][2:] == [(3, True), (4, False)]
    with open_service(folder) as service:
        assert service.waiting == 5
    rollback_run(folder, 3)
    rollback_run(folder, 4)
    assert [(one.number, one.complete) for one in list_versions(folder)][2:] == [(3, True), (4, True)]
    assert describe(folder)[3]["rounds"] == 152


def test_what_a_killed_service_committed_can_be_gone_back_to(made, run, tmp_path):
    folder = leave_killed(run, tmp_path / "killed")
    committed = describe(folder)
    with pytest.raises(InputError, match=r"journal\.sqlite: holds requests that a service which was killed had not"):
        rollback_run(folder, 3)
    assert describe(folder) == committed
    for path in folder.glob("journal*"):
        path.rename(tmp_path / path.name)
    rollback_run(folder, 3)
    assert describe(folder) == made[1][3]
    require_tidy(folder)
    rollback_run(folder, 4)
    assert describe(folder) == committed
    serve(folder, [1_000_004])
    assert [(one.number, one.parent, one.complete) for one in list_versions(folder)][3:] == [(4, 3, True), (5, 4, True)]


@pytest.mark.parametrize("empty", [True, False])
def test_a_lost_journal_is_given_up_by_a_rollback(made, run, empty):
    serve(run, [1, 2])
    for path in run.glob("journal*"):
        path.unlink()
    if empty:
        with pytest.raises(ModelFileError, match=rf"empty, or missing, .*: undrift rollback {run} --to 4$"):
            serve(run, [3])
        assert (run / "journal.sqlite").exists()
    before = describe(run)
    rollback_run(run, 4)
    assert describe(run) == before
    assert not (run / "journal.sqlite").exists()
    serve(run, [1_000_003])  # the lost journal may have given the next ones
    assert list_versions(run)[-1].number == 5


def test_a_rollback_to_the_current_version_leaves_a_whole_journal_alone(run):
    serve(run, [1, 2])
    rollback_run(run, 4)
    with open_service(run) as service:
        assert service.waiting == 1


def test_a_damaged_journal_is_moved_away_first(run):
    serve(run, [1, 2])
    (run / "journal.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(ModelFileError, match="move it away"):
        rollback_run(run, 1)
    assert state_of(run)["version"] == 4


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_refusals_are_one_sentence_and_change_nothing(made, run, tmp_path):
    base, _ = made
    (tmp_path / "empty").mkdir()
    forecast_file(str(base / "a.csv"), tmp_path / "ahead", ForecastSettings(target=("y",), time="time", horizon=2))
    shutil.copytree(run, tmp_path / "open")
    edit_state(tmp_path / "open" / "run.json", status="running")
    cases = [
        (run, 7, "there is no version 7; there are 1, 2, 3$"),
        (run, 0, "there is no version 0; there are 1, 2, 3$"),
        (tmp_path / "open", 1, "not finished; finish it first with the command that began it and --resume$"),
        (tmp_path / "empty", 1, r"no run here \(run.json is missing\); name a folder of `undrift run`$"),
        (tmp_path / "nothing", 1, "no run here"),
        (tmp_path / "ahead", 1, "a folder of forecasts keeps no versions; copy it before undrift update$"),
    ]
    for folder, number, words in cases:
        before = {file.name: file.read_bytes() for file in folder.glob("*") if file.is_file()}
        with pytest.raises(InputError, match=words) as error:
            rollback_run(folder, number)
        assert "\n" not in str(error.value)
        assert {file.name: file.read_bytes() for file in folder.glob("*") if file.is_file()} == before
    with Folder(run, "run").hold_lock(), pytest.raises(InputError, match="is writing this run; wait for it to end"):
        rollback_run(run, 1)
    with pytest.raises(InputError, match="versions must be at least 1, which keeps the current version only, got 0"):
        update_run(run, str(base / "next.csv"), versions=0)


def test_a_fleet_keeps_no_versions(tmp_path):
    from undrift.run import FleetSettings, play_fleet

    path = tmp_path / "f.csv"
    path.write_text("k,x,y\n" + "".join(f"{'ab'[i % 2]},{i % 7},{i % 5}\n" for i in range(40)))
    play_fleet(str(path), tmp_path / "fleet", FleetSettings(target="y", key="k"))
    for use in (list_versions, lambda folder: rollback_run(folder, 1)):
        with pytest.raises(InputError, match=r"a fleet keeps no versions; copy its folder before undrift update$"):
            use(tmp_path / "fleet")


@pytest.mark.parametrize("name", ["run-v1.json", "model-v1.undrift", "trace-v1.undrift"])
def test_a_version_whose_files_are_gone_is_refused_and_the_others_stay(made, run, name):
    base, expected = made
    (run / name).unlink()
    with pytest.raises(ModelFileError, match=f"{name}: missing"):
        rollback_run(run, 1)
    assert describe(run) == expected[3]
    rollback_run(run, 2)
    assert describe(run) == expected[2]
    update_run(run, str(base / "c.csv"))
    assert describe(run) == expected[3]


def test_a_damaged_version_is_refused_and_nothing_changes(run):
    before = describe(run)
    text = (run / "run-v2.json").read_bytes()
    (run / "run-v2.json").write_bytes(text.replace(b'"rows": 120', b'"rows": 121', 1))
    with pytest.raises(ModelFileError, match=r"run-v2\.json: damaged or edited \(it does not match its checksum\)"):
        rollback_run(run, 2)
    assert describe(run) == before


def test_files_of_two_commits_in_one_folder_are_refused(made, run):
    base, _ = made
    shutil.copy(base / "2" / "run.json", run / "run.json")  # of another copy of the folder
    for use in (lambda: predict(run, base), lambda: update_run(run, str(base / "next.csv")), lambda: serve(run, [1])):
        with pytest.raises(ModelFileError, match=r"it learned 150 labels, and run\.json is of 120"):
            use()


def test_a_folder_that_is_loaded_is_that_of_a_run(run, tmp_path):
    with pytest.raises(ModelFileError, match="a folder, not a model file; name the file inside it"):
        ud.load(tmp_path)
    edit_state(run / "run.json", kind="fleet")
    with pytest.raises(InputError, match="this is a folder of `undrift fleet`; name one of `undrift run`"):
        ud.load(run)
    (run / "run.json").write_text("{")
    with pytest.raises(ModelFileError, match="cannot be read"):
        ud.load(run)


@pytest.mark.parametrize(
    "words",
    [
        {"version": None},
        {"version": 9},
        {"versions_made": 2},
        {"keep_versions": 0},
        {"versions": []},
        {"journal": {"id": 3, "sequence": 0, "next_row": 1}},
        {"journal": {"id": None, "sequence": 0}},
    ],
)
def test_versions_that_no_run_writes_are_refused(run, words):
    edit_state(run / "run.json", **words)
    for use in (list_versions, lambda folder: rollback_run(folder, 1), read_run):
        with pytest.raises(UndriftError, match="damaged or edited"):
            use(run)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, {"number": 0}),
        (1, {"number": 3}),
        (2, {"parent": 3}),
        (2, {"parent": 2}),
        (2, {"files": None}),
        (2, {"files": {"state": "../x", "model": "a", "trace": "b", "table": None, "rows": 1, "columns": 1}}),
        (2, {"complete": 1}),
    ],
)
def test_entries_of_versions_that_no_run_writes_are_refused(run, number, words):
    versions = state_of(run)["versions"]
    edit_state(run / "run.json", versions=[one | words if one["number"] == number else one for one in versions])
    with pytest.raises(ModelFileError, match="damaged or edited"):
        list_versions(run)
