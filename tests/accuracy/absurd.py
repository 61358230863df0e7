"""Legal but absurd input: every magnitude from 1e-75 to 1e75, any discount, any ridge. Nothing may leave float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import undrift as ud
from tests.accuracy.wide import Floats
from undrift import kernels
from undrift.kernels import layout

BETAS = (5e-324, 1e-300, 1e-100, 1e-16, 1e-3, 0.015, 1.0 / 64.0, 0.5, 0.9, 0.99, 1.0 - 2.0**-53, 1.0)
EDGE = 75.0


class Absurd(NamedTuple):
    """One problem: rows, labels, and a stack of learners."""

    Z: Floats
    y: Floats
    betas: Floats
    regs: Floats
    inverse_curvatures: Floats


def absurd(seed: int) -> Absurd:
    """Draw a problem whose magnitudes jump within rows, between rows and between stretches of time."""
    rng = np.random.default_rng(seed)
    dim, rounds, count = int(rng.integers(1, 21)), int(rng.integers(1, 200)), int(rng.integers(1, 11))
    Z = rng.normal(size=(rounds, dim)) * 10.0 ** _exponents(rng, rounds, dim)
    habit = rng.random(6)
    if habit[0] < 0.4:  # rows come back
        Z = Z[np.sort(rng.integers(0, rounds, size=rounds))]
    if habit[1] < 0.4:  # columns agree, exactly or nearly
        Z[:, -1] = Z[:, 0] * rng.choice([1.0, 3.0, 1.0 + 1e-15, 1e-60])
    if habit[2] < 0.4:  # silence
        Z[rng.random(rounds) < 0.5] = 0.0
    if habit[3] < 0.3:  # nothing but extremes
        Z = np.sign(Z) * rng.choice([0.0, 1e-75, 1.0, 1e75], size=Z.shape)
    if habit[4] < 0.2:
        Z[:, int(rng.integers(dim))] = 0.0
    if habit[5] < 0.2:  # below everything
        Z *= 1e-250
    limit = 10.0**EDGE
    y = np.clip(rng.normal(size=rounds) * 10.0 ** _exponents(rng, rounds, 1)[:, 0], -limit, limit)
    return Absurd(
        np.clip(Z, -limit, limit),
        y,
        rng.choice(BETAS, size=count),
        10.0 ** rng.uniform(-300.0, 300.0, size=count) if rng.random() < 0.7 else np.ones(count),
        10.0 ** rng.uniform(0.0, 80.0, size=count),
    )


def _exponents(rng: np.random.Generator, rounds: int, dim: int) -> Floats:
    """Decimal exponents: a level per entry, per row, per column, per stretch, or none."""
    shape = [(rounds, dim), (rounds, 1), (1, dim), (1, 1)][int(rng.integers(4))]
    level = rng.uniform(-EDGE, EDGE, size=shape)
    if rng.random() < 0.5:
        level = level * rng.random()
    if rng.random() < 0.3:
        level = level[np.arange(rounds) // 37 % len(level)]
    return np.broadcast_to(level, (rounds, dim)).copy()


def trial(seed: int) -> list[str]:
    """Play one problem through the kernels and through learners; return what was not finite."""
    case = absurd(seed)
    rounds, dim = case.Z.shape
    count, faults = len(case.betas), []
    for kind in ("vaw", "aioli"):
        state = layout.fresh(dim, case.regs)
        one, two, more, most = (np.full((rounds, count), np.nan) for _ in range(4))
        if kind == "vaw":
            kernels.vaw_play(state, case.betas, 0, case.Z, case.y, one, two)
            kernels.vaw_predict(state, case.betas, rounds, case.Z, more, most)
        else:
            kernels.aioli_play(
                state, case.betas, case.inverse_curvatures, 0, case.Z, np.sign(case.y) + (case.y == 0), one, two
            )
            kernels.aioli_predict(state, case.betas, rounds, case.Z, more)
            most[...] = 0.0
        faults += [f"{kind} column {k}" for k, a in enumerate((one, two, more, most)) if not np.isfinite(a).all()]
        if not all(np.isfinite(layout.leader(state, i, dim)).all() for i in range(count)):
            faults.append(f"{kind} leader")
        if not all((layout.parts(state, i, dim)["inverse_pivots"] >= 0.0).all() for i in range(count)):
            faults.append(f"{kind} pivots")
        if (two < 0.0).any():
            faults.append(f"{kind} leverage below 0")
    return faults + _learners(case)


def _learners(case: Absurd) -> list[str]:
    """The same rows through the public learners, with every hint."""
    faults = []
    beta, reg = float(case.betas[0]), float(np.clip(case.regs[0], 1e-140, 1e140))  # what learners take
    half = len(case.Z) // 2
    for hint in ("zero", "last", "ridge"):
        model = ud.DiscountedVAW(beta=beta, reg=reg, hint=hint)
        for part in (slice(0, half), slice(half, None)):
            trace = model.play(case.Z[part], case.y[part])
            if not all(np.isfinite(c).all() for c in (trace.yhat, trace.stability, trace.potential)):
                faults.append(f"DiscountedVAW {hint} trace")
        if not np.isfinite(model.predict(case.Z)).all() or not np.isfinite(model.coef).all():
            faults.append(f"DiscountedVAW {hint} predict or coef")
    logistic = ud.DiscountedAIOLI(beta=beta, reg=reg, curvature=1.0 / float(case.inverse_curvatures[0]))
    trace = logistic.play(case.Z, case.y > 0.0)
    if not all(np.isfinite(c).all() for c in (trace.yhat, trace.stability, trace.potential)):
        faults.append("DiscountedAIOLI trace")
    return faults
