"""Never clearly worse than the obvious: the defaults beside the last value, the running rate, the mean of forecasts.

    python -m benchmarks obvious [SECTION ...] [--seeds 6] [--seed0 0] [--speeds best fast] [--json FILE]

Sections, all of them by default:

    rare       an effect in .5 to 12% of the rows, and the right answer as a candidate
    setpoints  levels that jump and stay, beside the last value
    shocks     spikes, bursts, sentinels, new levels and scales: the errors afterwards, with labels 0, 24, 168 rows late
    affine     labels shifted and scaled
    delay      a random walk whose labels come late: the mixture over its best candidate, coverage
    late       a rare class whose labels come late, beside the running rate with the same delay
    tables     four tables of the data folder, beside the last value and LightGBM where it is installed
    streams    six streams of the data folder
    mix        eight published price forecasts as candidates, beside their plain mean
    intervals  coverage: overall, in the worst 100 rows, by hour of day; interval scores
    cost       measured excess over each candidate against `cost()`

Synthetic data are drawn from seeds `seed0` to `seed0 + seeds - 1`. Only the public interface is used, so that another
version can be measured by running this file with its interpreter. Data: UNDRIFT_DATA, as for the other benchmarks.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

import undrift as ud
from benchmarks import streams
from undrift.baselines import Baselines
from undrift.losses import logistic

RARE = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12)
"""Shares of the rows in which the effect is present."""
RARE_ROWS = 5000
HOLDS = (20, 50, 100, 200, 1000)
"""Rows for which a level stays."""
NOISES = (0.01, 0.1)
"""Noise of set points over the spread of their levels."""
SHOCK_AT, SHOCK_ROWS = 4000, 6800
WINDOWS = {500: 200, 2000: 400}
"""Rows after a shock at which errors are measured, and over how many rows."""
DELAYS = (0, 24, 168)
SENTINEL = -9999.0
SENTINEL_SHARE = 0.005
LATE_RATES, LATE_DELAYS, LATE_ROWS = (0.005, 0.01, 0.02, 0.05), (0, 100, 500, 1000), 8000
SURE = 13.8155
"""Log-odds of one in a million, at which predictions of classes are cut, as in quality.py."""
FORECASTS = ("DNN 1", "DNN 2", "DNN 3", "DNN 4", "LEAR 56", "LEAR 84", "LEAR 1092", "LEAR 1456")
BURN_IN = {"daily_climate": 500, "elec2_demand": 300}
"""Rows before the base forecasts begin."""
BASES = ("ar", "prophet", "theta", "transformer")
LEVEL = 0.9
WORST = 100
"""Consecutive rows among which the worst coverage is sought."""
VIC_WARM = 2000
"""Half-hours that do not count for the coverage by hour of day."""

Row = dict[str, object]


class Options(NamedTuple):
    """What every section is told."""

    seeds: range
    speeds: list[str]


def regressor(speed: str, **more: object) -> ud.OnlineRegressor:
    return ud.OnlineRegressor(speed=speed, **more)


def r2(yhat: np.ndarray, y: np.ndarray) -> float:
    return float(1.0 - np.sum((yhat - y) ** 2) / np.sum((y - y.mean()) ** 2))


def last_value(y: np.ndarray) -> np.ndarray:
    """The label before each row, 0 before the first."""
    return np.concatenate([[0.0], y[:-1]])


def half_squares(yhat: np.ndarray, y: np.ndarray) -> float:
    """The loss that `losses` and `cost()` are counted in."""
    return float(0.5 * np.sum((yhat - y) ** 2))


# Rare effects


def rare_stream(share: float, seed: int, rows: int = RARE_ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, and the right answer for each row: y = 100 + 200 x + noise, x = 1 in a share of the rows."""
    rng = np.random.default_rng([1, seed])
    x = (rng.random(rows) < share).astype(float)
    Z = np.column_stack([x, rng.normal(size=(rows, 3)), rng.random(rows)])
    right = 100.0 + 200.0 * x
    return Z, right + rng.normal(size=rows), right


def rare(options: Options) -> Iterator[Row]:
    half = RARE_ROWS // 2
    for speed in options.speeds:
        for share in RARE:
            scores, known, own, theirs, promised = [], [], [], [], []
            for seed in options.seeds:
                Z, y, right = rare_stream(share, seed)
                scores.append(r2(regressor(speed).play(Z, y).yhat[half:], y[half:]))
                model = regressor(speed, candidates=[Z.shape[1]])
                trace = model.play(np.column_stack([Z, right]), y)
                at = model.candidates.index(f"column {Z.shape[1]}")
                known.append(r2(trace.yhat[half:], y[half:]))
                own.append(half_squares(trace.yhat[trace.known], y[trace.known]))
                theirs.append(model.losses[at])
                promised.append(model.cost()[at])
            yield {
                "speed": speed, "share": share, "R2 mean": np.mean(scores), "R2 worst": np.min(scores),
                "known answer: R2 worst": np.min(known), "its loss": np.mean(theirs), "our loss": np.mean(own),
                "cost": np.mean(promised), "cost / its loss, worst": np.max(np.divide(promised, theirs)),
                "excess / its loss, worst": np.max(np.divide(own, theirs)) - 1.0,
            }  # fmt: skip


# Set points


def setpoint_stream(hold: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([2, seed])
    rows = max(5000, 20 * hold)
    levels = 100.0 * rng.normal(size=rows // hold + 2)
    y = np.repeat(levels, hold)[int(rng.integers(hold)) :][:rows] + 100.0 * noise * rng.normal(size=rows)
    return rng.normal(size=(rows, 3)), y


def setpoints(options: Options) -> Iterator[Row]:
    for speed in options.speeds:
        for noise in NOISES:
            for hold in HOLDS:
                ratios = []
                for seed in options.seeds:
                    Z, y = setpoint_stream(hold, noise, seed)
                    own = (regressor(speed).play(Z, y).yhat - y)[1:]
                    ratios.append(np.mean(own**2) / np.mean(np.diff(y) ** 2))
                yield {
                    "speed": speed, "noise": noise, "hold": hold,
                    "MSE / last value, mean": np.mean(ratios), "worst": np.max(ratios),
                }  # fmt: skip


# Shocks


def steady(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A linear relation that stays, as in tests/online/test_labels.py."""
    rng = np.random.default_rng([3, seed])
    Z = rng.normal(size=(SHOCK_ROWS, 3))
    return Z, Z @ [2.0, -1.0, 0.5] + 0.1 * rng.normal(size=SHOCK_ROWS)


def drifting(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients that wander, and a level that returns to 0 slowly."""
    rng = np.random.default_rng([4, seed])
    Z = rng.normal(size=(SHOCK_ROWS, 4))
    coefficients = np.array([1.0, 2.0, 0.0, -1.0]) + 0.01 * np.cumsum(rng.normal(size=(SHOCK_ROWS, 4)), axis=0)
    level, steps = np.zeros(SHOCK_ROWS), rng.normal(size=SHOCK_ROWS)
    for t in range(1, SHOCK_ROWS):
        level[t] = 0.99 * level[t - 1] + 0.3 * steps[t]
    return Z, np.sum(Z * coefficients, axis=1) + level + rng.normal(size=SHOCK_ROWS)


SHOCK_STREAMS = {"steady": steady, "drifting": drifting}


def shock_kinds(y: np.ndarray, seed: int) -> Iterator[tuple[str, np.ndarray, int, float]]:
    """Yield name, labels, the row from which on errors may be normal again, and the scale of the labels then."""
    rng = np.random.default_rng([5, seed])
    size, at = float(np.std(y)), SHOCK_AT
    after = np.arange(len(y)) >= at

    def put(begin: int, values: object) -> np.ndarray:
        out, values = y.copy(), np.atleast_1d(values)
        out[begin : begin + len(values)] = values
        return out

    for deviations in (1e3, -1e3, 1e6, -1e6):
        yield f"one label {deviations:+.0e}", put(at, deviations * size), at + 1, 1.0
    for deviations in (1e6, -1e6):
        yield f"ten labels {deviations:+.0e}", put(at, np.full(10, deviations * size)), at + 10, 1.0
    yield "burst of 20, up and down", put(at, 1e4 * size * rng.choice([-1.0, 1.0], size=20)), at + 20, 1.0
    yield "one sentinel -9999", put(at, SENTINEL), at + 1, 1.0
    yield "1000 times for 20 rows", put(at, 1000.0 * y[at : at + 20]), at + 20, 1.0
    yield "a new level", np.where(after, y + 1e4 * size, y), at, 1.0
    yield "1000 times larger", np.where(after, 1000.0 * y, y), at, 1000.0
    yield "1000 times smaller", np.where(after, 1e-3 * y, y), at, 1e-3
    yield "signs flipped", np.where(after, -y, y), at, 1.0
    yield "a bad first label", put(0, 1e4 * size), 1, 1.0
    yield "ten labels -1e+04", put(at, np.full(10, -1e4 * size)), at + 10, 1.0


def shocks(options: Options) -> Iterator[Row]:
    """Errors some rows after a shock became known, over those of the same rows without it."""
    for speed in options.speeds:
        for delay in DELAYS:
            found: dict[str, dict[int, list[float]]] = {}
            sentinels, worst_excess = [], -np.inf
            for stream in SHOCK_STREAMS.values():
                for seed in options.seeds:
                    Z, calm = stream(seed)
                    normal = np.abs(regressor(speed).play(Z, calm, delay=delay).yhat - calm)
                    for kind, y, at, scale in shock_kinds(calm, seed):
                        model = regressor(speed)
                        trace = model.play(Z, y, delay=delay)
                        error = np.abs(trace.yhat - y) / scale
                        for after, length in WINDOWS.items():
                            rows = slice(at + delay + after, at + delay + after + length)
                            ratio = error[rows].mean() / normal[rows].mean()
                            found.setdefault(kind, {}).setdefault(after, []).append(ratio)
                        settled = trace.known & (np.arange(len(y)) < len(y) - delay)
                        own = half_squares(trace.yhat[settled], y[settled])
                        worst_excess = max(worst_excess, float(np.max(own - model.losses - model.cost()) / own))
                    bad = np.random.default_rng([6, seed]).random(len(calm)) < SENTINEL_SHARE
                    bad[:500] = False
                    y = np.where(bad, SENTINEL, calm)
                    error = np.abs(regressor(speed).play(Z, y, delay=delay).yhat - y)
                    good = ~bad & (np.arange(len(y)) >= 1000)
                    sentinels.append(error[good].mean() / normal[good].mean())
            rows = {kind: {f"after {n}": max(ratios) for n, ratios in by.items()} for kind, by in found.items()}
            for kind, worst in rows.items():
                yield {"speed": speed, "delay": delay, "kind": kind, **worst}
            yield {
                "speed": speed, "delay": delay, "kind": "WORST OF ALL",
                **{f"after {n}": max(worst[f"after {n}"] for worst in rows.values()) for n in WINDOWS},
            }  # fmt: skip
            yield {
                "speed": speed, "delay": delay, "kind": ".5% sentinels, other rows", "after 500": np.max(sentinels),
                "after 2000": np.mean(sentinels),
            }  # fmt: skip
            yield {"speed": speed, "delay": delay, "kind": "excess - cost, of loss", "after 500": worst_excess}


# Shifted and scaled labels


def affine(options: Options) -> Iterator[Row]:
    """Bars: deviation at most 1 (in units of 1e-9 s + 1e3 eps |a|), powers of two to the bit, errors within 5%."""
    for speed in options.speeds:
        deviations, errors, exact = [], [], True
        for seed in options.seeds:
            Z, y = steady(seed)
            Z, y = Z[:3000], y[:3000]
            plain = regressor(speed).play(Z, y).yhat
            for a, s in ((1e3, 1.0), (-1e6, 1.0), (5e5, 2.0), (7.0, -3.0), (1e6, 1e3)):
                moved = regressor(speed).play(Z, a + s * y).yhat
                allowed = 1e-9 * abs(s) + 1e3 * np.finfo(float).eps * abs(a)
                deviations.append(np.max(np.abs(moved - (a + s * plain))[1:]) / allowed)
            exact &= all((regressor(speed).play(Z, s * y).yhat == s * plain).all() for s in (0.5, 2.0**20))
            normal = np.abs(plain - y)[200:].mean()
            shifted = [np.abs(regressor(speed).play(Z, c + y).yhat - (c + y)) for c in (1e3, 1e6, -1e9)]
            errors += [error[200:].mean() / normal for error in shifted]
        yield {
            "speed": speed, "largest deviation / allowed": np.max(deviations), "powers of two exact": bool(exact),
            "error with a constant / without, largest": np.max(errors),
        }  # fmt: skip


# A random walk with late labels


def delay(options: Options) -> Iterator[Row]:
    """Bars: coverage .9 +- .015 at every delay; mixture at most 1.12 of the best candidate at 100 (fast)."""
    rows = 8000
    for speed in options.speeds:
        for late in (0, 1, 5, 24, 100, 168):
            covered, own, best = [], [], []
            for seed in options.seeds:
                rng = np.random.default_rng([7, seed])
                Z, y = rng.normal(size=(rows, 2)), np.cumsum(rng.normal(size=rows))
                model = regressor(speed)
                trace = model.play(Z, y, delay=late, interval=LEVEL)
                settled = trace.known & (np.arange(rows) < rows - late)
                judged = settled & np.isfinite(trace.lower)
                covered.append(np.mean(((trace.lower <= y) & (y <= trace.upper))[judged]))
                own.append(half_squares(trace.yhat[settled], y[settled]))
                best.append(np.min(model.losses))
            yield {
                "speed": speed, "delay": late, "loss / best candidate's": np.sum(own) / np.sum(best),
                "coverage, lowest": np.min(covered), "highest": np.max(covered),
            }  # fmt: skip


# Rare classes whose labels come late


def late_stream(rate: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([8, seed])
    return rng.normal(size=(LATE_ROWS, 4)), (rng.random(LATE_ROWS) < rate).astype(float)


def log_loss(odds: np.ndarray, y: np.ndarray) -> np.ndarray:
    return logistic.value(np.clip(odds, -SURE, SURE), np.where(y > 0.0, 1.0, -1.0))


def late(options: Options) -> Iterator[Row]:
    for speed in options.speeds:
        for rate in LATE_RATES:
            for delay in LATE_DELAYS:
                own, theirs, ratios = [], [], []
                for seed in options.seeds:
                    Z, y = late_stream(rate, seed)
                    odds = ud.OnlineClassifier(speed=speed).play(Z, y, delay=delay).yhat
                    running = Baselines(binary=True, delay=delay).play(y)[:, 1]
                    judged = slice(delay + 1, None)
                    own.append(log_loss(odds, y)[judged].mean())
                    theirs.append(log_loss(running, y)[judged].mean())
                    ratios.append(own[-1] / theirs[-1])
                yield {
                    "speed": speed, "rate": rate, "delay": delay, "log-loss": np.mean(own),
                    "running rate": np.mean(theirs), "ratio": np.mean(own) / np.mean(theirs), "worst": np.max(ratios),
                }  # fmt: skip


# Tables and streams


def read_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(streams.folder() / "tables" / f"{name}.csv.gz", "rt") as file:
        lines = list(csv.reader(file))[1:]
    values = np.array([[float(cell) if cell else np.nan for cell in line[1:]] for line in lines])
    return np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])


def table_names() -> list[str]:
    return sorted(file.name.removesuffix(".csv.gz") for file in (streams.folder() / "tables").glob("*.csv.gz"))


def boosted(Z: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """LightGBM fitted again every 250 and 1,000 rows, with the last label; nothing where it is not installed."""
    try:
        import lightgbm  # noqa: F401

        from undrift.run.finish.peers import SCHEDULES, forest_makers, play_retrained
    except ImportError:
        print("(LightGBM is not installed here: left out)", file=sys.stderr)
        return {}
    make = next(make for library, _, make in forest_makers("regression", 0) if library == "lightgbm")
    return {f"LightGBM every {n}": play_retrained(make, n, "regression", Z, y) for n in SCHEDULES}


def tables(options: Options) -> Iterator[Row]:
    for name in table_names():
        Z, y = read_table(name)
        half = len(y) // 2
        found = {"last value": last_value(y)} | boosted(Z, y)
        for speed in options.speeds:
            begin = time.process_time()
            found[f"undrift {speed}"] = regressor(speed).play(Z, y).yhat
            spent = 1e6 * (time.process_time() - begin) / len(y)
            print(f"({name}, {speed}: {spent:.0f} us a row)", file=sys.stderr)
        for contender, yhat in found.items():
            yield {
                "table": name, "contender": contender, "R2 second half": r2(yhat[half:], y[half:]),
                "R2 all rows": r2(yhat[1:], y[1:]), "MAE second half": np.abs(yhat - y)[half:].mean(),
            }  # fmt: skip


def play_stream(name: str, speed: str) -> tuple[object, object, np.ndarray, bool]:
    given = streams.raw(name)
    Z, y = np.ascontiguousarray(given.Z), np.ascontiguousarray(given.y)
    model = (ud.OnlineClassifier if given.binary else ud.OnlineRegressor)(speed=speed)
    return model, model.play(Z, y), y, given.binary


def stream_rows(options: Options) -> Iterator[Row]:
    """The figures of docs/benchmarks.md: R2 and MAE, or log-loss and accuracy."""
    for name in sorted(streams.names(), key=lambda one: (one in streams.BINARY, one)):
        for speed in options.speeds:
            model, trace, y, binary = play_stream(name, speed)
            half, yhat = len(y) // 2, trace.yhat
            if binary:
                losses, right = log_loss(yhat, y), (yhat > 0.0) == (y > 0.0)
                figures = {"all rows": losses.mean(), "second half": losses[half:].mean()}
                figures["MAE or accuracy"] = right.mean()
            else:
                figures = {"all rows": r2(yhat, y), "second half": r2(yhat[half:], y[half:])}
                figures["MAE or accuracy"] = np.abs(yhat - y).mean()
                figures["coverage"] = next(one.measured for one in model.coverage() if one.level == LEVEL)
            yield {"stream": name, "speed": speed, "figure": "log-loss" if binary else "R2", **figures}


# Given forecasts


def read_columns(path: Path) -> dict[str, list[str]]:
    with gzip.open(path, "rt") as file:
        head, *lines = csv.reader(file)
    return dict(zip(head, map(list, zip(*lines, strict=True)), strict=True))


def read_prices(market: str) -> tuple[np.ndarray, np.ndarray]:
    """The eight forecasts (n, 8) and the prices."""
    columns = read_columns(streams.folder() / "mix" / f"{market}.csv.gz")
    given = np.column_stack([np.array(columns[name], float) for name in FORECASTS])
    return given, np.array(columns["Real price"], float)


def price_rows(given: np.ndarray) -> np.ndarray:
    """The candidates and one feature that says nothing new, the hour: an estimator needs a feature."""
    hour = np.arange(len(given)) % 24
    return np.column_stack([given, np.sin(2.0 * np.pi * hour / 24.0), np.cos(2.0 * np.pi * hour / 24.0)])


def play_days(model: ud.OnlineRegressor, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Serve the 24 rows of a day, then learn all of their labels: the exact protocol."""
    yhat = np.empty(len(y))
    for day in range(0, len(y), 24):
        served = [model.ask(z) for z in Z[day : day + 24]]
        for h, (one, label) in enumerate(zip(served, y[day : day + 24].tolist(), strict=True)):
            yhat[day + h] = one.yhat
            model.tell(one, label)
    return yhat


def play_array(model: ud.OnlineRegressor, Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same by `delay` as an array: how many further rows are served before each label is known."""
    return model.play(Z, y, delay=23 - np.arange(len(y)) % 24).yhat


def market_names() -> list[str]:
    return sorted(file.name.removesuffix(".csv.gz") for file in (streams.folder() / "mix").glob("epf_*.csv.gz"))


def mix(options: Options) -> Iterator[Row]:
    """The first day, before which nothing is known, does not count; nor for the mean."""
    ways: dict[str, Callable[[ud.OnlineRegressor, np.ndarray, np.ndarray], np.ndarray]] = {
        "days by ask and tell": play_days,
        "days by an array of delays": play_array,
        "every label 23 rows late": lambda model, Z, y: model.play(Z, y, delay=23).yhat,
    }
    for market in market_names():
        given, y = read_prices(market)
        Z, error = price_rows(given), given.mean(axis=1) - y
        mean = np.abs(error)[24:].mean(), np.sqrt(np.mean(error[24:] ** 2))
        for speed in options.speeds:
            for way, play in ways.items():
                try:
                    error = play(regressor(speed, candidates=list(range(len(FORECASTS)))), Z, y) - y
                except (ud.errors.InputError, TypeError, ValueError):
                    continue  # this version takes no array
                own = np.abs(error)[24:].mean(), np.sqrt(np.mean(error[24:] ** 2))
                yield {
                    "market": market, "speed": speed, "labels": way, "MAE": own[0], "MAE / mean's": own[0] / mean[0],
                    "RMSE": own[1], "RMSE / mean's": own[1] / mean[1],
                }  # fmt: skip


# Intervals


def worst_window(inside: np.ndarray, rows: int = WORST) -> float:
    """The lowest share of `inside` in so many consecutive rows."""
    total = np.concatenate([[0.0], np.cumsum(inside)])
    return float(np.min(total[rows:] - total[:-rows]) / rows)


def interval_score(lower: np.ndarray, upper: np.ndarray, y: np.ndarray) -> float:
    """Width, and 2 / (1 - level) times what is missed."""
    missed = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return float(np.mean(upper - lower + 2.0 / (1.0 - LEVEL) * missed))


def around(base: np.ndarray, burn_in: int, use: str) -> tuple[np.ndarray, dict[str, object]]:
    """Rows that hold a base forecast as it is in the file, 0 before the burn-in; as a candidate it is missing there."""
    if use == "feature":
        return base[:, None], {}
    return np.column_stack([np.where(np.arange(len(base)) < burn_in, np.nan, base), base]), {"candidates": [0]}


def intervals(options: Options) -> Iterator[Row]:
    for name, burn_in in BURN_IN.items():
        columns = read_columns(streams.folder() / "intervals" / f"{name}.csv.gz")
        y = np.array(columns["y"], float)
        for speed in options.speeds:
            for base in BASES:
                for use in ("feature", "candidate too"):
                    Z, more = around(np.array(columns[base], float), burn_in, use)
                    trace = regressor(speed, **more).play(Z, y, interval=LEVEL)
                    lower, upper, label = trace.lower[burn_in:], trace.upper[burn_in:], y[burn_in:]
                    inside = (lower <= label) & (label <= upper)
                    yield {
                        "data": name, "speed": speed, "base": base, "used as": use, "coverage": inside.mean(),
                        "score": interval_score(lower, upper, label), "worst 100 rows": worst_window(inside),
                    }  # fmt: skip
    for speed in options.speeds:
        for labels in (0, 48):
            yield vic_electricity(speed, labels)


def vic_electricity(speed: str, delay: int) -> Row:
    """Half-hourly demand by hour and weekday, temperature, holiday, and demand of a day and a week before."""
    columns = read_columns(streams.folder() / "series" / "vic_electricity.csv.gz")
    zone = ZoneInfo("Australia/Melbourne")
    times = [datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(zone) for text in columns["Time"]]
    hour = np.array([one.hour + one.minute / 60.0 for one in times])
    weekday = np.array([one.weekday() for one in times])
    y = np.array(columns["Demand"], float)
    lags = [np.concatenate([np.full(lag, np.nan), y[:-lag]]) for lag in (48 + delay, 336)]
    Z = np.column_stack(
        [
            *[wave(2.0 * np.pi * k * hour / 24.0) for k in (1, 2, 3) for wave in (np.sin, np.cos)],
            *[weekday == day for day in range(6)],
            np.array(columns["Temperature"], float),
            np.array(columns["Holiday"]) == "TRUE",
            *lags,
        ]
    ).astype(float)
    trace = regressor(speed).play(Z, y, delay=delay, interval=LEVEL)
    inside = (trace.lower <= y) & (y <= trace.upper)
    part = slice(VIC_WARM, None)
    by_hour = [inside[part][hour[part] // 1.0 == h].mean() for h in range(24)]
    by_half_hour = [inside[part][hour[part] == h].mean() for h in np.arange(0.0, 24.0, 0.5)]
    return {
        "data": "vic_electricity", "speed": speed, "base": f"{delay} rows late", "coverage": inside[part].mean(),
        "score": interval_score(trace.lower[part], trace.upper[part], y[part]),
        "worst 100 rows": worst_window(inside[part]), "lowest hour": np.min(by_hour), "highest hour": np.max(by_hour),
        "lowest half-hour": np.min(by_half_hour), "highest half-hour": np.max(by_half_hour),
    }  # fmt: skip


# What `cost()` promises


def judged(model: object, own: float) -> Row:
    """The best candidate, what is promised against it, and the largest excess beyond the promise."""
    best = int(np.argmin(model.losses))
    return {
        "our loss": own, "best candidate": model.candidates[best], "its loss": model.losses[best],
        "excess / its loss": own / model.losses[best] - 1.0, "cost / its loss": model.cost()[best] / model.losses[best],
        "largest excess - cost": np.max(own - model.losses - model.cost()),
    }  # fmt: skip


def cost(options: Options) -> Iterator[Row]:
    for speed in options.speeds:
        for name in streams.names():
            model, trace, y, binary = play_stream(name, speed)
            own = trace.yhat[trace.known], y[trace.known]
            signs = np.where(own[1] > 0.0, 1.0, -1.0)
            total = float(np.sum(logistic.value(own[0], signs))) if binary else half_squares(*own)
            yield {"data": name, "speed": speed, **judged(model, total)}
        for name in table_names():
            Z, y = read_table(name)
            model = regressor(speed)
            trace = model.play(Z, y)
            yield {"data": name, "speed": speed, **judged(model, half_squares(trace.yhat[trace.known], y[trace.known]))}
        for name in market_names():
            given, y = read_prices(name)
            model = regressor(speed, candidates=list(range(len(FORECASTS))))
            yhat = play_days(model, price_rows(given), y)
            # Nothing was known on the first day, whose rows no candidate is judged by.
            yield {"data": name, "speed": speed, **judged(model, half_squares(yhat[24:], y[24:]))}


SECTIONS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "rare": rare, "setpoints": setpoints, "shocks": shocks, "affine": affine, "delay": delay, "late": late,
    "tables": tables, "streams": stream_rows, "mix": mix, "intervals": intervals, "cost": cost,
}  # fmt: skip
NEEDS_DATA = ("tables", "streams", "mix", "intervals", "cost")


def shown(value: object) -> str:
    if not isinstance(value, (float, np.floating)):
        return str(value)
    return f"{value:.4g}" if value != 0.0 and not 1e-3 <= abs(value) < 1e4 else f"{value:.4f}"


def write_table(rows: Sequence[Row]) -> None:
    heads = list(dict.fromkeys(head for row in rows for head in row))
    cells = [heads, *([shown(row.get(head, "")) for head in heads] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(heads))]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="all by default")
    parser.add_argument("--seeds", type=int, default=6, help="how many seeds")
    parser.add_argument("--seed0", type=int, default=0, help="the first seed")
    parser.add_argument("--speeds", nargs="+", default=["best"])
    parser.add_argument("--json", type=Path, help="add the tables to this file, by section and speed")
    given = parser.parse_args()
    unknown = [name for name in given.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    options = Options(range(given.seed0, given.seed0 + given.seeds), given.speeds)
    print(f"undrift {ud.__version__}; seeds {given.seed0} to {given.seed0 + given.seeds - 1}")
    for name in given.sections or SECTIONS:
        if name in NEEDS_DATA and not streams.names():
            print(f"\n{name}: no data in {streams.folder()}; set UNDRIFT_DATA")
            continue
        begin = time.process_time()
        rows = list(SECTIONS[name](options))
        print(f"\n{name} ({time.process_time() - begin:.0f} s of CPU)")
        write_table(rows)
        sys.stdout.flush()
        if given.json:
            kept = json.loads(given.json.read_text()) if given.json.exists() else {}
            key = f"{name} {' '.join(given.speeds)} {given.seed0}+{given.seeds}"
            kept[key] = [{head: plain(value) for head, value in row.items()} for row in rows]
            given.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
