r"""Built-in test problems: non-smooth, non-convex, with a known Lipschitz constant and a known minimum.

| name      | F                                                                       | slope bound |
|-----------|-------------------------------------------------------------------------|-------------|
| saturated | mean-type sum of $\lvert u\rvert/(1+\lvert u\rvert)$: a robust loss       | 1           |
| kinks     | half a triangle wave of period 2, half $\min(\lvert u\rvert, 4)$          | 1           |
| well      | $1 - e^{-\lvert u\rvert} + \lvert\sin 2u\rvert/4$: a well with ripples    | 1.5         |
| basins    | $\min(2, \lvert x - p\rvert, 0.2 + \lvert x + p\rvert)$, two cones, a cap | 1           |

The first three sum over the coordinates and divide by $\sqrt d$, so the slope bound holds in every dimension. All have
minimum 0. The stochastic gradient adds $\pm\sigma$ to one random coordinate: mean 0, size exactly $\sigma$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels
from undrift._typing import Vector
from undrift.optim import core
from undrift.optim.problem import Problem

KINDS: Final = ("saturated", "kinks", "well", "basins")
"""Names of the built-in objectives; the position is the kernel's `kind`."""
_SLOPE: Final = {"saturated": 1.0, "kinks": 1.0, "well": 1.5, "basins": 1.0}


@dataclass(frozen=True, slots=True)
class Objective:
    """A built-in objective with noisy gradients; `o2nc` runs it in a compiled loop.

    Examples
    --------
    >>> wave = Objective("kinks", dim=2, noise=0.2)
    >>> wave.value([3.0, 0.0]), wave.lipschitz
    (1.414213562373095, 1.2)
    """

    name: str
    dim: int = 2
    noise: float = 0.0

    def __post_init__(self) -> None:
        _check.choice(self, "name", self.name, KINDS)
        object.__setattr__(self, "dim", _check.integer(self, "dim", self.dim, 1, 2**31))
        object.__setattr__(self, "noise", _check.interval(self, "noise", self.noise, "[0, 1e75]"))

    @property
    def kind(self) -> int:
        """Number by which the kernel knows it."""
        return KINDS.index(self.name)

    @property
    def lipschitz(self) -> float:
        """G: bounds the gradient of F and every noisy gradient."""
        return _SLOPE[self.name] + self.noise

    def value(self, x: ArrayLike) -> float:
        """F(x); the minimum over all x is 0."""
        point = _check.finite_array(self, "x", x, (self.dim,))
        if self.name == "basins":
            p = 1.0 / np.sqrt(self.dim)
            return min(2.0, float(np.linalg.norm(point - p)), 0.2 + float(np.linalg.norm(point + p)))
        if self.name == "saturated":
            parts = np.abs(point) / (1.0 + np.abs(point))
        elif self.name == "kinks":
            parts = 0.5 * np.abs(point - 2.0 * np.rint(0.5 * point)) + 0.5 * np.minimum(np.abs(point), 4.0)
        else:
            parts = -np.expm1(-np.abs(point)) + 0.25 * np.abs(np.sin(2.0 * point))
        return float(parts.sum() / np.sqrt(self.dim))

    def gradient(self, x: ArrayLike) -> Vector:
        """Gradient of F without noise; an element of the subdifferential at a kink."""
        point = _check.finite_array(self, "x", x, (self.dim,))
        out = np.empty(self.dim)
        kernels.o2nc_gradient(self.kind, point, out)
        return out

    def noisy_gradient(self, x: ArrayLike, seed: int, t: int) -> Vector:
        """Gradient with the noise of round t, as the compiled loop draws it."""
        g = self.gradient(x)
        index, sign = core.bits(seed, t, stream=2)
        g[(index * self.dim) >> 32] += -self.noise if sign >> 31 else self.noise
        return g

    def problem(self, x0: ArrayLike, c: float, epsilon: float | None = None) -> Problem:
        """Return what the theorems need to know when starting from x0, which must not be a minimiser."""
        return Problem(self.lipschitz, self.noise, self.value(x0), c, epsilon)
