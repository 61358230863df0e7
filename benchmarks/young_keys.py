"""Losses of a fleet's models by the age of their keys, beside naive forecasts: `python -m benchmarks young_keys`.

A panel is many keys with few rows each: real tables and series cut into keys, and drawn ones. For each key the first
128 rows are predicted and learned one by one, as a fleet does it. A key's losses (squared; log-loss for two classes)
are divided by those of the best constant in hindsight, then averaged over keys, row by row. The tables show the mean
loss of the rows of an age over that of the running mean of the key's own labels (two classes: (k + 1) / (n + 2) after k
of n): the geometric mean over panels and, in brackets, the worst panel. Row 1, before which nothing is known, is left
out. Keys of a real panel are shared out at random between two halves, "choice" and "judgement"; drawn panels have other
numbers of features, and other draws, in each.

"+ slopes" is what a fleet could do, and does not: a linear relation is pooled from the first 32 rows of other keys, the
settled ones (`pool_slopes`), and each model learns the labels minus it. It takes half a minute.
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import undrift as ud
from benchmarks.streams import folder
from undrift.losses import sigmoid

ROWS = 128
AGES = (2, 4, 8, 16, 32, 64, ROWS + 1)
"""First rows of the ages, counting from 1, and the row after the last age."""
KEYS = 40
"""Keys of a panel in each half, and as many settled ones, or half of what there is."""
SETTLED_ROWS = 32
"""First rows of settled keys that slopes are pooled from."""
SURE = 2.0
"""Standard errors, over keys, by which pooled slopes must lower the loss of keys they were not made from."""


class Key(NamedTuple):
    Z: np.ndarray
    y: np.ndarray


class Panel(NamedTuple):
    name: str
    binary: bool
    keys: list[Key]
    settled: Sequence[Key] = ()


# ---- real panels -------------------------------------------------------------------------------------------------


def read(name, first=1):
    """Return the cells of a file and its header, from column `first` on, NaN where one is empty."""
    with gzip.open(folder() / f"{name}.csv.gz", "rt") as file:
        header, *lines = csv.reader(file)
    cells = [[float(cell) if cell else np.nan for cell in line[first:]] for line in lines]
    return header[first:], np.array(cells), [line[0] for line in lines]


def group(table, by, target=-1, drop=()):
    """Return one key for each combination of values in the columns `by`, which are no features then."""
    groups = defaultdict(list)
    for t, row in enumerate(table):
        groups[tuple(row[list(by)])].append(t)
    kept = [j for j in range(table.shape[1] - 1) if j not in (*by, *drop)]
    return [Key(table[rows][:, kept], table[rows][:, target]) for rows in groups.values()]


def cut(table, rows):
    """Return one key for each block of so many rows."""
    return [Key(table[t : t + rows, :-1], table[t : t + rows, -1]) for t in range(0, len(table) - rows + 1, rows)]


def waves(period, count):
    """Return sine and cosine of the time in a period (count, 2)."""
    angle = 2.0 * np.pi * np.arange(count) / period
    return np.column_stack([np.sin(angle), np.cos(angle)])


def lagged(y, period, lags):
    """Return a series as a table: time in the period, earlier labels, label; without the rows that lack one."""
    columns = [np.concatenate([np.full(k, np.nan), y[:-k]]) for k in lags]
    return np.column_stack([waves(period, len(y)), *columns, y])[max(lags) :]


def shuffle_rows(table, seed):
    return table[np.random.default_rng(seed).permutation(len(table))]


def real_panels():
    """Return the panels made of the data folder's files, all keys of each."""
    diamonds = read("tables/diamonds")[1]
    yield Panel("diamonds by cut, color, clarity; shuffled", False, group(shuffle_rows(diamonds, 0), (1, 2, 3)))
    yield Panel("diamonds by cut, color, clarity; by price", False, group(diamonds, (1, 2, 3)))
    yield Panel("kings_county by zipcode", False, group(read("tables/kings_county")[1], (13,), drop=(14, 15)))
    for name, rows in (("fried", ROWS), ("turbine_co", ROWS)):
        yield Panel(f"{name}, blocks of {rows}", False, cut(read(f"tables/{name}")[1], rows))
    for name in ("bike_hourly", "metro_traffic", "air_quality_co"):
        yield Panel(f"{name}, weeks", False, cut(read(name)[1], 168))
    series = defaultdict(list)
    with gzip.open(folder() / "series/m4_hourly_20.csv.gz", "rt") as file:
        for line in list(csv.reader(file))[1:]:
            series[line[0]].append(float(line[2]))
    hours = [lagged(np.array(values), 24, (1, 24)) for values in series.values()]
    yield Panel("m4_hourly, weeks, lags 1 and 24", False, [key for one in hours for key in cut(one, 168)])
    yield Panel("m4_hourly, weeks, hour alone", False, [key for one in hours for key in cut(one[:, [0, 1, -1]], 168)])
    for name in ("NP", "PJM", "BE"):
        prices = read(f"mix/epf_{name}")[1]
        table = np.column_stack([prices[:, 1:], prices[:, 0]])
        hourly = [key for hour in range(24) for key in cut(table[hour::24], ROWS)]
        yield Panel(f"epf_{name} by hour, blocks of {ROWS}", False, hourly)
    taxi = read("series/nyc_taxi")[1][:, 0]
    yield Panel("nyc_taxi by half-hour, days", False, [
        key for slot in range(48) for key in cut(lagged(taxi[slot::48], 7, (1, 7)), ROWS)
    ])  # fmt: skip
    header, flights, times = read("flights_late")
    carrier = np.array([header.index(f"carrier_{name}") for name in ("UA", "B6", "EV", "DL", "AA", "MQ")])
    month = [float(time[5:7]) for time in times]
    codes = np.column_stack([flights[:, carrier] @ np.arange(1.0, 7.0), month])
    by = len(header) - 1
    both = np.column_stack([flights[:, :-1], codes, flights[:, -1]])
    origin = tuple(header.index(f"origin_{name}") for name in ("EWR", "LGA"))
    yield Panel("flights_late by carrier, origin, month", True, group(both, (by, by + 1, *origin), drop=tuple(carrier)))
    yield Panel("elec2 by day and half-hour", True, group(read("elec2")[1], (0, 1)))
    yield Panel("weather_nebraska, blocks of 128", True, cut(read("weather_nebraska")[1], ROWS))


# ---- drawn panels ------------------------------------------------------------------------------------------------


def linear_key(rng, common, own, noise=1.0, offset=3.0):
    """Return a key whose coefficients are `common` plus own ones of spread `own`; features have scales of their own."""
    dim = len(common)
    Z, coef = rng.normal(size=(ROWS, dim)), common + own * rng.normal(size=dim) / np.sqrt(dim)
    return Key(
        Z * 10.0 ** np.linspace(-1.0, 1.0, dim), offset * rng.normal() + Z @ coef + noise * rng.normal(size=ROWS)
    )


def drawn_key(kind, rng, common):
    dim = len(common)
    Z = rng.normal(size=(ROWS, dim))
    level = 10.0 ** rng.uniform(-2.0, 3.0)
    if kind == "own relations":
        return linear_key(rng, 0.0 * common, 2.0)
    if kind == "own relations, little noise":
        return linear_key(rng, 0.0 * common, 2.0, 0.1)
    if kind == "own relations, much noise":
        return linear_key(rng, 0.0 * common, 0.5)
    if kind == "common relation, own offsets":
        return linear_key(rng, 2.0 * common, 0.0)
    if kind == "common relation and some own":
        return linear_key(rng, 2.0 * common, 0.7)
    if kind == "noise":
        return Key(Z, level * (rng.normal() + rng.normal(size=ROWS)))
    if kind == "noise of heavy tails":
        return Key(Z, level * (1.0 + rng.standard_t(2.5, size=ROWS)))
    if kind == "log-normal labels":
        return Key(Z, level * np.exp(rng.normal(size=ROWS) + 0.3 * Z[:, 0]))
    if kind == "counts with many zeros":
        return Key(Z, rng.poisson(np.exp(-1.5 + 0.7 * rng.normal() + 0.5 * Z[:, 0])).astype(float))
    if kind == "rare amounts":
        return Key(Z, (rng.random(ROWS) < 0.15) * level * np.exp(rng.normal(size=ROWS)))
    if kind == "trends":
        Z = np.column_stack([np.arange(ROWS), Z[:, 1:]]) if dim > 1 else np.arange(ROWS, dtype=float)[:, None]
        return Key(Z, level * (rng.normal() + rng.normal() * Z[:, 0] / 30.0 + 0.5 * rng.normal(size=ROWS)))
    if kind == "random walks":
        return Key(Z, level * np.cumsum(rng.normal(size=ROWS)))
    if kind == "autoregression":
        y = np.zeros(ROWS)
        for t in range(1, ROWS):
            y[t] = 0.6 * y[t - 1] + rng.normal()
        return Key(Z, level * (rng.normal() + y))
    if kind == "levels that jump":
        return Key(Z, level * (np.repeat(2.0 * rng.normal(size=ROWS // 16), 16) + rng.normal(size=ROWS)))
    if kind == "seasons":
        Z = np.column_stack([waves(7, ROWS), Z])
        return Key(Z, level * (3.0 + Z[:, :2] @ rng.normal(size=2) + 0.5 * rng.normal(size=ROWS)))
    # two classes
    if kind == "classes: own relations":
        odds = Z @ (3.0 * rng.normal(size=dim) / np.sqrt(dim)) + rng.normal()
    elif kind == "classes: common relation":
        odds = Z @ (2.0 * common) + rng.normal()
    elif kind == "classes: base rates":
        odds = np.full(ROWS, 2.0 * rng.normal())
    elif kind == "classes: rare":
        odds = -3.0 + Z[:, 0]
    elif kind == "classes: runs":
        odds = 5.0 * np.repeat(rng.choice([-1.0, 1.0], ROWS // 8), 8)
    else:
        raise ValueError(kind)
    return Key(Z, (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-odds))).astype(float))


DRAWN = (
    "own relations", "own relations, little noise", "own relations, much noise", "common relation, own offsets",
    "common relation and some own", "noise", "noise of heavy tails", "log-normal labels", "counts with many zeros",
    "rare amounts", "trends", "random walks", "autoregression", "levels that jump", "seasons",
    "classes: own relations", "classes: common relation", "classes: base rates", "classes: rare", "classes: runs",
)  # fmt: skip
DIMS = {"choice": (2, 6, 12), "judgement": (3, 5, 9)}
"""Features of the drawn panels in each half."""


def panels(half, seed, keys=KEYS):
    """Return the panels of one half: keys of the other half are not among them."""
    first = half == "choice"
    for panel in real_panels():
        usable = [key for key in panel.keys if len(key.y) >= 16 and np.ptp(key.y[:ROWS]) > 0.0]
        order = np.random.default_rng(seed).permutation(len(usable))
        mine = order[: len(order) // 2] if first else order[len(order) // 2 :]
        cut_keys = [Key(usable[k].Z[:ROWS], usable[k].y[:ROWS]) for k in mine[: 2 * keys]]
        count = len(cut_keys) // 2
        yield panel._replace(keys=cut_keys[count:], settled=cut_keys[:count])
    for number, kind in enumerate(DRAWN):
        for dim in DIMS[half]:
            rng = np.random.default_rng([seed, number, dim])
            common = rng.normal(size=dim) / np.sqrt(dim)
            drawn = [drawn_key(kind, rng, common) for _ in range(3 * keys)]
            usable = [key for key in drawn if np.ptp(key.y) > 0.0][: 2 * keys]
            count = len(usable) // 2
            yield Panel(f"{kind}, {dim} features", kind.startswith("classes"), usable[count:], usable[:count])


# ---- losses ------------------------------------------------------------------------------------------------------


def naive(key, binary):
    """Return what the running mean (rate) and the last value (none for classes) predict; 0 in row 1."""
    n = np.arange(len(key.y))
    sums = np.concatenate([[0.0], np.cumsum(key.y)[:-1]])
    if binary:
        return {"running mean": (sums + 1.0) / (n + 2.0)}
    return {"running mean": sums / np.maximum(n, 1), "last value": np.concatenate([[0.0], key.y[:-1]])}


class Slopes(NamedTuple):
    """A linear relation pooled from settled keys: the offset of a row is (clip(z, low, high) - center) . coef."""

    center: np.ndarray
    low: np.ndarray
    high: np.ndarray
    coef: np.ndarray

    def offsets(self, Z):
        """Return the offset of each row; a missing value adds nothing."""
        return np.where(np.isnan(Z), 0.0, np.clip(Z, self.low, self.high) - self.center) @ self.coef


def pool_slopes(settled):
    """Return the slopes that the first rows of settled keys have in common, as far as they help other keys; or None.

    X and r are a key's features and labels minus their means in the key, both over the deviation of its labels; each
    feature is then in units of its root mean square over all rows. With d features and sums over keys,

        beta = (S + d I)^-1 s,    S = sum X'X,    s = sum X'r

    and beta_0, beta_1 are the same over the even and the odd keys. For a key of half h, p = X beta_(1 - h) is made
    without it, so that a = (sum p.r) / (sum p.p), brought into [0, 1], is how far slopes carry over to other keys:
    coef = a beta, in the features' own units. A key gains 2 a p.r - a^2 p.p; unless the mean gain is SURE standard
    errors above 0, there are no slopes.
    """
    parts = [Key(key.Z[:SETTLED_ROWS], key.y[:SETTLED_ROWS]) for key in settled]
    parts = [key for key in parts if np.ptp(key.y) > 0.0]
    rows = np.concatenate([key.Z for key in parts])
    rows[:, np.isnan(rows).all(axis=0)] = 0.0
    center, low, high = np.nanmean(rows, axis=0), np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    filled = [np.where(np.isnan(key.Z), center, key.Z) for key in parts]
    X = [(Z - Z.mean(axis=0)) / np.std(key.y) for Z, key in zip(filled, parts, strict=True)]
    r = [(key.y - key.y.mean()) / np.std(key.y) for key in parts]
    spread = np.sqrt(sum((x * x).sum(axis=0) for x in X) / len(rows))
    spread[spread == 0.0] = 1.0
    X = [x / spread for x in X]

    def solve(which):
        S = sum(x.T @ x for x in X[which])
        s = sum(x.T @ labels for x, labels in zip(X[which], r[which], strict=True))
        return np.linalg.solve(S + len(spread) * np.eye(len(spread)), s)

    halves = [solve(slice(half, None, 2)) for half in (0, 1)]
    p = [x @ halves[1 - k % 2] for k, x in enumerate(X)]
    along = np.array([made @ labels for made, labels in zip(p, r, strict=True)])
    size = np.array([made @ made for made in p])
    a = min(max(along.sum() / size.sum(), 0.0), 1.0) if size.any() else 0.0
    gain = 2.0 * a * along - a * a * size
    if not gain.mean() > SURE * gain.std() / np.sqrt(len(gain)):
        return None
    return Slopes(center, low, high, a * solve(slice(None)) / spread)


def fleet_predictions(key, binary, speed, slopes=None):
    """Return what a key's model predicts, row by row: the estimator that a fleet makes for it."""
    model = (ud.OnlineClassifier if binary else ud.OnlineRegressor)(speed=speed, trees=False)
    offsets = np.zeros(len(key.y)) if slopes is None else slopes.offsets(key.Z)
    yhat = np.asarray(model.play(key.Z, key.y - offsets).yhat) + offsets
    return sigmoid(yhat) if binary else yhat


def row_losses(predicted, key, binary):
    """Return a key's losses in the rows 2 to ROWS, NaN where it has none, in units of the best constant's."""
    out, y = np.full(ROWS, np.nan), key.y
    if binary:
        p, rate = np.clip(predicted, 1e-9, 1.0 - 1e-9), np.clip(np.mean(y), 0.01, 0.99)
        losses, unit = -np.log(np.where(y > 0.0, p, 1.0 - p)), -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)
    else:
        losses, unit = (predicted - y) ** 2, np.var(y)
    out[: len(y)] = losses / unit
    out[0] = np.nan
    return out


def losses_by_age(rows):
    """Return the mean loss of each age from (keys, rows)."""
    by_row = np.nanmean(rows[:, 1:], axis=0)
    return np.array([np.nanmean(by_row[a - 2 : b - 2]) for a, b in pairwise(AGES)])


def compare(panel, speeds):
    """Return the mean losses by age over those of the running mean, by forecaster."""
    out, slopes = defaultdict(list), None if panel.binary else pool_slopes(panel.settled)
    for key in panel.keys:
        predictions = naive(key, panel.binary)
        for speed in speeds:
            predictions[speed] = own = fleet_predictions(key, panel.binary, speed)
            if not panel.binary:
                pooled = own if slopes is None else fleet_predictions(key, False, speed, slopes)
                predictions[f"{speed} + slopes"] = pooled
        for name, predicted in predictions.items():
            out[name].append(row_losses(predicted, key, panel.binary))
    found = {name: losses_by_age(np.array(rows)) for name, rows in out.items()}
    mean = found.pop("running mean")
    return {name: losses / mean for name, losses in found.items()}


def summary(found, title):
    """Print geometric means and worst panels of {panel: {forecaster: ratios}}."""
    names = list(dict.fromkeys(name for ratios in found.values() for name in ratios))
    ages = [f"{a}-{b - 1}" for a, b in pairwise(AGES)]
    print(f"\n| {title} ({len(found)} panels) | {' | '.join(ages)} |\n|---|{'---|' * len(ages)}")
    for name in names:
        table = np.array([ratios[name] for ratios in found.values() if name in ratios])
        mean, worst = np.exp(np.mean(np.log(table), axis=0)), np.max(table, axis=0)
        print(f"| {name} | " + " | ".join(f"{m:.3f} ({w:.2f})" for m, w in zip(mean, worst, strict=True)) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=["choice", "judgement"], default="judgement")
    parser.add_argument("--keys", type=int, default=KEYS, help="of each panel")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--speeds", nargs="+", default=["light", "fast", "best"])
    parser.add_argument("--panels", action="store_true", help="print every panel too")
    given = parser.parse_args()
    print(f"half {given.half}, seed {given.seed}, {given.keys} keys a panel at most")
    found = defaultdict(dict)
    for panel in panels(given.half, given.seed, given.keys):
        kind = "drawn" if panel.name.endswith("features") else "real"
        title = f"{'two classes' if panel.binary else 'numbers'}, {kind}"
        found[title][panel.name] = ratios = compare(panel, given.speeds)
        if given.panels:
            for name, one in ratios.items():
                print(f"{panel.name:45} {len(panel.keys):3} {name:12}", *(f"{ratio:7.3f}" for ratio in one), flush=True)
    for title, ratios in found.items():
        summary(ratios, title)


if __name__ == "__main__":
    main()
