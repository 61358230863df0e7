"""Spoil files of rows at random: a run must finish, or refuse in one sentence; no traceback, no half-made folder.

python tests/stress/run_fuzz.py [cases] [seed]
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from undrift.cli.app import run

NAMES = ["when", "a", "b", "city", "y", "a=b", "", "Ω", "line", "y 1 row ago", "x" * 300, "1", '"', "=1+1", "<b>"]
CELLS = [
    "",
    "1",
    "2.5",
    "-3e8",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "yes",
    "no",
    "maybe",
    "2024-01-01",
    "2024-13-45",
    "?",
    "0",
]
CELLS += ["1_000", "\u0663", "1,5", '"', "'", "x" * 1000, "\x00", "\ufeff", "-", "1e75", "1e76", "true", "False", " 7 "]
OPTIONS = [
    [], ["--calendar"], ["--lag", "1,2"], ["--delay", "2"], ["--missing", "skip"], ["--missing", "refuse"],
    ["--missing", "indicate"], ["--task", "classification"], ["--task", "regression"], ["--time", "when"],
    ["--positive", "yes"], ["--half-life", "5"], ["--categories", "3"], ["--encoding", "latin-1"], ["--limit", "7"],
]  # fmt: skip


def case(dice: random.Random) -> bytes:
    """Return a file: mostly orderly, then spoiled."""
    names = dice.sample(NAMES, dice.randint(1, 6))
    if dice.random() < 0.9:
        names = list(dict.fromkeys([*names, "y"]))
    some = ["number", "number", "text", "time", "wild", "label"]
    kinds = [dice.choice(["number", "label", "wild"] if name == "y" else some) for name in names]
    lines = [dice.choice([",", ";"]).join(names)] if dice.random() < 0.1 else [",".join(names)]
    for t in range(dice.choice([0, 2, 5, *[40] * 5, *[300] * 10])):
        row = []
        for kind in kinds:
            if kind == "wild" and dice.random() < 0.02:
                row.append(dice.choice(CELLS))
            elif kind == "text":
                row.append(dice.choice(["p", "q", "r"]))
            elif kind == "label":
                row.append(dice.choice(["yes", "no"]))
            elif kind == "time":
                row.append(f"2024-01-{t % 28 + 1:02d} {t % 24:02d}:00")
            else:
                row.append(f"{dice.gauss(0, 1):.3f}")
        if dice.random() < 0.0001:
            row.append("more")
        lines.append(",".join(row))
    content = bytearray(dice.choice(["\n", "\r\n"]).join(lines).encode("utf-8"))
    for _ in range(dice.choice([0, 0, 0, 1, 3])):
        if content:
            content[dice.randrange(len(content))] = (
                dice.randrange(256) if dice.random() < 0.1 else dice.choice(b"0123456789.,;-e \n")
            )
    return bytes(content)


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    dice = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    codes: dict[int, int] = {}
    bad = 0
    with tempfile.TemporaryDirectory() as base:
        os.chdir(base)
        for k in range(cases):
            content, options = case(dice), dice.choice(OPTIONS)
            with open("f.csv", "wb") as file:
                file.write(content)
            out, err = io.StringIO(), io.StringIO()
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    code = run(["run", "f.csv", "-t", "y", "--model", "fast", "--quiet", "--json", *options])
            except BaseException:
                code = -1
                traceback.print_exc()
            codes[code] = codes.get(code, 0) + 1
            finished = (
                os.path.exists("f-run/run.json")
                and json.loads(Path("f-run/run.json").read_text())["status"] == "finished"
            )
            fine = (
                code in (0, 2, 3) and (code == 0) == finished and (code == 0 or len(err.getvalue().splitlines()) == 1)
            )
            if not fine:
                bad += 1
                print(f"case {k}: code {code}, finished {finished}, options {options}, said {err.getvalue()!r:.300}")
                print(content[:400])
            shutil.rmtree("f-run", ignore_errors=True)
        os.chdir("/")
    print(f"{cases} cases, exit codes {codes}, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
