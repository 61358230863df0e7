"""Forecasts with defaults, beside both naive ones: published sets, practical series and synthetic ones.

    python -m benchmarks forecast_series [CELL ...] [--horizon H] [--quick] [--rows N] [--seeds N] [--json FILE]
                                         [--against FILE] [--write docs/forecast.md]

Files are in `forecast` and `series` of the data folder, UNDRIFT_DATA, by default ../shared/data. Every row is played,
and every origin from the first scored one on is scored; a value is known when its row has come, not before.

etth2, ettm1, exchange
    By the published protocol: all channels, z-scores by the training part (ETTh: rows 0 to 2,880; ETTm: 0 to 11,520;
    others 20%), scored origins 3,600 to 14,400 of ETTh, 14,400 to 57,600 of ETTm, the last 75% of others; the mean over
    origins, steps and channels; H = 1, 24 and 48.
taxi, vic_half, vic_hour, m4
    In their own units, with times, scored after two weeks (taxi: after 337 rows, one week). m4 is twenty series, each
    by itself; its scores are means over series, errors in units of the better naive forecast's root mean square.
synthetic
    Five kinds of short series, periods 4, 7, 12 and 24, with and without times, scored after two seasons. A ratio is
    over the better naive forecast of each series.

Two naive forecasts: the last value, and the value a season before ("same as last season"); where a series has a day
and a week, the latter is the better of the two. MASE is in units of the mean absolute difference to the value a season
before, over the whole series (the shortest season), or a row before where there is no season. The interval score is
the width plus 20 times what an interval of 90% is missed by. `--quick` plays less: of published sets only the rows
before the scored ones, so that nothing is chosen on them; otherwise 4,000 rows, 4 of the 20 series, 8 seeds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import undrift as ud
from benchmarks import pages, streams

LEVEL, WINDOW = 0.9, 500
PUBLISHED = {"etth2": "ETTh2", "ettm1": "ETTm1", "exchange": "exchange_rate"}
PRACTICAL = ("taxi", "vic_half", "vic_hour", "m4")
KINDS = ("seasonal", "trending", "intermittent", "gapped", "short")
HORIZONS = {"taxi": (48,), "vic_half": (48,), "vic_hour": (24,), "m4": (48,)}
APART = {4: (3, "M"), 7: (24, "h"), 12: (1, "M"), 24: (1, "h")}
"""How far rows of a synthetic series are apart, by its period: quarters, days, months, hours."""
MARK = "<!-- made by python -m benchmarks forecast_series: {} -->"


class Series(NamedTuple):
    """Rows to forecast."""

    values: np.ndarray
    """(rows, channels), NaN where missing."""
    times: np.ndarray | None
    first: int
    """The first scored origin."""
    seasons: tuple[int, ...]
    """For naive forecasts and MASE only; undrift finds its own."""


def read_csv(folder: str, name: str) -> list[list[str]]:
    """Return the lines of a file of the data folder."""
    path = streams.folder() / folder / f"{name}.csv.gz"
    if not path.exists():
        sys.exit(f"no {path.name} in {path.parent}; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as file:
        return [line.strip().split(",") for line in file if line.strip()]


def read_times(cells: list[str]) -> np.ndarray:
    """Return times of texts with or without a Z."""
    return np.array([cell.removesuffix("Z") for cell in cells], "datetime64[s]")


def load_published(name: str, *, quick: bool = False) -> Series:
    """Return a published set in z-scores of its training part; `quick`: the rows before the scored ones."""
    title = PUBLISHED[name]
    lines = read_csv("series" if name == "ettm1" else "forecast", title)
    timed = lines[0][0] == "date"
    body = [line for line in lines if line[0][0].isdigit()][0 if timed else 1 :]
    times = read_times([line[0] for line in body]) if timed else None
    values = np.array([[float(cell) for cell in line[1 if timed else 0 :]] for line in body])
    a_month = {"etth2": 720, "ettm1": 2880}.get(name)
    if a_month:
        training, first, end = 4 * a_month, 5 * a_month, 20 * a_month
    else:
        training, first, end = len(values) // 5, len(values) // 4, len(values)
    if quick:
        first, end = first // 2, first
    values = (values - values[:training].mean(axis=0)) / values[:training].std(axis=0)
    season = {"etth2": 24, "ettm1": 96, "exchange": 7}[name]
    return Series(values[:end], times[:end] if timed else None, first, (season,))


def load_practical(name: str, *, quick: bool = False, rows: int | None = None) -> dict[str, Series]:
    """Return the series of a practical cell by name; `rows`: the first so many, `quick`: 4,000 of them."""
    if name == "m4":
        by_name: dict[str, list[list[str]]] = {}
        for line in read_csv("series", "m4_hourly_20")[1:]:
            by_name.setdefault(line[0], []).append(line)
        chosen = list(by_name.items())[:: 5 if quick else 1]
        return {key: _practical(lines, 1, 2, (24, 168)) for key, lines in chosen}
    rows = rows or (4000 if quick else None)
    if name == "taxi":
        return {name: _practical(read_csv("series", "nyc_taxi")[1:], 0, 1, (48, 336), 337, rows)}
    half = _practical(read_csv("series", "vic_electricity")[1:], 0, 1, (48, 336))
    if name == "vic_half":
        return {name: half._replace(values=half.values[:rows], times=half.times[:rows])}
    hours = half.values.reshape(-1, 2, 1).mean(axis=1)
    return {name: Series(hours[:rows], half.times[::2][:rows], 336, (24, 168))}


def _practical(
    lines: list[list[str]], when: int, what: int, seasons: tuple[int, ...], first: int = 0, rows: int | None = None
) -> Series:
    values = np.array([float(line[what]) for line in lines])[:rows, None]
    return Series(values, read_times([line[when] for line in lines])[:rows], first or 2 * seasons[-1], seasons)


def make_series(kind: str, period: int, seed: int, *, timed: bool) -> Series:
    """Return a synthetic series, in units of its noise; the same one with and without times."""
    rng = np.random.default_rng([KINDS.index(kind), period, seed])
    least = max(60, 3 * period + 12)
    n = int(rng.integers(least, 101 if kind == "short" else 401))
    t, noise = np.arange(n), rng.normal(size=n)
    season = rng.normal(size=period)[t % period]
    strength, slope, wander = rng.uniform(1.0, 3.0), rng.uniform(0.3, 2.0) / period, rng.uniform(0.0, 0.3)
    sign = rng.choice([-1.0, 1.0])
    level = wander * np.cumsum(rng.normal(size=n))
    if kind == "intermittent":
        chance = np.clip(rng.uniform(0.1, 0.5) * np.exp(0.5 * season), 0.0, 1.0)
        y = (rng.random(n) < chance) * (1.0 + rng.poisson(rng.uniform(0.0, 4.0), n))
    elif kind == "trending" or (kind == "short" and seed % 2):
        y = sign * slope * t + 0.5 * strength * season + level + noise
    else:
        y = strength * season + level + noise
    if kind == "gapped":
        while np.isnan(y).mean() < 0.15:
            begin = int(rng.integers(period, n - 2))
            y[begin : begin + int(rng.integers(2, period + 1))] = np.nan
    times = None
    if timed:
        start = np.datetime64("2020-01", "M") if period in (4, 12) else np.datetime64("2020-01-06T00", "h")
        every = np.timedelta64(*APART[period])
        times = (start + t * every).astype("datetime64[s]")
    return Series(y[:, None], times, 2 * period, (period,))


def last_known(values: np.ndarray, season: int) -> np.ndarray:
    """Return the values, and in place of a missing one the one a season before."""
    filled = values.copy()
    for t in range(season, len(filled)):
        filled[t] = np.where(np.isnan(filled[t]), filled[t - season], filled[t])
    return filled


def naive_forecast(filled: np.ndarray, origins: np.ndarray, step: int, season: int) -> np.ndarray:
    """Return the last values known at the origins with the step's place in the season; season 1: the last values."""
    return filled[np.maximum(origins + step - season * -(-step // season), 0)]


def mase_unit(series: Series) -> np.ndarray:
    """Return by channel the mean absolute difference to the value a season before, or a row before without a season."""
    season = series.seasons[0] if series.seasons else 1
    return np.nanmean(np.abs(series.values[season:] - series.values[:-season]), axis=0)


class Errors(NamedTuple):
    """What forecasts of one series are off by, by channel and step."""

    mse: np.ndarray
    """(channels, steps)."""
    mae: np.ndarray
    naive: np.ndarray
    """Squared errors of the naive forecasts (1 + seasons, channels, steps): last value, then each season's."""
    covered: np.ndarray
    interval: np.ndarray
    """Interval score."""
    unbounded: float
    """Part of the intervals without ends, which the interval score leaves out."""
    worst: float
    """Smallest coverage of WINDOW consecutive rows at the last step; NaN for fewer rows."""


def score(series: Series, yhat: np.ndarray, lower: np.ndarray, upper: np.ndarray, origins: np.ndarray) -> Errors:
    """Return the errors of forecasts (origins, channels, steps) made at these origins."""
    values, steps = series.values, yhat.shape[2]
    periods = (1, *series.seasons)
    filled = [last_known(values, season) for season in periods]
    size = (values.shape[1], steps)
    mse, mae, covered, interval = np.zeros((4, *size))
    naive, open_ends, worst = np.zeros((len(periods), *size)), 0, np.nan
    for step in range(1, steps + 1):
        k = origins + step < len(values)
        at = origins[k]
        y = values[at + step]
        guesses = [naive_forecast(known, at, step, season) for known, season in zip(filled, periods, strict=True)]
        there = ~np.isnan(y) & ~np.isnan(np.array(guesses)).any(axis=0)
        y = np.where(there, y, np.nan)
        p, low, high = (part[k, :, step - 1] for part in (yhat, lower, upper))
        mse[:, step - 1], mae[:, step - 1] = np.nanmean((p - y) ** 2, axis=0), np.nanmean(np.abs(p - y), axis=0)
        naive[:, :, step - 1] = [np.nanmean((guess - y) ** 2, axis=0) for guess in guesses]
        inside = np.where(there, (low <= y) & (y <= high), np.nan)
        covered[:, step - 1] = np.nanmean(inside, axis=0)
        bounded = np.isfinite(low) & np.isfinite(high) & there
        missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        with np.errstate(invalid="ignore"):
            loss = np.where(bounded, high - low + 2.0 / (1.0 - LEVEL) * missed, np.nan)
        interval[:, step - 1] = [np.nanmean(column) if not np.isnan(column).all() else np.nan for column in loss.T]
        open_ends += np.count_nonzero(there & ~bounded)
        if step == steps:
            windows = [rolling_mean(column[~np.isnan(column)]) for column in inside.T]
            worst = min((part.min() for part in windows if len(part)), default=np.nan)
    return Errors(mse, mae, naive, covered, interval, open_ends / (len(origins) * mse.size), float(worst))


def rolling_mean(values: np.ndarray) -> np.ndarray:
    """Return the means of WINDOW consecutive values; none where there are fewer."""
    if len(values) < WINDOW:
        return np.empty(0)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW


def play(series: Series, horizon: int) -> tuple[Errors, float, tuple[int, ...]]:
    """Return the errors of our forecasts, CPU seconds and the seasons found."""
    origins = np.arange(series.first, len(series.values) - horizon)
    begin = time.process_time()
    model = ud.Forecaster(horizon)
    trace = model.play(series.values, times=series.times)
    seconds = time.process_time() - begin
    return score(series, *(part[origins] for part in trace[:3]), origins), seconds, model.seasons


def summarise(all_errors: list[Errors], units: list[np.ndarray]) -> dict[str, Any]:
    """Return the scores of one series, or the mean scores of several, each in units of its better naive forecast."""
    columns, mase, ratios = [], [], []
    for errors, unit in zip(all_errors, units, strict=True):
        seasonal = errors.naive[1:].mean(axis=(1, 2)).argmin() + 1 if len(errors.naive) > 1 else 0
        ours, last, season = (part.mean(axis=0) for part in (errors.mse, errors.naive[0], errors.naive[seasonal]))
        better = min(last.mean(), season.mean())
        by = better if len(all_errors) > 1 else 1.0
        rest = errors.mae / np.sqrt(by), errors.interval / np.sqrt(by), errors.covered
        columns.append([ours / by, last / by, season / by, *(part.mean(axis=0) for part in rest)])
        mase.append(np.mean(errors.mae.mean(axis=1) / unit))
        ratios.append(ours.mean() / better)
    ours, last, season, mae, interval, covered = np.mean(columns, axis=0)
    windows = [errors.worst for errors in all_errors if not np.isnan(errors.worst)]
    numbers = {
        "mse": ours.mean(),
        "last": last.mean(),
        "season": season.mean(),
        "ratio": ours.mean() / min(last.mean(), season.mean()),
        "geometric": np.exp(np.log(ratios).mean()),
        "losses": np.mean(np.array(ratios) > 1.0),
        "worst_step": np.max(ours / np.minimum(last, season)),
        "mae": mae.mean(),
        "mase": np.mean(mase),
        "covered": covered.mean(),
        "covered_min": covered.min(),
        "covered_max": covered.max(),
        "worst_window": min(windows, default=np.nan),
        "interval": np.nanmean(interval),
        "unbounded": np.mean([errors.unbounded for errors in all_errors]),
    }
    return {name: float(value) for name, value in numbers.items()}


HEADER = (
    "| series | H | MSE | same as last time | same as last season | over the better one | worst step | MAE | MASE "
    "| covered by step, of 90% | worst 500 rows | interval score | CPU seconds |"
)


def series_line(name: str, horizon: int, cell: dict[str, Any]) -> str:
    """Return one line of a table of series."""
    worst = "" if np.isnan(cell["worst_window"]) else f"{cell['worst_window']:.1%}"
    return (
        f"| {name} | {horizon} | {cell['mse']:.4g} | {cell['last']:.4g} | {cell['season']:.4g} | {cell['ratio']:.4f} "
        f"| {cell['worst_step']:.4f} | {cell['mae']:.4g} | {cell['mase']:.4f} "
        f"| {cell['covered_min']:.1%} to {cell['covered_max']:.1%} | {worst} | {cell['interval']:.4g} "
        f"| {cell['seconds']:.0f} |"
    )


def run_series(name: str, horizon: int, *, quick: bool, rows: int | None) -> dict[str, Any]:
    """Return the scores of a cell of published or practical series."""
    if name in PUBLISHED:
        found = {PUBLISHED[name]: load_published(name, quick=quick)}
    else:
        found = load_practical(name, quick=quick, rows=rows)
    played = [play(series, horizon) for series in found.values()]
    cell = summarise([part[0] for part in played], [mase_unit(one) for one in found.values()])
    cell["seconds"] = sum(part[1] for part in played)
    cell["seasons"] = sorted({part[2] for part in played})
    return cell


def run_synthetic(seeds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the scores of each kind of synthetic series."""
    for kind in KINDS:
        parts, seconds = {}, 0.0
        for period, horizon in ((4, 4), (7, 7), (12, 12), (24, 24)):
            for timed in (False, True):
                all_errors = []
                for seed in range(seeds):
                    errors, spent, _ = play(make_series(kind, period, seed, timed=timed), horizon)
                    all_errors.append(errors)
                    seconds += spent
                parts[f"{period} {'with' if timed else 'without'} times"] = all_errors
        ours = {key: np.array([one.mse.mean() for one in part]) for key, part in parts.items()}
        better = {key: np.array([one.naive.mean(axis=(1, 2)).min() for one in part]) for key, part in parts.items()}
        every, best = np.concatenate(list(ours.values())), np.concatenate(list(better.values()))
        covered = {key: float(np.mean([one.covered.mean() for one in part])) for key, part in parts.items()}
        flat = [one for part in parts.values() for one in part]
        last, season = np.mean([one.naive.mean(axis=(1, 2)) for one in flat], axis=0)
        by_part = {key: float(ours[key].mean() / better[key].mean()) for key in parts}
        yield (
            kind,
            {
                "mse": float(every.mean()),
                "last": float(last),
                "season": float(season),
                "ratio": float(every.mean() / best.mean()),
                "geometric": float(np.exp(np.log(every / best).mean())),
                "worst_part": max(by_part, key=by_part.__getitem__),
                "ratio_by_part": by_part,
                "covered": float(np.mean(list(covered.values()))),
                "covered_by_part": covered,
                "interval": float(
                    np.nanmean([np.nanmean(one.interval) for one in flat if not np.isnan(one.interval).all()])
                ),
                "unbounded": float(np.mean([one.unbounded for one in flat])),
                "seconds": seconds,
            },
        )


SYNTHETIC_HEADER = (
    "| kind | MSE | same as last time | same as last season | over the better one, of means | geometric mean "
    "| worst of eight | covered, of 90% | of these eight | interval score | CPU seconds |"
)


def synthetic_line(kind: str, cell: dict[str, Any]) -> str:
    """Return one line of the table of synthetic series."""
    ratios, covered = cell["ratio_by_part"], cell["covered_by_part"].values()
    return (
        f"| {kind} | {cell['mse']:.4g} | {cell['last']:.4g} | {cell['season']:.4g} | {cell['ratio']:.4f} "
        f"| {cell['geometric']:.4f} | {ratios[cell['worst_part']]:.4f} ({cell['worst_part']}) | {cell['covered']:.1%} "
        f"| {min(covered):.1%} to {max(covered):.1%} | {cell['interval']:.4g} | {cell['seconds']:.0f} |"
    )


class Table:
    """Lines that are printed as they come, with those of an earlier run beneath for comparison."""

    def __init__(self, header: str, before: dict[str, Any]) -> None:
        self.lines = [header, "|---" * (header.count("|") - 1) + "|"]
        self.before = before
        print("\n".join(["", *self.lines]), flush=True)

    def add(self, key: str, line: str, cell: dict[str, Any]) -> None:
        """Print a line, and what changed since the earlier run."""
        self.lines.append(line)
        print(line, flush=True)
        if key in self.before:
            old = self.before[key]
            names = (
                "mse",
                "ratio",
                "geometric",
                "worst_step",
                "mase",
                "covered",
                "worst_window",
                "interval",
                "seconds",
            )
            both = [f"{name} {old[name]:.4g} -> {cell[name]:.4g}" for name in names if name in old and name in cell]
            print("    " + ", ".join(both), flush=True)


def main() -> None:
    """Print the tables, and put them into a page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", nargs="*", choices=[*PUBLISHED, *PRACTICAL, "synthetic", []], help="some of the cells")
    parser.add_argument("--horizon", type=int, action="append", help="other horizons than the published ones")
    parser.add_argument("--quick", action="store_true", help="less data: below a minute a cell")
    parser.add_argument("--rows", type=int, help="only so many rows of taxi and vic")
    parser.add_argument("--seeds", type=int, help="synthetic series of each kind and period; 50, quick 8")
    parser.add_argument("--json", type=Path, help="write the scores to this file")
    parser.add_argument("--against", type=Path, help="print the change since the scores of this file")
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this file")
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    cells: dict[str, Any] = {}
    chosen = options.cell or [*PUBLISHED, *PRACTICAL, "synthetic"]
    tables = {}
    for title, group in (("published", list(PUBLISHED)), ("practical", list(PRACTICAL))):
        names = [name for name in group if name in chosen]
        if not names:
            continue
        tables[title] = Table(HEADER, before)
        for name in names:
            for horizon in options.horizon or HORIZONS.get(name, (1, 24, 48)):
                key = f"{name} {horizon}{' quick' if options.quick else ''}{f' {options.rows}' if options.rows else ''}"
                cells[key] = run_series(name, horizon, quick=options.quick, rows=options.rows)
                tables[title].add(key, series_line(PUBLISHED.get(name, name), horizon, cells[key]), cells[key])
    if "synthetic" in chosen:
        tables["synthetic"] = Table(SYNTHETIC_HEADER, before)
        seeds = options.seeds or (8 if options.quick else 50)
        for kind, cell in run_synthetic(seeds):
            cells[f"{kind} {seeds}"] = cell
            tables["synthetic"].add(f"{kind} {seeds}", synthetic_line(kind, cell), cell)
    if options.json:
        options.json.write_text(json.dumps(cells, indent=1))
    if options.write:
        for title, table in tables.items():
            pages.put(options.write, MARK.format(title), "\n".join(["", *table.lines, ""]))


if __name__ == "__main__":
    main()
