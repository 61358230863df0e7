"""The state of one key as versioned, data-only bytes.

| bytes | what |
|---|---|
| 4 | "UDFK" |
| 2 | version of this layout |
| 1 | kernel level the numbers were made with |
| 1 | 0 |
| 8 | fingerprint of the model's parameters and the features |
| 4 | length of the JSON text |
| ... | JSON: the ledger, counts, what the model's header has beyond its parameters |
| ... | float64: records that wait for their turn, rows that wait for their label, the model's arrays |
| 8 | digest of everything before |

A stack of learners (groups, length, lanes) whose last group is only half in use is written without the spare half,
since version 2. Long vectors and matrices are written up to their last number that is not 0, since version 3: the rows
an online estimator keeps through its warm-up are most of a young key's state, and nearly all of them still to come.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Vector
from undrift.errors import ModelFileError
from undrift.fleet.ledger import Ledger
from undrift.fleet.state_check import (
    ROOM,
    array_sizes,
    check_ledger,
    check_model,
    check_records,
    check_shortened,
    require,
)
from undrift.learners.base import Arrays
from undrift.learners.files import warn_if_level_differs

VERSION = 3
"""A reader refuses a larger one and keeps reading every smaller one."""
MAGIC = b"UDFK"
LEVELS = ("portable", "v2", "v3", "v4", "neon")
"""Kernel levels by the number a state has for them: append, never reorder."""
_HEAD = struct.Struct("<4sHBB8sI")
_DIGEST = 8
LONG = 128
"""Numbers from which zeros at the end are worth leaving out."""
ROW, ASK, LABEL, SPOILED = range(4)
"""Kinds of records: features and label, features only, label only, unusable (it only keeps its place)."""


class Parked(NamedTuple):
    """A record that waits for those before it."""

    kind: int
    of: int
    y: float
    z: Vector


@dataclass
class KeyState:
    """Everything that is kept about one key."""

    ledger: Ledger = field(default_factory=Ledger)
    counts: dict[str, int] = field(default_factory=dict)
    """How many records ended as what."""
    loss: float = 0.0
    """Sum of the losses of learned rounds."""
    parked: dict[int, Parked] = field(default_factory=dict)
    """By order."""
    held: dict[int, Vector] = field(default_factory=dict)
    """Rows that wait for their label, by order, oldest first."""
    header: dict[str, Any] = field(default_factory=dict)
    """The model's header beyond its parameters."""
    arrays: Arrays = field(default_factory=dict)
    """The model's arrays; none before its first round."""


class Form:
    """How states of one fleet are written: everything about it that is the same for all keys.

    Array shapes are written only where they are not those of the model's first arrays, `begun`.
    """

    def __init__(self, fingerprint: bytes, begun: Arrays, dim: int) -> None:
        self.fingerprint, self.dim = fingerprint, dim
        self.begun = {name: begun[name] for name in sorted(begun)}
        self.shapes = {name: array.shape for name, array in self.begun.items()}
        self.sizes = {name: array.size for name, array in self.begun.items()}
        stacks = {name: one for name, one in begun.items() if one.ndim == 3 and one.shape[2] > 1}
        self.spare = {name: _last_half(one).tobytes() for name, one in stacks.items()}
        self.room = max(ROOM, 4 * sum(self.sizes.values()))
        self._text = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode

    def pack(self, state: KeyState) -> bytes:
        """Return the state as bytes."""
        arrays = state.arrays
        usual = {name: array.shape for name, array in arrays.items()} == self.shapes
        names = self.shapes if usual else sorted(arrays)
        halved, short, data = [], {}, []
        for name in names:
            array = arrays[name]
            if usual and name in self.spare and _last_half(array).tobytes() == self.spare[name]:
                halved.append(name)
                data += [array[:-1].tobytes(), _first_half(array).tobytes()]
            elif array.ndim < 3 and array.size >= LONG:
                flat = np.ascontiguousarray(array).reshape(-1)
                used = np.flatnonzero(flat.view(np.int64))  # bits: -0.0 is a number to keep
                short[name] = int(used[-1]) + 1 if len(used) else 0
                data.append(flat[: short[name]].tobytes())
            else:
                data.append(array.tobytes())
        parked, held = sorted(state.parked.items()), state.held
        about: dict[str, Any] = {
            "ledger": state.ledger.header(),
            "counts": state.counts,
            "model": state.header,
            "arrays": bool(arrays) if usual or not arrays else {name: list(arrays[name].shape) for name in names},
            "parked": [[order, one.kind, one.of] for order, one in parked],
            "held": list(held),
        }
        if halved:
            about["halved"] = halved
        if short:
            about["short"] = short
        text = self._text(about).encode()
        head = _HEAD.pack(MAGIC, VERSION, LEVELS.index(kernels.level()), 0, self.fingerprint, len(text))
        parts = [head, text, struct.pack("<d", state.loss)]
        for _, one in parked:
            parts += [struct.pack("<d", one.y), one.z.tobytes()]
        parts += [z.tobytes() for z in held.values()]
        body = b"".join(parts + data)
        return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()

    def unpack(self, data: bytes) -> KeyState:
        """Return the state that `pack` wrote, or say what is wrong with the bytes."""
        data = bytes(data)
        size = _opened(data, self.fingerprint)
        try:
            head = json.loads(data[_HEAD.size : _HEAD.size + size])
            numbers = np.frombuffer(bytearray(memoryview(data)[_HEAD.size + size : -_DIGEST]), np.float64)
            return self._read(head, numbers)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
            raise ModelFileError("Fleet: the state of a key holds what no fleet writes; it was edited") from None

    def _read(self, head: dict[str, Any], numbers: Vector) -> KeyState:
        """Return the state in a JSON text and numbers; anything that does not fit is a ValueError or the like."""
        check_ledger(head["ledger"])
        check_records(head)
        usual = head["arrays"] is True
        shapes = self.shapes if usual else head["arrays"] or {}
        check_shortened(head, self.sizes if usual else array_sizes(shapes, self.room + len(numbers)), self.spare)
        halved, short = head.get("halved", []), head.get("short", {})
        check_model(head["model"], self.dim, bool(shapes))
        state = KeyState(Ledger.read(head["ledger"]), head["counts"], float(numbers[0]), header=head["model"])
        require(0.0 <= state.loss < math.inf)
        rest = _Numbers(numbers, 1)
        for order, kind, of in head["parked"]:
            state.parked[order] = Parked(kind, of, float(rest.take(1)[0]), rest.take(self.dim))
        for order in head["held"]:
            state.held[order] = rest.take(self.dim)
        for name in sorted(shapes):
            shape = shapes[name]
            if name in short:
                array = np.zeros(shape)
                array.reshape(-1)[: short[name]] = rest.take(short[name])
            elif name in halved:
                array = np.array(self.begun[name])
                for part in (array[:-1], _first_half(array)):
                    part[...] = rest.take(part.size).reshape(part.shape)
            else:
                array = rest.take(math.prod(shape)).reshape(shape)
            state.arrays[name] = array
        require(rest.at == len(numbers))
        return state


class _Numbers:
    """Numbers taken one after the other."""

    def __init__(self, numbers: Vector, at: int) -> None:
        self.numbers, self.at = numbers, at

    def take(self, count: int) -> Vector:
        """Return the next `count` numbers; refuse if there are fewer."""
        require(self.at + count <= len(self.numbers))
        self.at += count
        return self.numbers[self.at - count : self.at]


def _first_half(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first half of the lanes of the last group, as a view."""
    return stack[-1, :, : stack.shape[2] // 2]


def _last_half(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """The others."""
    return stack[-1, :, stack.shape[2] // 2 :]


def _opened(data: bytes, fingerprint: bytes) -> int:
    """Return the length of the JSON text of a state, or say what is wrong with the bytes."""
    if len(data) < _HEAD.size + _DIGEST or data[:4] != MAGIC:
        raise ModelFileError("Fleet: not the state of a key, or cut off")
    _, version, level, _, made_by, size = _HEAD.unpack_from(data)
    if version > VERSION:
        raise ModelFileError(
            f"Fleet: the state of a key has version {version}, this undrift reads up to {VERSION}; upgrade undrift"
        )
    if hashlib.blake2b(data[:-_DIGEST], digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise ModelFileError("Fleet: the state of a key does not match its digest; it was damaged or edited")
    if made_by != fingerprint:
        raise ModelFileError(
            "Fleet: the state of a key was made by a model with other parameters or features; "
            "use the fleet that made it, or begin with new states"
        )
    warn_if_level_differs("states were made", LEVELS[level] if level < len(LEVELS) else level)
    return int(size)
