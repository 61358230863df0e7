"""Attacks on folders: two writers, --force that is killed, signals at any moment, full disks, damaged files.

Each function takes how often to try, prints what was tried and what survived, and raises if anything was lost.

python -m tests.stress.run_folders [tries] [seed] [ATTACK ...]; damages are tried a hundred times as often
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import undrift as ud
from tests.golden import folders as golden
from tests.stress.damaged_journals import damage_bytes, damage_tables, forge_json
from tests.stress.run_kills import COMMAND, OPTIONS, bits, committed, make_task, write_drifting_file
from undrift._internal.state_file import write_state
from undrift.errors import UndriftError
from undrift.run import certify_run, list_versions, read_run, rollback_run, update_fleet, update_forecast, update_run
from undrift.run.service.service import Label
from undrift.serve import open_service
from undrift.serve.open_service import open_forecasts

ROWS = 40_000
FINISHED = {"model.undrift", "predictions.parquet", "run.json", "trace.undrift", ".undrift"}
FAST = [*OPTIONS, "--speed", "fast"]


def start(file: Path, folder: Path, *options: str, **more: object) -> subprocess.Popen[str]:
    """Start a run in a process of its own."""
    return subprocess.Popen(
        [*COMMAND, str(file), *FAST, "-o", str(folder), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more,
    )  # type: ignore[call-overload, no-any-return]  # fmt: skip


def end(process: subprocess.Popen[str], *codes: int) -> str:
    """Wait for a process that must end with one of these codes and at most one sentence; return it."""
    error = process.communicate(timeout=600)[1]
    assert process.returncode in codes, (process.returncode, error)
    assert error.count("\n") <= 1, error
    assert "Traceback" not in error, error
    return error


def calm_run(base: Path, seed: int = 0) -> tuple[Path, tuple[object, ...], float]:
    """Return a file, what a calm run of it holds, and how many seconds that took."""
    file, folder = write_drifting_file(base / f"stream{seed}.csv", ROWS, seed), base / f"calm{seed}"
    begin = time.perf_counter()
    end(start(file, folder), 0)
    return file, bits(folder), time.perf_counter() - begin


def two_writers(tries: int, seed: int = 0) -> None:
    """Start a second run (also with --resume or --force) on a folder while the first one writes."""
    dice, refused = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        file, expected, calm = calm_run(base)
        for k in range(tries):
            folder = base / f"run{k}"
            first = start(file, folder)
            time.sleep(dice.uniform(0.0, calm))
            second = start(file, folder, *dice.choice(([], ["--resume"], ["--force"])))
            end(first, 0, 2)  # 2: the second one was there first
            error = end(second, 0, 2)
            refused += "is writing this run" in error
            assert first.returncode == 0 or second.returncode == 0, k
            assert bits(folder) == expected, k
            assert {file.name for file in folder.iterdir()} == FINISHED, k
    print(f"two writers: {tries} times, {refused} refused by the lock, every run whole and equal to the calm one")


def forced_kills(tries: int, seed: int = 0) -> None:
    """Kill a run that replaces another one: the folder holds the old one or the new one, whole, at any moment."""
    dice, old, new = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (first, before, _), (second, after, calm) = calm_run(base, 0), calm_run(base, 1)
        folder = base / "run"
        for k in range(tries):
            end(start(first, folder, "--force"), 0)
            process = start(second, folder, "--force")
            time.sleep(dice.uniform(0.2, 1.1) * calm)
            process.kill()
            process.communicate()
            resumed = start(second, folder, "--resume")
            error = end(resumed, 0, 2)
            old, new = old + ("another file" in error), new + (not error)
            assert bits(folder) == (before if error else after), k
            assert {file.name for file in folder.iterdir()} == FINISHED, k
    print(f"kills of --force: {tries}, the old run kept {old} times, the new one continued {new} times, nothing lost")


def signals(tries: int, seed: int = 0) -> None:
    """Send SIGINT, SIGTERM or SIGHUP at random moments: an end within a second, and the same bits when resumed."""
    dice, slowest, stopped = random.Random(seed), 0.0, 0
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        file, expected, calm = calm_run(base)
        for k in range(tries):
            folder, number = base / f"run{k}", dice.choice(numbers)
            process = start(file, folder)
            time.sleep(dice.uniform(0.3, 1.0) * calm)
            begin = time.perf_counter()
            process.send_signal(number)
            end(process, 0, 128 + number, -number)  # -number: Python itself was still starting
            if process.returncode > 0:
                stopped, slowest = stopped + 1, max(slowest, time.perf_counter() - begin)
            end(start(file, folder, "--resume"), 0)
            assert bits(folder) == expected, k
    print(f"signals: {tries}, {stopped} of them stopped a run, the slowest after {slowest:.2f} s, all resumed to equal")


def disk_full(tries: int, seed: int = 0) -> None:
    """Limit how large files may grow, from nothing to enough in `tries` steps: one sentence each, then resume."""
    del seed
    sentences = 0
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        file, expected, _ = calm_run(base)
        largest = max(one.stat().st_size for one in (base / "calm0").iterdir())
        for k in range(tries):
            folder, size = base / f"run{k}", largest * k // max(tries - 1, 1)

            def limit(size: int = size) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

            error = end(start(file, folder, preexec_fn=limit), 0, 1)
            sentences += "may not grow so large" in error
            rows = committed(folder)
            end(start(file, folder, "--resume"), 0)
            assert bits(folder) == expected, k
            assert {file.name for file in folder.iterdir()} == FINISHED, k
            print(f"files of at most {size:,} bytes: {rows:,} rows committed, resumed to equal")
        print(f"file size limits: {tries}, {sentences} ended in a sentence, nothing lost")
        _small_disks(base, file, expected, tries)


def _small_disks(base: Path, file: Path, expected: tuple[object, ...], tries: int) -> None:
    """The same on a real disk that is too small, where we may mount one."""
    place = base / "disk"
    place.mkdir()
    if not _mount(place, "64k"):
        print("small disks: not tried, as only root may mount them")
        return
    try:
        whole = sum(one.stat().st_size for one in (base / "calm0").iterdir())
        full = 0
        for k in range(tries):
            subprocess.run(
                ["mount", "-o", f"remount,size={64 + 4 * whole * k // tries // 1024}k", str(place)], check=True
            )
            full += "the disk is full" in end(start(file, place / "run", "--resume"), 0, 1)
        subprocess.run(["mount", "-o", "remount,size=1g", str(place)], check=True)
        end(start(file, place / "run", "--resume"), 0)
        assert bits(place / "run") == expected
        print(f"small disks: {tries} sizes, {full} were full, one run continued through all of them to equal")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _mount(place: Path, size: str) -> bool:
    """Mount a disk in memory; return whether we may."""
    if os.name != "posix" or os.geteuid() != 0:
        return False
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    return not subprocess.run(words, check=False, capture_output=True).returncode


def full_disks(tries: int, seed: int = 0) -> None:
    """Give updates and forecasts too little room, in `tries` steps: one sentence each, then the same command again."""
    del seed
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "disk"
        place.mkdir()
        if not _mount(place, "1g"):
            print("full disks: not tried, as only root may mount them")
            return
        try:
            for kind in ("update", "forecast", "fleet", "first forecast"):
                base = Path(name) / kind
                base.mkdir()
                _fill_disk(kind, base, place, tries)
        finally:
            subprocess.run(["umount", str(place)], check=True)


def _fill_disk(kind: str, base: Path, place: Path, tries: int) -> None:
    task, kept, folder, full = make_task(kind, base, rows=ROWS), base / "kept", place / "folder", 0
    task.prepare(kept)

    def begin() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if kept.exists():
            shutil.copytree(kept, folder)

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(place)], check=True)

    def give() -> str:
        words = task.words(folder)
        return end(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True), 0, 1)

    begin()
    used, before = shutil.disk_usage(place).used, task.content(folder) if kept.exists() else None
    give()
    expected, after, grown = task.bits(folder), task.content(folder), shutil.disk_usage(place).used - used
    for k in range(tries):
        begin()
        room = shutil.disk_usage(place).used + 4096 + (2 * used + 2 * max(grown, 0)) * k // tries
        resize(f"{room // 1024}k")
        error = give()
        full += bool(error)
        assert not error or "the disk is full; make room, then" in error, error
        left = task.content(folder) if (folder / "run.json").exists() else None
        assert not task.whole or left in (before, after), "neither what was there, nor all of it"
        assert left == after or error, "not all of it, and no error"
        if task.whole and left == before and kept.exists():
            assert {path.name for path in folder.iterdir()} == {path.name for path in kept.iterdir()}
        resize("1g")
        error = give()
        assert task.bits(folder) == expected, f"{kind}: {room:,} bytes"
    print(f"full disks under {kind}: {tries} sizes, {full} were full, all made good by the same command")


# ---- damaged files -------------------------------------------------------------------------------------------------


def predict(folder: Path, rows: str) -> Any:
    return golden.predict_rows(folder, rows)


def update(folder: Path, rows: str) -> Any:
    update_run(folder, rows)
    return pl.read_parquet(folder / "predictions.parquet").to_dict(as_series=False), ud.load(folder)


def certify(folder: Path, rows: str) -> Any:
    run = read_run(folder)
    shown = [*run.y.tolist(), *run.yhat.tolist()], run.learned, run.settings
    return golden.to_plain([*shown, certify_run(folder)["certificates"]])


def versions(folder: Path, rows: str) -> Any:
    return [one._replace(size=0) for one in list_versions(folder)]


def rollback(folder: Path, rows: str) -> Any:
    """Go back, forward and back; a service that was killed is started and ended first."""
    found = []
    if (folder / "journal.sqlite").exists():
        with open_service(folder, hold=None):
            pass
    for number in (1, 2, 1):
        state = rollback_run(folder, number, log=lambda text: None)
        table = pl.read_parquet(folder / "predictions.parquet").to_dict(as_series=False)
        found.append((table, ud.load(folder), state["scores"], state["learned"]))
    return found


def load(folder: Path, rows: str) -> Any:
    return ud.load(folder).predict(golden.row_at(75)).yhat.tolist()


def serve(folder: Path, rows: str) -> Any:
    """Open the service and use it: an answer that is given must be right, as what is kept of it."""
    with open_service(folder, hold=None) as service:
        found = service.waiting, service.models.model.rounds, service.models.recent(None, 20), list(service.events)
        answers = [list(one)[:6] for one in service.predict([golden.row_at(t) for t in range(90, 92)])]
        service.learn([Label(number, 0.5) for number in range(1, len(answers) + 1)])
    return found, answers, list_versions(folder)[-1].rows


def update_a_fleet(folder: Path, rows: str) -> Any:
    update_fleet(folder, rows)
    return (folder / "predictions.csv").read_text()


def update_forecasts(folder: Path, rows: str) -> Any:
    update_forecast(folder, rows)
    return (folder / "next.csv").read_text()


def serve_forecasts(folder: Path, rows: str) -> Any:
    with open_forecasts(folder) as service:
        return service.forecast()


RUN_USES = (predict, update, certify, versions, rollback, load, serve)
DAMAGED: dict[str, tuple[str, tuple[Callable[[Path, str], Any], ...], tuple[str, ...]]] = {
    "versions": ("versions", RUN_USES, ("run.json", "run.json", "run-v2.json")),
    "served": ("served", RUN_USES, ("run.json", "run-v1.json", "journal.sqlite", "journal.sqlite")),
    "fleet": ("fleet", (update_a_fleet, load), ("run.json",)),
    "forecast": ("forecast", (update_forecasts, serve_forecasts, load), ("run.json",)),
}
"""By kind: which golden case makes the folder, what reads it, and the files that are damaged."""
KINDS = ("versions", "served", "versions", "served", "versions", "served", "fleet", "forecast")


def damage_file(path: Path, dice: random.Random) -> tuple[str, bool]:
    """Damage a file of a folder; return what was done, and whether it was forged so well that nobody can notice."""
    if path.suffix == ".sqlite":
        way = dice.choice(["bytes", "bytes", "tables", "forged"])
        if way == "bytes":
            return damage_bytes(path, dice), False
        return damage_tables(path, dice, way == "forged"), way == "forged"
    way = dice.choice(["bytes", "bytes", "JSON", "forged", "gone"])
    if way == "bytes":
        return damage_bytes(path, dice), False
    if way == "gone":
        path.unlink()
        return f"{path.name} is gone", False
    text = path.read_text(encoding="utf-8")
    forged = json.loads(forge_json(text, dice))
    if way == "JSON" or not isinstance(forged, dict):
        path.write_text(json.dumps(forged), encoding="utf-8")
        return f"JSON of {path.name}", forged == json.loads(text)
    path.write_bytes(write_state(forged, forged.get("kind", "run")))
    return f"forged JSON of {path.name}", True


def try_use(use: Callable[[Path, str], Any], folder: Path, rows: str, expected: Any) -> str:
    """Return what came of a command on a damaged folder."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("error")
            found = use(folder, rows)
    except UndriftError as error:
        return "refused" if str(error) and "\n" not in str(error) else "refused in several lines"
    except Exception:
        print(traceback.format_exc(), flush=True)
        return "raw error"
    return "right" if found == expected else "different"


def damages(tries: int, seed: int = 0) -> None:
    """Damage run.json, files of versions, ledgers and journals: every command that reads them is right or refuses."""
    dice, ends, bad = random.Random(seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        made: dict[str, dict[str, Any]] = {}
        for kind, (case, uses, _) in DAMAGED.items():
            place = base / kind
            place.mkdir()
            golden.CASES[case].make(place)
            made[kind] = {}
            for use in uses:
                copy = base / "calm" / "folder"
                shutil.copytree(place / golden.FOLDER, copy)
                try:
                    made[kind][use.__name__] = use(copy, str(place / "next.csv"))
                except UndriftError:  # such as loading a fleet
                    made[kind][use.__name__] = UndriftError
                shutil.rmtree(base / "calm")
        for number in range(tries):
            kind = KINDS[number % len(KINDS)]
            _, uses, names = DAMAGED[kind]
            damaged = base / "damaged"
            shutil.copytree(base / kind / golden.FOLDER, damaged)
            if dice.random() < 0.5:  # as in a copy without hidden files
                shutil.rmtree(damaged / ".undrift", ignore_errors=True)
            what, forged = damage_file(damaged / dice.choice(names), dice)
            for use in uses:
                copy = base / "tried" / "folder"
                shutil.copytree(damaged, copy)
                end = try_use(use, copy, str(base / kind / "next.csv"), made[kind][use.__name__])
                if end not in ("right", "refused") and not (end == "different" and forged):
                    print(f"damage {number} of a {kind} folder: {what}: {use.__name__}: {end}", flush=True)
                    bad += 1
                ends["forged, another result" if end == "different" and forged else end] += 1
                shutil.rmtree(base / "tried")
            shutil.rmtree(damaged)
    counts = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
    print(f"{tries:,} damaged folders, {sum(ends.values()):,} commands: {counts}")
    assert not bad, f"{bad} commands gave wrong results"


ATTACKS = (two_writers, forced_kills, signals, disk_full, full_disks, damages)


def main() -> int:
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    named = sys.argv[3:] or [attack.__name__ for attack in ATTACKS]
    for attack in ATTACKS:
        if attack.__name__ in named:
            attack(tries * (100 if attack is damages else 1), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
