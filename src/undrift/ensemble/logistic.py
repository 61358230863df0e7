"""Mixable: mix probabilities so that nothing is lost."""

from __future__ import annotations

import math

import numpy as np

from undrift import kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer
from undrift.kernels.arguments import MixerArguments


class Mixable(Mixer):
    r"""Mix log-odds by averaging the probabilities they stand for.

    The prediction attains the mix loss $-\ln\sum_i w_i e^{-\ell_i}$ with equality whatever the label
    (`mixability`), so the mixture's losses exceed member i's by at most $\ln(1/p_i)$, $p$ the prior.

    Parameters
    ----------
    share
        As in `Mixer`.

    Examples
    --------
    >>> import numpy as np
    >>> mixer = Mixable()
    >>> mixer.begin([1.0, 1.0])
    >>> yhat = mixer.play(np.array([[3.0, -3.0]] * 5), np.ones(5))
    >>> mixer.weights.round(6).tolist()
    [1.0, 0.0]
    >>> mixer.cost().round(3).tolist()          # ln 2
    [0.693, 0.693]
    """

    binary = True

    def cost(self) -> Vector:
        """ln(1/p_i), and what the fixed share may have cost."""
        return np.asarray(-self._log_prior - self._arrays["rate"][0] * math.log1p(-self.share))

    def predict(self, E: Matrix) -> Vector:
        """Return the mixture of each row of E, predictions of the members for the coming round; nothing changes."""
        yhat = np.empty(len(E))
        kernels.mix_logistic_predict(self._arrays["log_weights"], np.ascontiguousarray(E), yhat)
        return yhat

    def kernel_arguments(self) -> MixerArguments:
        """Return this mixer as `kernels.EnsembleKernel` takes it."""
        return self._arguments(rule=0, scale=0.0)

    def _advance(self, E: Matrix, y: Vector, weights: Matrix) -> Vector:
        yhat, a = np.empty(len(y)), self._arrays
        kernels.mix_logistic(a["log_weights"], self._log_prior, self.share, E, y, yhat, a["losses"], weights)
        a["rate"][0] += len(y)
        return yhat
