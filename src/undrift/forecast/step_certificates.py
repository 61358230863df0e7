r"""Certificates of forecasts, step by step: the regret against linear forecasts of that step, and a bound on it.

A forecast of step h made at origin t is judged when row t + h comes and learned from later still, so no learner inside
the forecaster makes a promise about what was *served*. But its loss over that of a certified learner on the same rows
is known once the values are. The bound of step h is that of discounted VAW over the forecaster's own rows, told the
move $y_{t+h}-y_t$ before the next origin, plus the measured excess of the forecasts served over it. What lateness, the
mixture and changes of the season cost is in that excess. Key `d2d`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.forecast.design import History
from undrift.forecast.members import BETAS
from undrift.forecast.recent_rows import fill_forward
from undrift.learners import DiscountedVAW
from undrift.regret import Certificate, HindsightLeaves, ReferenceLearners, certify
from undrift.trace import Trace

if TYPE_CHECKING:
    from undrift.forecast.forecaster import Forecaster

Comparator = Callable[[Matrix, Vector], ArrayLike]
LEAST_ORIGINS = 2
"""Origins to certify, at least, for each column of a row: fewer could be fitted by anything."""


class StepCertificate(NamedTuple):
    """What is proven about the forecasts of one step of one series."""

    series: int
    step: int
    """From 1 on."""
    origins: int
    """Forecasts that count: those that were served and whose value is known."""
    promised: Certificate
    """Through a member's memory: what discounted VAW promises, and the measured excess over it."""
    proven: Certificate
    """Through the best leaf in hindsight: against all linear forecasts of the comparator's kind with
    coefficients no larger, in this run alone."""


def certify_steps(
    model: Forecaster, values: Matrix, served: NDArray[np.float64], times: Vector | None, steps: Iterable[int],
    u: Comparator, every: int = 1, series: Iterable[int] | None = None,
) -> list[StepCertificate]:  # fmt: skip
    """Return a certificate for each series and step.

    Parameters
    ----------
    model
        The forecaster after all rows; its seasons and scales make the rows that comparators are linear in.
    values
        All rows (rows, series), NaN where missing.
    served
        The forecasts served after the rows 0, every, 2 every, ... (origins, series, steps); NaN where there was none.
    times
        Seconds since 1970 of every row, if times were given.
    steps
        Which steps.
    u
        Finds comparators from rows and labels, such as `comparators.fixed`.
    every
        Rows from one origin to the next.
    series
        Which series; None: all.
    """
    core = model._core
    if core is None or core.fitted is None:
        raise ConditionError("Forecaster: nothing to certify yet; members begin after 8 rows")
    design, filled = core.fitted[0], fill_forward(values)
    history = History(np.nan_to_num(filled), 0, times if core.shape.timed else None)
    origins = np.arange(len(served)) * every
    rows = design.rows(history, origins)
    learners = [DiscountedVAW(beta=float(beta), reg=float(design.width)) for beta in BETAS]
    found = []
    for s in range(values.shape[1]) if series is None else series:
        for h in steps:
            at = origins + h
            truth = np.where(at < len(values), values[np.minimum(at, len(values) - 1), s], np.nan)
            base, said = filled[origins, s], served[:, s, h - 1]
            counts = ~(np.isnan(truth) | np.isnan(base) | np.isnan(said))
            count, needed = int(np.count_nonzero(counts)), LEAST_ORIGINS * design.width
            if count < needed:
                raise ConditionError(
                    f"Forecaster: step {h} has {count} forecasts to certify; {design.width} columns need {needed}"
                )
            Z, y = np.ascontiguousarray(rows[counts, s]), (truth - base)[counts]
            trace = Trace((said - base)[counts])
            path = np.asarray(u(Z, y))
            promised = certify(ReferenceLearners(learners), Z, y, trace=trace, u=path)
            proven = certify(HindsightLeaves(binary=False), Z, y, trace=trace, u=path)
            found.append(StepCertificate(s, h, len(y), promised, proven))
    return found


def check_steps(who: object, steps: Iterable[int] | None, horizon: int) -> list[int]:
    """Return the steps to certify: all where none are named."""
    if steps is None:
        return list(range(1, horizon + 1))
    return [_check.integer(who, "steps", one, 1, horizon) for one in steps]


def read_run(model: Forecaster, Y: Any, trace: Any) -> tuple[Matrix, NDArray[np.float64]]:
    """Return the rows of a run and the forecasts served, in the shapes with an axis of series."""
    values = _check._real_array(model, "Y", Y)
    values = values[:, None] if values.ndim == 1 else values
    yhat, known = np.asarray(trace.yhat), np.asarray(trace.known)
    if yhat.ndim == 2:
        yhat, known = yhat[:, None], known[:, None]
    if values.ndim != 2 or yhat.shape != (*values.shape, model.horizon) or len(values) != model.rows:
        raise InputError(
            f"Forecaster: certify needs all {model.rows} rows since the first, NaN where one is missing, and the trace "
            f"of play for them; got rows {values.shape} and forecasts {yhat.shape}"
        )
    return values, np.where(known[:, :, None], yhat, np.nan)
