r"""Exact weighted sums of outer products, $\sum_s c_s z_s z_s^\top$ and $\sum_s e_s z_s$, over large integers c and e.

The quick way needs |z| < 2^47: c z is cut into digits of 16 bits, z into halves of 24, and every product of a digit
and a half, summed over a block of at most 8192 rows, stays below 2^53, so matrix products in float64 are exact.
"""

from __future__ import annotations

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
BLOCK = 8192
MOST_DIGITS = 64
"""Beyond this FLINT's integer matrices are quicker."""


def integers(X: Floats) -> tuple[list[int] | Whole, list[int]]:
    """Return the entries of X as integers, row by row, and the binary places each column was shifted by."""
    mantissa, exponent = np.frexp(X)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest_bit = np.where(whole == 0, 1, whole & -whole).astype(np.float64)
    spare = np.frexp(lowest_bit)[1] - 1
    whole, exponent = whole >> spare, exponent - 53 + spare
    lowest = np.where(whole == 0, 5000, exponent).min(axis=0)
    lowest = np.where(lowest == 5000, 0, lowest)
    up = np.where(whole == 0, 0, exponent - lowest)
    size = np.frexp(whole.astype(np.float64))[1] + up
    if size.max() < 48:
        return (whole << up).ravel(), (-lowest).tolist()
    return [v << s for v, s in zip(whole.ravel().tolist(), up.ravel().tolist(), strict=True)], (-lowest).tolist()


def sums(z: list[int] | Whole, dim: int, c: list[int], e: list[int]) -> tuple[list[int], list[int]]:
    """Return the sum of c z z' (row by row) and the sum of e z, for non-negative c."""
    digits = 1 + max(max(c).bit_length(), max(map(abs, e)).bit_length()) // 16
    if isinstance(z, list) or digits > MOST_DIGITS:
        return _sums_by_flint([int(v) for v in z], dim, c, e)
    Z = z.reshape(len(c), dim)
    high = Z >> 24
    halves = np.concatenate((Z - (high << 24), high), axis=1).astype(np.float64)
    G = _combined(_digits_of_products(_digits(c, digits), Z), halves)
    q = _combined(_digits(e, digits)[:, :, None], halves)
    return G, q


def _sums_by_flint(z: list[int], dim: int, c: list[int], e: list[int]) -> tuple[list[int], list[int]]:
    rows = len(c)
    Z = fmpz_mat(rows, dim, z)
    cz = fmpz_mat(rows, dim, [a * v for i, a in enumerate(c) for v in z[i * dim : i * dim + dim]])
    G, q = cz.transpose() * Z, Z.transpose() * fmpz_mat(rows, 1, e)
    return [int(x) for x in G.entries()], [int(x) for x in q.entries()]


def _digits(values: list[int], count: int) -> Whole:
    """Return (count, rows): base 2^16 digits, each with its number's sign."""
    raw = b"".join(abs(v).to_bytes(2 * count, "little") for v in values)
    out = np.frombuffer(raw, dtype="<u2").reshape(len(values), count).T.astype(np.int64)
    return out * np.array([-1 if v < 0 else 1 for v in values], dtype=np.int64)


def _digits_of_products(c: Whole, Z: Whole) -> Whole:
    """Return (digits, rows, dim): base 2^16 digits of c z, the top one signed."""
    count, rows = c.shape
    high = Z >> 32
    low = Z - (high << 32)
    out = np.zeros((count + 4, rows, Z.shape[1]), dtype=np.int64)
    for k in range(count):
        out[k] += c[k][:, None] * low
        out[k + 2] += c[k][:, None] * high
    for k in range(count + 3):
        out[k + 1] += out[k] >> 16
        out[k] &= 0xFFFF
    return out


def _combined(left: Whole, halves: Floats) -> list[int]:
    """Return the sum over digits k of 2^(16 k) left[k]' z, from the halves of z."""
    dim = halves.shape[1] // 2
    total = [0] * (left.shape[2] * dim)
    for k, digit in enumerate(left):
        part = (digit.T.astype(np.float64) @ halves).astype(np.int64)
        low, high = part[:, :dim].ravel().tolist(), part[:, dim:].ravel().tolist()
        total = [t + ((a + (b << 24)) << (16 * k)) for t, a, b in zip(total, low, high, strict=True)]
    return total
