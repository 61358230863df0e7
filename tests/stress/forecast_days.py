"""A year of hours, day by day through `undrift update` with kill -9 in between: the same bits as one run of the year.

python -m tests.stress.forecast_days [days] [kills] [seed]
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from undrift.cli.app import run
from undrift.run.forecast.forecast_folder import ForecastFolder

COMMAND = [sys.executable, "-c", "from undrift.cli import main; main()"]
OPTIONS = ["--no-report", "--quiet", "--json"]
FIRST_DAYS = 3
"""Days in the first file, from which the plan is made."""
AGAIN = 3
"""Rows of the day before that every file repeats."""


def year(days: int, seed: int) -> list[str]:
    """Return the lines of a file: a day and a week, a level that wanders, missing hours and empty cells."""
    rng = np.random.default_rng(seed)
    rows = 24 * days
    t = np.arange(rows)
    y = 20.0 + 5.0 * np.sin(2.0 * np.pi * t / 24.0) + 2.0 * (t // 24 % 7 >= 5) + 0.1 * np.cumsum(rng.normal(size=rows))
    y += rng.normal(size=rows)
    when = np.datetime64("2023-01-01T00:00:00") + t * np.timedelta64(3600, "s")
    empty = rng.random(rows) < 0.01
    return [f"{when[i]},{'' if empty[i] else repr(float(y[i]))}" for i in range(rows) if i < 60 or rng.random() > 0.01]


def write(path: Path, lines: list[str]) -> str:
    """Write lines below a header."""
    path.write_text("\n".join(["time,value", *lines]) + "\n")
    return str(path)


def state(folder: Path) -> dict[str, object]:
    """Return the last commit."""
    return ForecastFolder(folder).read_state()


def bits(folder: Path) -> tuple[object, ...]:
    """Return what two folders must share: forecasts, values, model and scores."""
    files, last = ForecastFolder(folder), state(folder)
    frames = [files.read_table(last, name) for name in ("forecasts", "values")]
    columns = [frame[name].to_physical().to_numpy() for frame in frames for name in frame.columns if name != "series"]
    model = (folder / last["files"]["model"]).read_bytes()  # type: ignore[index]
    same = json.dumps([last[name] for name in ("rows", "last", "plan", "seasons", "scores")])
    return [column.tobytes() for column in columns], model, same


def call(arguments: list[str]) -> None:
    """Give a command in this process."""
    code = run([*arguments, *OPTIONS])
    assert code == 0, (code, arguments)


def kill_update(folder: Path, path: str, after: float) -> bool:
    """Give the command in a process of its own and kill it; return whether it was too late."""
    process = subprocess.Popen([*COMMAND, "update", str(folder), path, *OPTIONS], stdout=subprocess.DEVNULL)
    try:
        code = process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return False
    assert code == 0, code
    return True


def check(base: Path, days: int, kills: int, seed: int = 0) -> str:
    """Compare a year in one file with the same year day by day; return what was done in words.

    Parameters
    ----------
    base
        An empty folder.
    days
        Days of the year.
    kills
        Updates that are given in a process of their own, all but the first of which may be killed.
    seed
        Of values and moments.
    """
    lines, dice = year(days, seed), random.Random(seed)
    files = [[line for line in lines if _day(line) == day] for day in range(days)]
    begin = time.perf_counter()
    options = ["-t", "value", "-H", "24"]
    call(["forecast", write(base / "year.csv", lines), *options, "-o", str(base / "year")])
    once, begin = time.perf_counter() - begin, time.perf_counter()
    folder = base / "days"
    first = [line for day in files[:FIRST_DAYS] for line in day]
    call(["forecast", write(base / "first.csv", first), *options, "-o", str(folder)])
    killed_days = set(dice.sample(range(FIRST_DAYS, days), kills))
    undone = finished = 0
    usual = 30.0  # seconds that an update takes in a process of its own; the first is given time to find out
    for day in range(FIRST_DAYS, days):
        path = write(base / f"day-{day}.csv", files[day - 1][-AGAIN:] + files[day])
        before = state(folder)["rows"]
        if day in killed_days:
            start = time.perf_counter()
            late = kill_update(folder, path, usual * dice.uniform(0.3, 1.0))
            after = state(folder)["rows"]
            finished += late
            usual = time.perf_counter() - start if late else usual
            undone += after == before
            if after != before:  # it was killed after its commit, or not at all
                continue
        call(["update", str(folder), path])
    assert bits(folder) == bits(base / "year"), "day by day differs from one run"
    spent = time.perf_counter() - begin
    killed = f"{undone} killed before their commit, {kills - undone - finished} after it"
    updates = f"{days - FIRST_DAYS} updates {spent:.0f} s"
    return f"{len(lines):,} rows: one run {once:.0f} s, {updates}, {killed}: every bit equal"


def _day(line: str) -> int:
    return int((np.datetime64(line[:10]) - np.datetime64("2023-01-01")).astype(int))


def main() -> int:
    days, kills, seed = (int(text) for text in [*sys.argv[1:], *("365", "20", "0")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as name:
        text = check(Path(name), days, kills, seed)
    print(text, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
