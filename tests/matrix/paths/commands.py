"""What the paths of the command line share: calls, files, and options in the command's words."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..outcome import UNKNOWN, Absent, Refused
from ..scenarios import Scenario


def call(*words: Any) -> tuple[int, str, str]:
    """Call the command line in this process; return the exit code and what it printed to stdout and stderr."""
    from undrift.cli.app import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(word) for word in words])
    return int(code), out.getvalue(), err.getvalue()


def require(*words: Any, codes: Collection[int] = (0,)) -> str:
    """Call the command line and return its stdout; what it refuses is raised in its words."""
    code, out, err = call(*words)
    if code in codes:
        return out
    said = " ".join(line for line in err.splitlines() if line.strip())
    raise (Absent if any(text in said for text in UNKNOWN) else Refused)(said)


def require_option(command: str, option: str) -> None:
    """Raise Absent unless the help of a command has an option; a driver that asks does not know how to use it yet."""
    if f"--{option} " not in require(command, "--help"):
        raise Absent(f"No such option: --{option}")
    raise AssertionError(f"undrift {command} has --{option} now: let the driver of its path use it")


def write_csv(path: Path, columns: Mapping[str, list[Any]], rows: slice = slice(None)) -> Path:
    """Write columns, or some rows of them, as a file with a header; missing cells are empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(columns)
        for cells in zip(*(column[rows] for column in columns.values()), strict=True):
            out.writerow([write_cell(cell) for cell in cells])
    return path


def write_cell(cell: Any) -> str:
    """Return a cell as a file holds it."""
    if cell is None:
        return ""
    return repr(cell) if isinstance(cell, float) else str(cell)


def json_row(columns: Mapping[str, list[Any]], row: int, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Return a row as a JSON object."""
    cells = {name: column[row] for name, column in columns.items() if name not in leave_out}
    return {name: cell if cell is None or isinstance(cell, float) else str(cell) for name, cell in cells.items()}


def run_options(scenario: Scenario) -> list[str]:
    """Return the options of `undrift run` that ask for the feature; those that it lacks are refused by it."""
    words = ["--target", "y", "--time", "time"]
    if "speed" not in scenario.options:
        words += ["--speed", "fast"]
    for name, value in scenario.options.items():
        if name in ("elapsed", "calendar"):
            words.append(f"--{name}")
        elif name == "alert":
            words.append("--alert")
        elif name in ("lag", "quantiles"):
            words += [f"--{name}", ",".join(map(str, value))]
        elif name == "level":
            words += [] if value == 0.9 else ["--level", str(value)]  # 90% is what they are without being asked
        elif name not in ("classes", "texts", "certify", "resume", "new rows", "delayed run", "update", "model file"):
            words += [f"--{name}", str(value)]
    return words


def read_predictions(folder: Path) -> dict[str, Any]:
    """Return the predictions of a run, column by column."""
    import polars as pl

    frame = pl.read_parquet(folder / "predictions.parquet")
    return {name: frame[name].to_numpy() for name in frame.columns if name not in ("row", "time", "line")}


def first_certificate(certificates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the certificate against the best fixed predictor under the names of answers."""
    import numpy as np

    best = next((entry for entry in certificates if entry["name"] == "best fixed"), None)
    if best is None:
        raise Refused("there is no certificate")
    if best["refused"]:
        raise Refused(best["refused"])
    return {
        "regret": np.array([best["regret"]]),
        "bound": np.array([best["bound"]]),
    }


def parse_json(text: str) -> Any:
    """Return what a command printed with --json."""
    return json.loads(text)
