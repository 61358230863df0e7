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
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._typing import Vector
from undrift.errors import ModelFileError, UndriftWarning
from undrift.fleet.ledger import Ledger
from undrift.learners.base import Arrays

VERSION = 3
"""A reader refuses a larger one and keeps reading every smaller one."""
MAGIC = b"UDFK"
LEVELS = ("portable", "v2", "v3", "v4")
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


def pack(state: KeyState, fingerprint: bytes, begun: Arrays) -> bytes:
    """Return the state as bytes; array shapes are written only where they are not those of the model's first arrays."""
    shapes = {name: array.shape for name, array in state.arrays.items()}
    usual = shapes == {name: array.shape for name, array in begun.items()}
    halved = [name for name in sorted(shapes) if usual and _half_spare(state.arrays[name], begun[name])]
    parked, held = sorted(state.parked.items()), state.held
    about: dict[str, Any] = {
        "ledger": state.ledger.header(),
        "counts": state.counts,
        "model": state.header,
        "arrays": bool(shapes) if usual or not shapes else {k: list(v) for k, v in shapes.items()},
        "parked": [[order, one.kind, one.of] for order, one in parked],
        "held": list(held),
    }
    if halved:
        about["halved"] = halved
    data = {name: _data(state.arrays[name], name in halved) for name in sorted(shapes)}
    short = {name: len(data[name]) // 8 for name, array in state.arrays.items() if _is_long(array)}
    if short:
        about["short"] = short
    text = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
    head = _HEAD.pack(MAGIC, VERSION, LEVELS.index(kernels.LEVEL), 0, fingerprint, len(text))
    parts = [head, text, struct.pack("<d", state.loss)]
    for _, one in parked:
        parts += [struct.pack("<d", one.y), one.z.tobytes()]
    parts += [z.tobytes() for z in held.values()]
    body = b"".join([*parts, *data.values()])
    return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()


def _data(array: NDArray[np.float64], halved: bool) -> bytes:
    """The numbers of an array that are worth keeping."""
    if halved:
        return array[:-1].tobytes() + _first_half(array).tobytes()
    if not _is_long(array):
        return array.tobytes()
    data = array.tobytes()
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // 8) * 8]


def _is_long(array: NDArray[np.float64]) -> bool:
    return array.ndim < 3 and array.size >= LONG


def _first_half(stack: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first half of the lanes of the last group, as a view."""
    return stack[-1, :, : stack.shape[2] // 2]


def _half_spare(stack: NDArray[np.float64], begun: NDArray[np.float64]) -> bool:
    """Whether the other half is as it was before the first round."""
    if stack.ndim != 3 or stack.shape[2] < 2:
        return False
    half = stack.shape[2] // 2
    return stack[-1, :, half:].tobytes() == begun[-1, :, half:].tobytes()


def unpack(data: bytes, fingerprint: bytes, begun: Arrays, dim: int) -> KeyState:
    """Return the state that `pack` wrote, or say what is wrong with the bytes."""
    data = bytes(data)
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
    if level >= len(LEVELS) or LEVELS[level] != kernels.LEVEL:
        warnings.warn(
            f"states were made with kernel level {LEVELS[level] if level < len(LEVELS) else level}, this machine uses "
            f"{kernels.LEVEL}: numbers may differ in the last bits from a run that was never moved",
            UndriftWarning,
            stacklevel=2,
        )
    head = json.loads(data[_HEAD.size : _HEAD.size + size])
    numbers = np.frombuffer(data[_HEAD.size + size : -_DIGEST], np.float64)
    state = KeyState(Ledger.read(head["ledger"]), head["counts"], float(numbers[0]), header=head["model"])
    at = 1
    for order, kind, of in head["parked"]:
        state.parked[order] = Parked(kind, of, float(numbers[at]), numbers[at + 1 : at + 1 + dim])
        at += 1 + dim
    for order in head["held"]:
        state.held[order] = numbers[at : at + dim]
        at += dim
    shapes = head["arrays"]
    if shapes is True:
        shapes = {name: array.shape for name, array in begun.items()}
    halved, short = head.get("halved", ()), head.get("short", {})
    for name in sorted(shapes or ()):
        if name in short:
            array = np.zeros(shapes[name])
            array.reshape(-1)[: short[name]] = numbers[at : at + short[name]]
            at += short[name]
            state.arrays[name] = array
        elif name in halved:
            array = np.array(begun[name])
            for part in (array[:-1], _first_half(array)):
                part[...] = numbers[at : at + part.size].reshape(part.shape)
                at += part.size
            state.arrays[name] = array
        else:
            count = math.prod(shapes[name])
            state.arrays[name] = numbers[at : at + count].reshape(shapes[name])
            at += count
    return state
