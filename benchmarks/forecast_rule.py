"""Would another weight rule of the forecaster have been chosen on series that no published table scores?

    python benchmarks/forecast_rule.py [--horizon 24] [--write docs/forecast.md]

The rule has three numbers (`undrift.forecast.weights`): over how many rows losses are remembered, how many standard
errors count against a candidate, and how large a difference of losses must be. Each is changed by itself. Judged are
synthetic series of eight kinds, the first rows of Exchange, and rows 1,800 to 3,600 of ETTh2, which are not scored,
by the mean squared error over that of the better naive forecast; the geometric mean within each group, and over groups.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import forecast_series
import numpy as np
import pages

import undrift as ud
from undrift.forecast import weights

MARK = "<!-- made by benchmarks/forecast_rule.py -->"
DEFAULT = {"MEMORY": 1000.0, "STANDARD_ERRORS": 1.0, "TEMPERATURE": 10.0}
OTHERS = {"MEMORY": (300.0, 3000.0), "STANDARD_ERRORS": (0.0, 0.5, 2.0), "TEMPERATURE": (1.0, 3.0, 30.0, 100.0)}
ROWS, EXCHANGE_ROWS, BEFORE_SCORED, CHANNELS = 500, 900, 3600, 3


def synthetic() -> Iterator[np.ndarray]:
    """Return series of eight kinds, one of a kind."""
    rng, t = np.random.default_rng(2024), np.arange(ROWS)
    noise = rng.normal(size=(8, ROWS))
    day, week = np.sin(2.0 * np.pi * t / 24.0), np.sin(2.0 * np.pi * t / 168.0)
    yield np.cumsum(noise[0])
    yield day + 0.3 * noise[1]
    yield day + week + 0.3 * noise[2]
    yield 0.01 * t + day + 0.3 * noise[3]
    yield np.where(t < ROWS // 2, 1.0, 3.0) * day + 0.3 * noise[4]
    yield day + np.cumsum(0.1 * noise[5])
    yield np.repeat(rng.normal(size=ROWS // 100), 100) * 3.0 + 0.3 * noise[6]
    autoregressive = np.zeros(ROWS)
    for i in range(1, ROWS):
        autoregressive[i] = 0.9 * autoregressive[i - 1] + noise[7, i]
    yield autoregressive


def series() -> dict[str, list[tuple[np.ndarray, int, int]]]:
    """Return by group the values, a season for the naive forecast, and the first origin that counts."""
    exchange, etth2 = (forecast_series.load_published(name).values for name in ("exchange", "etth2"))
    return {
        "synthetic": [(one[:, None], 24, 200) for one in synthetic()],
        "Exchange": [(exchange[:EXCHANGE_ROWS, :CHANNELS], 7, 200)],
        "ETTh2, rows before the scored ones": [(etth2[1800:BEFORE_SCORED, :CHANNELS], 24, 400)],
    }


def ratio(Y: np.ndarray, season: int, first: int, horizon: int) -> float:
    """Return the mean squared error over that of the better naive forecast."""
    origins = np.arange(first, len(Y) - horizon)
    truth = np.stack([Y[origins + h] for h in range(1, horizon + 1)], axis=2)
    trace = ud.Forecaster(horizon).play(Y)
    naive = []
    for apart in (1, season):
        guesses = [forecast_series.naive_forecast(Y, origins, h, apart) for h in range(1, horizon + 1)]
        naive.append(np.mean((np.stack(guesses, axis=2) - truth) ** 2))
    return float(np.mean((trace.yhat[origins] - truth) ** 2) / min(naive))


def rules() -> Iterator[dict[str, float]]:
    """Return the rule in use, and others that differ in one number."""
    yield DEFAULT
    for name, values in OTHERS.items():
        for value in values:
            yield DEFAULT | {name: value}


def main() -> None:
    """Print a line for each rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    groups = series()
    lines = [
        f"| memory | standard errors | temperature | {' | '.join(groups)} | all |",
        "|---" * (4 + len(groups)) + "|",
    ]
    print("\n".join(lines))
    for rule in rules():
        for name, value in rule.items():
            setattr(weights, name, value)
        weights.BETA = 1.0 - 1.0 / rule["MEMORY"]
        found = [
            np.exp(np.mean([np.log(ratio(*one, options.horizon)) for one in members])) for members in groups.values()
        ]
        cells = [*(f"{value:g}" for value in rule.values()), *(f"{one:.4f}" for one in found)]
        lines.append(f"| {' | '.join(cells)} | {np.exp(np.mean(np.log(found))):.4f} |")
        print(lines[-1], flush=True)
    if options.write:
        pages.put(options.write, MARK, "\n".join(["", *lines, ""]))


if __name__ == "__main__":
    main()
