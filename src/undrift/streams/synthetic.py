"""Synthetic streams: drift of a known kind, with the truth beside every row."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector

KINDS = ("abrupt", "gradual", "seasonal", "recurring")
TASKS = ("regression", "classification")
WHO = "synthetic"


class Synthetic(NamedTuple):
    """A stream and what made it."""

    Z: Matrix
    """Features (T, d), independent standard normal."""
    y: Vector
    """Labels (T,): u_t.z_t plus noise, or 0 and 1 with log-odds u_t.z_t / noise."""
    u: Matrix
    """The coefficients that were true in each round (T, d)."""
    clean: Vector
    """What a predictor that knows the truth would say (T,): u_t.z_t, or the log-odds."""


def synthetic(
    kind: str = "abrupt",
    *,
    task: str = "regression",
    rounds: int = 10_000,
    dim: int = 5,
    noise: float = 0.5,
    period: float | None = None,
    seed: int = 0,
) -> Synthetic:
    r"""Return a linear stream whose coefficients $u_t$ change in a known way.

    Parameters
    ----------
    kind
        "abrupt": new coefficients every `period` rounds. "gradual": a random walk that gets as far in `period` rounds
        as a jump. "seasonal": coefficients swing around their mean with this period, each with its own phase.
        "recurring": three sets of coefficients take turns, `period` rounds each, and come back.
    task
        "regression", or "classification" with labels 0 and 1.
    rounds, dim
        T and d.
    noise
        Deviation of the noise in labels, > 0; for classification the scale of logistic noise.
    period
        Rounds; a tenth of the stream by default.
    seed
        Another seed, another stream.

    Examples
    --------
    >>> stream = synthetic("abrupt", rounds=1000, dim=3, noise=0.1, period=250)
    >>> int(np.count_nonzero(np.abs(np.diff(stream.u, axis=0)).sum(axis=1)))
    3
    >>> bool(np.std(stream.y - stream.clean) < 0.11)
    True
    """
    _check.choice(WHO, "kind", kind, KINDS)
    _check.choice(WHO, "task", task, TASKS)
    rounds, dim = _check.integer(WHO, "rounds", rounds, 1), _check.integer(WHO, "dim", dim, 1)
    noise = _check.interval(WHO, "noise", noise, "(0, inf)")
    turn = _check.interval(WHO, "period", max(1.0, rounds / 10.0) if period is None else period, "[1, inf)")
    rng = np.random.default_rng(_check.integer(WHO, "seed", seed, 0))
    u = _coefficients(kind, rounds, dim, turn, rng)
    Z = rng.normal(size=(rounds, dim))
    clean = np.sum(Z * u, axis=1)
    if task == "regression":
        return Synthetic(Z, clean + noise * rng.normal(size=rounds), u, clean)
    odds = clean / noise
    y = np.where(rng.logistic(size=rounds) < odds, 1.0, 0.0)
    return Synthetic(Z, y, u, odds)


def _coefficients(kind: str, rounds: int, dim: int, period: float, rng: np.random.Generator) -> Matrix:
    t = np.arange(rounds)
    if kind == "gradual":
        steps = rng.normal(scale=math.sqrt(2.0 / period), size=(rounds, dim))
        steps[0] = rng.normal(size=dim)
        return np.cumsum(steps, axis=0)
    if kind == "seasonal":
        mean, phase = rng.normal(size=dim), rng.uniform(0.0, 2.0 * math.pi, size=dim)
        return np.asarray(mean + math.sqrt(2.0) * np.sin(2.0 * math.pi * t[:, None] / period + phase))
    stage = (t / period).astype(np.int64)
    concepts = rng.normal(size=(3 if kind == "recurring" else int(stage[-1]) + 1, dim))
    return np.asarray(concepts[stage % len(concepts)])
