"""Quantiles and intervals of `OnlineRegressor`, beside one width for all rows: `python -m benchmarks quantiles`.

Every row is predicted before its label is learned. Pinball loss at .1, .5 and .9, with the quantiles served and with
symmetric intervals around the same predictions, as there were before (`symmetric_quantiles` says how). Coverage of 90%
intervals overall, in the worst 100 consecutive rows, by fifths of the predictions, by hours of the day, and with late
labels. `--write FILE` puts the tables between the marks of a file.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import undrift as ud
from benchmarks import streams
from undrift import metrics

LEVELS = (0.05, 0.1, 0.5, 0.9, 0.95)
DELAYS = (0, 1, 5, 24, 100, 168)
LATE = ("bike_hourly", "metro_traffic", "air_quality_co", "ETTh2 oil", "column", "skewed", "random walk")
"""Streams whose intervals are followed with late labels too."""
WINDOW = 100
"""Rows of a window whose coverage is taken."""
BEGIN, END = "<!-- quantiles -->", "<!-- /quantiles -->"


class Labelled(NamedTuple):
    Z: np.ndarray
    y: np.ndarray
    hour: np.ndarray | None = None
    """Hour of the day of every row, 0 to 23; None: rows have no time of day."""


def read_columns(name: str) -> dict[str, list[str]]:
    with gzip.open(streams.folder() / name, "rt") as file:
        head, *lines = csv.reader(file)
    return dict(zip(head, map(list, zip(*lines, strict=True)), strict=True))


def real(name: str) -> Labelled:
    """Return a regression stream of the data folder; its times begin with a date and the hour."""
    stream, times = streams.raw(name), read_columns(f"{name}.csv.gz")["time"]
    return Labelled(stream.Z, stream.y, np.array([int(time[11:13]) for time in times]))


def market(target: str) -> Labelled:
    """Return price or demand of the electricity market, from the other columns; a day has 48 periods."""
    columns = {name: np.array(cells, float) for name, cells in read_columns("elec2.csv.gz").items()}
    features = [name for name in columns if name not in ("time", "up", target)]
    Z = np.column_stack([columns[name] for name in features])
    return Labelled(Z, columns[target], np.arange(len(Z)) % 48 // 2)


def transformer(target: str) -> Labelled:
    """Return a series of ETTh2, from its own past and the hour."""
    columns = read_columns("forecast/ETTh2.csv.gz")
    y, hour = np.array(columns[target], float), np.array([int(time[11:13]) for time in columns["date"]])
    clock = np.column_stack([np.sin(hour * np.pi / 12.0), np.cos(hour * np.pi / 12.0)])
    return Labelled(*with_lags(y, (1, 2, 24, 168), clock), hour[168:])


def demand() -> Labelled:
    """Return half-hourly electricity demand, from its own past and the time of day."""
    y = np.array(read_columns("series/vic_electricity.csv.gz")["Demand"], float)
    t = np.arange(len(y))
    clock = [wave(k * np.pi * t / 24.0) for k in (1, 2) for wave in (np.sin, np.cos)]
    return Labelled(*with_lags(y, (48, 336), np.column_stack(clock)), t[336:] % 48 // 2)


def forecasts(name: str, burn_in: int) -> Labelled:
    """Return a series from four forecasts of it, which begin after the burn-in."""
    columns = read_columns(f"intervals/{name}.csv.gz")
    Z = np.column_stack([np.array(columns[base], float) for base in ("ar", "prophet", "theta", "transformer")])
    return Labelled(Z[burn_in:], np.array(columns["y"], float)[burn_in:])


def currency(column: str) -> Labelled:
    """Return daily changes of an exchange rate in percent, from the last ones."""
    rate = np.array(read_columns("forecast/exchange_rate.csv.gz")[column], float)
    changes = 100.0 * np.diff(np.log(rate))
    return Labelled(*with_lags(changes, (1, 2, 3, 5), np.empty((len(changes), 0))))


def with_lags(y: np.ndarray, lags: tuple[int, ...], more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first = max(lags)
    past = [y[first - lag : len(y) - lag] for lag in lags]
    return np.column_stack([*past, more[first:]]), y[first:]


def made(kind: str, seed: int, rows: int = 12_000) -> Labelled:
    """Draw a stream whose spread is known: it follows a column, the hour, itself, the size, time, or nothing."""
    rng = np.random.default_rng([seed, len(kind)])
    Z, noise, t = rng.normal(size=(rows, 5)), rng.normal(size=rows), np.arange(rows)
    mean, sine, cosine = Z[:, 0] - Z[:, 1] + 0.5 * Z[:, 2], np.sin(t * np.pi / 12.0), np.cos(t * np.pi / 12.0)
    by_hour = np.column_stack([Z, sine, cosine])
    if kind == "hour":
        return Labelled(by_hour, mean + 2.0 * sine + noise * np.exp(0.7 * cosine), t % 24)
    if kind == "size":
        return Labelled(by_hour, 10.0 * np.exp(0.5 * Z[:, 0] + 0.8 * sine + 0.3 * noise), t % 24)
    if kind == "counts":
        return Labelled(by_hour, rng.poisson(np.exp(2.0 + sine + 0.3 * Z[:, 0])).astype(float), t % 24)
    if kind == "random walk":
        return Labelled(Z[:, :3].copy(), np.cumsum(noise))
    spread = {
        "column": np.exp(0.6 * Z[:, 3]),
        "column that changes": np.exp(0.6 * np.where(t < rows // 2, Z[:, 3], Z[:, 4])),
        "steps": np.where(t // 1000 % 2, 3.0, 1.0),
    }.get(kind, np.ones(rows))
    if kind == "skewed":
        return Labelled(Z, mean + (rng.gamma(1.5, size=rows) - 1.5) * np.exp(0.5 * Z[:, 4]))
    if kind == "heavy tails":
        noise = rng.standard_t(3, size=rows)
    if kind == "garch":
        variance = 1.0
        for k in range(rows):
            spread[k] = np.sqrt(variance)
            variance = 0.05 + 0.15 * (spread[k] * noise[k]) ** 2 + 0.8 * variance
    return Labelled(Z, mean + spread * noise)


CHANGING: dict[str, Callable[[], Labelled]] = {
    "bike_hourly": lambda: real("bike_hourly"),
    "metro_traffic": lambda: real("metro_traffic"),
    "air_quality_co": lambda: real("air_quality_co"),
    "elec2 price": lambda: market("nswprice"),
    "elec2 demand": lambda: market("nswdemand"),
    "ETTh2 oil": lambda: transformer("OT"),
    "ETTh2 load": lambda: transformer("HUFL"),
    "exchange rate": lambda: currency("0"),
    "vic demand": demand,
    "climate forecasts": lambda: forecasts("daily_climate", 500),
    "demand forecasts": lambda: forecasts("elec2_demand", 300),
    "column": lambda: made("column", 5),
    "column that changes": lambda: made("column that changes", 5),
    "hour": lambda: made("hour", 5),
    "size": lambda: made("size", 5),
    "counts": lambda: made("counts", 5),
    "skewed": lambda: made("skewed", 5),
    "garch": lambda: made("garch", 5),
    "steps": lambda: made("steps", 5),
}
STEADY: dict[str, Callable[[], Labelled]] = {
    "constant": lambda: made("constant", 5),
    "heavy tails": lambda: made("heavy tails", 5),
    "random walk": lambda: made("random walk", 5),
}


def symmetric_quantiles(yhat: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return quantiles at LEVELS of intervals of one width for all rows, as there were before.

    The half-width of a level p is q times the mean |residual| over 200 rounds; a label outside multiplies q by
    exp(.05 p), one inside by exp(-.05 (1 - p)).
    """
    p, q = np.array([0.9, 0.8]), np.array([2.06, 1.6])
    out, unit = np.full((len(y), len(LEVELS)), np.nan), 0.0
    for t in range(1, len(y)):
        residual = abs(y[t] - yhat[t])
        if unit > 0.0:
            half = unit * np.maximum(q, [q[1], 0.0])
            out[t] = yhat[t] + np.array([-half[0], -half[1], 0.0, half[1], half[0]])
            q = q * np.exp(0.05 * (p - (residual <= half)))
        unit += ((min(residual, 10.0 * unit) if unit > 0.0 else residual) - unit) / min(t, 200)
    return out


class Scored(NamedTuple):
    loss: float
    before: float
    covered: float
    below: float
    above: float
    worst: float
    """Least coverage of 90% intervals in WINDOW consecutive rows."""
    worst_before: float
    sizes: tuple[float, float]
    """Least and most coverage of 90% intervals by fifths of the predictions."""
    sizes_before: tuple[float, float]
    hours: tuple[float, float] | None
    """The same by hours of the day."""
    hours_before: tuple[float, float] | None


def groups(inside: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    shares = [inside[group == one].mean() for one in np.unique(group)]
    return min(shares), max(shares)


def worst_window(inside: np.ndarray) -> float:
    return float(np.min(np.convolve(inside, np.ones(WINDOW) / WINDOW, "valid")))


def score(stream: Labelled, speed: str) -> Scored:
    trace = ud.OnlineRegressor(speed=speed).play(stream.Z, stream.y, quantiles=LEVELS)
    now, before = trace.quantiles, symmetric_quantiles(trace.yhat, stream.y)
    there = np.isfinite(now[:, 0]) & np.isfinite(before[:, 0])
    y, yhat, now, before = stream.y[there], trace.yhat[there], now[there], before[there]
    losses = [sum(metrics.pinball(q[:, k], y, level=LEVELS[k]) for k in (1, 2, 3)) / 3.0 for q in (now, before)]
    inside, inside_before = ((q[:, 0] <= y) & (y <= q[:, 4]) for q in (now, before))
    fifth = np.searchsorted(np.quantile(yhat, [0.2, 0.4, 0.6, 0.8]), yhat)
    hour = None if stream.hour is None else stream.hour[there]
    return Scored(
        losses[0],
        losses[1],
        float(inside.mean()),
        float(np.mean(y < now[:, 0])),
        float(np.mean(y > now[:, 4])),
        worst_window(inside),
        worst_window(inside_before),
        groups(inside, fifth),
        groups(inside_before, fifth),
        None if hour is None else groups(inside, hour),
        None if hour is None else groups(inside_before, hour),
    )


def late_coverage(stream: Labelled, delay: int, speed: str) -> float:
    trace = ud.OnlineRegressor(speed=speed).play(stream.Z, stream.y, delay=delay, interval=0.9)
    there = np.isfinite(trace.lower) & (np.arange(len(stream.y)) < len(stream.y) - delay)
    return metrics.coverage(trace.lower[there], trace.upper[there], stream.y[there])


def percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def span(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{percent(ends[0])} to {percent(ends[1])}"


def write_tables(rows: int | None, speed: str) -> list[str]:
    lines = [
        "| stream | rows | pinball loss before | now | change, % | 90% intervals cover, % | missed below, above | "
        "worst 100 rows, before | now | by fifths of predictions, before | now | by hours of the day, before | now |",
        "|---" * 13 + "|",
    ]
    for name, make in (CHANGING | STEADY).items():
        stream = Labelled(*(None if part is None else np.ascontiguousarray(part[:rows]) for part in make()))
        found = score(stream, speed)
        cells = (
            name, f"{len(stream.y):,}", f"{found.before:.4g}", f"{found.loss:.4g}",
            f"{100.0 * (found.loss / found.before - 1.0):+.1f}", percent(found.covered),
            f"{percent(found.below)}, {percent(found.above)}", percent(found.worst_before), percent(found.worst),
            span(found.sizes_before), span(found.sizes),
            span(found.hours_before), span(found.hours),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    lines += ["", f"| 90% intervals cover, %, labels late by | {' | '.join(map(str, DELAYS))} |", "|---" * 7 + "|"]
    for name in LATE:
        stream = Labelled(*(None if part is None else part[:rows] for part in (CHANGING | STEADY)[name]()))
        lines.append(f"| {name} | {' | '.join(percent(late_coverage(stream, k, speed)) for k in DELAYS)} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="at most so many rows of a stream")
    parser.add_argument("--speed", default="best")
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this file")
    given = parser.parse_args()
    lines = write_tables(given.rows, given.speed)
    if given.write:
        text = given.write.read_text()
        head, _, rest = text.partition(BEGIN)
        tail = rest.partition(END)[2]
        given.write.write_text("\n".join([head + BEGIN, *lines, END + tail]))


if __name__ == "__main__":
    main()
