r"""Where the regret went: the terms of the key decomposition, measured on a run with O(1) state.

With $A_t = \nu + \sqrt{V_t}$, $A'_t = A_t + \gamma\mu(1-\beta_1^t)$ and comparators of length $D$, the discounted FTRL
behind Adam satisfies, on every run (the corrected form; key `ftrl-decomposition`),

    regret <= stability + regularizer + comparator + last,
    stability   = gamma (1 - b1) / (2 b1) sum |g_t|^2 / A'_{t-1}
            or    gamma (1 - b1) sum |g_t|^2 / A'_t + sum of deviations       (scale-free)
    regularizer = sum (b1 A_{t-1} - A_t) |Delta_{t+1}|^2 / (2 gamma (1 - b1))
    comparator  = D^2 (A_T + (1 - b1) sum_{t<T} A_t) / (2 gamma (1 - b1))
    last        = -mu |Delta_{T+1}|^2 / 2.

Divided by D T, it is the part of the O2NC bound that the choice of (beta1, beta2, nu) controls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from undrift.optim.core import Tuning


class RegretTerms(NamedTuple):
    """The four terms, each divided by D T, in gradient units."""

    stability: float
    """Price of moving, in the form that pairs |g_t| with the previous step size."""
    scale_free: float
    """The same price in the form of the margin theorems; the smaller of the two counts."""
    regularizer: float
    """Price of step sizes that grow; negative when they shrink."""
    comparator: float
    """Price of following a comparator of length D."""
    last: float
    """What the composite loss gives back; 0 for clipped Adam."""

    @property
    def total(self) -> float:
        """Upper bound on the regret per D T."""
        return min(self.stability, self.scale_free) + self.regularizer + self.comparator + self.last


class Diagnostics(NamedTuple):
    """What a run says about the assumptions and the analysis."""

    rounds: int
    """Finished rounds."""
    clip_rate: float
    """Share of updates that were clipped."""
    largest_gradient: float
    """Largest |g_t| met."""
    lipschitz: float | None
    """The G it is held against, if known."""
    terms: RegretTerms | None
    """Regret terms; None unless the norm scope is `all` and D is known."""

    @property
    def assumption_holds(self) -> bool | None:
        """Whether every gradient met was at most G; None when G is unknown."""
        return None if self.lipschitz is None else self.largest_gradient <= self.lipschitz * (1.0 + 1e-12)


@dataclass(slots=True)
class RegretMeter:
    """The sums behind `RegretTerms`; feed it once a round, read it any time. The tuning must have nu > 0."""

    tuning: Tuning
    rounds: int = 0
    lagged: float = 0.0
    current: float = 0.0
    deviation: float = 0.0
    growth: float = 0.0
    earlier: float = 0.0
    A: float = 0.0
    moved: float = 0.0

    def observe(
        self,
        *,
        square: float,
        old_v: float,
        v: float,
        old_warmth: float,
        warmth: float,
        old_length: float,
        moved: float,
    ) -> None:
        """Close a round: |g|^2, V and 1 - beta1^t before and after it, |m| before it, |Delta|^2 after it."""
        c = self.tuning
        old_A, A = c.nu + math.sqrt(old_v), c.nu + math.sqrt(v)
        old_damping, damping = old_A + c.gamma * c.mu * old_warmth, A + c.gamma * c.mu * warmth
        change = c.gamma * old_length * abs(1.0 / old_damping - (1.0 - c.gap1) / damping)
        if c.ball is not None:
            change = min(2.0 * c.ball, change)
        self.earlier += old_A if self.rounds else 0.0
        self.lagged += square / old_damping
        self.current += square / damping
        self.deviation += min(
            0.5 * c.gamma * c.gap1 / (1.0 - c.gap1) * square / old_damping, change * math.sqrt(square)
        )
        self.growth += (old_A - A - c.gap1 * old_A) * moved
        self.A, self.moved = A, moved
        self.rounds += 1

    @property
    def terms(self) -> RegretTerms | None:
        """The terms so far; None before the first round or when D is unknown."""
        c = self.tuning
        if self.rounds == 0 or c.clip_norm is None:
            return None
        D, unit = c.clip_norm, c.clip_norm * self.rounds
        scale = 2.0 * c.gamma * c.gap1
        return RegretTerms(
            stability=0.5 * c.gamma * c.gap1 / (1.0 - c.gap1) * self.lagged / unit,
            scale_free=(c.gamma * c.gap1 * self.current + self.deviation) / unit,
            regularizer=self.growth / scale / unit,
            comparator=D * D * (self.A + c.gap1 * self.earlier) / scale / unit,
            last=-0.5 * c.mu * self.moved / unit,
        )
