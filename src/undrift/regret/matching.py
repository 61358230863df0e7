"""Whether a trace is the one a learner leaves on these rows and labels."""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.learners.vaw import DiscountedVAW
from undrift.regret.replay import Replay
from undrift.trace import Trace


def same_learner(name: str, parameters: object, trace: Trace) -> None:
    """Refuse the trace of another learner."""
    if trace.learner and trace.learner != name:
        raise InputError(
            f"certify: the trace is of {trace.learner}, the learner is {name}; pass the one that played it"
        )
    mine = dict(parameters) if isinstance(parameters, dict) else {}
    for key in sorted({*mine, *trace.parameters} if trace.learner else ()):
        if mine.get(key) != trace.parameters.get(key):
            raise InputError(
                f"certify: the trace was played with {key}={trace.parameters.get(key)!r}, the learner has "
                f"{key}={mine.get(key)!r}; pass the one that played it"
            )


def same_run(learner: object, yhat: Vector, stability: Vector, again: Replay, Z: Matrix, y: Vector) -> None:
    """Refuse a trace that these rows and labels cannot have produced, whatever hints were given."""
    mine = again.trace
    price = np.empty(0) if mine.stability is None else mine.stability
    if _alike(yhat, mine.yhat, y) and _alike(stability, price, y * y):
        return
    if isinstance(learner, DiscountedVAW) and _some_hint(learner, yhat, stability, Z, y):
        return
    at = int(np.argmax(np.abs(yhat - mine.yhat)))
    raise InputError(
        f"certify: the trace does not fit these rows and labels: replayed, round {at} predicts {mine.yhat[at]:g}, the "
        f"trace has {yhat[at]:g}; pass the Z and y that were played"
    )


def _some_hint(learner: DiscountedVAW, yhat: Vector, stability: Vector, Z: Matrix, y: Vector) -> bool:
    """Whether hints exist that give this trace: yhat = m + q (hint - m), stability = q (y - hint)^2 / 2."""
    m, h = np.empty((len(y), 1)), np.empty((len(y), 1))
    state = layout.fresh(Z.shape[1], np.array([learner.reg]))
    _check.raise_if_refused("certify", kernels.vaw_play(state, np.array([learner.beta]), 0, Z, y, m, h), Z.shape[1])
    m, q = m[:, 0], h[:, 0] / (1.0 + h[:, 0])
    moved = q > 0.0
    hint = m + np.divide(yhat - m, q, out=np.zeros(len(y)), where=moved)
    wide = np.abs(hint) + np.abs(m) + np.abs(y)
    return bool((np.abs(stability - 0.5 * q * (y - hint) ** 2) <= 1e-6 * q * wide * wide).all()) and _alike(
        yhat[~moved], m[~moved], y
    )


def _alike(a: Vector, b: Vector, unit: Vector) -> bool:
    """Whether two columns agree to a millionth of their size; kernel levels differ far less."""
    size = max(float(np.abs(b).max(initial=0.0)), float(np.abs(unit).max(initial=0.0)))
    return bool((np.abs(a - b) <= 1e-6 * size).all())
