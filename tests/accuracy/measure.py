"""How far the kernels are from the multi-precision references, cell by cell.

An error is |yhat - reference| / max(|reference|, rms y). It is taken at fixed rounds, at the events of the scenario,
and where variants of the same computation disagree most: features reversed, features shuffled, floors half a period
later. Fixed rounds alone would hide failures that last a few rounds.

Where the data no longer determine the leader (leverage h above 1), rounding of a row moves its prediction m by more:
`leader` is the error of m divided by sqrt(1 + h), the standard deviation of m in label noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import arf

from tests.accuracy.closed import closed_loop, logistic_round
from tests.accuracy.exact import Past, exact
from tests.accuracy.streams import Case
from tests.accuracy.wide import Floats
from undrift import kernels
from undrift.kernels import layout

BETAS = (0.5, 0.9, 0.99, 0.999, 1.0)
INVERSE_CURVATURE = 2.0
PERIOD = 16
LIMIT = 1e-8
LOOSER = {"near 1e-8": 1e-5, "steep 1e-6": 1e-7}
"""Measured, not promised: there a rounding of one entry of a row is worth 1e-8 and 1e-10 of a label."""


class Row(NamedTuple):
    """One cell of the matrix."""

    kind: str
    name: str
    dim: int
    beta: float
    rounds: int
    asked: int
    error: float
    at: int
    leader: float
    ridge: float  # the leader's error without the divisor
    gap: float  # largest disagreement of the variants, over all rounds
    floored: int
    resets: int
    broken: int  # numbers that are not finite, in outputs and state


def good(row: Row) -> bool:
    """Whether a cell keeps the promise; NaN does not."""
    limit = LOOSER.get(row.name, LIMIT)
    # a silence that sank to the absolute floor leaves the leader's unseen directions other than the exact ones
    leader = 0.0 if row.name == "silent" and row.floored else row.leader
    return row.error <= limit and leader <= limit and row.broken == 0 and row.resets == 0


class Run(NamedTuple):
    """Outputs of a kernel, (rounds, learners), and the counters of its state."""

    one: Floats
    two: Floats
    floored: list[int]
    resets: list[int]
    broken: list[int]


def vaw(case: Case, betas: Sequence[float] = BETAS) -> list[Row]:
    """Squared loss, open loop: hints zero (`error`) and ridge (`leader`)."""
    rounds = len(case.y)
    runs = [played("vaw", Z, case.y, betas, first) for Z, first in _variants(case)]
    scale, rows = _rms(case.y), []
    for i, beta in enumerate(betas):
        m, h = runs[0].one[:, i], runs[0].two[:, i]
        yhat = m / (1.0 + h)
        others = [(run.one[:, i], run.two[:, i]) for run in runs[1:]]
        gaps = [_relative(a / (1.0 + b), yhat, scale) for a, b in others]
        leads = [_relative(a, m, scale) / np.sqrt(1.0 + h) for a, _ in others]
        asked = _rounds(case, [*gaps, *leads])
        truth = exact(Past(case.U, np.ones(rounds), case.y, beta, case.prior()), asked)
        errors, leaders, ridges = [], [], []
        for t in asked:
            value, lead = float(truth[t].m / (1 + truth[t].h)), float(truth[t].m)
            errors.append((abs(yhat[t] - value) / max(abs(value), scale), t))
            wide = float((1 + truth[t].h).sqrt())
            ridges.append(abs(m[t] - lead) / max(abs(lead), scale))
            leaders.append(ridges[-1] / wide)
        gap = float(max(g.max() for g in gaps))
        rows.append(_row("vaw", case, beta, runs[0], i, errors, gap, max(leaders), max(ridges)))
    return rows


def aioli(case: Case, betas: Sequence[float] = BETAS) -> list[Row]:
    """Logistic loss: the kernel's own weights and targets are data for the reference."""
    y = case.labels
    runs = [played("aioli", Z, y, betas, first) for Z, first in _variants(case)]
    rows = []
    for i, beta in enumerate(betas):
        yhat = runs[0].one[:, i]
        gaps = [_relative(run.one[:, i], yhat, 1.0) for run in runs[1:]]
        errors = open_loop(case, y, yhat, beta, _rounds(case, gaps))
        rows.append(_row("aioli", case, beta, runs[0], i, errors, float(max(g.max() for g in gaps))))
    return rows


def open_loop(case: Case, y: Floats, yhat: Floats, beta: float, asked: list[int]) -> list[tuple[float, int]]:
    """Return (error, round) of log-odds against the exact learner with the weights and targets these imply."""
    near, far = _sigmoid(yhat), _sigmoid(-yhat)
    weight = near * far / INVERSE_CURVATURE
    effect = weight * yhat + np.where(y > 0.0, far, -near)
    truth = exact(Past(case.U, weight, effect, beta, case.prior()), asked)
    errors = []
    for t in asked:
        m0, kappa = (arf(x.mid().man_exp()) for x in truth[t])
        value = float(logistic_round(m0, kappa, 1.0, INVERSE_CURVATURE).yhat)
        errors.append((abs(yhat[t] - value) / max(abs(value), 1.0), t))
    return errors


def aioli_closed(case: Case, betas: Sequence[float] = BETAS) -> list[Row]:
    """Logistic loss, every round: kernel and reference each live on their own predictions."""
    y, rows = case.labels, []
    for beta in betas:
        run = played("aioli", case.Z, y, [beta], 0)
        still = len(y) // 10 if case.name == "frozen" else 0  # rounds without news cost places, and so do large rows
        bits = 256 - math.floor(still * math.log2(beta)) + 4 * math.ceil(math.log2(np.abs(case.U).max()))
        value = closed_loop(case.U, case.prior(), y, beta, INVERSE_CURVATURE, bits=bits)
        errors = _relative(run.one[:, 0], value, 1.0)
        worst = int(np.argmax(errors))
        row = _row("closed", case, beta, run, 0, [(float(errors[worst]), worst)], 0.0)
        rows.append(row._replace(asked=len(y)))
    return rows


def _variants(case: Case) -> list[tuple[Floats, int]]:
    Z = case.Z
    shuffled = np.random.default_rng(0).permutation(Z.shape[1])
    orders = [slice(None), slice(None, None, -1), shuffled, slice(None)]
    return [(np.ascontiguousarray(Z[:, o]), f) for o, f in zip(orders, [0, 0, 0, PERIOD // 2], strict=True)]


def played(kind: str, Z: Floats, y: Floats, betas: Sequence[float], first: int) -> Run:
    count, dim = len(betas), Z.shape[1]
    state = layout.fresh(dim, np.ones(count))
    one, two = np.empty((len(Z), count)), np.empty((len(Z), count))
    beta = np.array(betas)
    if kind == "vaw":
        status = kernels.vaw_play(state, beta, first, Z, y, one, two)
    else:
        status = kernels.aioli_play(state, beta, np.full(count, INVERSE_CURVATURE), first, Z, y, one, two)
    assert status == 0
    broken = [
        sum(int(np.count_nonzero(~np.isfinite(x))) for x in (one[:, i], two[:, i], layout.column(state, i)))
        for i in range(count)
    ]
    parts = [layout.parts(state, i, dim) for i in range(count)]
    return Run(one, two, [int(p["floored"][0]) for p in parts], [int(p["resets"][0]) for p in parts], broken)


def _rounds(case: Case, gaps: list[Floats]) -> list[int]:
    """Fixed rounds, events, and the largest gaps, those of one spell counted once."""
    total, dim = len(case.y), len(case.M)
    fixed = [0, 1, 2, dim, 2 * dim, 5 * dim, 100, 1000, total // 7, total // 2 - 1, total - 2, total - 1]
    out = {t for t in fixed if t < total} | set(case.events)
    for gap in gaps:
        rest = np.where(np.isfinite(gap), gap, np.inf)
        for _ in range(3):
            t = int(np.argmax(rest))
            if rest[t] <= 1e-14:
                break
            out.add(t)
            rest[max(0, t - 20) : t + 20] = 0.0
    return sorted(out)


def _row(
    kind: str,
    case: Case,
    beta: float,
    run: Run,
    i: int,
    errors: list[tuple[float, int]],
    gap: float,
    leader: float = 0.0,
    ridge: float = 0.0,
) -> Row:
    # NaN must not hide behind max()
    error, at = max(errors, key=lambda e: math.inf if math.isnan(e[0]) else e[0])
    rounds, dim = len(case.y), len(case.M)
    counts = run.floored[i], run.resets[i], run.broken[i]
    return Row(kind, case.name, dim, beta, rounds, len(errors), error, at, leader, ridge, gap, *counts)


def _relative(a: Floats, b: Floats, scale: float) -> Floats:
    return np.abs(a - b) / np.maximum(np.abs(b), scale)


def _rms(y: Floats) -> float:
    return float(np.sqrt(np.mean(y * y)))


def _sigmoid(a: Floats) -> Floats:
    e = np.exp(-np.abs(a))
    return np.where(a >= 0.0, 1.0, e) / (1.0 + e)
