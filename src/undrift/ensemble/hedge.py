r"""Mixing under any convex loss: exponential weights whose rate follows what mixing has cost so far (AdaHedge).

With cumulative losses $L_{t,i}$, prior p and the inverse rate $\iota_t$, which never falls, weights are
$w_{t,i}\propto p_ie^{-L_{t-1,i}/\iota_t}$. The mix losses $m_t=-\iota_t\ln\sum_iw_{t,i}e^{-\ell_{t,i}/\iota_t}$ sum to
at most $L_{T,i}+\iota_T\ln\frac1{p_i}$. What the mixture loses more, $\sum_t\ell_t-m_t$, is measured; $\iota_{t+1}$ is
that sum divided by $\ln N$.
"""

from __future__ import annotations

import math

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.ensemble.ensemble import Ensemble
from undrift.ensemble.mixer import Mixer
from undrift.learners import DiscountedNewton
from undrift.losses import Loss, loss_named

GAPS, INVERSE_RATE = 0, 1
"""Places in the state: the sum of the measured gaps, and the inverse rate of the coming round."""


class Hedge(Mixer):
    """Weighted means of predictions under any convex loss, at a rate that needs no tuning.

    Parameters
    ----------
    loss
        A name as for `DiscountedNewton`.

    Examples
    --------
    >>> mixer = Hedge("absolute")
    >>> mixer.begin([1.0, 1.0])
    >>> yhat = mixer.play(np.array([[0.0, 1.0]] * 20), np.ones(20))
    >>> yhat[0].item(), bool(mixer.weights[1] > 0.99)
    (0.5, True)
    """

    binary = False

    def __init__(self, loss: str = "absolute") -> None:
        super().__init__(loss=loss)
        self.parameters = {"loss": loss}  # a copy is made with these: no share here
        self.loss: Loss = loss_named(self, loss)

    def cost(self) -> Vector:
        """Return what mixing has cost by measure, and the inverse rate times ln(1/p_i)."""
        rate = self._arrays["rate"]
        return np.asarray(rate[GAPS] - rate[INVERSE_RATE] * self._log_prior)

    def _advance(self, E: Matrix, y: Vector, weights: Matrix) -> Vector:
        yhat, losses, rate = np.empty(len(y)), self._arrays["losses"], self._arrays["rate"]
        for t in range(len(y)):
            w = np.exp(self._arrays["log_weights"])
            w /= np.sum(w)
            if len(weights):
                weights[t] = w
            yhat[t] = float(w @ E[t])
            lost = self.loss.value(E[t], y[t])
            mine = float(self.loss.value(yhat[t], y[t]))
            losses += lost
            rate[GAPS] += max(0.0, mine - self._mix_loss(w, lost, float(rate[INVERSE_RATE])))
            rate[INVERSE_RATE] = rate[GAPS] / max(math.log(len(w)), 1.0)
            self._arrays["log_weights"][...] = self._log_weights(losses, float(rate[INVERSE_RATE]))
        return yhat

    def _log_weights(self, losses: Vector, inverse_rate: float) -> Vector:
        """Return the logarithms of the coming round's weights, the largest one 0; at rate 0 the leaders' alone."""
        ahead = losses - losses.min()
        logs = self._log_prior - (ahead / inverse_rate if inverse_rate else np.where(ahead > 0.0, 1e300, 0.0))
        return np.asarray(np.maximum(logs - logs.max(), -1e300))

    @staticmethod
    def _mix_loss(w: Vector, lost: Vector, inverse_rate: float) -> float:
        """Return -i ln sum_j w_j e^(-lost_j / i); the least loss of a member with weight at i = 0."""
        least = float(lost[w > 0.0].min())
        if not inverse_rate:
            return least
        return least - inverse_rate * math.log(float(w @ np.exp(-np.maximum(lost - least, 0.0) / inverse_rate)))


def newton_ensemble(
    loss: str = "absolute", *, gamma: float = 0.0, reg: float = 1.0, radius: float | None = None
) -> Ensemble:
    """Return `DiscountedNewton` learners with half-lives of 10 to 100,000 rounds and without end, mixed by `Hedge`.

    Parameters
    ----------
    loss, gamma, reg, radius
        As for `DiscountedNewton`; the loss by its name.

    Examples
    --------
    >>> y = np.repeat([0.0, 10.0], 300)
    >>> model = newton_ensemble("absolute", reg=0.1)
    >>> trace = model.play(np.ones((600, 1)), y)
    >>> len(model.members), bool(abs(model.predict([1.0]) - 10.0) < 1.0)
    (6, True)
    """
    _check.interval("newton_ensemble", "gamma", gamma, "[0, 1e50]")
    half_lives = [10.0**k for k in range(1, 6)] + [math.inf]
    members = [DiscountedNewton(loss, half_life=one, gamma=gamma, reg=reg, radius=radius) for one in half_lives]
    return Ensemble(members, Hedge(loss))
