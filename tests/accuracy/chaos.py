"""Why two correct computations of AIOLI may part: with labels that its memory separates, the learner is chaotic.

Three runs per stream: the multi-precision closed loop; the same with one row of round 2000 changed by 1e-9; the
kernel. If the second leaves the first, the recursion itself amplifies differences, whoever computes it. The kernel
against the multi-precision learner that is given the kernel's own weights (open loop) shows its arithmetic alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.accuracy import measure
from tests.accuracy.closed import closed_loop
from tests.accuracy.streams import make
from tests.accuracy.wide import Floats

BETA, TOUCHED, TOUCH = 0.999, 2000, 1e-9


class Storm(NamedTuple):
    """Errors by the end of each sixth of a stream."""

    name: str
    strength: float
    touched: list[float]
    kernel: list[float]
    given: float  # kernel against the reference that is given its weights


def jobs(quick: bool) -> list[tuple[str, float, int]]:
    """(scenario, size of the true log-odds, rounds)."""
    rounds = 6000 if quick else 60_000
    return [(name, strength, rounds) for name in ("full", "near 1e-6") for strength in (3.0, 30.0)]


def work(job: tuple[str, float, int]) -> Storm:
    """Run one stream three times."""
    name, strength, rounds = job
    case = make(name, 6, rounds, seed=5)
    rng = np.random.default_rng(5)
    odds = strength * (case.U @ rng.normal(size=6)) / np.sqrt(6.0)
    y = np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    touched = case.U.copy()
    touched[min(TOUCHED, rounds // 10)] *= 1.0 + TOUCH
    truth = closed_loop(case.U, case.prior(), y, BETA, measure.INVERSE_CURVATURE)
    other = closed_loop(touched, case.prior(), y, BETA, measure.INVERSE_CURVATURE)
    run = measure.played("aioli", case.Z, y, [BETA], 0)
    yhat = run.one[:, 0]
    given = measure.open_loop(case, y, yhat, BETA, [k * rounds // 12 - 1 for k in range(1, 13)])
    return Storm(name, strength, _sixths(other, truth), _sixths(yhat, truth), max(e for e, _ in given))


def _sixths(a: Floats, b: Floats) -> list[float]:
    error = np.abs(a - b) / np.maximum(np.abs(b), 1.0)
    return [float(part.max()) for part in np.array_split(error, 6)]


def table(storms: list[Storm]) -> list[str]:
    """Markdown lines."""
    out = ["| AIOLI, d = 6, beta .999 | log-odds | who | " + " | ".join(f"sixth {k}" for k in range(1, 7)) + " |"]
    out.append("|---|---|---|" + "---|" * 6)
    for s in storms:
        for who, errors in (("exact, one row touched", s.touched), ("kernel", s.kernel)):
            out.append(f"| {s.name} | {s.strength:g} | {who} | " + " | ".join(f"{e:.0e}" for e in errors) + " |")
        out.append(f"| {s.name} | {s.strength:g} | kernel, its weights given | | | | | | {s.given:.0e} |")
    return out
