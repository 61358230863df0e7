"""Folders of ours: one writer, nothing foreign is replaced, deleted or followed."""

import errno
import os
import subprocess
import sys
import threading
import time

import pytest

from undrift import store
from undrift._internal import folder as folder_module
from undrift._internal.folder import Folder, explain_disk_errors, regular_file
from undrift.errors import InputError, ModelFileError, UndriftError

POSIX = pytest.mark.skipif(os.name != "posix", reason="makes links, pipes and limits as POSIX has them")
HOLD = """
import sys
from undrift._internal.folder import Folder
with Folder(sys.argv[1], "run").hold_lock():
    print("locked", flush=True)
    sys.stdin.read()
"""


def names(path):
    return sorted(file.name for file in path.iterdir())


@pytest.fixture
def holder(tmp_path):
    """Return a folder that another process holds locked."""
    path = tmp_path / "held"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    yield path, process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_leaves_the_folder_alone(holder):
    path, process = holder
    (path / "theirs").touch()
    before = names(path), names(path / ".undrift")
    for _ in range(3):
        with (
            pytest.raises(InputError, match=rf"another process \(pid {process.pid}\) is writing this run; wait for it"),
            Folder(path, "run").hold_lock(),
        ):
            pass
    assert (names(path), names(path / ".undrift")) == before
    process.kill()
    process.wait()
    with Folder(path, "run").hold_lock():  # the lock went with the process
        pass


def test_another_thread_is_refused_too(tmp_path):
    with (
        Folder(tmp_path, "run").hold_lock(),
        pytest.raises(InputError, match="another thread of this process is writing this run"),
        Folder(tmp_path, "run").hold_lock(),
    ):
        pass


def test_a_folder_nothing_came_of_vanishes_with_its_parents(tmp_path):
    with Folder(tmp_path / "a" / "b", "run").hold_lock():
        assert (tmp_path / "a" / "b" / ".undrift" / "lock").exists()
    assert names(tmp_path) == []
    (tmp_path / "kept").mkdir()
    with Folder(tmp_path / "kept", "run").hold_lock():
        pass
    assert names(tmp_path) == ["kept"]  # it was there before
    assert names(tmp_path / "kept") == []


def test_many_threads_that_come_and_go_never_hold_the_lock_together(tmp_path):
    inside, seen, entered, refused = [], [], [], []

    def come_and_go():
        left = 15
        while left:
            try:
                with Folder(tmp_path / "f", "run").hold_lock():
                    inside.append(1)
                    seen.append(len(inside))
                    entered.append(1)
                    inside.pop()
                left -= 1
            except InputError as error:
                refused.append(str(error))
                time.sleep(0.001)  # whoever is inside gets a turn

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) == 1
    assert len(entered) == 60
    assert all("is writing this run" in text for text in refused)


@POSIX
def test_a_planted_lock_is_neither_followed_nor_cut(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("all of it, and more than a process id has")
    own = tmp_path / "f" / ".undrift"
    own.mkdir(parents=True)

    def refuse():
        with pytest.raises(InputError, match="not a lock of undrift's"), Folder(tmp_path / "f", "run").hold_lock():
            pass
        (own / "lock").unlink() if not (own / "lock").is_dir() else (own / "lock").rmdir()

    (own / "lock").symlink_to(precious)
    refuse()
    (own / "lock").symlink_to(tmp_path / "made by us")
    refuse()
    os.link(precious, own / "lock")
    refuse()
    (own / "lock").write_text("notes of mine about locks")
    refuse()
    os.mkfifo(own / "lock")
    refuse()
    (own / "lock").mkdir()
    refuse()
    assert precious.read_text() == "all of it, and more than a process id has"
    assert not (tmp_path / "made by us").exists()
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="a link or a file where undrift keeps its own"):
        Folder(tmp_path / "f", "run").hold_lock().__enter__()
    assert names(tmp_path / "elsewhere") == []
    own.unlink()
    os.mkfifo(own)
    with pytest.raises(InputError, match="a link or a file where undrift keeps its own"):
        Folder(tmp_path / "f", "run").hold_lock().__enter__()


def test_only_what_we_wrote_is_replaced_or_deleted(tmp_path):
    folder = Folder(tmp_path, "run")
    (tmp_path / "model-precious.undrift").write_text("mine")
    with folder.hold_lock():
        folder.put("model-1.undrift", b"ours")
        folder.put("model-1.undrift", b"ours again")
        folder.put("report.html", [b"page", b"s"])
        with pytest.raises(InputError, match=r"model-precious\.undrift: this is not a file that undrift wrote there"):
            folder.put("model-precious.undrift", b"ours")
    (tmp_path / "report.html").write_text("edited by hand")
    folder = Folder(tmp_path, "run")  # a later process reads the manifest
    with folder.hold_lock():
        assert folder.is_ours("model-1.undrift")
        assert not folder.is_ours("report.html")
        with pytest.raises(InputError, match="move it away"):
            folder.refuse_foreign(["nothing", "report.html"])
        folder.delete_except(keep=())
    assert names(tmp_path) == ["model-precious.undrift", "report.html"]
    assert (tmp_path / "report.html").read_text() == "edited by hand"
    assert (tmp_path / "model-precious.undrift").read_text() == "mine"


@POSIX
def test_links_are_never_written_through(tmp_path):
    target = tmp_path / "target"
    target.write_text("theirs")
    folder = Folder(tmp_path / "f", "run")
    with folder.hold_lock():
        folder.put("run.json", b"{}")
    (tmp_path / "f" / "run.json").unlink()
    (tmp_path / "f" / "run.json").symlink_to(target)
    with folder.hold_lock():
        with pytest.raises(InputError, match="not a file that undrift wrote"):
            folder.put("run.json", b"{}")
        folder.delete_except(keep=())
    assert target.read_text() == "theirs"
    assert (tmp_path / "f" / "run.json").is_symlink()
    (tmp_path / "f" / ".undrift" / "files.jsonl").unlink(missing_ok=True)
    (tmp_path / "f" / ".undrift").mkdir(exist_ok=True)
    (tmp_path / "f" / ".undrift" / "files.jsonl").symlink_to(target)
    with pytest.raises(InputError, match="a link or a folder where undrift keeps its own"):
        folder.hold_lock().__enter__()
    assert target.read_text() == "theirs"


def test_a_file_that_fails_leaves_the_old_one_and_no_temporary(tmp_path):
    folder = Folder(tmp_path, "run")
    with folder.hold_lock():
        folder.put("keys.csv", b"old")
        with pytest.raises(TypeError), folder.new_file("keys.csv") as temporary:
            temporary.write_text(3)  # opens the file, then fails
        assert (tmp_path / "keys.csv").read_bytes() == b"old"
        assert folder.is_ours("keys.csv")
        assert names(tmp_path / ".undrift") == ["files.jsonl", "lock"]


@pytest.mark.parametrize("at", range(4))
def test_a_kill_while_replacing_leaves_a_file_that_is_ours(tmp_path, monkeypatch, at):
    folder = Folder(tmp_path, "run")
    with folder.hold_lock():
        folder.put("keys.csv", b"old")
    steps = [(store, "flush"), (Folder, "_record"), (os, "replace"), (store, "flush_folder")]
    with monkeypatch.context() as patch:

        def die(*given):
            patch.setattr(folder_module.Path, "unlink", lambda *a, **k: None)  # a killed process tidies nothing
            raise SystemExit

        lock = folder.hold_lock()
        lock.__enter__()
        patch.setattr(*steps[at], die)
        with pytest.raises(SystemExit):
            folder.put("keys.csv", b"new")
        lock.__exit__(None, None, None)
    later = Folder(tmp_path, "run")
    with later.hold_lock():
        assert later.is_ours("keys.csv")
        assert names(tmp_path / ".undrift") == ["files.jsonl", "lock"]
        later.put("keys.csv", b"newer")
    assert (tmp_path / "keys.csv").read_bytes() == b"newer"


def test_a_line_of_the_manifest_that_is_cut_off_is_taken_back(tmp_path, monkeypatch):
    folder, manifest, write = Folder(tmp_path, "run"), tmp_path / ".undrift" / "files.jsonl", os.write
    sizes = []

    def fill(fd, data):
        """Write a half of what is asked for, as a disk does that fills; then nothing."""
        if sizes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sizes.append(write(fd, data[: len(data) // 2]))
        return sizes[0]

    with folder.hold_lock():
        folder.put("keys.csv", b"old")
        before = manifest.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", fill)
            with pytest.raises(UndriftError, match="the disk is full; make room"):
                folder.put("keys.csv", b"new")
        assert sizes[0] > 0
        assert manifest.read_bytes() == before
        assert (tmp_path / "keys.csv").read_bytes() == b"old"
        assert folder.is_ours("keys.csv")
        folder.put("more.csv", b"more")
    with (later := Folder(tmp_path, "run")).hold_lock():
        assert [later.is_ours(name) for name in ("keys.csv", "more.csv")] == [True, True]


def test_a_line_of_the_manifest_that_is_written_in_parts_is_whole(tmp_path, monkeypatch):
    write = os.write
    with (folder := Folder(tmp_path, "run")).hold_lock(), monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
        folder.put("keys.csv", b"all of it")
    with (later := Folder(tmp_path, "run")).hold_lock():
        assert later.is_ours("keys.csv")


def test_the_manifest_does_not_grow_with_what_is_replaced(tmp_path):
    folder = Folder(tmp_path, "run")
    for k in range(5):
        with folder.hold_lock():
            for n in range(20):
                folder.put("run.json", b"%d" % (100 * k + n), durable=n % 2 == 0)
            assert folder.is_ours("run.json")
    with folder.hold_lock():
        assert folder.is_ours("run.json")
        assert len((tmp_path / ".undrift" / "files.jsonl").read_text().splitlines()) <= 8


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    with (run := Folder(tmp_path, "run")).hold_lock():
        run.put("report.html", b"of the run")
    before = names(tmp_path), names(tmp_path / ".undrift"), (tmp_path / ".undrift" / "files.jsonl").read_text()
    for _ in range(2):
        with pytest.raises(InputError, match="the folder of a run, not of a fleet; choose another with --out"):
            Folder(tmp_path, "fleet").hold_lock().__enter__()
    assert (
        names(tmp_path),
        names(tmp_path / ".undrift"),
        (tmp_path / ".undrift" / "files.jsonl").read_text(),
    ) == before
    with run.hold_lock():
        assert run.is_ours("report.html")


def test_files_that_change_in_place_are_ours_by_name(tmp_path):
    folder = Folder(tmp_path, "fleet")
    with folder.hold_lock():
        folder.claim("fleet.db")
        (tmp_path / "fleet.db").write_bytes(b"1")
        assert folder.is_ours("fleet.db")
        (tmp_path / "fleet.db").write_bytes(b"22")
        assert folder.is_ours("fleet.db")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "fleet.db").write_bytes(b"theirs")
    with (
        pytest.raises(InputError, match="not a file that undrift wrote"),
        Folder(tmp_path / "other", "fleet").hold_lock(),
    ):
        Folder(tmp_path / "other", "fleet").claim("fleet.db")


def test_a_manifest_that_names_what_we_never_write_is_not_believed(tmp_path):
    (tmp_path / ".undrift").mkdir()
    (tmp_path / "taxes.xlsx").write_text("mine")
    lines = [
        '{"what": "run", "name": "taxes.xlsx", "size": null, "sha256": null}',
        "{",
        "[" * 100_000,
        "7",
        '{"name": 3}',
        '{"name": "..',
    ]
    lines += [
        '{"what": "run", "name": "../x", "size": null, "sha256": null}',
        '{"what": "run", "name": "run.json", "size": "1", "sha256": 3}',
    ]
    (tmp_path / ".undrift" / "files.jsonl").write_text("\n".join(lines))
    folder = Folder(tmp_path, "run", names=r"run\.json|model-\d+\.undrift")
    with folder.hold_lock():
        folder.delete_except(keep=())
    assert (tmp_path / "taxes.xlsx").read_text() == "mine"


@POSIX
def test_names_are_of_regular_files_inside_the_folder(tmp_path):
    inside = tmp_path / "f"
    inside.mkdir()
    (inside / "model.undrift").touch()
    (inside / "link").symlink_to("model.undrift")
    assert regular_file(inside, "model.undrift") == inside / "model.undrift"
    for name in (
        "../f/model.undrift",
        str(inside / "model.undrift"),
        "",
        "..",
        "a\0b",
        "c:x",
        3,
        None,
        ["model.undrift"],
    ):
        with pytest.raises(ModelFileError, match="not the name of a file in this folder"):
            regular_file(inside, name)
    with pytest.raises(ModelFileError, match="it is not followed"):
        regular_file(inside, "link")
    with pytest.raises(ModelFileError, match="missing; the folder is damaged"):
        regular_file(inside, "gone")


@POSIX
def test_free_names_are_taken_by_nothing(tmp_path):
    folder = Folder(tmp_path, "run")
    (tmp_path / "part-000000.x").touch()
    (tmp_path / "part-000001.x").symlink_to("nowhere")
    assert folder.next_free_name("part-", ".x") == "part-000002.x"


def test_what_the_disk_answers_is_one_sentence(tmp_path):
    resource = pytest.importorskip("resource")
    folder = Folder(tmp_path / "f", "run", retry="continue with --resume")
    with folder.hold_lock():
        folder.put("kept", b"old")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(UndriftError, match=r"may not grow so large .* then continue with --resume"):
                folder.put("kept", bytes(2000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert (tmp_path / "f" / "kept").read_bytes() == b"old"
        assert folder.is_ours("kept")
    with (
        pytest.raises(UndriftError, match=r"the disk is full; make room, then give the same command again"),
        explain_disk_errors(tmp_path),
    ):
        raise OSError(28, "No space left on device")
    with pytest.raises(InputError, match=r"cannot be written .*permission denied"), explain_disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "file", tmp_path / "file" / "deeper", tmp_path / "link", tmp_path / "pipe"):
        with pytest.raises(InputError, match="a file is in the way of the folder"), Folder(path, "run").hold_lock():
            pass


def test_a_folder_that_cannot_be_written_is_told_what_its_commands_have(tmp_path):
    words = "make it writable, or choose another folder"
    with pytest.raises(InputError, match=words) as error, explain_disk_errors(tmp_path):
        raise PermissionError(13, "Permission denied")
    assert "--out" not in str(error.value)  # update and serve have no such option
