"""Eight published price forecasts of electricity markets, mixed by `Mix`, beside their mean and published ensembles.

    python -m benchmarks mixing [--write docs/mixing.md] [--figure docs/mixing.png]

Forecasts, prices and ensembles are those of Lago et al. (2021), in the data folder (UNDRIFT_DATA). All 24 prices of a
day become known together, before the next day is forecast. Nothing was fitted before the first day.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import sys
import time
from pathlib import Path

import numpy as np

import undrift as ud
from benchmarks import pages, streams

MARK = "<!-- made by python -m benchmarks mixing -->"
CERTIFIED = "<!-- certificates, made by python -m benchmarks mixing -->"
MARKETS = {"epf_NP": "Nord Pool", "epf_PJM": "PJM", "epf_BE": "Belgium"}
SINGLES = ["DNN 1", "DNN 2", "DNN 3", "DNN 4", "LEAR 56", "LEAR 84", "LEAR 1092", "LEAR 1456"]
ENSEMBLES = ["DNN Ensemble", "LEAR Ensemble"]
HOURS = 24
SHOWN = "epf_NP"
"""The market of the figure."""


def read_market(name: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return the eight forecasts (rows, 8), the prices, and the published ensembles."""
    path = streams.folder() / "mix" / f"{name}.csv.gz"
    if not path.exists():
        sys.exit(f"no {path.name} in {path.parent}; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as lines:
        head, *rows = csv.reader(lines)
    columns = dict(zip(head[1:], np.array([row[1:] for row in rows], float).T, strict=True))
    return np.column_stack([columns[k] for k in SINGLES]), columns["Real price"], {k: columns[k] for k in ENSEMBLES}


def play_days(loss: str, Z: np.ndarray, y: np.ndarray) -> tuple[ud.Mix, ud.trace.Trace, float]:
    """Mix the forecasts of day after day; return the CPU seconds too, the least of three plays."""
    seconds = []
    for _ in range(3):
        mix, start = ud.Mix(loss, horizon=HOURS, names=SINGLES), time.process_time()
        trace = mix.play(Z.reshape(-1, HOURS, Z.shape[1]), y.reshape(-1, HOURS))
        seconds.append(time.process_time() - start)
    return mix, trace, min(seconds)


def measure(name: str) -> tuple[list[str], list[str]]:
    """Return the lines of one market: scores, and what the certificates say."""
    Z, y, published = read_market(name)
    best = int(np.argmin(np.abs(Z - y[:, None]).mean(axis=0)))
    answers = {"mean of the eight": Z.mean(axis=1), f"best single forecast ({SINGLES[best]})": Z[:, best]}
    answers |= {f"published {kind}": column for kind, column in published.items()}
    notes, certified = dict.fromkeys(answers, ""), []
    for loss in ("absolute", "squared"):
        mix, trace, seconds = play_days(loss, Z, y)
        answers[f"**Mix, {loss} loss**"] = trace.yhat.ravel()
        notes[f"**Mix, {loss} loss**"] = f"{seconds:.2f}"
        found = mix.certificate()
        excess = "" if found.excess is None else f"{found.excess / found.total_loss:.1%}"
        certified.append(f"| {MARKETS[name]} | {loss} | {found.bound / found.total_loss:.1%} | {excess} |")
    means = [f(answers["mean of the eight"] - y) for f in (mean_absolute, root_mean_square)]
    scores = []
    for kind, yhat in answers.items():
        errors = [f(yhat - y) for f in (mean_absolute, root_mean_square)]
        cells = [f"{error:.3f} | {error / mean:.4f}" for error, mean in zip(errors, means, strict=True)]
        scores.append(f"| {MARKETS[name]} | {kind} | {' | '.join(cells)} | {notes[kind]} |")
    return scores, certified


def mean_absolute(error: np.ndarray) -> float:
    return float(np.abs(error).mean())


def root_mean_square(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


def draw(path: Path) -> None:
    """Draw what `Mix.plot` shows as a picture: the curves of its figure, by matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    Z, y, _ = read_market(SHOWN)
    mix, trace, _ = play_days("absolute", Z, y)
    days = Z.reshape(-1, HOURS, Z.shape[1]), y.reshape(-1, HOURS)
    figure = mix.plot(trace, *days, x=np.arange(len(y)) / HOURS)
    areas = [curve for curve in figure.data if curve.stackgroup]
    picture, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6.4), sharex=True, layout="constrained")
    names, shades = [curve.name for curve in areas], [curve.fillcolor for curve in areas]
    top.stackplot(areas[0].x, *[curve.y for curve in areas], labels=names, colors=shades)
    for curve in figure.data[len(areas) :]:
        style = ":" if curve.line.dash == "dot" else "-"
        bottom.plot(curve.x, curve.y, style, color=curve.line.color, label=curve.name)
    for axis, note in zip((top, bottom), figure.layout.annotations, strict=True):
        axis.set_title(note.text, fontsize=10)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)
    top.set(ylim=(0, 1), xlim=(0, len(y) / HOURS))
    top.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    bottom.set(xlabel=f"days, {MARKETS[SHOWN]}", ylabel="EUR/MWh, added up")
    bottom.grid(alpha=0.25)
    picture.savefig(path, dpi=110)


def main() -> None:
    """Print the tables, and put them into a page if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this file")
    parser.add_argument("--figure", type=Path, help="draw the weights of one market into this file")
    options = parser.parse_args()
    scores = ["| market | | MAE | over the mean's | RMSE | over the mean's | CPU seconds |", "|---" * 7 + "|"]
    certified = ["| market | loss | bound over the total loss | excess over the total loss |", "|---" * 4 + "|"]
    for name in MARKETS:
        for lines, found in zip((scores, certified), measure(name), strict=True):
            lines += found
    print("\n".join([*scores, "", *certified]))
    if options.write:
        pages.put(options.write, MARK, "\n".join(["", *scores, ""]))
        pages.put(options.write, CERTIFIED, "\n".join(["", *certified, ""]))
    if options.figure:
        draw(options.figure)


if __name__ == "__main__":
    main()
