"""What the paths by key share: two keys with rows of their own, one below the other in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..outcome import Answers
from ..references import expect_stream, play_reference
from ..scenarios import Reference, Scenario

KEYS = ("left", "right")


def second_key(scenario: Scenario) -> Scenario:
    """Return the scenario of the second key."""
    assert scenario.second is not None
    return scenario.second


def scenarios_by_key(scenario: Scenario) -> dict[str, Scenario]:
    """Return the scenario of each key."""
    return dict(zip(KEYS, (scenario, second_key(scenario)), strict=True))


def keyed_columns(scenario: Scenario, rows: slice = slice(None)) -> dict[str, list[Any]]:
    """Return the file with both keys: each row of the first is followed by one of the second."""
    by_key = scenarios_by_key(scenario)
    count = len(range(scenario.rows)[rows])
    out: dict[str, list[Any]] = {"key": [key for _ in range(count) for key in KEYS]}
    for name in scenario.columns:
        pairs = zip(*(own.columns[name][rows] for own in by_key.values()), strict=True)
        out[name] = [cell for pair in pairs for cell in pair]
    return out


def expect_keys(
    scenario: Scenario, reference: Reference, expect: Callable[[Scenario, Reference], Answers] = expect_stream
) -> Answers:
    """Return what the library says about each key by itself, one below the other."""
    other = second_key(scenario)
    named = next((name for name, own in scenario.others.items() if own is reference), None)
    theirs = other.reference if named is None else other.others[named]
    by_key = [expect(scenario, reference), expect(other, theirs)]
    return Answers(
        {name: join_keys([own.columns[name] for own in by_key]) for name in by_key[0].columns}, single=by_key[0].single
    )


def expect_keyed_events(scenario: Scenario) -> Answers:
    """Return what one watch for both keys finds in the library's predictions, the first key first."""
    from undrift.events import KeyedWatch

    watch, found = KeyedWatch(), []
    for k, (key, own) in enumerate(scenarios_by_key(scenario).items()):
        yhat = play_reference(own.reference)["yhat"]
        for t in range(1, scenario.rows):
            row = k * scenario.rows + t + 1
            found += watch.add_round(key, row, float(own.reference.y[t]), float(yhat[t]))
    return Answers({"events": np.array([f"{event.kind} in row {event.row}" for event in found])}, single=True)


def join_keys(columns: list[Any]) -> Any:
    """Return the numbers of two keys as pairs (rows, 2)."""
    return np.column_stack(columns)
