r"""The (c, epsilon) certificate: an upper bound on $E\lVert\nabla F(\bar x)\rVert_c$ from scalars a step already has.

The weights of $\bar x_t$ have mean exactly $\bar x_t$, and with them the average gradient is $m_t/(1-\beta_1^t)$ up to
noise. So $E\lVert\nabla F(\bar x_t)\rVert_c \le E[\lvert m_t\rvert/(1-\beta_1^t) + c\,\text{spread}_t] +
\text{slack}_t$, whatever the update was. It is a statement in expectation: one run's number estimates it. Key
`certificate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from undrift.optim import core


class StationarityCertificate(NamedTuple):
    """What a run certifies, in expectation over its randomness."""

    value: float
    """Point value at the last round, without slack."""
    mean: float
    """Mean of the point values over all rounds: the output of Algorithm 2 is uniform over them."""
    slack: float
    """Mean noise slack, sigma times the root of the sum of squared weights."""
    rounds: int
    """Rounds averaged."""
    c: float
    """Price of the spread."""

    @property
    def bound(self) -> float:
        """Estimate of an upper bound on E|grad F|_c at the uniform output: mean + slack."""
        return self.mean + self.slack

    def __str__(self) -> str:
        return f"E|grad F|_c <= {self.bound:.4g} in expectation ({self.mean:.4g} + {self.slack:.2g} for noise)"


@dataclass(slots=True)
class StationarityMeter:
    """Running certificate in two sums; feed it once a round.

    >>> meter = StationarityMeter(c=2.0, noise=0.0, gap1=0.5)
    >>> meter.observe(length=0.25, warmth=0.5, spread=0.125)
    >>> meter.certificate.bound
    0.75
    """

    c: float
    noise: float
    gap1: float
    rounds: int = 0
    value: float = 0.0
    total: float = 0.0
    slack: float = 0.0

    def observe(self, length: float, warmth: float, spread: float) -> None:
        """Close a round: |m|, 1 - beta1^t and the spread after it."""
        self.value = core.stationarity(length, warmth, spread, self.c)
        self.total += self.value
        self.slack += core.noise_slack(self.noise, warmth, self.gap1)
        self.rounds += 1

    @property
    def certificate(self) -> StationarityCertificate:
        """What has been certified so far; zeros before the first round."""
        rounds = max(self.rounds, 1)
        return StationarityCertificate(self.value, self.total / rounds, self.slack / rounds, self.rounds, self.c)
