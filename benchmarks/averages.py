"""Averages kept beside a run, one for every horizon: they do not change the run, so that one run judges them all."""

from __future__ import annotations

import torch

from undrift.optim import core

HORIZONS = (10, 30, 100, "growing")


def weight(horizon, t):
    """Return the weight of the newest of t points."""
    if horizon == "growing":
        return core.growing_weight(t)
    return (1 / horizon) / (1 - (1 - 1 / horizon) ** t)


class Averages:
    """Exponential averages, corrected for their bias, of the points at which gradients were taken."""

    def __init__(self, params):
        self.params, self.t = params, 0
        self.values = {str(horizon): [p.detach().clone() for p in params] for horizon in HORIZONS}

    @torch.no_grad()
    def add(self):
        """Take in the present weights; to be called before the optimizer moves them."""
        self.t += 1
        for horizon in HORIZONS:
            torch._foreach_lerp_(self.values[str(horizon)], self.params, weight(horizon, self.t))

    @torch.no_grad()
    def outputs(self):
        """Put one average after the other in place of the weights, and name it."""
        for horizon, average in self.values.items():
            torch._foreach_copy_(self.params, average)
            yield horizon
