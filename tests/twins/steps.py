r"""NumPy twin of the kernels that judge and mix the candidates of a forecaster, step by step.

For every series and every step h apart. Let $a_c$ be what candidate c forecast h rows ago of the row that has just
arrived, p what their mixture did, and y the value. Candidate 0 is "same as last time", so $a_0$ is the last value
known at the origin.

**Judging.** The error p - y is cut to STEP_CUT times its root mean square so far, unless that is 0; y becomes what then
follows from p. Candidates are compared by gradient losses: the regret of the mixture to c is

$$r_c=2\,(p-y)\,(p-a_c)/u,$$

in units u of the recent mean squared error (an average over a third of the rows, at most STEP_RECENT; at least
STEP_LEAST_RECENT of the mean over all remembered rows), cut to STEP_MOST_REGRET on both sides. Sums are discounted by
STEP_BETA:

    R <- BETA R + r     V <- BETA V + r^2     E <- max(BETA E, |r|)

and so are the squared errors of the candidates that are followed. The mixture is also compared with the last value:
with x = p - a_0 the move that it forecast and z = y - a_0 the one that came, both in roots of u and cut to
STEP_MOST_MOVE, the sums of x^2, of x z, and of $x^2(z-bx)^2$ are kept, with b the slope of z on x so far, limited to
[0, 1].

**Mixing** is BOA: candidate c with the prior $\pi_c$ has the weight

$$w_c\propto\pi_c\,\eta_c\,e^{\eta_cR_c-\eta_c^2V_c},\qquad\eta_c=\min\{1/2E_c,\ \sqrt{\ln C/V_c}\}.$$

A candidate with no regrets to speak of (E up to STEP_LEAST_REGRET) has the largest rate of the others, or 1. Candidates
that are silent (NaN) are left out, and then made to say what the mixture says, so that their regret will be 0.

**Serving.** The slope b has the standard error $\sqrt{\sum x^2(z-bx)^2}/\sum x^2$; forecasts of step h overlap, which
multiplies its square by h. With t the slope in standard errors, J = max(0, 1 - 1/t^2) is how far the mixture is to be
trusted; half of J (STEP_SHARED) is the mean over the steps that have been judged. What is served is

$$J\,(a_0+b\,(p-a_0))+(1-J)\,a_k,$$

where $a_k$ is the naive candidate that has lost least at this step.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.twins.constants import (
    STEP_BETA,
    STEP_CUT,
    STEP_FEW,
    STEP_LEAST_RECENT,
    STEP_LEAST_REGRET,
    STEP_MOST_MOVE,
    STEP_MOST_REGRET,
    STEP_RECENT,
    STEP_SHARED,
)
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import StepSum
from undrift.kernels.layout import State


def steps_judge(
    regrets: NDArray[np.float64],
    sums: State,
    losses: State,
    followed: NDArray[np.int64],
    answers: NDArray[np.float64],
    mixed: State,
    row: int,
    y: Vector,
) -> None:
    """Judge what was forecast of a row.

    Parameters
    ----------
    regrets
        R, V and E (series, 3, candidates, steps), changed in place.
    sums
        The numbers of `StepSum` (series, StepSum, steps), changed in place.
    losses
        Sums of squared errors of the candidates in `followed` (series, followed, steps), changed in place.
    followed
        Numbers of candidates.
    answers
        The candidates' forecasts (origins, series, candidates, steps), those of origin t at the place t % steps.
    mixed
        The mixture's (origins, series, steps); NaN: there was nothing to forecast from, and nothing is judged.
    row
        The number of the row, counted from 0.
    y
        Its values (series); nothing is judged where it is NaN.
    """
    horizon = regrets.shape[3]
    for s, value in enumerate(y):
        for h in range(1, min(horizon, row) + 1):
            origin = (row - h) % horizon
            p = float(mixed[origin, s, h - 1])
            if not (math.isnan(p) or math.isnan(value)):
                said = answers[origin, s, :, h - 1]
                step = regrets[s, :, :, h - 1], sums[s, :, h - 1], losses[s, :, h - 1]
                _judge_step(*step, said[followed], said, p, float(value))


def _judge_step(
    regrets: Matrix, sums: Vector, losses: Vector, tracked: Vector, said: Vector, p: float, y: float
) -> None:
    error = p - y
    if sums[StepSum.SQUARES]:
        most = STEP_CUT * math.sqrt(sums[StepSum.SQUARES] / sums[StepSum.ROWS])
        error = min(max(error, -most), most)
    y = p - error

    usual = sums[StepSum.SQUARES] / max(sums[StepSum.ROWS], 1.0)
    seen = sums[StepSum.SEEN] + 1.0
    sums[StepSum.RECENT] += (error**2 - sums[StepSum.RECENT]) / recent_rows(seen)
    unit = math.sqrt(max(sums[StepSum.RECENT], STEP_LEAST_RECENT * usual))
    if unit:
        r = np.clip(2.0 * (error / unit) * ((p - said) / unit), -STEP_MOST_REGRET, STEP_MOST_REGRET)
    else:
        r = np.zeros(len(said))
    R, V, E = regrets
    R[...] = STEP_BETA * R + r
    V[...] = STEP_BETA * V + r * r
    E[...] = np.maximum(STEP_BETA * E, np.abs(r))
    losses[...] = STEP_BETA * losses + (tracked - y) ** 2

    most = STEP_MOST_MOVE * unit  # cut before the division, which could overflow
    x, z = (min(max(one - said[0], -most), most) / unit if unit else 0.0 for one in (p, y))
    sums[StepSum.SEEN] += 1.0
    for place, term in (
        (StepSum.ROWS, 1.0),
        (StepSum.SQUARES, error**2),
        (StepSum.MOVES, x * x),
        (StepSum.AGREEMENT, x * z),
    ):
        sums[place] = STEP_BETA * sums[place] + term
    left = x * (z - _slope(sums) * x)
    sums[StepSum.SPREAD] = STEP_BETA * sums[StepSum.SPREAD] + left * left


def _slope(sums: Vector) -> float:
    """Return b: how much of the move that was forecast came, on average; in [0, 1]."""
    if not sums[StepSum.MOVES]:
        return 0.0
    return float(np.clip(sums[StepSum.AGREEMENT] / sums[StepSum.MOVES], 0.0, 1.0))


def steps_mix(
    regrets: NDArray[np.float64],
    sums: State,
    losses: State,
    prior: Vector,
    naive: int,
    answers: State,
    weights: State,
    mixed: Matrix,
    served: Matrix,
) -> None:
    """Mix the forecasts of the candidates.

    Parameters
    ----------
    regrets, sums, losses
        As in `steps_judge`, left as they are.
    prior
        How much each candidate counts beforehand.
    naive
        How many of the first candidates are naive; they are the first of those followed, too.
    answers
        Forecasts (series, candidates, steps). NaN is replaced by the mixture's; candidate 0 must have forecasts.
    weights
        Receives the weights (series, candidates, steps), silent candidates included.
    mixed
        Receives what the mixture forecasts (series, steps).
    served
        Receives what is to be served (series, steps).
    """
    steps = answers.shape[2]
    for s in range(len(answers)):
        judged = [h for h in range(1, steps + 1) if sums[s, StepSum.ROWS, h - 1] > 0.0]
        trust = {h: _trust(sums[s, :, h - 1], h) for h in judged}
        shared = sum(trust.values()) / max(len(judged), 1)
        slopes = {h: _slope(sums[s, :, h - 1]) for h in judged}
        shared_slope = sum(slopes.values()) / max(len(judged), 1)
        for h in range(1, steps + 1):
            said, w = answers[s, :, h - 1], weights[s, :, h - 1]
            w[...] = _boa(regrets[s, :, :, h - 1], prior)
            last, heard = said[0], ~np.isnan(said)
            total = w[heard].sum()
            p = last + (np.sum(w[heard] * (said[heard] - last)) / total if total > 0.0 else 0.0)
            said[~heard] = p
            J = (1.0 - STEP_SHARED) * trust.get(h, shared) + STEP_SHARED * shared
            best = said[int(np.argmin(losses[s, :naive, h - 1]))]
            mixed[s, h - 1] = p
            served[s, h - 1] = J * (last + slopes.get(h, shared_slope) * (p - last)) + (1.0 - J) * best


def _trust(sums: Vector, h: int) -> float:
    """Return J of a step: 1 - 1/t^2, with 1/t = sqrt(h SPREAD) / AGREEMENT, or 0."""
    if sums[StepSum.AGREEMENT] <= 0.0:
        return 0.0
    inverse = math.sqrt(h) * math.sqrt(sums[StepSum.SPREAD]) / sums[StepSum.AGREEMENT]
    return 1.0 - inverse * inverse if inverse < 1.0 else 0.0


def _boa(regrets: Matrix, prior: Vector) -> Vector:
    """Return the weights of BOA."""
    R, V, E = regrets
    apart = E > STEP_LEAST_REGRET
    eta = np.ones(len(R))
    eta[apart] = np.minimum(0.5 / E[apart], np.sqrt(math.log(max(len(R), 2)) / V[apart]))
    if apart.any():
        eta[~apart] = eta[apart].max()
    log_weights = np.log(prior * eta) + eta * R - eta**2 * V
    w = np.exp(log_weights - log_weights.max())
    return np.asarray(w / w.sum())


def recent_rows(seen: float) -> float:
    """Return over how many rows recent errors are averaged: a third of those seen, but all of the first few."""
    return min(max(seen / 3.0, min(seen, STEP_FEW)), STEP_RECENT)
