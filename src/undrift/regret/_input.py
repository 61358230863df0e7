"""What the measures of this package receive, checked once: rows, labels, comparators and traces; exact sums."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal.discount import Discount
from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import InputError
from undrift.losses import Logistic, Loss
from undrift.template import Template
from undrift.trace import Trace

WHO = "certify"


def check_stream(who: object, Z: ArrayLike, y: ArrayLike, loss: Loss) -> tuple[Matrix, Vector]:
    """Return rows (T, d) and labels (T,); labels of the logistic loss become -1 and +1."""
    rows = _check.rows(who, Z)
    if isinstance(loss, Logistic):
        return rows, _check.signs(who, y, len(rows))
    return rows, _check.column(who, "y", y, len(rows))


def check_comparator(who: object, u: ArrayLike, rounds: int, dim: int) -> Matrix:
    """Return one comparator a round (T, d); a single vector (d,) stands still."""
    array = np.asarray(u)
    if array.ndim == 1 and array.dtype.kind in "fiub":
        array = np.broadcast_to(array, (rounds, len(array)))
    if array.ndim != 2 or array.shape != (rounds, dim):
        raise InputError(
            f"{_check.name_of(who)}: u must be one comparator ({dim},) or one a round ({rounds}, {dim}), "
            f"got an array of shape {np.asarray(u).shape}"
        )
    return _check.finite_array(who, "u", array, (rounds, dim))


def moves(u: Matrix) -> Rounds:
    """Return the rounds t, counted from 0, after which the comparator moves: u[t + 1] != u[t]."""
    return np.flatnonzero((u[1:] != u[:-1]).any(axis=1))


def margins(Z: Matrix, u: Matrix) -> Vector:
    """Return u_t.z_t for every round, the comparator's own predictions."""
    return np.asarray(np.einsum("td,td->t", Z, u), dtype=np.float64)


def add_exactly(*columns: Vector) -> float:
    """Return the sum of all numbers of the columns, with one rounding."""
    return math.fsum(chain.from_iterable(one.tolist() for one in columns))


def add_sizes(*columns: Vector) -> float:
    """Return the sum of the sizes of all numbers of the columns: what rounding is measured against."""
    return add_exactly(*(np.abs(one) for one in columns))


def check_whole(trace: Trace, rounds: int) -> None:
    """Refuse a trace of other rounds, or of a part of them."""
    if len(trace) != rounds:
        raise InputError(f"{WHO}: the trace must cover the {rounds} rounds given, it has {len(trace)}")
    if trace.first != 0:
        raise InputError(
            f"{WHO}: the trace is a fragment that starts after round {trace.first}; play the stream from its first "
            "round with a fresh learner"
        )


def check_same_learner(name: str, parameters: object, trace: Trace) -> None:
    """Refuse the trace of another learner."""
    if trace.learner and trace.learner != name:
        raise InputError(f"{WHO}: the trace is of {trace.learner}, the learner is {name}; pass the one that played it")
    mine = dict(parameters) if isinstance(parameters, dict) else {}
    for key in sorted({*mine, *trace.parameters} if trace.learner else ()):
        if mine.get(key) != trace.parameters.get(key):
            raise InputError(
                f"{WHO}: the trace was played with {key}={trace.parameters.get(key)!r}, the learner has "
                f"{key}={mine.get(key)!r}; pass the one that played it"
            )


def check_columns(trace: Trace, discount: Discount) -> tuple[Vector, Vector, Vector]:
    """Return predictions, stability and potential of a whole trace, or say why it does not serve."""
    if trace.stability is None or trace.potential is None:
        raise InputError(
            f"{WHO}: the trace of {trace.learner or 'this learner'} has no stability and potential, so no promise "
            "covers it; use a learner with a guarantee, or a Trace that carries both columns"
        )
    for name, own in (("beta", discount.beta), ("half_life", discount.half_life)):
        theirs = trace.parameters.get(name)
        if isinstance(theirs, (int, float)) and not math.isclose(theirs, own, rel_tol=1e-14):
            raise InputError(f"{WHO}: the template has {name}={own:g}, the trace was played with {name}={theirs:g}")
    shape = (len(trace),)
    yhat = _check.finite_array(WHO, "yhat", trace.yhat, shape)
    stability = _check.finite_array(WHO, "stability", trace.stability, shape)
    potential = _check.finite_array(WHO, "potential", trace.potential, shape)
    return yhat, stability, potential


def check_same_run(template: Template, trace: Trace, Z: Matrix, y: Vector) -> None:
    """Refuse a trace that these rows and labels cannot have produced."""
    if template.replayed is None or template.fits(trace, Z, y):
        return
    mine = template.replayed.yhat
    at = int(np.argmax(np.abs(trace.yhat - mine)))
    raise InputError(
        f"{WHO}: the trace does not fit these rows and labels: replayed, round {at} predicts {mine[at]:g}, the "
        f"trace has {trace.yhat[at]:g}; pass the Z and y that were played"
    )
