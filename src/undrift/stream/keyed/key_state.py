"""KeyState: everything that is kept about one key; StateCodec: the same as versioned, data-only bytes.

| bytes | what |
|---|---|
| 4 | "UDFK" |
| 2 | version of this layout |
| 1 | kernel level the numbers were made with |
| 1 | 0 |
| 8 | fingerprint of the model's parameters and the features |
| 4 | length of the JSON text |
| ... | JSON: the order tracker, counts, which records wait, what features depend on, what the model's header has beyond
|     | its parameters |
| ... | float64: the loss, records that wait for those before them, the last labels, the model's arrays, its records of
|     | served rows |
| 8 | digest of everything before |

A stack of learners (groups, length, lanes) whose last group is only half in use is written without the spare half. Long
vectors and matrices are written up to their last number that is not 0: the rows an online estimator keeps through its
warm-up are most of a young key's state, and nearly all of them still to come.

Before anything is made of the JSON text, every number in it must be in range, and every size covered by the bytes that
follow.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Arrays, Vector
from undrift.errors import ModelFileError
from undrift.learners.row_context import WEIGHT_LIMIT
from undrift.learners.serializable import warn_if_level_differs
from undrift.learners.served import PREFIX
from undrift.stream.keyed.order_tracker import OrderTracker
from undrift.stream.keyed.outputs import STATUSES

ROW, ASK, LABEL, UNUSABLE = range(4)
"""Kinds of records: features and label, features only, label only, unusable (only its order counts)."""


class WaitingRecord(NamedTuple):
    """A record that waits until the records before it have come or were given up."""

    kind: int
    """ROW, ASK, LABEL or UNUSABLE."""
    label_of: int
    """The order of the record that a label belongs to."""
    y: float
    z: Vector
    """Its number columns."""
    weight: float = 1.0
    texts: tuple[str | None, ...] = ()
    """Its text columns."""
    label: str | None = None
    """Of several classes the one that it has."""


@dataclass
class KeyState:
    """Everything that is kept about one key."""

    tracker: OrderTracker = field(default_factory=OrderTracker)
    counts: dict[str, int] = field(default_factory=dict)
    """How many records ended with each status."""
    loss: float = 0.0
    """Sum of the losses of learned rounds whose prediction was made from earlier labels."""
    unscored: int = 0
    """Learned rounds that were predicted before any label was known, and have no loss."""
    waiting: dict[int, WaitingRecord] = field(default_factory=dict)
    """Records that wait for those before them, by order."""
    unlabelled: dict[int, int] = field(default_factory=dict)
    """Serial numbers of the served rows that wait for their label, by order, oldest first."""
    asked: bool = False
    """With intervals: whether nothing was learned since the last row without a label was served."""
    withheld: set[int] = field(default_factory=set)
    """With intervals: orders of the `unlabelled` rows that were served without one."""
    last_labels: Vector = field(default_factory=lambda: np.empty(0))
    """With lags: the last labels, NaN where not known, as many as the longest lag; none before the first row."""
    features: dict[str, Any] = field(default_factory=dict)
    """What else the features of later rows depend on, as `Features.progress` gives it."""
    weights: dict[int, float] = field(default_factory=dict)
    """How often served rows that wait for their label count, by serial number, where it is not once."""
    header: dict[str, Any] = field(default_factory=dict)
    """The model's header beyond its parameters."""
    arrays: Arrays = field(default_factory=dict)
    """The model's arrays; none before its first row."""
    records: Arrays = field(default_factory=dict)
    """The model's records of the served rows, as arrays; none if every label came with its row."""


VERSION, OLDEST = 6, 6
"""Version of the layout that is written, and the oldest one that is read: those below are of before 0.2's release."""
MAGIC = b"UDFK"
LEVELS = ("portable", "v2", "v3", "v4", "neon")
"""Kernel levels by the number a state has for them: append, never reorder."""
HEAD = struct.Struct("<4sHBB8sI")
DIGEST_SIZE = 8
LONG = 128
"""Arrays of at least this many numbers are written without the zeros at their end."""


class StateCodec:
    """How the states of one fleet are written.

    Array shapes are written only where they are not those of the model's arrays before its first round, `initial`. The
    model has `dim` features, of which a record has the first `columns`.
    """

    def __init__(self, fingerprint: bytes, initial: Arrays, dim: int, columns: int) -> None:
        self.fingerprint, self.dim, self.columns = fingerprint, dim, columns
        self.initial = {name: initial[name] for name in sorted(initial)}
        self.shapes = {name: array.shape for name, array in self.initial.items()}
        self.sizes = {name: array.size for name, array in self.initial.items()}
        stacks = {name: one for name, one in initial.items() if one.ndim == 3 and one.shape[2] > 1}
        self.padding = {name: _last_half(one).tobytes() for name, one in stacks.items()}
        self.max_size = max(MAX_SIZE, 4 * sum(self.sizes.values()))
        self._to_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode

    def pack(self, state: KeyState) -> bytes:
        """Return the state as bytes."""
        arrays = state.arrays
        initial_shapes = {name: array.shape for name, array in arrays.items()} == self.shapes
        names = self.shapes if initial_shapes else sorted(arrays)
        halved, short, data = [], {}, []
        for name in names:
            array = arrays[name]
            if initial_shapes and name in self.padding and _last_half(array).tobytes() == self.padding[name]:
                halved.append(name)
                data += [array[:-1].tobytes(), _first_half(array).tobytes()]
            elif array.ndim < 3 and array.size >= LONG:
                flat = np.ascontiguousarray(array).reshape(-1)
                used = np.flatnonzero(flat.view(np.int64))  # bits: -0.0 is a number to keep
                short[name] = int(used[-1]) + 1 if len(used) else 0
                data.append(flat[: short[name]].tobytes())
            else:
                data.append(array.tobytes())
        waiting = sorted(state.waiting.items())
        head: dict[str, Any] = {
            "tracker": state.tracker.to_integers(),
            "counts": state.counts,
            "model": state.header,
            "arrays": bool(arrays) if initial_shapes or not arrays else _shapes(arrays),
            "waiting": [[order, one.kind, one.label_of, *_more(one)] for order, one in waiting],
            "unlabelled": [[order, serial] for order, serial in state.unlabelled.items()],
        }
        if state.records:
            head["records"] = _shapes(state.records)
        if len(state.last_labels):
            head["labels"] = len(state.last_labels)
        if state.unscored:
            head["unscored"] = state.unscored
        if state.features:
            head["features"] = state.features
        if state.weights:
            head["weights"] = [[serial, weight] for serial, weight in state.weights.items()]
        if state.asked:
            head["asked"] = True
        if state.withheld:
            head["withheld"] = sorted(state.withheld)
        if halved:
            head["halved"] = halved
        if short:
            head["short"] = short
        text = self._to_json(head).encode()
        fixed = HEAD.pack(MAGIC, VERSION, LEVELS.index(kernels.level()), 0, self.fingerprint, len(text))
        parts = [fixed, text, struct.pack("<d", state.loss)]
        for _, one in waiting:
            parts += [struct.pack("<d", one.y), one.z.tobytes()]
        parts.append(state.last_labels.tobytes())
        data += [state.records[name].tobytes() for name in sorted(state.records)]
        body = b"".join(parts + data)
        return body + hashlib.blake2b(body, digest_size=DIGEST_SIZE).digest()

    def unpack(self, data: bytes) -> KeyState:
        """Return the state that `pack` wrote, or say what is wrong with the bytes."""
        data = bytes(data)
        size = _check_fixed_head(data, self.fingerprint)
        try:
            head = json.loads(data[HEAD.size : HEAD.size + size])
            numbers = np.frombuffer(bytearray(memoryview(data)[HEAD.size + size : -DIGEST_SIZE]), np.float64)
            return self._read(head, numbers)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
            raise ModelFileError("Fleet: the state of a key holds what no fleet writes; it was edited") from None

    def _read(self, head: dict[str, Any], numbers: Vector) -> KeyState:
        """Return the state in a JSON text and numbers; anything that does not fit is a ValueError or the like."""
        check_tracker(head["tracker"])
        check_records(head)
        initial_shapes = head["arrays"] is True
        shapes = self.shapes if initial_shapes else head["arrays"] or {}
        sizes = self.sizes if initial_shapes else array_sizes(shapes, self.max_size + len(numbers))
        check_shortened(head, sizes, self.padding)
        halved, short = head.get("halved", []), head.get("short", {})
        check_model(head["model"], self.dim, bool(shapes))
        tracker = OrderTracker.from_integers(head["tracker"])
        unscored = integers([head.get("unscored", 0)], 0)[0]
        state = KeyState(tracker, head["counts"], float(numbers[0]), unscored, header=head["model"])
        require(0.0 <= state.loss < math.inf)
        rest = _NumberReader(numbers, 1)
        for order, kind, label_of, *more in head["waiting"]:
            y, z = float(rest.take(1)[0]), rest.take(self.columns)
            weight, texts, label = more or (1.0, (), None)
            state.waiting[order] = WaitingRecord(kind, label_of, y, z, float(weight), tuple(texts), label)
        state.features = dict(head.get("features", {}))
        state.weights = {serial: float(weight) for serial, weight in head.get("weights", [])}
        state.last_labels = rest.take(integers([head.get("labels", 0)], 0)[0])
        state.unlabelled = dict(head["unlabelled"])
        state.asked, state.withheld = bool(head.get("asked", False)), set(head.get("withheld", ()))
        for name in sorted(shapes):
            shape = shapes[name]
            if name in short:
                array = np.zeros(shape)
                array.reshape(-1)[: short[name]] = rest.take(short[name])
            elif name in halved:
                array = np.array(self.initial[name])
                for part in (array[:-1], _first_half(array)):
                    part[...] = rest.take(part.size).reshape(part.shape)
            else:
                array = rest.take(math.prod(shape)).reshape(shape)
            state.arrays[name] = array
        records = head.get("records", {})
        array_sizes(records, len(numbers))
        require(all(name.startswith(PREFIX) for name in records))
        for name in sorted(records):
            state.records[name] = rest.take(math.prod(records[name])).reshape(records[name])
        require(rest.at == len(numbers))
        return state


class _NumberReader:
    """Numbers of a state, read one after the other."""

    def __init__(self, numbers: Vector, at: int) -> None:
        self.numbers, self.at = numbers, at

    def take(self, count: int) -> Vector:
        """Return the next `count` numbers; refuse if there are fewer."""
        require(self.at + count <= len(self.numbers))
        self.at += count
        return self.numbers[self.at - count : self.at]


def _more(record: WaitingRecord) -> list[Any]:
    """Return what a record has beside numbers; nothing of most."""
    if record.weight == 1.0 and not record.texts and record.label is None:
        return []
    return [record.weight, list(record.texts), record.label]


def _shapes(arrays: Arrays) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in arrays.items()}


def _first_half(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the first half of the lanes of the last group, as a view."""
    return stack[-1, :, : stack.shape[2] // 2]


def _last_half(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the second half of the lanes of the last group, as a view."""
    return stack[-1, :, stack.shape[2] // 2 :]


def _check_fixed_head(data: bytes, fingerprint: bytes) -> int:
    """Return the length of the JSON text of a state, or say what is wrong with the bytes."""
    if len(data) < HEAD.size + DIGEST_SIZE or data[:4] != MAGIC:
        raise ModelFileError("Fleet: not the state of a key, or cut off")
    _, version, level, _, made_by, size = HEAD.unpack_from(data)
    if version > VERSION:
        raise ModelFileError(
            f"Fleet: the state of a key has version {version}, this undrift reads up to {VERSION}; upgrade undrift"
        )
    if version < OLDEST:
        raise ModelFileError(
            f"Fleet: the state of a key has version {version}, of undrift 0.1 or 0.2 before its release, which this "
            "undrift does not read; begin with new states"
        )
    if hashlib.blake2b(data[:-DIGEST_SIZE], digest_size=DIGEST_SIZE).digest() != data[-DIGEST_SIZE:]:
        raise ModelFileError("Fleet: the state of a key does not match its digest; it was damaged or edited")
    if made_by != fingerprint:
        raise ModelFileError(
            "Fleet: the state of a key was made by a model with other parameters or features; "
            "use the fleet that made it, or begin with new states"
        )
    warn_if_level_differs("states were made", LEVELS[level] if level < len(LEVELS) else level)
    return int(size)


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
    for order, kind, label_of, *more in head["waiting"]:
        require(0 <= integers([order, kind, label_of])[1] < KINDS)
        if more:
            weight, texts, label = more
            require(type(weight) is float and 0.0 <= weight <= WEIGHT_LIMIT and isinstance(texts, list))
            require({type(text) for text in (*texts, label)} <= {str, NoneType})
    for serial, weight in head.get("weights", []):
        require(integers([serial])[0] > 0 and type(weight) is float and 0.0 <= weight <= WEIGHT_LIMIT)
    for one in head["unlabelled"]:
        require(len(one) == 2 and integers([*one])[1] > 0)
    for records in (head["waiting"], head["unlabelled"]):
        require(len({one[0] for one in records}) == len(records))
    require(set(integers(head.get("withheld", []))) <= {order for order, _ in head["unlabelled"]})


def check_model(header: Mapping[str, Any], dim: int, arrays: bool) -> None:
    """Check what the model's header has beyond its parameters, which are the fleet's and never the state's."""
    require(isinstance(header, dict) and not {"class", "parameters"} & set(header))
    integers([header.get("rounds", 0)], 0)
    least = header.get("dim", None if not arrays else 0)  # a key's own texts may have added features
    require(least is None or (type(least) is int and least >= dim))


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
