r"""The (c, epsilon) certificate: an upper bound on $E\lVert\nabla F(\bar x)\rVert_c$ from scalars a step already has.

The weights of $\bar x_t$ have mean exactly $\bar x_t$, and with them the average gradient is $m_t/(1-\beta_1^t)$ up to
noise. So $E\lVert\nabla F(\bar x_t)\rVert_c \le E[\lvert m_t\rvert/(1-\beta_1^t) + c\,\text{spread}_t] +
\text{slack}_t$, whatever the update was. It is a statement in expectation: one run's number estimates it. Key
`certificate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from undrift.errors import ConditionError
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


class LiveCertificate(NamedTuple):
    """What an optimizer in use says about the gradient near its averaged weights, part by part."""

    rounds: int
    """Rounds so far; the other parts mean nothing before the first."""
    gradient: float
    """Length of the mean gradient over the last points, $\\lvert m_t\\rvert/(1-\\beta_1^t)$, noise included."""
    distance: float
    """Root mean square distance of the averaged points from the averaged weights."""
    noise: float | None
    """How much of `gradient` may be noise: sigma times the root of the sum of squared weights; None if unknown."""
    estimated: bool
    """Whether that sigma was estimated from the run rather than given."""
    same_points: bool
    """Whether average and mean gradient are over the same points with the same weights, as the theory has it."""
    theorem: StationarityCertificate | None
    """The bound of the theory, which needs `same_points`, a price c of the distance, and sigma; else None."""

    @property
    def bound(self) -> float:
        """The theory's bound on E|grad F|_c at the averaged weights of a uniform round, in expectation."""
        if self.theorem is None:
            raise ConditionError(f"certificate: {self._missing}")
        return self.theorem.bound

    @property
    def _missing(self) -> str:
        """What the bound lacks, in words."""
        if self.rounds == 0:
            return "there is no bound before the first round"
        if not self.same_points:
            return "the bound needs averaged weights with the horizon of the momentum; pass average_horizon=None"
        return f"the bound needs {'c and noise' if self.estimated else 'c'}, which the optimizer was not given"

    def __str__(self) -> str:
        if self.rounds == 0:
            return "no round yet"
        where = f"at rms distance {self.distance:.3g} from the averaged weights"
        over = "points" if self.same_points else "the last points; averaged ones are"
        text = f"mean gradient {self.gradient:.3g} over {over} {where}"
        if self.noise is not None:
            text += f"; noise about {self.noise:.2g}{' (estimated)' if self.estimated else ''}"
        return text if self.theorem is None else f"{text}; {self.theorem}"


def live_certificate(
    *,
    rounds: int,
    length: float,
    warmth: float,
    slack: float,
    spread: float,
    g_mean: float,
    sums: tuple[float, float, float],
    same_points: bool,
    c: float | None,
    noise: float | None,
) -> LiveCertificate:
    """Put the parts together.

    `slack` is the noise slack of the last round with sigma = 1, `sums` are those over rounds of |m| / (1 - beta1^t),
    spread and that slack.
    """
    if rounds == 0:
        return LiveCertificate(0, 0.0, 0.0, None, noise is None, same_points, None)
    sigma = noise
    if sigma is None and slack < 1.0:
        sigma = math.sqrt(max(0.0, core.noise_estimate(g_mean, length, warmth, slack)))
    theorem = None
    if same_points and c is not None and noise is not None:
        value = core.stationarity(length, warmth, spread, c)
        theorem = StationarityCertificate(value, (sums[0] + c * sums[1]) / rounds, noise * sums[2] / rounds, rounds, c)
    return LiveCertificate(
        rounds=rounds,
        gradient=length / warmth,
        distance=math.sqrt(spread),
        noise=None if sigma is None else sigma * slack,
        estimated=noise is None,
        same_points=same_points,
        theorem=theorem,
    )


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
