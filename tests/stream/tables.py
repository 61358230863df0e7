"""Tables of every kind for the tests of `Stream`, as lists of rows, and what it answers to them."""

from __future__ import annotations

import dataclasses
import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import undrift as ud
from undrift.stream.answers import join_answers

ROWS = 130
BEGIN = dt.datetime(2024, 1, 5)


@dataclass(frozen=True)
class Case:
    """One kind of table, and the settings it is learned with."""

    columns: tuple[str, ...] = ("x",)
    target: str = "y"
    settings: dict[str, Any] = field(default_factory=dict)

    def rows(self, count: int = ROWS) -> list[dict[str, Any]]:
        """Return its rows, the target last; they are the first ones of a longer table."""
        every = draw_columns()
        return [{name: every[name][t] for name in (*self.columns, self.target)} for t in range(count)]

    def stream(self, **more: Any) -> ud.Stream:
        """Return a stream that has seen nothing."""
        return ud.Stream(self.target, **{"speed": "light", "seed": 3, **self.settings, **more})


def draw_columns(seed: int = 0) -> dict[str, list[Any]]:
    """Return columns of every kind, and targets of every task, all of them rounded as files hold them."""
    rng = np.random.default_rng(seed)
    n = 6 * ROWS
    x, z = rng.normal(size=n).round(6), rng.normal(size=n).round(6)
    few, many = rng.integers(0, 3, size=n), rng.integers(0, 45, size=n)
    hour = np.cumsum(rng.choice([1, 1, 1, 2, 5], size=n))
    y = (x + np.cos(many) + (few == 1) + 0.3 * rng.normal(size=n)).round(6)
    kinds = np.digitize(y + rng.gumbel(size=n), [0.0, 1.5])

    def punch(cells: Any, share: float) -> list[Any]:
        return [None if hole else cell for cell, hole in zip(cells, rng.random(n) < share, strict=True)]

    return {
        "x": x.tolist(),
        "holes": punch(z.tolist(), 0.05),
        "often": punch(z.tolist(), 0.4),
        "few": [f"t{k}" for k in few],
        "many": [f"s{k}" for k in many],
        "torn": punch([f"t{k}" for k in few], 0.1),
        "when": [BEGIN + dt.timedelta(hours=int(h)) for h in hour],
        "w": rng.choice([0.0, 0.5, 1.0, 3.0], size=n).tolist(),
        "guess": punch((y + rng.normal(size=n)).round(6).tolist(), 0.2),
        "odds": punch(rng.random(n).round(6).tolist(), 0.2),
        "y": y.tolist(),
        "late": punch(y.tolist(), 0.1),
        "two": ["yes" if label > 0.4 else "no" for label in y],
        "flag": [bool(label > 0.4) for label in y],
        "kind": [("low", "mid", "high")[k] for k in kinds],
    }


CASES = {
    "numbers": Case(("x", "holes")),
    "best": Case(("x", "holes", "few"), settings={"speed": "best"}),
    "quantiles and level": Case(("x", "holes"), settings={"quantiles": [0.1, 0.5, 0.95], "level": 0.7}),
    "few texts": Case(("x", "few", "torn")),
    "many texts": Case(("x", "many")),
    "texts beyond a limit": Case(("x", "many", "few"), settings={"categories": 10}),
    "indicators where often missing": Case(("x", "often")),
    "every hole an indicator": Case(("holes", "torn", "x"), settings={"missing": "indicators"}),
    "fill": Case(("x", "often", "torn"), settings={"missing": "fill"}),
    "skip": Case(("x", "often", "torn"), settings={"missing": "skip"}),
    "dates": Case(("when", "x")),
    "calendar": Case(("when", "x"), settings={"calendar": True}),
    "lags": Case(("x", "few"), settings={"lag": [1, 3]}),
    "delay": Case(("x", "many"), settings={"delay": 4}),
    "delay and lags": Case(("x",), settings={"delay": 2, "lag": [3]}),
    "weight": Case(("x", "w"), settings={"weight": "w"}),
    "weight and delay": Case(("x", "w", "few"), settings={"weight": "w", "delay": 3}),
    "elapsed": Case(("when", "x"), settings={"elapsed": True}),
    "elapsed and skip": Case(("when", "x", "holes"), settings={"elapsed": True, "missing": "skip", "delay": 1}),
    "candidate": Case(("x", "guess"), settings={"candidate": ["guess"]}),
    "one memory": Case(("x",), settings={"half_life": 20.0}),
    "nonnegative": Case(("x",), settings={"nonnegative": True}),
    "two classes": Case(("x", "few", "holes"), "two"),
    "flags and lags": Case(("x", "many"), "flag", {"lag": [1]}),
    "two classes with a candidate": Case(("x", "odds", "w"), "two", {"candidate": ["odds"], "weight": "w"}),
    "several classes": Case(("x", "few", "holes"), "kind"),
    "several classes, delayed": Case(("x", "when", "w"), "kind", {"delay": 3, "weight": "w", "elapsed": True}),
}


def play_by_row(stream: ud.Stream, rows: list[dict[str, Any]]) -> ud.stream.Answers:
    """Return what a stream answers to rows that it plays one by one."""
    return join_answers([stream.play(row) for row in rows])


def ask_and_tell(stream: ud.Stream, rows: list[dict[str, Any]]) -> ud.stream.Answers:
    """Return what a stream answers to rows whose labels come after as many further rows as its delay says."""
    target, answers, waiting = stream.settings.target, [], []
    for row in rows:
        answers.append(stream.ask({name: cell for name, cell in row.items() if name != target}))
        if len(answers[-1]):
            waiting.append((answers[-1], row[target]))
        if len(waiting) > stream.settings.delay:
            stream.tell(*waiting.pop(0))
    return join_answers(answers)


def require_same(answers: ud.stream.Answers, expected: ud.stream.Answers) -> None:
    """Assert that two answers are the same to the last bit; frames call flags 0 and 1."""
    flags = answers.classes == ("0", "1") and expected.classes == ("false", "true")
    assert flags or answers.classes == expected.classes
    columns, wanted = dataclasses.replace(answers, classes=expected.classes).columns(), expected.columns()
    assert columns.keys() == wanted.keys()
    for name, column in wanted.items():
        np.testing.assert_array_equal(np.asarray(columns[name]), np.asarray(column), err_msg=name)
    np.testing.assert_array_equal(answers.serial, expected.serial)
