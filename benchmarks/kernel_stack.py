"""A stack of learners to measure, and how contenders are timed."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tests.twins import reference
from undrift import kernels
from undrift.kernels import layout


def fastest(runs: dict[str, Callable[[], int]], seconds: float, clock=time.thread_time) -> dict[str, float]:
    """Seconds per round of each contender, all of them in turn until the time is up; a run returns its rounds."""
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            begin = clock()
            rounds = run()
            best[name] = min(best[name], (clock() - begin) / rounds)
    return best


class Stack:
    """N learners and a stream, played by the kernels again and again."""

    def __init__(self, dim: int, learners: int, rounds: int) -> None:
        rng = np.random.default_rng(dim)
        self.Z, self.y = rng.normal(size=(rounds, dim)), rng.normal(size=rounds)
        self.sign = np.where(self.y > 0, 1.0, -1.0)
        self.beta = 1.0 - 0.5 ** np.linspace(1, 14, learners)
        self.bend = np.full(learners, 2.0)
        self.vaw, self.aioli = (layout.fresh(dim, np.ones(learners)) for _ in range(2))
        self.out = np.empty((rounds, learners)), np.empty((rounds, learners))
        self.row = np.empty((1, learners)), np.empty((1, learners))
        self.closed = 0

    def replay(self, loss: str, threads: int = 1) -> int:
        if loss == "vaw":
            kernels.vaw_play(self.vaw, self.beta, self.closed, self.Z, self.y, *self.out, threads)
        else:
            kernels.aioli_play(self.aioli, self.beta, self.bend, self.closed, self.Z, self.sign, *self.out, threads)
        self.closed += len(self.y)
        return len(self.y)

    def stream(self, loss: str, rounds: int = 16) -> int:
        for t in range(rounds):
            Z, y, sign = self.Z[t : t + 1], self.y[t : t + 1], self.sign[t : t + 1]
            if loss == "vaw":
                kernels.vaw_play(self.vaw, self.beta, t, Z, y, *self.row)
            else:
                kernels.aioli_play(self.aioli, self.beta, self.bend, t, Z, sign, *self.row)
        return rounds

    def predict_and_learn(self, loss: str, rounds: int = 16) -> int:
        """Stream rows one at a time, each predicted before it is learned."""
        for t in range(rounds):
            Z, y, sign = self.Z[t : t + 1], self.y[t : t + 1], self.sign[t : t + 1]
            if loss == "vaw":
                kernels.vaw_predict(self.vaw, self.beta, t, Z, *self.row)
                kernels.vaw_play(self.vaw, self.beta, t, Z, y, *self.row)
            else:
                kernels.aioli_predict(self.aioli, self.beta, t, Z, self.row[0])
                kernels.aioli_play(self.aioli, self.beta, self.bend, t, Z, sign, *self.row)
        return rounds

    def twin(self) -> int:
        state = layout.fresh(self.Z.shape[1], np.ones(len(self.beta)))
        reference.vaw_play(state, self.beta, 0, self.Z[:1], self.y[:1], *self.row)
        return 1

    def numpy(self, rounds: int = 16) -> int:
        """A batched loop as one would write it: inverses of all learners at once (it is not stable for long)."""
        N, d = len(self.beta), self.Z.shape[1]
        P, x, rate, yhat = np.tile(np.eye(d), (N, 1, 1)), np.zeros((N, d)), 1.0 / self.beta, np.empty((rounds, N))
        for t in range(rounds):
            z = self.Z[t]
            P *= rate[:, None, None]
            q = P @ z
            h, m = q @ z, x @ z
            yhat[t] = m / (1.0 + h)
            gain = q / (1.0 + h)[:, None]
            x += gain * (self.y[t] - m)[:, None]
            P -= gain[:, :, None] * q[:, None, :]
        return rounds
