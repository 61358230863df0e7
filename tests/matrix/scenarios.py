"""What each feature is asked to do: rows as a file holds them, what is asked for, and what the library's `play` says.

A scenario is written once for all paths. Features with several sides that paths may treat differently have several
parts; the cell of a path that does some of them is partial.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

ROWS = 120
"""Rows of a scenario unless its feature or the path needs more."""
CUT = 70
"""Rows that come first where a path has a part before and a part after: a run and its update, fit and predict."""
SERVED = 95
"""Rows up to which a service learns where an update follows it."""
BEGIN = dt.datetime(2024, 1, 5)
WHOLE_HOURS = (4.0, 12.0)
"""Gaps between rows that are an hour apart otherwise."""


@dataclass(frozen=True)
class Reference:
    """A call of the library's `play`, whose predictions a path is held against."""

    columns: dict[str, Any]
    """Features by name, in order; NaN where missing."""
    y: Any
    """Labels, NaN where missing; texts for classes."""
    model: dict[str, Any] = field(default_factory=dict)
    """Parameters of the estimator."""
    play: dict[str, Any] = field(default_factory=dict)
    """Further arguments of `play`; arrays have an entry for each row."""
    names: tuple[str, ...] = ()
    """Names of classes whose labels are numbers, in the order of the numbers."""

    @property
    def Z(self) -> Any:
        """Features as a matrix (n, d)."""
        return np.column_stack(list(self.columns.values())).astype(float)

    @property
    def classes(self) -> list[str]:
        """The classes in order; none for numbers."""
        return sorted(set(self.y)) if isinstance(self.y[0], str) else list(self.names)

    def make_model(self) -> Any:
        """Return the estimator before its first row."""
        import undrift as ud

        return (ud.OnlineClassifier if self.classes else ud.OnlineRegressor)(**{"speed": "fast", **self.model})

    def rows(self, some: slice) -> Any:
        """Return some rows as `play` takes them."""
        from undrift.online import Table

        return Table(list(self.columns), self.Z[some])

    def play_arguments(self, some: slice) -> dict[str, Any]:
        """Return the further arguments of `play` for some rows."""
        return {name: value[some] if isinstance(value, np.ndarray) else value for name, value in self.play.items()}

    def with_model(self, **parameters: Any) -> Reference:
        """Return the same with other parameters of the estimator."""
        return replace(self, model={**self.model, **parameters})


@dataclass(frozen=True)
class Scenario:
    """One part of a feature."""

    feature: str
    """Heading of the row."""
    part: str
    """Which side of the feature, in words; empty where it has one alone."""
    columns: dict[str, list[Any]]
    """Cells of the file by column, None where missing: time, features, and the target y."""
    options: dict[str, Any]
    """What is asked for besides the target: {"weight": "w"}, {"delay": 3}, ..."""
    reference: Reference
    """What is expected."""
    others: dict[str, Reference]
    """What silently wrong paths do instead, by a name: "ignored" is the feature left away."""
    shows: tuple[str, ...] = ("yhat",)
    """Columns of the answers that the feature is about."""
    start: int = 1
    """The first row whose prediction is compared: labels are known by then."""
    second: Scenario | None = None
    """The same with other rows, for a second key."""

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return len(self.columns["y"])

    @property
    def title(self) -> str:
        """Feature and part."""
        return f"{self.feature}: {self.part}" if self.part else self.feature


def number_rows(seed: int, rows: int) -> tuple[dict[str, list[Any]], dict[str, Any], Any]:
    """Return hourly rows whose target follows two numbers and jumps halfway: cells, features, labels."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=rows), rng.normal(size=rows)
    y = 3.0 + 2.0 * a - b + 4.0 * (np.arange(rows) >= rows // 2) + 0.3 * rng.normal(size=rows)
    times = [BEGIN + dt.timedelta(hours=t) for t in range(rows)]
    cells = {"time": times, "a": a.tolist(), "b": b.tolist(), "y": y.tolist()}
    return cells, {"a": a, "b": b}, y


def several_classes(seed: int, rows: int) -> dict[str, Any]:
    """Three classes named by texts."""
    cells, Z, y = number_rows(seed, rows)
    names = np.array(["blue", "green", "red"])[np.digitize(y, np.quantile(y, [0.33, 0.66]))]
    names[:3] = ["red", "green", "blue"]
    labels = names.tolist()
    cells["y"] = labels
    two = ["red" if label == "red" else "other" for label in labels]
    return {
        "columns": cells,
        "options": {"classes": 3},
        "reference": Reference(Z, labels),
        "others": {"ignored": Reference(Z, two)},
        "shows": ("p(blue)", "p(green)", "p(red)"),
        "start": 3,
    }


def late_classes(seed: int, rows: int) -> dict[str, Any]:
    """Three classes whose labels become known three rows late."""
    made = several_classes(seed, rows)
    reference = made["reference"]
    late = replace(reference, play={"delay": 3})
    options = {"classes": 3, "delay": 3}
    return {**made, "options": options, "reference": late, "others": {"ignored": reference}, "start": 7}


def weights(seed: int, rows: int) -> dict[str, Any]:
    """A column that says how often each row counts."""
    cells, Z, y = number_rows(seed, rows)
    w = np.random.default_rng(seed + 10).choice([0.5, 1.0, 2.0, 3.0], size=rows)
    return {
        "columns": {**cells, "w": w.tolist()},
        "options": {"weight": "w"},
        "reference": Reference(Z, y, play={"weight": w}),
        "others": {"ignored": Reference(Z, y), "a feature": Reference({**Z, "w": w}, y)},
    }


def elapsed(gaps: tuple[float, ...], seed: int, rows: int) -> dict[str, Any]:
    """Rows that come after different times, by which the model forgets."""
    cells, Z, y = number_rows(seed, rows)
    hours = np.random.default_rng(seed + 20).choice([1.0, 1.0, 1.0, 1.0, *gaps], size=rows)
    hours[0] = 1.0
    cells["time"] = [BEGIN + dt.timedelta(hours=float(t)) for t in np.cumsum(hours)]
    return {
        "columns": cells,
        "options": {"elapsed": hours},
        "reference": Reference(Z, y, play={"elapsed": hours}),
        "others": {"ignored": Reference(Z, y)},
    }


def elapsed_intervals(seed: int, rows: int) -> dict[str, Any]:
    """Intervals of rows that come after different times."""
    made = elapsed(WHOLE_HOURS, seed, rows)
    hours = made["options"]["elapsed"]
    reference, ignored = made["reference"], made["others"]["ignored"]
    interval = {"interval": 0.9}
    return {
        "columns": made["columns"],
        "options": {"elapsed": hours, "level": 0.9},
        "reference": replace(reference, play={"elapsed": hours, **interval}),
        "others": {"ignored": replace(ignored, play=interval)},
        "shows": ("lower", "upper"),
        "start": 8,
    }


def late_labels(seed: int, rows: int) -> dict[str, Any]:
    """Labels that become known three rows late."""
    cells, Z, y = number_rows(seed, rows)
    return {
        "columns": cells,
        "options": {"delay": 3},
        "reference": Reference(Z, y, play={"delay": 3}),
        "others": {"ignored": Reference(Z, y)},
        "start": 4,
    }


def at_light_speed(make: Callable[[int, int], dict[str, Any]], seed: int, rows: int) -> dict[str, Any]:
    """The same at the speed that has no running means of features, which advance with rows or with labels."""
    made = make(seed, rows)
    return {
        **made,
        "options": {**made["options"], "speed": "light"},
        "reference": made["reference"].with_model(speed="light"),
        "others": {name: other.with_model(speed="light") for name, other in made["others"].items()},
    }


def run_with_delay(seed: int, rows: int) -> dict[str, Any]:
    """Labels that were late already while a run learned the rows before a service began."""
    made = late_labels(seed, rows)
    return {**made, "options": {"delay": 3, "delayed run": True}}


def lags(seed: int, rows: int) -> dict[str, Any]:
    """The target one and three rows ago as features."""
    cells, Z, _ = number_rows(seed, rows)
    rng = np.random.default_rng(seed + 30)
    y = np.zeros(rows)
    for t in range(rows):
        y[t] = (0.5 * y[t - 1] - 0.6 * y[t - 3] if t >= 3 else 0.0) + Z["a"][t] + 0.1 * rng.normal()
    cells["y"] = y.tolist()
    made = {f"lag {lag}": np.concatenate((np.full(lag, math.nan), y[:-lag])) for lag in (1, 3)}
    return {
        "columns": cells,
        "options": {"lag": (1, 3)},
        "reference": Reference({**Z, **made}, y),
        "others": {"ignored": Reference(Z, y)},
    }


def lag_intervals(seed: int, rows: int) -> dict[str, Any]:
    """Intervals of rows with the target of earlier rows as features."""
    made = lags(seed, rows)
    return {
        "columns": made["columns"],
        "options": {**made["options"], "level": 0.9},
        "reference": replace(made["reference"], play={"interval": 0.9}),
        "others": {},
        "shows": ("lower", "upper"),
        "start": 8,
    }


def two_texts(seed: int, rows: int) -> dict[str, Any]:
    """A column of two texts."""
    cells, Z, y = number_rows(seed, rows)
    is_open = np.random.default_rng(seed + 35).random(rows) < 0.5
    is_open[:2] = [False, True]
    y = y + 5.0 * is_open
    return {
        "columns": {**cells, "open": np.where(is_open, "yes", "no").tolist(), "y": y.tolist()},
        "options": {"texts": "open"},
        "reference": Reference({**Z, "open": is_open.astype(float)}, y),
        "others": {"ignored": Reference(Z, y)},
    }


def few_texts(seed: int, rows: int) -> dict[str, Any]:
    """A column of three texts, each of which gets a feature."""
    cells, Z, y = number_rows(seed, rows)
    tool = np.random.default_rng(seed + 40).choice(["C33", "D7", "A1"], size=rows)
    tool[:3] = ["C33", "D7", "A1"]
    y = y + 5.0 * (tool == "D7")
    made = {f"tool={text}": (tool == text).astype(float) for text in ("C33", "D7", "A1")}
    return {
        "columns": {**cells, "tool": tool.tolist(), "y": y.tolist()},
        "options": {"texts": "tool"},
        "reference": Reference({**Z, **made}, y),
        "others": {"ignored": Reference(Z, y)},
    }


def many_texts(seed: int, rows: int) -> dict[str, Any]:
    """A column of thirty texts, more than get a feature each: means of earlier labels stand for them."""
    cells, Z, y = number_rows(seed, rows)
    rng = np.random.default_rng(seed + 50)
    names = np.array([f"tool {k:02d}" for k in range(30)])
    code = rng.integers(0, 30, size=rows)
    y = y + np.random.default_rng(50).normal(size=30)[code] * 4.0
    tool = names[code]
    recent, long = earlier_means(tool.tolist(), y)
    others = {"ignored": Reference(Z, y)}
    for name, count in (("means of the first rows", CUT), ("means of fewer rows", CUT - 1)):
        frozen = earlier_means(tool.tolist(), np.where(np.arange(rows) < count, y, math.nan))
        later = [np.where(np.arange(rows) < CUT, now, then) for now, then in zip((recent, long), frozen, strict=True)]
        others[name] = Reference({**Z, "tool: recent mean": later[0], "tool: mean": later[1]}, y)
    return {
        "columns": {**cells, "tool": tool.tolist(), "y": y.tolist()},
        "options": {"texts": "tool"},
        "reference": Reference({**Z, "tool: recent mean": recent, "tool: mean": long}, y),
        "others": others,
    }


def earlier_means(texts: list[str], y: Any) -> tuple[Any, Any]:
    """Return how far the target lay from its usual value in earlier rows of the same text, recently and for long.

    Both means are pulled towards 0 by the strength that has predicted best lately. Rows without a label teach nothing.
    """
    half_lives, priors = (8.0, 64.0), (1.0, 3.0, 10.0, 30.0)
    sums: dict[str, list[float]] = {}
    errors = [[0.0] * 4, [0.0] * 4]
    weight = total = 0.0
    out = np.zeros((2, len(texts)))
    for t, text in enumerate(texts):
        known = sums.setdefault(text, [0.0] * 4)
        learned = not math.isnan(y[t])
        distance = y[t] - (total / weight if weight else y[t])
        for k, half_life in enumerate(half_lives):
            count, far = known[2 * k], known[2 * k + 1]
            out[k, t] = far / (count + priors[errors[k].index(min(errors[k]))]) if count else 0.0
            if not learned:
                continue
            kept = 0.5 ** (1.0 / 693.0)
            errors[k] = [
                kept * old + (distance - far / (count + prior)) ** 2
                for old, prior in zip(errors[k], priors, strict=True)
            ]
            kept = 0.5 ** (1.0 / half_life)
            known[2 * k], known[2 * k + 1] = kept * count + 1.0, kept * far + distance
        if learned:
            kept = 0.5 ** (1.0 / 128.0)
            weight, total = kept * weight + 1.0, kept * total + y[t]
    return out[0], out[1]


def missing_cells(seed: int, rows: int) -> dict[str, Any]:
    """Some numbers are missing."""
    cells, Z, y = number_rows(seed, rows)
    holes = np.random.default_rng(seed + 60).random((2, rows)) < 0.06
    holes[:, :3] = False
    for name, where in zip("ab", holes, strict=True):
        Z[name] = np.where(where, math.nan, Z[name])
        cells[name] = [None if hole else cell for cell, hole in zip(cells[name], where, strict=True)]
    filled = {name: np.nan_to_num(column) for name, column in Z.items()}
    return {
        "columns": cells,
        "options": {},
        "reference": Reference(Z, y),
        "others": {"filled with 0": Reference(filled, y)},
    }


def missing_labels(seed: int, rows: int) -> dict[str, Any]:
    """Some labels never become known."""
    cells, Z, y = number_rows(seed, rows)
    holes = np.random.default_rng(seed + 70).random(rows) < 0.1
    holes[[0, 1, 2, -1]] = False  # forecasts take empty labels at the end for rows to come
    cells["y"] = [None if hole else cell for cell, hole in zip(cells["y"], holes, strict=True)]
    labels = np.where(holes, math.nan, y)
    return {
        "columns": cells,
        "options": {},
        "reference": Reference(Z, labels),
        "others": {"learned as 0": Reference(Z, np.nan_to_num(labels))},
    }


def missing_indicators(seed: int, rows: int) -> dict[str, Any]:
    """A feature beside each column says where it is missing."""
    made = missing_cells(seed, rows)
    reference = made["reference"]
    return {
        "columns": made["columns"],
        "options": {"missing": "indicators"},
        "reference": reference.with_model(indicators=True),
        "others": {"ignored": reference},
    }


def candidates(seed: int, rows: int) -> dict[str, Any]:
    """A column of predictions made elsewhere."""
    cells, Z, y = number_rows(seed, rows)
    given = y + 0.2 * np.random.default_rng(seed + 80).normal(size=rows)
    return {
        "columns": {**cells, "given": given.tolist()},
        "options": {"candidate": "given"},
        "reference": Reference({**Z, "given": given}, y, {"candidates": ["given"]}),
        "others": {"ignored": Reference(Z, y), "a feature": Reference({**Z, "given": given}, y)},
    }


def candidates_of_file(seed: int, rows: int) -> dict[str, Any]:
    """The same for a model that was saved to a file in Python, and is served from there."""
    made = candidates(seed, rows)
    reference = made["reference"]
    silent = np.where(np.arange(rows) < CUT, reference.columns["given"], math.nan)
    nothing = replace(reference, columns={**reference.columns, "given": silent})
    return {
        **made,
        "options": {"candidate": "given", "model file": True},
        "others": {"never heard": nothing, **made["others"]},
    }


def candidates_of_classes(seed: int, rows: int) -> dict[str, Any]:
    """Columns with the probabilities of three classes, made elsewhere."""
    made = several_classes(seed, rows)
    reference, names = made["reference"], ("blue", "green", "red")
    p = np.random.default_rng(seed + 85).dirichlet(np.ones(3), size=rows) * 0.3
    given = {f"p_{name}": p[:, k] + 0.7 * np.equal(reference.y, name) for k, name in enumerate(names)}
    both = {**reference.columns, **given}
    columns = {"mine": {name: f"p_{name}" for name in names}}
    return {
        **made,
        "columns": {**made["columns"], **{name: column.tolist() for name, column in given.items()}},
        "options": {"classes": 3, "candidate": columns},
        "reference": Reference(both, reference.y, {"candidates": columns}),
        "others": {"ignored": reference, "features": Reference(both, reference.y)},
    }


def intervals(level: float, seed: int, rows: int) -> dict[str, Any]:
    """Intervals of one level."""
    cells, Z, y = number_rows(seed, rows)
    return {
        "columns": cells,
        "options": {"level": level},
        "reference": Reference(Z, y, play={"interval": level}),
        "others": {} if level == 0.9 else {"intervals of 90%": Reference(Z, y, play={"interval": 0.9})},
        "shows": ("lower", "upper"),
        "start": 8,
    }


def quantiles(seed: int, rows: int) -> dict[str, Any]:
    """Three quantiles."""
    cells, Z, y = number_rows(seed, rows)
    levels = (0.1, 0.5, 0.9)
    return {
        "columns": cells,
        "options": {"quantiles": levels},
        "reference": Reference(Z, y, play={"quantiles": levels}),
        "others": {},
        "shows": tuple(f"q{level}" for level in levels),
        "start": 8,
    }


def speed_max(seed: int, rows: int) -> dict[str, Any]:
    """The slowest speed, whose boosted trees begin with row 256."""
    cells, Z, y = number_rows(seed, rows)
    return {
        "columns": cells,
        "options": {"speed": "max"},
        "reference": Reference(Z, y, {"speed": "max"}),
        "others": {"ignored": Reference(Z, y, {"speed": "best"})},
    }


def certificates(seed: int, rows: int) -> dict[str, Any]:
    """Regret against the best fixed linear predictor, and its bound."""
    cells, Z, y = number_rows(seed, rows)
    return {
        "columns": cells,
        "options": {"certify": True},
        "reference": Reference(Z, y),
        "others": {},
        "shows": ("regret", "bound"),
    }


def new_rows_alone(seed: int, rows: int) -> dict[str, Any]:
    """Certificates of rows that came in several files."""
    made = certificates(seed, rows)
    return {**made, "options": {"certify": True, "new rows": True}}


def calendar(seed: int, rows: int) -> dict[str, Any]:
    """Hour, half day, weekday, time of year and weekend as features."""
    cells, Z, _ = number_rows(seed, rows)
    hours = np.arange(rows) % 24.0
    days = (np.arange(rows) // 24 + 4) % 7  # the first row is on a Friday
    y = np.where((hours >= 8) & (hours < 18), 6.0, 0.0) + Z["a"]
    cells["y"] = y.tolist()
    year = (np.arange(rows) // 24 + 4) / 365.2425
    made = {}
    for name, turn in {"hour": hours / 24.0, "half day": 2.0 * hours / 24.0, "weekday": (days + hours / 24.0) / 7.0,
                       "year": year}.items():  # fmt: skip
        made |= {f"{name} sin": np.sin(2.0 * math.pi * turn), f"{name} cos": np.cos(2.0 * math.pi * turn)}
    made["weekend"] = (days >= 5).astype(float)
    return {
        "columns": cells,
        "options": {"calendar": True},
        "reference": Reference({**Z, **made}, y),
        "others": {"ignored": Reference(Z, y)},
    }


def alerts(seed: int, rows: int) -> dict[str, Any]:
    """A target that runs away near the end, first unnoticed by the model and then by its intervals."""
    cells, Z, _ = number_rows(seed, rows)
    noise = 0.3 * np.random.default_rng(seed + 90).normal(size=rows)
    y = 3.0 + 2.0 * Z["a"] - Z["b"] + noise + np.exp(0.2 * np.maximum(0, np.arange(rows) - (rows - 60)))
    return {
        "columns": {**cells, "y": y.tolist()},
        "options": {"alert": "events"},
        "reference": Reference(Z, y, play={"interval": 0.9}),
        "others": {},
        "shows": ("events",),
    }


def alert_signal(seed: int, rows: int) -> dict[str, Any]:
    """The caller notices without reading anything: exit code 6, or a callback."""
    made = alerts(seed, rows)
    return {**made, "options": {"alert": "signal"}, "shows": ("signal",)}


def save_resume(seed: int, rows: int) -> dict[str, Any]:
    """Everything is saved on the way, and goes on from the file with the same bits."""
    cells, Z, y = number_rows(seed, rows)
    return {
        "columns": cells,
        "options": {"resume": True},
        "reference": Reference(Z, y),
        "others": {},
    }


def update_after_service(seed: int, rows: int) -> dict[str, Any]:
    """Rows that a service learned count when the folder is updated with the rows after them."""
    return {**save_resume(seed, rows), "options": {"update": True}}


FEATURES: dict[str, dict[str, Callable[[int, int], dict[str, Any]]]] = {
    "several classes": {
        "labels in time": several_classes,
        "late labels": late_classes,
        "late labels at speed light": lambda seed, rows: at_light_speed(late_classes, seed, rows),
    },
    "weights": {"": weights},
    "elapsed": {
        "whole gaps": lambda seed, rows: elapsed(WHOLE_HOURS, seed, rows),
        "uneven times": lambda seed, rows: elapsed((0.25, 2.5), seed, rows),
        "intervals": elapsed_intervals,
    },
    "late labels": {
        "labels": late_labels,
        "labels at speed light": lambda seed, rows: at_light_speed(late_labels, seed, rows),
        "run with --delay": run_with_delay,
    },
    "lags": {"predictions": lags, "intervals": lag_intervals},
    "many texts": {"two texts": two_texts, "three texts": few_texts, "thirty texts": many_texts},
    "missing values": {"cells": missing_cells, "labels": missing_labels, "indicators": missing_indicators},
    "candidates": {"a run": candidates, "several classes": candidates_of_classes, "a model file": candidates_of_file},
    "intervals, quantiles": {
        "90%": lambda seed, rows: intervals(0.9, seed, rows),
        "80%": lambda seed, rows: intervals(0.8, seed, rows),
        "quantiles": quantiles,
    },
    "speed max": {"": speed_max},
    "certificates": {"one file": certificates, "several files": new_rows_alone},
    "calendar": {"": calendar},
    "alerts": {"events": alerts, "signal": alert_signal},
    "save, resume": {"restart": save_resume, "update after a service": update_after_service},
}
"""Rows of the matrix, and what makes their scenarios by part."""
ONLY = {
    ("several classes", "late labels"): (
        "play", "predict, learn", "ask, tell", "run", "live", "update", "compare", "serve", "River",
    ),
    ("several classes", "late labels at speed light"): ("River",),
    ("late labels", "labels at speed light"): ("River",),
    ("candidates", "several classes"): ("River", "sklearn"),
    ("late labels", "run with --delay"): ("serve",),
    ("lags", "intervals"): ("predict",),
    ("candidates", "a model file"): ("serve",),
    ("save, resume", "update after a service"): ("serve", "serve by key", "forecast"),
    ("many texts", "two texts"): ("forecast", "forecast by key"),
    ("certificates", "several files"): ("update",),
}  # fmt: skip
"""Parts that are asked of some paths alone, as the others treat them like the rest of the feature."""
LONGER = {"speed max": 330, "alerts": 300, "many texts": 160, "certificates": 200}
"""Rows of features that need more of them to show."""


@cache
def make_scenario(feature: str, part: str, rows: int | None = None) -> Scenario:
    """Return a scenario, with its twin for a second key."""
    count = rows or LONGER.get(feature, ROWS)
    make = FEATURES[feature][part]
    second = Scenario(feature, part, **make(1, count))
    return Scenario(feature, part, second=second, **make(0, count))


def parts_of(feature: str, path: str) -> list[str]:
    """Return the parts of a feature that are asked of a path."""
    return [part for part in FEATURES[feature] if path in ONLY.get((feature, part), (path,))]
