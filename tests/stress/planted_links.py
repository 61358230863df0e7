"""Links planted in the folders of runs and fleets: what they point to is never read into a result, changed or deleted.

python -m tests.stress.planted_links [tries] [seed]
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from undrift.cli.app import run

OURS = (".undrift", ".undrift/lock", ".undrift/files.jsonl", "report.html")
FILES = {
    "run": (*OURS, "run.json", "predictions.parquet", "predictions-000000.parquet", "model.undrift", "trace.undrift"),
    "fleet": (*OURS, "fleet.db", "fleet.db-journal", "fleet.db-wal", "predictions.csv", "keys.csv"),
}
OPTIONS = {"run": ["--speed", "fast", "--no-certify"], "fleet": ["--key", "shop"]}


def rows(path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{'ab'[t % 2]},{rng.normal():.4f},{rng.normal():.4f}" for t in range(200)]
    path.write_text("\n".join(["shop,x,y", *lines, ""]))


def call(*arguments: str) -> tuple[int, str]:
    """Return the exit code of a command and what it said to stderr."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = run([*arguments, "--quiet"])
    return code, error.getvalue()


def precious(base: Path) -> dict[str, bytes]:
    """Return what stands outside the folder: nothing of it may change."""
    return {str(file.relative_to(base)): file.read_bytes() for file in base.rglob("*") if file.is_file()}


def main(tries: int = 60, seed: int = 0) -> int:
    dice, refused = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as name:
        base, outside = Path(name), Path(name) / "outside"
        os.chdir(base)
        rows(base / "rows.csv")
        for k in range(tries):
            shutil.rmtree(outside, ignore_errors=True)
            command = dice.choice([*FILES])
            folder, options = base / f"{command}{k}", [*OPTIONS[command], "-t", "y", "-o", f"{command}{k}"]
            outside.mkdir()
            code, error = call(command, "rows.csv", "-t", "y", "-o", "outside/whole", *OPTIONS[command])
            assert code == 0, error
            (outside / "precious").write_text("precious")
            if dice.random() < 0.5:
                shutil.copytree(outside / "whole", folder)
            else:
                folder.mkdir()
            for place in dice.sample(FILES[command], dice.randint(1, 2)):
                link = folder / place
                link.parent.mkdir(exist_ok=True)
                if link.parent.is_symlink():
                    continue
                if link.is_dir() and not link.is_symlink():
                    shutil.rmtree(link)
                link.unlink(missing_ok=True)
                target = dice.choice(["precious", f"whole/{place}", "nothing there", "."])
                link.symlink_to(Path(os.path.relpath(outside, link.parent)) / target)
            before = precious(outside)
            force = dice.choice([[], ["--force"], ["--resume"] if command == "run" else []])
            code, error = call(command, "rows.csv", *options, *force)
            assert code in (0, 1, 2, 3), (k, code, error)
            assert "Traceback" not in error, (k, error)
            assert code == 0 or error.count("\n") == 1, (k, error)
            assert precious(outside) == before, (k, command, force)
            refused += code != 0
            shutil.rmtree(folder)
        os.chdir("/")
    print(f"{tries} folders with links, {refused} refused in one sentence, nothing outside was changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
