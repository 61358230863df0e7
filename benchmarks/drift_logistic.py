"""A logistic learner with a price on movement, as a prototype: what it promises against the smooth comparator.

python -m benchmarks drift_logistic [ROWS]; the data folder is UNDRIFT_DATA. docs/theory/drift.md quotes the result.
"""

from __future__ import annotations

import sys

import numpy as np

import undrift as ud
from benchmarks.streams import BINARY, load, names
from undrift.losses import logistic, sigmoid
from undrift.regret.comparators import smooth

REACH, PRICE = 8.0, 1e4


def play(Z: np.ndarray, y: np.ndarray, tau: float) -> tuple[np.ndarray, np.ndarray]:
    """Return predictions and prices of rounds: the drifting recursion over AIOLI's surrogates, ridge 1."""
    rounds, dim = Z.shape
    P, leader = np.eye(dim), np.zeros(dim)
    yhat, price = np.empty(rounds), np.empty(rounds)
    for t in range(rounds):
        P = P + np.eye(dim) * (0.5 / tau if t else 0.0)
        Pz = P @ Z[t]
        h, m = float(Z[t] @ Pz), float(Z[t] @ leader)
        a = yhat[t] = optimistic(m, h)
        loss, g = float(logistic.value(a, y[t])), float(logistic.slope(a, y[t]))
        k = float(sigmoid(a) * sigmoid(-a)) / (1.0 + REACH)
        x = (m + h * (k * a - g)) / (1.0 + h * k)  # the least point of the value along z, with this surrogate
        least = loss + g * (x - a) + 0.5 * k * (x - a) ** 2 + (0.5 * (x - m) ** 2 / h if h else 0.0)
        price[t] = loss - least
        leader = leader + Pz * ((x - m) / h if h else 0.0)
        P = P - np.outer(Pz, Pz) * (k / (1.0 + k * h))
    return yhat, price


def optimistic(m: float, h: float) -> float:
    """Return the a with a + h tanh(a / 2) / 2 = m: any prediction keeps the promise, this one keeps prices small."""
    low, high = min(m, 0.0), max(m, 0.0)
    for _ in range(60):
        a = 0.5 * (low + high)
        low, high = (a, high) if a + 0.5 * h * np.tanh(0.5 * a) < m else (low, a)
    return 0.5 * (low + high)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    for name in (one for one in names() if one in BINARY):
        stream = load(name, rows)
        Z, y = stream.Z, stream.y
        u = smooth(Z, y, logistic, tau=PRICE, margin=REACH)
        theirs = float(logistic.value(np.sum(Z * u, axis=1), y).sum())
        for beta in (0.99, 0.999, 1.0):
            learner = ud.DiscountedAIOLI(beta=beta, bound=REACH)
            c = ud.regret.certify(learner, Z, y, u=u)
            print(
                f"{name:17} AIOLI beta={beta:<9} measured {c.incurred / theirs:.3f} promised {c.ratio:.3f}", flush=True
            )
        for tau in (1e2, 1e3, 1e4, 1e5):
            yhat, price = play(Z, y, tau)
            paid = 0.5 * float(u[0] @ u[0]) + tau * float(np.sum(np.diff(u, axis=0) ** 2))
            mine, promised = logistic.value(yhat, y).sum(), theirs + paid + price.sum()
            print(
                f"{name:17} drifting tau={tau:<6g} measured {mine / theirs:.3f} promised {promised / theirs:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
