r"""Multi-precision value of a discounted learner at chosen rounds, with a proven error.

Before round t the past is $G_t = \beta^{t+1} A_0 + \sum_{s<t} \beta^{t-s} w_s z_s z_s^\top$ and
$q_t = \sum_{s<t} \beta^{t-s} e_s z_s$; the leader predicts $m_t = z_t^\top G_t^{-1} q_t$ with leverage
$h_t = z_t^\top G_t^{-1} z_t$. Squared loss has w = 1, e = y; a logistic round has w = k and e = k m + slope.

Sums run over integers: every float64 is one after a shift per column, and $\beta^j$ is kept to `bits` binary places.
Rows too old to matter at that precision enter the radius of a ball (`flint.arb`) instead of the sum, and the solve
carries balls, so an answer is returned only with a proven radius; while that is too wide, more places are used.
A run of equal rows (silence, a frozen sensor) is summed in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx, fmpq, fmpq_mat

from tests.accuracy.wide import BLOCK, Floats, integers, sums

PLACES = (192, 512, 2048, 16384, 131072)
"""Binary places tried in turn; the last is for 1e5 rounds without news at beta = 1/2."""


class Past(NamedTuple):
    """Rows a learner has seen, as data; `prior` is A_0, exact."""

    Z: Floats
    weight: Floats
    effect: Floats
    beta: float
    prior: fmpq_mat


class Exact(NamedTuple):
    """Leader's prediction and leverage as balls, at one round."""

    m: arb
    h: arb


def exact(past: Past, rounds: Sequence[int], radius: float = 1e-13) -> dict[int, Exact]:
    """Return m and h before each of `rounds`; m/(1+h) is within `radius` and m within `radius` max(1, |m|)."""
    found: dict[int, Exact] = {}
    left = sorted(set(rounds))
    for bits in PLACES:
        pieces = _Integers(past, bits)
        missing: list[int] = []
        for t in left:
            answer = pieces.at(t)
            if answer is None or not _sharp(answer, radius):
                missing.append(t)
            else:
                found[t] = answer
        left = missing
    if left:
        raise ArithmeticError(f"rounds {left[:5]} need more than {PLACES[-1]} binary places")
    return found


def _sharp(answer: Exact, radius: float) -> bool:
    m, h = answer
    zero = m / (1 + h)
    return bool(m.is_finite() and h.is_finite()) and bool(
        zero.rad() < radius and m.rad() < radius * max(1.0, float(abs(m.mid())))
    )


class _Integers:
    """G_t and q_t by sums over integers, carried forward from one asked round to the next."""

    def __init__(self, past: Past, bits: int) -> None:
        self.past, self.bits = past, bits
        rows, self.dim = past.Z.shape
        mantissa, exponent = math.frexp(past.beta)
        self.beta, self.shift = int(math.ldexp(mantissa, 53)), 53 - exponent
        self.reach = rows if past.beta == 1.0 else math.ceil(bits * math.log(2.0) / -math.log(past.beta))
        self.slip = 0.0 if past.beta == 1.0 else 2.0 + min(BLOCK, 1.0 / (1.0 - past.beta))
        self.done = 0
        self.G = self.q = None

    def at(self, t: int) -> Exact | None:
        ctx.prec = self.bits + 64
        self._advance(t)
        z = arb_mat(self.dim, 1, [arb(float(v)) for v in self.past.Z[t]])
        G = self.G + arb_mat(self.past.prior) * arb(self.past.beta) ** (t + 1)
        both = arb_mat(self.dim, 2, [x for j in range(self.dim) for x in (self.q[j, 0], z[j, 0])])
        try:
            solved = z.transpose() * G.solve(both)
        except ZeroDivisionError:
            return None
        return Exact(solved[0, 0], solved[0, 1])

    def _advance(self, t: int) -> None:
        """Bring G and q to round t, without the prior."""
        start = self.done
        if self.G is None or t - start > self.reach:
            start = max(0, t - self.reach)
            self.G, self.q = self._older(start)
        step = arb(self.past.beta) ** (t - start)
        self.G, self.q = self.G * step, self.q * step
        size = BLOCK if self.bits <= 1024 else BLOCK // 32  # wide integers fill memory
        for first in range(start, t, size):
            last = min(t, first + size)
            G, q = self._block(first, last, t)
            self.G, self.q = self.G + G, self.q + q
        self.done = t

    def _older(self, start: int) -> tuple[arb_mat, arb_mat]:
        """Balls around zero that hold the rows before `start`."""
        d = self.dim
        if start == 0:
            return arb_mat(d, d), arb_mat(d, 1)
        Z, w, e = self.past.Z[:start], self.past.weight[:start], self.past.effect[:start]
        top = np.abs(Z).max(axis=0)
        count = min(start, 2.0 / (1.0 - self.past.beta))
        G = [arb(0, float(a * b * w.max() * count) * 1.01) for a in top for b in top]
        q = [arb(0, float(a * np.abs(e).max() * count) * 1.01) for a in top]
        return arb_mat(d, d, G), arb_mat(d, 1, q)

    def _powers(self, oldest: int, youngest: int) -> list[int]:
        """beta^j for j = oldest, ..., youngest in units of 2^-bits, too small by at most `slip` units."""
        scaled = arb(self.past.beta) ** youngest * arb(2) ** self.bits
        out = [int((scaled.mid()).floor().unique_fmpz())]
        for _ in range(oldest - youngest):
            out.append((out[-1] * self.beta) >> self.shift)
        return out[::-1]

    def _block(self, first: int, last: int, t: int) -> tuple[arb_mat, arb_mat]:
        """sum over first <= s < last of beta^(t-s) (w z z', e z)."""
        Z, w, e = (a[first:last] for a in (self.past.Z, self.past.weight, self.past.effect))
        age = self._powers(t - first, t - last + 1)
        wi, w_shift = integers(w[:, None])
        ei, e_shift = integers(e[:, None])
        a = [c * int(v) for c, v in zip(age, wi, strict=True)]
        b = [c * int(v) for c, v in zip(age, ei, strict=True)]
        heads = np.flatnonzero(np.r_[True, (Z[1:] != Z[:-1]).any(axis=1)]).tolist()
        if len(heads) < len(Z):
            ends = [*heads[1:], len(Z)]
            a, b = ([sum(x[i:j]) for i, j in zip(heads, ends, strict=True)] for x in (a, b))
            Z = Z[heads]
        d = self.dim
        zi, z_shift = integers(Z)
        G, q = sums(zi, d, a, b)
        # the truncated powers, as a radius
        loose = arb(0, self.slip) * arb(2) ** -self.bits
        top, rows = np.abs(Z).max(axis=0), last - first
        G_out, q_out = [], []
        for i in range(d):
            for j in range(d):
                value = arb(G[i * d + j]) * arb(2) ** -(self.bits + w_shift[0] + z_shift[i] + z_shift[j])
                G_out.append(value + loose * float(w.max() * top[i] * top[j] * rows * 1.01))
            value = arb(q[i]) * arb(2) ** -(self.bits + e_shift[0] + z_shift[i])
            q_out.append(value + loose * float(np.abs(e).max() * top[i] * rows * 1.01))
        return arb_mat(d, d, G_out), arb_mat(d, 1, q_out)


def identity(dim: int, reg: float) -> fmpq_mat:
    diagonal = fmpq(*reg.as_integer_ratio())
    return fmpq_mat(dim, dim, [diagonal if i == j else fmpq(0) for i in range(dim) for j in range(dim)])
