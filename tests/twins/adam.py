"""NumPy twin of the Adam kernels: slow, plain, and the definition of correct. Tensors are given by address."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix

Addresses = NDArray[np.uint64]
Integers = NDArray[np.int64]
Numbers = NDArray[Any]  # single or double precision


def adam_measure(
    kind: int,
    p: Addresses,
    g: Addresses,
    m: Addresses,
    size: Integers,
    rows: Matrix,
    which: Integers,
    with_m: bool,
    threads: int,
    out: Matrix,
) -> None:
    """Fill out[i] with |g|^2 and, if asked, |m|^2 after the round of tensor i; nothing else is changed."""
    for i, n in enumerate(size):
        row = _typed(kind, rows[which[i]])
        gi = row[0] * _read(kind, g[i], n) + row[1] * _read(kind, p[i], n)
        mi = _memory(kind, m[i], n)
        out[i] = _square(gi), _square(mi + row[2] * (gi - mi)) if with_m else 0.0


def adam_apply(
    kind: int,
    p: Addresses,
    g: Addresses,
    m: Addresses,
    v: Addresses,
    average: Addresses,
    size: Integers,
    rows: Matrix,
    which: Integers,
    threads: int,
    out: Matrix,
) -> None:
    """Make the step; fill out[i] with |m|^2, |x - average|^2 (before either moved) and |g|^2.

    A row is (sign, l2, gap1, gap2, damping, clip, step, weight, decay, m_scale, v_scale); an address of 0 says there
    is no second moment per coordinate, or no average. kind: 0 single, 1 double precision, 2 bfloat16 with single.
        m <- m + gap1 (g - m)    v <- v + gap2 (g^2 - v)    average <- average + weight (x - average)
        x <- decay x - step m,  or with v:  x <- decay x - step clip(m_scale m / (damping + sqrt(v_scale v)))
    """
    for i, n in enumerate(size):
        row = _typed(kind, rows[which[i]])
        sign, l2, gap1, gap2, damping, clip, step, weight, decay, m_scale, v_scale = row
        x = _read(kind, p[i], n)
        gi = sign * _read(kind, g[i], n) + l2 * x
        mi = _memory(kind, m[i], n)
        mi += gap1 * (gi - mi)
        distance = 0.0
        if average[i]:
            ai = _memory(kind, average[i], n)
            distance = _square(x - ai)
            ai += weight * (x - ai)
        move = mi
        if v[i]:
            vi = _memory(kind, v[i], n)
            vi += gap2 * (gi * gi - vi)
            root = damping + np.sqrt(vi * v_scale)
            move = np.clip(mi * m_scale / np.where(root == 0, 1, root), -clip, clip)
        _write(kind, p[i], n, decay * x - step * move)
        out[i] = _square(mi), distance, _square(gi)


def _square(x: Numbers) -> float:
    return float(np.sum(x.astype(np.float64) ** 2))


def _typed(kind: int, row: Numbers) -> Numbers:
    return row if kind == 1 else row.astype(np.float32)


def _memory(kind: int, address: np.uint64, n: np.int64) -> Numbers:
    """Return the state at an address, as an array that shares its memory."""
    number = ctypes.c_double if kind == 1 else ctypes.c_float
    return np.ctypeslib.as_array((number * int(n)).from_address(int(address)))


def _bits(address: np.uint64, n: np.int64) -> NDArray[np.uint16]:
    return np.ctypeslib.as_array((ctypes.c_uint16 * int(n)).from_address(int(address)))


def _read(kind: int, address: np.uint64, n: np.int64) -> Numbers:
    """Return a copy of a parameter or gradient in the precision of its state."""
    if kind == 2:
        return (_bits(address, n).astype(np.uint32) << 16).view(np.float32)
    return _memory(kind, address, n).copy()


def _write(kind: int, address: np.uint64, n: np.int64, x: Numbers) -> None:
    """Store a parameter; bfloat16 is the nearest, ties to even."""
    if kind == 2:
        bits = x.astype(np.float32).view(np.uint32)
        _bits(address, n)[:] = np.where(np.isnan(x), 0x7FC0, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    else:
        _memory(kind, address, n)[:] = x
