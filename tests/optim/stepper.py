"""The reference for every front end: Algorithm 2 in NumPy, straight from optim.core."""

import numpy as np

from undrift.optim import core


class Stepper:
    """Blocks (parameters) stepped by the round written at the top of `optim.core`."""

    def __init__(
        self, blocks, *, lr, betas, eps, clip=None, mu=0.0, norm="coord", seed=None, bias_correction=False,
        average_horizon="growing",
    ):  # fmt: skip
        self.x = [np.array(b, dtype=np.float64) for b in blocks]
        self.average = [b.copy() for b in self.x]
        self.m = [np.zeros_like(b) for b in self.x]
        self.lr, self.eps, self.clip, self.mu, self.norm, self.seed = lr, eps, clip, mu, norm, seed
        self.bias_correction, self.horizon = bias_correction, average_horizon
        self.gap1, self.gap2 = 1.0 - betas[0], 1.0 - betas[1]
        self.v = [np.zeros_like(b) if norm == "coord" else 0.0 for b in self.x]
        self.t, self.warmth, self.spread, self.clipped = 0, 0.0, 0.0, 0
        self.warmth2 = 0.0

    def scope(self, i):
        """Indices of the blocks that share block i's norm, and gamma there."""
        members = range(len(self.x)) if self.norm == "all" else [i]
        size = 1 if self.norm == "coord" else sum(self.x[j].size for j in members)
        return members, self.lr * np.sqrt(size)

    def weight(self):
        """Weight of x in the average, from the definition of its horizon."""
        if self.horizon == "growing":
            return core.growing_weight(self.t)
        gap = self.gap1 if self.horizon is None else 1.0 / self.horizon
        return gap / (1.0 - (1.0 - gap) ** self.t)

    def step(self, gradients):
        """Close a round with the gradients at x, then move x."""
        self.t += 1
        self.warmth = core.ema(self.warmth, 1.0, self.gap1)
        self.warmth2 = core.ema(self.warmth2, 1.0, self.gap2)
        weight = self.weight()
        away = sum(float(((x - a) ** 2).sum()) for x, a in zip(self.x, self.average, strict=True))
        self.spread = core.spread_after(self.spread, weight, away)
        self.average = [core.ema(a, x, weight) for a, x in zip(self.average, self.x, strict=True)]
        self.m = [core.ema(m, g, self.gap1) for m, g in zip(self.m, gradients, strict=True)]
        s = 1.0 if self.seed is None else core.exponential(core.bits(self.seed, self.t + 1)[0])
        for i, x in enumerate(self.x):
            members, gamma = self.scope(i)
            if self.norm == "coord":
                square, length = gradients[i] ** 2, np.abs(self.m[i])
            else:
                square = sum(float((gradients[j] ** 2).sum()) for j in members)
                length = np.sqrt(sum(float((self.m[j] ** 2).sum()) for j in members))
            self.v[i] = core.ema(self.v[i], square, self.gap2)
            ball = None if self.clip is None else self.clip * gamma
            c = core.Tuning(gamma=gamma, gap1=self.gap1, gap2=self.gap2, nu=self.eps, mu=self.mu)
            corrected = self.v[i] / self.warmth2 if self.bias_correction else self.v[i]
            rate = core.rate(corrected, self.warmth, c) / (self.warmth if self.bias_correction is True else 1.0)
            if ball is not None:
                self.clipped += int(np.sum(rate * length > ball))
            self.x[i] = x + s * core.leader(self.m[i], rate, length, ball)

    @property
    def m_square(self):
        """Squared length of m over all blocks."""
        return sum(float((m**2).sum()) for m in self.m)


SHAPES = [(3,), (4, 5), (), (1, 7), (2, 3, 2)]


def problem(seed, steps):
    """Random start and a stream of gradients of very different sizes, some of them zero."""
    rng = np.random.default_rng(seed)
    start = [rng.normal(size=s) for s in SHAPES]
    stream = [[rng.normal(size=s) * 10.0 ** rng.uniform(-3, 3) for s in SHAPES] for _ in range(steps)]
    stream[0][1][:] = 0.0
    return start, stream
