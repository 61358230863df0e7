r"""Adam as discounted follow-the-regularised-leader: each formula once, with operators only.

A float, a NumPy array, a torch tensor or a traced value all pass through. Front ends decide memory, fusion and
device, never arithmetic. $1-\beta$ is the primary number everywhere (`gap1`, `gap2`): a float64 $\beta$ forgets it.
It is kept apart from torch's and optax's own Adam because neither clips, averages and scales as the theorems ask, and
because one formula for both is what makes their steps comparable.

State after round t, a flat set (Algorithm 2; every entry starts at 0 except `average`, which starts at $x_0$):

| name      | size          | meaning                                                                       |
|-----------|---------------|-------------------------------------------------------------------------------|
| `t`       | 1 integer     | finished rounds; with the seed it is the whole state of the random scaling     |
| `m`       | like x        | $m_t = (1-\beta_1)\sum_s \beta_1^{t-s} g_s$                                    |
| `v`       | 1 per scope   | $V_t = (1-\beta_2)\sum_s \beta_2^{t-s} \lvert g_s\rvert^2$, no bias correction |
| `warmth`  | 1             | $1-\beta_1^t$                                                                  |
| `average` | like x        | $\bar x_t$, the output                                                         |
| `spread`  | 1             | $\sum_s w_s \lvert x_s - \bar x_t\rvert^2$, $w_s$ the weights of $\bar x_t$    |

One round, in this order (`square` and `length` are sums over the norm scope, taken by the front end):

    x       = x + exponential(bits(seed, t + 1)) * delta    # delta is 0 in round 1
    g       = stochastic gradient at x
    warmth  = ema(warmth, 1, gap1)
    weight  = averaging_weight(warmth, gap1)
    spread  = spread_after(spread, weight, square of x - average)
    average = ema(average, x, weight)
    m       = ema(m, g, gap1)
    v       = ema(v, square of g, gap2)
    delta   = leader(m, rate(v, warmth, c), length of m, c.ball)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

Array = Any
"""A float, a NumPy array, a torch tensor or a JAX value: several array libraries meet here."""

Word = Any
"""An integer of 32 bits: a Python int, or an array of (at least) 32-bit unsigned integers."""

NORMS: Final = {
    "all": "one second moment and one clip for all parameters together: what the four theorems cover",
    "tensor": "one per tensor: not covered by a theorem",
    "coord": "one per coordinate: covered in the l1 norm, with G and sigma times sqrt(d), D^2 times d (key `o2nc`)",
}
"""Norm scopes, each with what the theorems say about it."""

COVERED_NORM: Final = "all"
"""The norm scope of the four theorems: the paper's scalar second moment and Euclidean clip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Everything a run of Algorithm 2 needs besides the gradient.

    Examples
    --------
    >>> Tuning(gamma=1e-3, gap1=0.1, gap2=0.001, nu=1e-8).beta2
    0.999
    """

    gamma: float
    """Step scale, the paper's gamma > 0."""
    gap1: float
    """1 - beta1, in (0, 1): exact where beta1 is not."""
    gap2: float
    """1 - beta2, in (0, 1)."""
    nu: float
    """Damping nu of the second moment; the theorems need nu > 0."""
    clip_norm: float | None = None
    """D, the length of the comparators in the analysis; the clip radius where `clips`."""
    clips: bool = True
    """Whether the update is clipped to `clip_norm`; False for the clip-free theorems."""
    mu: float = 0.0
    """Curvature of the composite loss; 0 for clipped Adam."""
    steps: int | None = None
    """Rounds T the theorem asks for; None when no theorem was asked."""
    theorem: str | None = None
    """Key of the theorem these numbers satisfy, or None."""
    epsilon: float | None = None
    """Stationarity the theorem promises in expectation, or None."""
    rho: float | None = None
    """Width of the margin condition the numbers were chosen for, or None."""
    c: float | None = None
    """Price of the spread in the certificate, or None when no problem was given."""
    noise: float | None = None
    """sigma, for the certificate's noise slack, or None."""
    lipschitz: float | None = None
    """G, which the gradients met are held against, or None."""

    @property
    def beta1(self) -> float:
        """1 - gap1, rounded."""
        return 1.0 - self.gap1

    @property
    def beta2(self) -> float:
        """1 - gap2, rounded."""
        return 1.0 - self.gap2

    @property
    def ball(self) -> float | None:
        """Radius the update is clipped to, or None when it is not clipped."""
        return self.clip_norm if self.clips else None


class Scale(Protocol):
    """What `rate` reads; a `Tuning`, or any object whose three numbers may be traced values."""

    @property
    def gamma(self) -> Array:
        """Step scale."""

    @property
    def nu(self) -> Array:
        """Damping."""

    @property
    def mu(self) -> Array:
        """Composite curvature."""


class Unit(NamedTuple):
    """What `rate` reads in units of gamma, so that a learning rate of 0 needs no division; entries may be traced."""

    gamma: Array
    nu: Array
    mu: Array


def ema(mean: Array, value: Array, gap: Array) -> Array:
    """Exponential moving average, beta mean + (1 - beta) value, in the form that never rounds 1 - beta.

    >>> ema(4.0, 8.0, 0.25)
    5.0
    """
    return mean + gap * (value - mean)


def rate(v: Array, warmth: Array, c: Scale) -> Array:
    """Step multiplier; `warmth` is 1 - beta1^t, itself an EMA of ones; `mu = 0` for clipped Adam. Key `ftrl-is-adam`.

    Where nothing has been seen and nu = 0 the quotient 0/0 is never formed: m is 0 there, and so is the step.

    >>> rate(4.0, 0.5, Tuning(gamma=6.0, gap1=0.1, gap2=0.1, nu=1.0))
    2.0
    """
    damping = c.nu + c.gamma * c.mu * warmth + v**0.5
    return c.gamma / (damping + (damping == 0))


def shrink(length: Array, clip_norm: Array) -> Array:
    """Factor min(1, D / length) that brings a vector of this length into the ball of radius D > 0; 1 at length 0.

    >>> shrink(0.0, 2.0), shrink(2.0, 2.0), shrink(8.0, 2.0)
    (1.0, 1.0, 0.25)
    """
    return clip_norm / (clip_norm + (length > clip_norm) * (length - clip_norm))


def multiplier(rate: Array, length: Array, clip_norm: Array | None = None) -> Array:
    """The one scalar k of a round: delta = -k m, with `length` = |m| in the norm scope."""
    return rate if clip_norm is None else rate * shrink(rate * length, clip_norm)


def leader(m: Array, rate: Array, length: Array, clip_norm: Array | None = None) -> Array:
    r"""Return $\Delta_{t+1}$, the minimiser of $\lvert\Delta\rvert^2/(2r) + \langle m, \Delta\rangle$ in the ball.

    With $r$ the `rate` this is the discounted FTRL objective times $(1-\beta_1)\beta_1^t$, so no $\beta_1^{-t}$ is
    formed; the composite curvature mu sits in `rate`. Keys `ftrl-is-adam`, `clip-free-closed-form`.

    >>> leader(3.0, 0.5, 3.0), leader(3.0, 0.5, 3.0, 1.0)
    (-1.5, -1.0)
    """
    return -multiplier(rate, length, clip_norm) * m


def averaging_weight(warmth: Array, gap1: Array) -> Array:
    r"""Weight of $x_t$ in $\bar x_t$: $(1-\beta_1)/(1-\beta_1^t)$, 1 in round 1.

    >>> averaging_weight(0.25, 0.25)
    1.0
    """
    return gap1 / warmth


GROWTH: Final = 10.0
"""Share of a run, one in so many rounds, that an average with growing horizon remembers."""


def growing_weight(t: Array) -> Array:
    r"""Weight of $x_t$ in an average whose horizon grows with the run, k/(t + k - 1) with k = `GROWTH`; 1 in round 1.

    The weights of earlier rounds are then proportional to $s(s+1)\cdots(s+k-2)$: polynomial averaging, about the last
    t/k rounds. Not the average of the theorems, whose weights are those of m.

    >>> growing_weight(1), growing_weight(991)
    (1.0, 0.01)
    """
    return GROWTH / (t + (GROWTH - 1.0))


def spread_after(spread: Array, weight: Array, square: Array) -> Array:
    r"""Weighted variance after a round; `square` is $\lvert x_t - \bar x_{t-1}\rvert^2$, before the average moves.

    Welford's form: $\sum w\lvert x\rvert^2 - \lvert\bar x\rvert^2$ would lose every digit once the steps are small.
    """
    return (1.0 - weight) * (spread + weight * square)


def noise_slack(noise: Array, warmth: Array, gap1: Array) -> Array:
    r"""Root mean square of the averaged gradient noise, at most $\sigma(\sum_s w_s^2)^{1/2}$; all of sigma in round 1.

    >>> noise_slack(2.0, 0.25, 0.25)
    2.0
    """
    return noise * (gap1 * (2.0 - warmth) / ((2.0 - gap1) * warmth)) ** 0.5


def noise_estimate(g_mean: Array, length: Array, warmth: Array, slack: Array) -> Array:
    r"""Estimate of $\sigma^2$ from one run: how far the |g|^2, averaged like m, exceed the |m|^2 they led to.

    `g_mean` is the average of |g|^2 with the weights of m, uncorrected like m; `slack` is `noise_slack` for sigma = 1.
    If gradients were one vector plus independent noise of size sigma,
    $E[\sum w|g|^2 - |\sum w g|^2] = (1-\sum w^2)\sigma^2$. Gradients that differ from point to point count as noise
    too, so it is rather large than small. Needs two rounds.

    >>> noise_estimate(g_mean=0.75, length=0.25, warmth=0.75, slack=5**0.5 / 3)  # of gradients 1 and -1: their variance
    2.0
    """
    return (g_mean / warmth - (length / warmth) ** 2) / (1.0 - slack**2)


def stationarity(length: Array, warmth: Array, spread: Array, c: Array) -> Array:
    r"""Point value of the certificate, $\lvert m_t\rvert/(1-\beta_1^t) + c\,\text{spread}$. Key `certificate`.

    Its expectation plus `noise_slack` bounds $E\lVert\nabla F(\bar x_t)\rVert_c$; a single value is not a bound.
    """
    return length / warmth + c * spread


MASK: Final = 0xFFFFFFFF
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key0: Word, key1: Word, count0: Word, count1: Word, mask: Word = MASK) -> tuple[Word, Word]:
    """Twenty rounds of Threefry-2x32: two 32-bit words from a key and a counter, by add, rotate and xor only.

    Integers of any width of at least 32 bits give the same words. A library whose literals are narrower passes its
    own `mask` of 32 ones; wrap-around 32-bit integers are fine.

    >>> [hex(word) for word in threefry(0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3)]
    ['0xc4923a9c', '0x483df7a0']
    """
    keys = (key0, key1, key0 ^ key1 ^ 0x1BD11BDA)
    a, b = (count0 + keys[0]) & mask, (count1 + keys[1]) & mask
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            a = (a + b) & mask
            b = (((b << turn) & mask) | (b >> (32 - turn))) ^ a
        a = (a + keys[(group + 1) % 3]) & mask
        b = (b + keys[(group + 2) % 3] + (group + 1)) & mask
    return a, b


def bits(seed: int, t: int, stream: int = 0) -> tuple[int, int]:
    """Two random 32-bit words of round t, for 0 <= seed < 2^64, t < 2^56, stream < 256; no state to keep.

    Stream 0 scales the step, 1 keeps the uniform sample, 2 is the noise of the built-in objectives. The words go in as
    key (seed mod 2^32, seed div 2^32) and counter (t mod 2^32, t div 2^32 + 2^24 stream).
    """
    return threefry(seed & MASK, seed >> 32, t & MASK, (t >> 32) + (stream << 24))


def exponential(
    word: Word, log: Callable[[Any], Any] = math.log, log1p: Callable[[Any], Any] = math.log1p, mask: Word = MASK
) -> Array:
    """Turn one random word into a draw s ~ Exp(1), exact to rounding in single and in double precision alike.

    The middle of the word's cell of [0, 1] goes through -log, from the nearer end, so the same integer gives the same
    s to 2 units in the last place on every host, between 1.2e-10 and 22.9. `log` and `log1p` are the host's own.

    >>> exponential(1 << 31) < math.log(2) < exponential((1 << 31) - 1)
    True
    """
    top = word >> 31
    u = ((word ^ (top * mask)) + 0.5) / 4294967296.0
    return (top - 1.0) * log(u) - top * log1p(-u)
