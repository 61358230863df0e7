"""Everything random that undrift must survive, in one bounded run: prints what was tried and what survived.

Each attack is a process of its own, so that a crash of one is seen and the others still run.

    python -m tests.stress.attack [--only WORD] [--quick] [--write docs/survives.md]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
LIMIT = 1500
"""Seconds that one attack may take."""
HEAD = ("| what was tried | how often | survived | in its own words |", "|---|---:|---|---|")
BEGIN, END = "<!-- attack: begin -->", "<!-- attack: end -->"


class Attack(NamedTuple):
    """One thing to survive: a call of a function in a module of this folder."""

    name: str
    module: str
    call: str
    """With {n} where the number of tries goes."""
    tries: int


class Outcome(NamedTuple):
    """How an attack ended."""

    attack: Attack
    tries: int
    survived: bool
    last_line: str
    """What the attack said at its end; the sentence for the page."""
    seconds: float


ATTACKS = (
    Attack("Threads that predict while one learns, every model", "threads", "main({n})", 100_000),
    Attack("Numbers, shapes and strides at the kernels (seconds)", "kernel_fuzz", "fuzz({n})", 60),
    Attack("`run` killed by kill -9", "run_kills", "kills({n})", 50),
    Attack("`run --force` killed by kill -9", "run_folders", "forced_kills({n})", 20),
    Attack("`fleet` killed by kill -9", "fleet_folders", "kills({n})", 50),
    Attack("`serve` killed by kill -9 under load", "serve_kills", "main({n})", 50),
    Attack("Idle, slow and heavy clients of `serve`", "serve_load", "main({n})", 1000),
    Attack("Two `run` on one folder", "run_folders", "two_writers({n})", 50),
    Attack("Two `fleet` on one folder", "fleet_folders", "two_writers({n})", 50),
    Attack("SIGINT, SIGTERM, SIGHUP at `run`", "run_folders", "signals({n})", 30),
    Attack("Full disks under `run`, sizes", "run_folders", "disk_full({n})", 10),
    Attack("Full disks under `fleet`, sizes", "fleet_folders", "disk_full({n})", 10),
    Attack("Links planted in folders", "planted_links", "main({n})", 60),
    Attack("Forged and damaged model files", "hostile_models", "main({n})", 3000),
    Attack("Forged and damaged fleets", "fleet_hostile", "main({n})", 2000),
    Attack("Damaged `run.json`, versions, ledgers and journals", "run_folders", "damages({n})", 1000),
    Attack("Spoiled files of rows", "run_fuzz", "main({n})", 1000),
    Attack("Small files that unpack to huge ones", "bombs", "main({n})", 6),
)


def run(attack: Attack, quick: bool) -> Outcome:
    """Run one attack; its output goes to the terminal as it comes."""
    tries = max(2, attack.tries // 20) if quick else attack.tries
    code = f"from tests.stress import {attack.module} as it; raise SystemExit(it.{attack.call.format(n=tries)})"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    print(f"\n== {attack.name}: {tries:,}", flush=True)
    begin, said = time.perf_counter(), ""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            said = line.strip() or said
            if time.perf_counter() - begin > LIMIT:
                said = f"not over after {LIMIT} seconds"
                process.kill()
        code_out = process.wait(LIMIT)
    finally:
        process.kill()
    return Outcome(attack, tries, code_out == 0, said, time.perf_counter() - begin)


def row(one: Outcome) -> str:
    """Return a line of the table."""
    words = one.last_line.replace("|", "/")
    return f"| {one.attack.name} | {one.tries:,} | {'yes' if one.survived else '**no**'} | {words} |"


def write(path: Path, rows: dict[str, str]) -> None:
    """Put rows, by the attack's name, into the table between the two marks of a page; other rows stay as they are."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN)
    old, after = rest.split(END)
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in old.splitlines()} | rows
    lines = [rows[one.name] for one in ATTACKS if one.name in rows]
    path.write_text("\n".join([before + BEGIN, "", *HEAD, *lines, "", END + after]), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run the attacks whose name or module has this word")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the tries")
    parser.add_argument("--write", type=Path, help="page that shows the table")
    asked = parser.parse_args()
    chosen = [one for one in ATTACKS if asked.only.lower() in f"{one.name} {one.module}".lower()]
    outcomes = [run(one, asked.quick) for one in chosen]
    rows = {one.attack.name: row(one) for one in outcomes}
    print("\n" + "\n".join([*HEAD, *rows.values()]))
    if asked.write is not None and not asked.quick:
        write(asked.write, rows)
    survived = sum(one.survived for one in outcomes)
    minutes = sum(one.seconds for one in outcomes) / 60.0
    print(f"\n{survived} of {len(outcomes)} attacks survived, {minutes:.0f} minutes")
    return 0 if survived == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
