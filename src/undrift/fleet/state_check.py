"""What the JSON text of a key's state may hold: every number in range, every size covered by the bytes that follow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from undrift.fleet.outputs import STATUSES

LARGEST = 2**63 - 1
KINDS = 4
"""Kinds of records that wait."""
MAX_SIZE = 2**20
"""Numbers of an array whose zeros at the end were left out, at most, unless the model itself has more."""


def require(fine: bool) -> None:
    """Raise ValueError unless something holds."""
    if not fine:
        raise ValueError


def integers(values: object, least: int = -LARGEST - 1) -> list[int]:
    """Return a list of integers of 64 bits."""
    require(isinstance(values, list) and all(type(one) is int and least <= one <= LARGEST for one in values))
    return values  # type: ignore[return-value]  # as just seen


def check_tracker(numbers: list[int]) -> None:
    """Check the integers of an order tracker: ranges that increase, all before the next order."""
    integers(numbers)
    if numbers:
        following, _, forgotten, *ends = numbers
        require(forgotten in (0, 1) and len(ends) % 2 == 0)
        require(all(a <= b for a, b in zip(ends[::2], ends[1::2], strict=True)))
        require(all(a < b for a, b in zip(ends[1::2], ends[2::2], strict=False)) and (not ends or ends[-1] < following))


def check_records(head: Mapping[str, Any]) -> None:
    """Check counts, and the records that wait for their turn or their label."""
    counts = head["counts"]
    require(isinstance(counts, dict) and set(counts) <= set(STATUSES))
    integers(list(counts.values()), 0)
    require(isinstance(head["waiting"], list) and isinstance(head["unlabelled"], list))
    for one in head["waiting"]:
        require(len(one) == 3 and 0 <= integers([*one])[1] < KINDS)
    for one in head["unlabelled"]:
        require(len(one) == 2 and integers([*one])[1] > 0)
    for records in (head["waiting"], head["unlabelled"]):
        require(len({one[0] for one in records}) == len(records))
    require(set(integers(head.get("withheld", []))) <= {order for order, _ in head["unlabelled"]})


def check_model(header: Mapping[str, Any], dim: int, arrays: bool) -> None:
    """Check what the model's header has beyond its parameters, which are the fleet's and never the state's."""
    require(isinstance(header, dict) and not {"class", "parameters"} & set(header))
    integers([header.get("rounds", 0)], 0)
    require(header.get("dim") in ((dim,) if arrays else (None, dim)))


def array_sizes(shapes: Mapping[str, Iterable[int]], max_size: int) -> dict[str, int]:
    """Return the sizes of arrays, checked before anything of their size is made."""
    require(isinstance(shapes, dict))
    sizes = {name: math.prod(integers(list(shape), 0)) for name, shape in shapes.items()}
    require(all(size <= max_size for size in sizes.values()))
    return sizes


def check_shortened(head: Mapping[str, Any], sizes: Mapping[str, int], padded: Iterable[str]) -> None:
    """Check which arrays were written without their last zeros, or without a half that is only padding."""
    short, halved = head.get("short", {}), head.get("halved", [])
    require(isinstance(short, dict) and isinstance(halved, list))
    require(set(halved) <= set(padded) and set(halved) <= set(sizes) and set(short) <= set(sizes))
    require(all(type(count) is int and 0 <= count <= sizes[name] for name, count in short.items()))
