r"""The discounted AIOLI in multi-precision, closed loop: it lives on its own predictions, without floor or floats.

$A = L D L^\top$ as in the kernels, in `bits` binary digits; the scalar equation to 256.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, arf, ctx, fmpq_mat

from tests.accuracy.wide import Floats
from tests.twins.reference import log_odds


class Odds(NamedTuple):
    """What a logistic round comes to."""

    yhat: arf
    weight: arf
    slope: arf


def closed_loop(U: Floats, prior: fmpq_mat, labels: Floats, beta: float, bend: float, bits: int = 256) -> Floats:
    """Return the log-odds of every round."""
    ctx.prec = bits
    dim = U.shape[1]
    L, D = _factor(arb_mat(prior), dim)
    theta, discount, one = [arf(0)] * dim, arf(beta), arf(1)
    out = np.empty(len(U))
    for t, (row, label) in enumerate(zip(U.tolist(), labels.tolist(), strict=True)):
        D = [x * discount for x in D]
        z = [arf(x) for x in row]
        p: list[arf] = []
        for x, line in zip(z, L, strict=True):
            for a, b in zip(p, line, strict=True):
                x = x - a * b
            p.append(x)
        g = [a / b for a, b in zip(p, D, strict=True)]
        m, h, parts, leverages = arf(0), arf(0), [], []
        for a, b, c in zip(p, theta, g, strict=True):
            m, h = m + a * b, h + a * c
            parts.append(m)
            leverages.append(h)
        odds = logistic_round(m, h, label, bend)
        ctx.prec = bits
        out[t] = float(odds.yhat)
        last, gains = one, []
        for j in range(dim):
            s = one + odds.weight * leverages[j]
            gain = g[j] / s
            D[j] = D[j] * s / last
            theta[j] = theta[j] + gain * (odds.weight * (odds.yhat - parts[j]) + odds.slope)
            gains.append(odds.weight * gain)
            last = s
        for x, line in zip(z, L, strict=True):
            for j in range(len(line)):
                x = x - p[j] * line[j]
                line[j] = line[j] + gains[j] * x
    return out


def logistic_round(m0: arf, kappa: arf, label: float, bend: float) -> Odds:
    """Solve m + kappa tanh(m/2) = m0 by Newton from float64's root, and price the label."""
    ctx.prec = 256
    target, k = arb(m0), arb(kappa)
    big = float(kappa) > 1e290
    m = target / (1 + k / 2) if big else arb(log_odds(float(m0), float(kappa)))
    for _ in range(6):
        m = arb(m.mid())
        e = (-m).expm1()  # tanh(m/2) = -e / (2 + e)
        tanh = -e / (2 + e)
        step = (target - m - k * tanh) / (1 + k * (1 - tanh * tanh) / 2)
        m = m + step
        if abs(float(step.mid())) <= 1e-50 * abs(float(m.mid())):
            break
    else:
        raise ArithmeticError(f"no root for m0={m0}, kappa={kappa}")
    e = (-abs(m)).exp()
    weight = e / ((1 + e) * (1 + e)) / arb(bend)
    slope = label / (1 + (label * m).exp())
    return Odds(_middle(m), _middle(weight), _middle(slope))


def _middle(x: arb) -> arf:
    return arf(x.mid().man_exp())


def _factor(A: arb_mat, dim: int) -> tuple[list[list[arf]], list[arf]]:
    """L (below the diagonal) and D of a small positive definite matrix."""
    L: list[list[arb]] = []
    D: list[arb] = []
    for r in range(dim):
        line: list[arb] = []
        for j in range(r):
            rest = sum((line[i] * D[i] * L[j][i] for i in range(j)), arb(0))
            line.append((A[r, j] - rest) / D[j])
        D.append(A[r, r] - sum((line[i] * D[i] * line[i] for i in range(r)), arb(0)))
        L.append(line)
    return [[_middle(x) for x in line] for line in L], [_middle(x) for x in D]
