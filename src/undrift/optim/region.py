r"""The (beta1, beta2) plane: which part each theorem covers, as curves over $1-\beta_1$.

For a fixed $1-\beta_1$ every region is an interval of $1-\beta_2$, so a picture needs two curves per theorem.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError
from undrift.optim.theorems import THEOREMS

WELL_KNOWN: Final = {
    "PyTorch default": (0.9, 0.999),
    "language models": (0.9, 0.95),
    "equal betas": (0.95, 0.95),
    "first Transformer": (0.9, 0.98),
    "GANs": (0.5, 0.999),
}
"""Settings people use, to be marked on the map."""


class Region(NamedTuple):
    """Where a theorem holds over a grid of 1 - beta1: `low` <= 1 - beta2 <= `high`; NaN where it holds for no beta2."""

    theorem: str
    """Key."""
    gap1: Vector
    """Grid of 1 - beta1."""
    low: Vector
    """Smallest 1 - beta2; 0 for the nu theorems."""
    high: Vector
    """Largest 1 - beta2."""
    allowed: Vector
    """Largest 1 - beta2 when the size of epsilon is left out of account: between `high` and this, vacuous."""


def regions(gap1: ArrayLike, nu: float = 1e-3, epsilon: float = 1.0) -> list[Region]:
    """Return the four regions; `nu` and `epsilon` in units of G + sigma, epsilon in (0, 1], 1 being "not vacuous".

    >>> both = regions([0.001, 0.1], nu=1e-3)
    >>> both[0].high
    array([0.001,   nan])
    """
    grid = _check.finite_array("regions", "gap1", gap1, (None,))
    if not ((grid > 0.0) & (grid < 1.0)).all():
        raise InputError("regions: gap1 must be in (0, 1) everywhere, got a value outside")
    nu = _check.interval("regions", "nu", nu, "(0, inf)")
    epsilon = _check.interval("regions", "epsilon", epsilon, "(0, 1]")
    found = []
    for theorem in THEOREMS.values():
        limit = (epsilon / theorem.factor) ** 2
        inside = grid <= limit
        q = grid * (2.0 - grid)
        if theorem.by_margin:
            # gap1 <= limit * 4 y (1 - y) with y = gap2 / q
            half = np.sqrt(np.where(inside, 1.0 - grid / limit, np.nan))
            low, high, allowed = q * (1.0 - half) / 2.0, q * (1.0 + half) / 2.0, q
        else:
            allowed = np.minimum(min(nu, 1.0), -np.expm1(theorem.power * np.log1p(-grid)))
            low, high = np.where(inside, 0.0, np.nan), np.where(inside, allowed, np.nan)
        found.append(Region(theorem.key, grid, low, high, allowed))
    return found


def rho_contour(gap1: ArrayLike, rho: float) -> tuple[Vector, Vector]:
    """Return the two values of 1 - beta2 at which rho is reached: the one nearer beta2 = 1, and the one nearer beta1^2.

    >>> [float(side[0]) for side in rho_contour([0.5], 0.0)]
    [0.375, 0.375]
    """
    grid = _check.finite_array("rho_contour", "gap1", gap1, (None,))
    width = _check.interval("rho_contour", "rho", rho, "[0, 1]")
    q = grid * (2.0 - grid)
    return q * (1.0 - width) / 2.0, q * (1.0 + width) / 2.0
