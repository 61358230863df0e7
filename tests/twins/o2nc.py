r"""Twin of the compiled O2NC loop (Algorithm 2 on a built-in objective): slow, plain, and the definition of correct.

`scalars` holds, in this order, with $A_t = \nu + \sqrt{V_t}$, $A'_t = A_t + \gamma\mu(1-\beta_1^t)$:

    0 warmth 1 - b1^t         1 spread                  2 sum of |m|/warmth + c spread   3 sum of the noise slack
    4 as 2 with the true gradients                      5 largest |g|                    6 A_T
    7 sum of A_t, t < T       8 sum of |g|^2 / A'_{t-1} 9 sum of |g|^2 / A'_t
    10 sum of min{gamma (1 - b1) |g|^2 / (2 b1 A'_{t-1}), min{2 D, gamma |m_{t-1}| |1/A'_{t-1} - b1/A'_t|} |g|}
    11 sum of (b1 A_{t-1} - A_t) |Delta_{t+1}|^2        12 |Delta_{T+1}|^2               13 |m_T|

`counts` holds the round t, the round of the uniform sample, and how often a block was clipped. Entries 6 to 12 are
filled for one block (norm scope `all`) only. `numbers` holds noise, gamma, gap1, gap2, nu, mu, clip_norm (infinity:
no clip), c. Block k is x[offsets[k]:offsets[k + 1]].
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Vector

SCALARS = 14
"""Length of `scalars`."""

Index = NDArray[np.int64]


def o2nc_gradient(kind: int, x: Vector, out: Vector) -> None:
    """Write the true gradient of a built-in objective: 0 saturated, 1 kinks, 2 well, 3 basins."""
    d = len(x)
    if kind == 3:
        _basins(x, out)
        return
    for j in range(d):
        u = float(x[j])
        sign = float((u > 0.0) - (u < 0.0))
        if kind == 0:
            slope = sign / ((1.0 + abs(u)) * (1.0 + abs(u)))
        elif kind == 1:
            wave = u - 2.0 * round(0.5 * u)
            slope = 0.5 * ((wave > 0.0) - (wave < 0.0)) + (0.5 * sign if abs(u) < 4.0 else 0.0)
        else:
            ripple = math.sin(2.0 * u)
            slope = sign * math.exp(-abs(u)) + 0.5 * ((ripple > 0.0) - (ripple < 0.0)) * math.cos(2.0 * u)
        out[j] = slope / math.sqrt(d)


def _basins(x: Vector, out: Vector) -> None:
    d = len(x)
    p = 1.0 / math.sqrt(d)
    near, far = math.sqrt(_square(x - p)), math.sqrt(_square(x + p))
    if min(near, 0.2 + far) >= 2.0:
        out[:] = 0.0
    elif near <= 0.2 + far:
        out[:] = (x - p) / (near + (near == 0.0))
    else:
        out[:] = (x + p) / (far + (far == 0.0))


def o2nc_play(
    kind: int,
    numbers: Vector,
    seed: int,
    steps: int,
    x: Vector,
    average: Vector,
    m: Vector,
    truth: Vector,
    delta: Vector,
    sample: Vector,
    v: Vector,
    offsets: Index,
    scalars: Vector,
    counts: Index,
) -> int:
    """Advance a run by `steps` rounds in place; returns 0, or 1 when a number stopped being finite."""
    noise, gamma, gap1, gap2, nu, mu, clip_norm, c = (float(number) for number in numbers)
    d, blocks = len(x), len(v)
    g = np.empty(d)
    for _ in range(steps):
        counts[0] += 1
        t = int(counts[0])
        x += _exponential(_words(seed, t, 0)[0]) * delta
        o2nc_gradient(kind, x, g)
        old_warmth, warmth = scalars[0], scalars[0] + gap1 * (1.0 - scalars[0])
        weight = gap1 / warmth
        spread = (1.0 - weight) * (scalars[1] + weight * _square(x - average))
        average += weight * (x - average)
        truth += gap1 * (g - truth)
        index, sign = _words(seed, t, 2)
        g[(index * d) >> 32] += -noise if sign >> 31 else noise
        high, low = _words(seed, t, 1)
        if (high << 32 | low) <= (2**64 - 1) // t:
            sample[:] = average
            counts[1] = t

        square, old_length = _square(g), scalars[13]
        old_damping, old_A = nu + gamma * mu * old_warmth + math.sqrt(v[0]), nu + math.sqrt(v[0])
        m += gap1 * (g - m)
        length = math.sqrt(_square(m))
        for k in range(blocks):
            part = slice(offsets[k], offsets[k + 1])
            v[k] += gap2 * (_square(g[part]) - v[k])
            damping = nu + gamma * mu * warmth + math.sqrt(v[k])
            rate = gamma / (damping + (damping == 0.0))
            raw = rate * math.sqrt(_square(m[part]))
            counts[2] += raw > clip_norm
            if clip_norm < math.inf:
                rate = rate * (clip_norm / (clip_norm + (raw > clip_norm) * (raw - clip_norm)))
            delta[part] = -rate * m[part]

        scalars[0], scalars[1], scalars[13] = warmth, spread, length
        point = length / warmth + c * spread
        scalars[2] += point
        scalars[3] += noise * math.sqrt(gap1 * (2.0 - warmth) / ((2.0 - gap1) * warmth))
        scalars[4] += math.sqrt(_square(truth)) / warmth + c * spread
        scalars[5] = max(scalars[5], math.sqrt(square))
        if blocks == 1:
            A, moved = nu + math.sqrt(v[0]), _square(delta)
            scalars[7] += old_A if t > 1 else 0.0
            scalars[8] += square / old_damping
            scalars[9] += square / damping
            change = gamma * old_length * abs(1.0 / old_damping - (1.0 - gap1) / damping)
            if clip_norm < math.inf:
                change = min(2.0 * clip_norm, change)
            lagged = 0.5 * gamma * gap1 / (1.0 - gap1) * square / old_damping
            scalars[10] += min(lagged, change * math.sqrt(square))
            scalars[11] += (old_A - A - gap1 * old_A) * moved
            scalars[6], scalars[12] = A, moved
        if not math.isfinite(point):
            return 1
    return 0


def _square(x: Vector) -> float:
    total = 0.0
    for value in x.tolist():
        total += value * value
    return total


def _words(seed: int, t: int, stream: int) -> tuple[int, int]:
    """Threefry-2x32 with key (seed mod 2^32, seed div 2^32) and counter (t mod 2^32, t div 2^32 + 2^24 stream)."""
    mask = 0xFFFFFFFF
    keys = (seed & mask, seed >> 32, (seed & mask) ^ (seed >> 32) ^ 0x1BD11BDA)
    a, b = (t + keys[0]) & mask, ((t >> 32) + (stream << 24) + keys[1]) & mask
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = (a + b) & mask
            b = ((b << turn | b >> (32 - turn)) & mask) ^ a
        a = (a + keys[(group + 1) % 3]) & mask
        b = (b + keys[(group + 2) % 3] + group + 1) & mask
    return a, b


def _exponential(word: int) -> float:
    if word >> 31:
        return -math.log1p(-((word ^ 0xFFFFFFFF) + 0.5) / 4294967296.0)
    return -math.log((word + 0.5) / 4294967296.0)
