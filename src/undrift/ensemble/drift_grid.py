"""The ensemble that learns how fast the world drifts: `DriftVAW` over a grid of prices of movement."""

from __future__ import annotations

import numpy as np

from undrift import _check
from undrift.ensemble.ensemble import Ensemble
from undrift.ensemble.mixer import Mixer
from undrift.errors import InputError
from undrift.learners import DriftVAW


def drift_ensemble(
    slowest: float = 1e8, fastest: float = 1.0, *, reg: float = 1.0, hint: str = "zero", mixer: Mixer | None = None
) -> Ensemble:
    r"""Return an ensemble of `DriftVAW` whose prices $\tau$ of movement are ten times apart.

    Parameters
    ----------
    slowest, fastest
        Largest and smallest $\tau$, in losses per squared coefficient: from hardly drifting to following every label.
    reg, hint
        As for `DriftVAW`.
    mixer
        By default `SelfConfident`.

    Notes
    -----
    Guarantee `drift`: for every path, the best member's, whose $\tau$ is within a factor $\sqrt{10}$ of the best one
    between the ends (its price of movement within that factor), plus the mixer's `cost`.

    Examples
    --------
    >>> Z = np.column_stack([np.ones(500), np.sin(np.arange(500))])
    >>> y = np.sin(np.arange(500) / 50) * Z[:, 1]
    >>> model = drift_ensemble(hint="ridge")
    >>> trace = model.play(Z, y)
    >>> len(model.members), float(np.argmax(model.weights))
    (9, 8.0)
    """
    high = _check.interval("drift_ensemble", "slowest", slowest, "[1e-100, 1e100]")
    low = _check.interval("drift_ensemble", "fastest", fastest, "[1e-100, 1e100]")
    if low > high:
        raise InputError(f"drift_ensemble: fastest must be at most slowest = {high:g}, got {low:g}")
    count = round(float(np.log10(high / low))) + 1
    return Ensemble([DriftVAW(float(tau), reg=reg, hint=hint) for tau in np.geomspace(high, low, max(count, 1))], mixer)
