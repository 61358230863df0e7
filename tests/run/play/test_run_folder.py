"""Run folders: nothing of the user's, of another run, or of an earlier commit is lost, whatever happens."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.helpers import edit_state
from tests.run.row_files import table, write_csv
from undrift import store
from undrift._internal import folder as folder_module
from undrift.errors import DataError, InputError, ModelFileError, UndriftError
from undrift.run import Interrupted, Settings, certify_run, play_file, predict_file, read_run, write_report
from undrift.run.play import run_loop
from undrift.run.read import csv_file

SETTINGS = Settings(target="y", drop=("hot",), speed="fast")
FINISHED = ["model.undrift", "predictions.parquet", "run.json", "trace.undrift"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 64)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 1)
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # these tests end no power supply


@pytest.fixture
def rows(tmp_path):
    return str(write_csv(tmp_path / "rows.csv", table(300)))


def contents(folder):
    """Return every visible file with its bytes."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def interrupt(rows, folder, batches=2, **options):
    asked = iter([False] * (batches - 1))
    with pytest.raises(Interrupted):
        play_file(rows, folder, SETTINGS, stop=lambda: next(asked, True), **options)


def test_a_second_run_is_refused_and_the_first_goes_on(tmp_path, rows):
    folder = tmp_path / "run"
    refused = []

    def start_another(progress):
        before = contents(folder)
        for options in ({}, {"resume": True}, {"force": True}):
            with pytest.raises(InputError, match="is writing this run; wait for it to end") as error:
                play_file(rows, folder, SETTINGS, **options)
            refused.append(error)
        assert contents(folder) == before

    state = play_file(rows, folder, SETTINGS, progress=start_another)
    assert len(refused) == 15
    assert state["rows"] == 300
    assert sorted(contents(folder)) == FINISHED


def test_files_of_the_users_own_are_neither_overwritten_nor_deleted(tmp_path, rows):
    for name in ("model.undrift", "predictions.parquet", "report.html", "run.json"):
        mine = tmp_path / f"has {name}"
        mine.mkdir()
        (mine / name).write_text("mine")
        (mine / "model-precious.undrift").write_text("precious")
        before = contents(mine)
        for options in ({}, {"resume": True}, {"force": True}):
            with pytest.raises((InputError, ModelFileError)):
                play_file(rows, mine, SETTINGS, **options)
        assert contents(mine) == before
    folder = tmp_path / "run"
    interrupt(rows, folder)
    precious = ["model-precious.undrift", "predictions-2024.parquet", "trace-000999.undrift", ".model.undrift.mine"]
    for name in precious:
        (folder / name).write_text("precious")
    play_file(rows, folder, SETTINGS, resume=True)
    play_file(rows, folder, SETTINGS, resume=True)
    play_file(rows, folder, SETTINGS, force=True)
    assert {name: (folder / name).read_text() for name in precious} == dict.fromkeys(precious, "precious")
    assert sorted({*contents(folder)} - {*precious}) == FINISHED


def test_a_file_that_was_put_in_place_of_ours_stays(tmp_path, rows):
    folder = tmp_path / "run"
    play_file(rows, folder, SETTINGS)
    (folder / "model.undrift").write_text("mine now")
    before = contents(folder)
    with pytest.raises(InputError, match=r"model\.undrift: this is not a file that undrift wrote there"):
        play_file(rows, folder, SETTINGS, force=True)
    assert contents(folder) == before


@pytest.mark.parametrize("finished", [True, False])
def test_force_keeps_the_old_run_until_the_new_one_has_its_first_commit(tmp_path, rows, finished):
    folder = tmp_path / "run"
    play_file(rows, folder, SETTINGS) if finished else interrupt(rows, folder)
    before = contents(folder)
    spoiled = table(300)
    spoiled["a"][40] = "what"
    bad = str(write_csv(tmp_path / "bad.csv", spoiled))
    short = str(write_csv(tmp_path / "short.csv", {"y": [], "a": []}))
    for path, settings, error in (
        (rows, Settings(target="nope"), UndriftError),
        (bad, SETTINGS, DataError),
        (short, SETTINGS, DataError),
    ):
        with pytest.raises(error):
            play_file(path, folder, settings, force=True)
        assert contents(folder) == before
    with pytest.raises(Interrupted, match="is as it was before"):
        play_file(rows, folder, SETTINGS, force=True, stop=_asked())
    assert contents(folder) == before
    other = str(write_csv(tmp_path / "other.csv", table(60, seed=1)))  # a single batch, finished at once
    play_file(other, folder, SETTINGS, force=True)
    assert sorted(contents(folder)) == FINISHED
    play_file(other, tmp_path / "fresh", SETTINGS)
    assert read_run(folder).yhat.tobytes() == read_run(tmp_path / "fresh").yhat.tobytes()


def _asked():
    from undrift._internal.stopping import StopRequest

    stop = StopRequest()
    stop.request()
    return stop


@pytest.mark.parametrize("at", range(12))
def test_a_forced_run_that_dies_at_any_rename_leaves_a_whole_run(tmp_path, rows, monkeypatch, at):
    """Of the old file or of the new one; a single batch, so that the new one is finished with its first commit."""
    folder = tmp_path / "run"
    play_file(rows, folder, SETTINGS)
    other = str(write_csv(tmp_path / "other.csv", table(60, seed=1)))
    calls, replace = 0, os.replace

    def failing(a, b):
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise SystemExit
        replace(a, b)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing)
        with contextlib.suppress(SystemExit):
            play_file(other, folder, SETTINGS, force=True)
    state = json.loads((folder / "run.json").read_text())
    assert len(read_run(folder).y) == {"rows.csv": 300, "other.csv": 60}[os.path.basename(state["learned"][0]["path"])]
    play_file(state["learned"][0]["path"], folder, SETTINGS, resume=True)
    assert sorted(contents(folder)) == FINISHED


KILLED = """
import os, sys
from undrift.run import Settings, play_file
from undrift.run.read import csv_file
from undrift.run.play import run_loop
from undrift.run.play.run_folder import RunFolder
csv_file.BATCH_ROWS, run_loop.BATCHES_PER_COMMIT = 64, 1
sweep, left = RunFolder.sweep, [int(sys.argv[3])]
def die(self, state):  # after the state was committed, before anything is swept
    left[0] -= 1
    if not left[0]:
        with open(self.path / ".undrift" / "tmp-half-model.undrift", "wb") as file:
            file.write(b"half a model")
        os._exit(9)
    sweep(self, state)
RunFolder.sweep = die
play_file(sys.argv[1], sys.argv[2], Settings(target="y", drop=("hot",), speed="fast"))
"""


@pytest.mark.parametrize("call", [3, 7])
def test_the_next_command_removes_what_a_killed_run_left(tmp_path, rows, call):
    folder = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, rows, folder, str(call)], check=False)
    assert killed.returncode == 9
    state = json.loads((folder / "run.json").read_text())
    assert state["status"] == ("finished" if call == 7 else "running")
    assert len(contents(folder)) > 4
    assert (folder / ".undrift" / "tmp-half-model.undrift").exists()
    with pytest.raises(InputError, match="there is a run already"):  # even a command that is refused tidies up
        play_file(rows, folder, SETTINGS)
    assert {*contents(folder)} == {"run.json", *state["parts"], state["model"], state["trace"]}
    assert sorted(file.name for file in (folder / ".undrift").iterdir()) == ["files.jsonl", "lock"]
    play_file(rows, folder, SETTINGS, resume=True)
    assert sorted(contents(folder)) == FINISHED


def test_a_copy_without_hidden_files_can_be_continued_and_replaced(tmp_path, rows):
    folder, copy = tmp_path / "run", tmp_path / "copy"
    interrupt(rows, folder)
    copy.mkdir()
    for name, payload in contents(folder).items():
        (copy / name).write_bytes(payload)
    play_file(rows, copy, SETTINGS, resume=True)
    assert sorted(contents(copy)) == FINISHED
    for file in (copy / ".undrift").iterdir():
        file.unlink()
    play_file(rows, copy, SETTINGS, force=True)
    assert sorted(contents(copy)) == FINISHED


@pytest.mark.skipif(os.name != "posix", reason="makes links as POSIX has them")
def test_planted_links_are_not_written_through(tmp_path, rows):
    target = tmp_path / "theirs"
    target.write_text("theirs")
    for name in ("model.undrift", "predictions.parquet", "report.html", "run.json", "trace.undrift"):
        folder = tmp_path / f"planted {name}"
        folder.mkdir()
        (folder / name).symlink_to(target)
        for options in ({}, {"resume": True}, {"force": True}):
            with pytest.raises((InputError, ModelFileError)):
                play_file(rows, folder, SETTINGS, **options)
    folder = tmp_path / "planted beside a run"
    interrupt(rows, folder)
    for name in (".predictions.parquet", ".lock", "predictions-000003.parquet", "model-000003.undrift", ".undrift/x"):
        (folder / name).symlink_to(target)
    play_file(rows, folder, SETTINGS, resume=True)
    assert target.read_text() == "theirs"
    (folder / "report.html").symlink_to(target)
    with pytest.raises(InputError, match=r"report\.html: this is not a file that undrift wrote"):
        write_report(folder, lambda data, path: path.write_text("page"))
    assert target.read_text() == "theirs"


@pytest.mark.skipif(os.name != "posix", reason="makes links as POSIX has them")
def test_names_in_a_state_stay_inside_its_folder(tmp_path, rows):
    for name in ("run", "other"):
        play_file(rows, tmp_path / name, SETTINGS)
    folder = tmp_path / "run"
    before = (folder / "run.json").read_bytes()
    (folder / "link.undrift").symlink_to(tmp_path / "other" / "model.undrift")
    for name in ("../other/model.undrift", str(tmp_path / "other" / "model.undrift"), "link.undrift", "..", ""):
        edit_state(folder / "run.json", model=name)
        with pytest.raises(ModelFileError, match=r"not the name of a file in this folder|is not followed"):
            predict_file(folder, rows)
    for words in ({"parts": ["../other/predictions.parquet"]}, {"trace": "../other/trace.undrift"}):
        (folder / "run.json").write_bytes(before)
        edit_state(folder / "run.json", **words)
        with pytest.raises(ModelFileError, match="not the name of a file in this folder"):
            read_run(folder)


HOSTILE = [
    *(
        {name: value}
        for name in (
            "status", "rows", "rounds", "batches", "parts", "model", "trace", "task", "classes", "features", "plan",
            "coefficients", "candidates", "arms", "scores", "settings", "provenance", "certificates", "problems",
            "notes", "carry", "learned", "version", "versions", "versions_made", "keep_versions", "journal",
        )
        for value in (7, "x", None, [3], [[]], {}, {"x": [1]}, -1, 1e308)
    ),
    {"learned": [{"path": 3, "sha256": None, "absolute": None}]},
    {"versions": [{"number": 1}]},
    {"settings": {"target": "y", "lag": {"a": 1}}},
    {"settings": {"target": ["y"]}},
    {"carry": {"encoder": 3, "scores": []}},
]  # fmt: skip


def test_a_state_that_no_run_writes_is_one_sentence(tmp_path, rows):
    whole = tmp_path / "run"
    interrupt(rows, whole)
    accepted, sentences = 0, []
    for number, words in enumerate(HOSTILE):
        folder = tmp_path / f"run{number}"
        shutil.copytree(whole, folder)
        edit_state(folder / "run.json", **words)
        for use in (
            lambda folder: play_file(rows, folder, SETTINGS, resume=True, stop=lambda: True),
            lambda folder: list(predict_file(folder, rows).frames()),
            read_run,
            certify_run,
        ):
            try:
                use(folder)
            except (UndriftError, Interrupted) as error:
                sentences.append(str(error))
            else:
                accepted += 1
        if words.keys() & {"parts", "model", "trace", "settings", "task", "plan"}:
            assert contents(folder).keys() == contents(whole).keys()  # nothing is swept by what such a state names
    assert len(sentences) > 3 * len(HOSTILE)
    assert not any("\n" in text for text in sentences)
    assert accepted < len(HOSTILE)  # some words do not matter to some readers


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"run\.json: cannot be read"),
        ("[" * 200_000, r"run\.json: cannot be read"),
        ('{"format": ' + "9" * 10_000 + "}", r"run\.json: cannot be read"),
        ('{"format": 3, "rows": NaN}', "NaN is not JSON"),
        ("\0", r"run\.json: cannot be read"),
        ("[1]", "not written by undrift"),
        ('{"format": 99}', "format 99 is newer than this undrift reads"),
        ('{"format": 2}', r"written by an undrift before 0\.3; learn its file again: undrift run FILE --force"),
        ('{"format": 3}', r"written by an undrift before 0\.3; learn its file again: undrift run FILE --force"),
        ('{"format": 4}', "damaged or edited .*'kind' is None"),
        ('{"format": 4, "kind": "run"}', "damaged or edited .*does not match its checksum"),
    ],
)
def test_a_damaged_state_is_one_sentence(tmp_path, rows, text, sentence):
    folder = tmp_path / "run"
    play_file(rows, folder, SETTINGS)
    (folder / "run.json").write_text(text)
    for use in (read_run, lambda one: predict_file(one, rows), certify_run):
        with pytest.raises(ModelFileError, match=sentence):
            use(folder)
    with pytest.raises(ModelFileError, match=sentence):
        play_file(rows, folder, SETTINGS, resume=True)
    play_file(rows, folder, SETTINGS, force=True)  # it was ours: the list of our files says so
    assert len(read_run(folder).y) == 300


def test_a_state_far_too_large_is_not_read(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_bytes(b" " * 100)
    monkeypatch.setattr("undrift._internal.state_file.LARGEST", 99)
    with pytest.raises(ModelFileError, match="far larger than any that undrift writes"):
        read_run(tmp_path)


def test_another_version_or_another_plan_is_refused(tmp_path, rows, monkeypatch):
    folder = tmp_path / "run"
    interrupt(rows, folder)
    before = contents(folder)
    with monkeypatch.context() as patch:
        patch.setattr("undrift.__version__", "99")
        with pytest.raises(InputError, match=r"begun by undrift \S+, this is 99, .* install undrift"):
            play_file(rows, folder, SETTINGS, resume=True)
    state = json.loads((folder / "run.json").read_text())
    edit_state(folder / "run.json", plan=state["plan"] | {"numbers": ["b", "a"]})
    with pytest.raises(ModelFileError, match="reads the columns of its file otherwise"):
        play_file(rows, folder, SETTINGS, resume=True)
    (folder / "run.json").write_bytes(before["run.json"])
    play_file(rows, folder, SETTINGS, resume=True)
    assert contents(folder).keys() == {*FINISHED}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_at_any_write_costs_a_sentence_and_nothing_else(tmp_path, rows, monkeypatch, number):
    play_file(rows, tmp_path / "whole", SETTINGS)
    expected = read_run(tmp_path / "whole").yhat.tobytes()
    failures, step, at = [], 7 if number != errno.ENOSPC else 2, 0
    while True:
        calls, flush, write = 0, store.flush, os.write
        folder = tmp_path / f"run{at}"

        def fail(real, at=at):
            def failing(*given):
                nonlocal calls
                calls += 1
                if calls > at:
                    raise OSError(number, os.strerror(number))
                return real(*given)

            return failing

        with monkeypatch.context() as patch:
            patch.setattr(store, "flush", fail(flush))
            patch.setattr(os, "write", fail(write))
            patch.setattr(store, "replace", fail(store.replace))
            try:
                play_file(rows, folder, SETTINGS)
            except UndriftError as error:
                failures.append(str(error))
        play_file(rows, folder, SETTINGS, resume=True)
        assert read_run(folder).yhat.tobytes() == expected, at
        assert sorted(contents(folder)) == FINISHED
        if calls <= at:
            break
        at += step
    words = "the disk is full; make room" if number == errno.ENOSPC else "cannot be written"
    assert len(failures) >= 8
    assert all(words in text for text in failures)


def test_a_full_disk_while_the_report_is_written_names_the_run_and_what_to_do(tmp_path, rows):
    folder = tmp_path / "run"
    play_file(rows, folder, SETTINGS)

    def render(data, path):
        with folder_module.explain_disk_errors(path.parent):
            path.write_text("half a page")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UndriftError, match=r"/run: the disk is full; make room, then continue with --resume"):
        write_report(folder, render)
    assert sorted(contents(folder)) == FINISHED
    assert sorted(file.name for file in (folder / ".undrift").iterdir()) == ["files.jsonl", "lock"]


def test_wide_rows_are_cut_alike_however_often_a_run_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(run_loop, "rows_per_batch", lambda *_: 10)
    rows = str(write_csv(tmp_path / "rows.csv", table(200)))
    play_file(rows, tmp_path / "whole", SETTINGS)
    interrupt(rows, tmp_path / "run", batches=3)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["rows"] == 30
    play_file(rows, tmp_path / "run", SETTINGS, resume=True)
    assert read_run(tmp_path / "run").yhat.tobytes() == read_run(tmp_path / "whole").yhat.tobytes()
