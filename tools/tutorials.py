"""Play the tutorials in docs/tutorials, and draw the picture of each: python tools/tutorials.py [page ...]."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

PAGES = Path(__file__).parents[1] / "docs" / "tutorials"
OWN, OTHER = "#0b6bcb", "#d1495b"
Names = dict[str, Any]
"""What the code of a page leaves behind."""


def play_page(path: Path) -> Names:
    """Run the code and the commands of a page in order, here; return what the code leaves behind."""
    names: Names = {}
    for language, code in re.findall(r"^```(python|sh)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S):
        if language == "python":
            exec(compile(code, path.name, "exec"), names)
            continue
        from undrift.cli.app import run

        for line in code.splitlines():
            code_of_command = run(shlex.split(line)[1:])
            if code_of_command not in (0, 6):  # 6: something changed, which --alert tells
                raise RuntimeError(f"{path.name}: {line} ended with {code_of_command}")
    return names


def smooth(values: Any, width: int) -> tuple[Any, Any]:
    """Return rounds, and the means over so many rounds that end there."""
    means = np.convolve(np.nan_to_num(values), np.ones(width) / width, mode="valid")
    return np.arange(width - 1, len(values)), means


def draw_sensor(n: Names, axes: Any) -> None:
    """Draw the error of undrift beside that of a calibration made once."""
    axes.plot(*smooth(n["once_error"], 24), color=OTHER, label="calibrated once, on the first 500 hours")
    axes.plot(*smooth(n["error"], 24), color=OWN, label="undrift")
    axes.set(xlabel="hour", ylabel="error, mean of a day", ylim=(0, 1.2))


def draw_demand(n: Names, axes: Any) -> None:
    """Draw the forecast of the coming day, its interval, and what came."""
    hour = np.arange(24)
    axes.fill_between(hour, n["lower"], n["upper"], color=OWN, alpha=0.15, label="90% interval")
    axes.plot(hour, n["truth"], color="#1b2430", label="what came")
    axes.plot(hour, n["yhat"], color=OWN, label="forecast the evening before")
    axes.set(xlabel="hour of the coming day", ylabel="demand")


def draw_shops(n: Names, axes: Any) -> None:
    """Draw what the model of each shop saves."""
    pl, rows = n["pl"], n["predictions"].drop_nulls(["prediction", "target"])
    last = rows.with_columns(last=pl.col("target").shift(1).over("key")).drop_nulls("last")
    own, naive = ((pl.col(name) - pl.col("target")).abs().mean() for name in ("prediction", "last"))
    by = last.group_by("key").agg(own=own, naive=naive)
    saved = np.sort((1.0 - by["own"] / by["naive"]).to_numpy())
    axes.bar(np.arange(len(saved)), saved, color=OWN, label="a model for each shop")
    axes.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.set(xlabel="shops, from the least to the most gained", ylabel="error saved against the last value")


def draw_own_model(n: Names, axes: Any) -> None:
    """Draw the errors of the supplier and of undrift."""
    axes.plot(*smooth(np.where(n["given"], n["theirs"], n["mine"]), 50), color=OTHER, label="the supplier")
    axes.plot(*smooth(n["mine"], 50), color=OWN, label="undrift with the supplier inside")
    axes.set(xlabel="row", ylabel="error, mean of 50 rows", ylim=(0, None))


def draw_network(n: Names, axes: Any) -> None:
    """Draw the loss at both weights."""
    axes.plot(n["last"], color=OTHER, label="last weights")
    axes.plot(n["averaged"], color=OWN, label="averaged weights")
    axes.set(xlabel="step", ylabel="loss on new points", ylim=(0, None))


PICTURES = {
    "sensor": draw_sensor,
    "demand": draw_demand,
    "shops": draw_shops,
    "own-model": draw_own_model,
    "network": draw_network,
}
"""What draws the picture of each page."""


def main(wanted: list[str]) -> None:
    """Draw the pictures of some pages, or of all."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name in wanted or list(PICTURES):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            names = play_page(PAGES / f"{name}.md")
        figure, axes = plt.subplots(figsize=(8.0, 3.2), layout="constrained")
        PICTURES[name](names, axes)
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(PAGES / f"{name}.png", dpi=110)
        plt.close(figure)
        print(f"docs/tutorials/{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
