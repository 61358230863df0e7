"""What is known of an optimisation problem, and how smoothness turns into the constant c."""

from __future__ import annotations

from dataclasses import dataclass

from undrift import _check
from undrift.errors import ConditionError

POSITIVE = "[1e-150, 1e150]"
"""Positive numbers whose squares and ratios are floats too."""


@dataclass(frozen=True, slots=True)
class Problem:
    r"""Minimise a non-smooth, non-convex F from stochastic gradients, down to $E\lVert\nabla F\rVert_c \le \epsilon$.

    Parameters
    ----------
    lipschitz
        G > 0: bounds $\lvert\nabla F\rvert$ and almost surely every stochastic gradient, in gradient units.
    noise
        $\sigma \ge 0$: root of the gradient's variance; it counts beside G, which bounds the noisy gradient too.
    gap
        $F^* > 0$: at least $F(x_0) - \inf F$. More of it means more steps.
    c
        Price of the spread in $\lVert\nabla F\rVert_c$, in gradient units per squared length; larger asks for a
        tighter cloud of points around the output. `smooth` and `second_order_smooth` choose it.
    epsilon
        Target, in (0, G + sigma]; above G + sigma every point qualifies. None where it is what is asked for.

    Notes
    -----
    Assumptions of keys `clipped/nu`, `clipped/margin`, `clip-free/nu`, `clip-free/margin`.

    Examples
    --------
    >>> Problem(lipschitz=1.0, noise=0.25, gap=2.0, c=1.0, epsilon=0.5).scale
    1.25
    """

    lipschitz: float
    noise: float
    gap: float
    c: float
    epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("lipschitz", "noise", "gap", "c", "epsilon"):
            value = getattr(self, name)
            if name != "epsilon" or value is not None:
                allowed = "[0, 1e150]" if name == "noise" else POSITIVE
                object.__setattr__(self, name, _check.interval(self, name, value, allowed))
        if self.epsilon is not None and self.epsilon > self.scale:
            raise ConditionError(
                f"Problem: epsilon must be at most lipschitz + noise = {self.scale:g}, got {self.epsilon:g}; "
                "above it every point is stationary enough and no theorem says anything"
            )

    @property
    def scale(self) -> float:
        """G + sigma, the unit in which epsilon and nu are measured."""
        return self.lipschitz + self.noise

    @classmethod
    def smooth(cls, lipschitz: float, noise: float, gap: float, smoothness: float, target: float) -> Problem:
        r"""Return the problem whose solution has $\lvert\nabla F\rvert \le$ `target` when F is `smoothness`-smooth.

        $c = L^2/\epsilon$ gives $\lvert\nabla F\rvert \le \frac54\epsilon$ (the paper says 2; key `smooth`), so
        $\epsilon = \frac45$ `target`.

        >>> Problem.smooth(1.0, 0.0, 1.0, smoothness=2.0, target=0.5).c
        10.0
        """
        L = _check.interval("Problem.smooth", "smoothness", smoothness, POSITIVE)
        epsilon = 0.8 * _check.interval("Problem.smooth", "target", target, POSITIVE)
        return cls(lipschitz, noise, gap, L * L / epsilon, epsilon)

    @classmethod
    def second_order_smooth(
        cls, lipschitz: float, noise: float, gap: float, smoothness: float, target: float
    ) -> Problem:
        r"""Return the problem whose solution has $\lvert\nabla F\rvert \le$ `target` when the Hessian is Lipschitz.

        With `smoothness` its constant, $c$ is half of it and $\lvert\nabla F\rvert \le \epsilon$ (the paper says 2
        epsilon; key `smooth`), so epsilon is `target` itself.

        >>> Problem.second_order_smooth(1.0, 0.0, 1.0, smoothness=2.0, target=0.5).c
        1.0
        """
        curvature = _check.interval("Problem.second_order_smooth", "smoothness", smoothness, POSITIVE)
        epsilon = _check.interval("Problem.second_order_smooth", "target", target, POSITIVE)
        return cls(lipschitz, noise, gap, 0.5 * curvature, epsilon)


def goldstein(epsilon: float, c: float, delta: float, lipschitz: float) -> float:
    r"""Return what a (c, epsilon)-stationary point is in Goldstein's sense at radius `delta`. Key `goldstein`.

    The smallest element of the `delta`-subdifferential there has norm at most $(1 + 2G/(c\delta^2))\epsilon$.

    Examples
    --------
    >>> goldstein(epsilon=0.1, c=4.0, delta=0.5, lipschitz=1.0)
    0.30000000000000004
    """
    who = "goldstein"
    c = _check.interval(who, "c", c, POSITIVE)
    delta = _check.interval(who, "delta", delta, POSITIVE)
    G = _check.interval(who, "lipschitz", lipschitz, POSITIVE)
    return (1.0 + 2.0 * G / (c * delta * delta)) * _check.interval(who, "epsilon", epsilon, "[0, inf)")
