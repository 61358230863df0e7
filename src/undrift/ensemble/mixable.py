"""Mixers that mix probabilities so that nothing is lost: `Mixable` for two classes, `MixableProbabilities` for more."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer, log_prior, weights_of
from undrift.kernels.layout import MixerArguments
from undrift.losses import log_softmax


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


class MixableProbabilities:
    r"""Exponential weights on members that give probabilities of K classes.

    The mixture of probabilities attains the mix loss $-\ln\sum_iw_ie^{-\ell_i}$ with equality whatever the label, as
    for two classes: its log-losses exceed member i's by at most $\ln(1/p_i)$, $p$ the prior.

    Parameters
    ----------
    share
        Part of the weight in [0, 1) that returns to the prior each round: follows the best member of the moment, for
        $\ln\frac1{1-\text{share}}$ a round.

    Examples
    --------
    >>> mixer = MixableProbabilities()
    >>> mixer.begin([1.0, 1.0])
    >>> E = np.log([[[0.8, 0.1, 0.1], [0.2, 0.4, 0.4]]] * 5)
    >>> mixed = mixer.play(E, np.zeros(5))
    >>> np.exp(mixed[0]).round(2).tolist(), mixer.weights.round(3).tolist()
    ([0.5, 0.25, 0.25], [0.999, 0.001])
    """

    def __init__(self, *, share: float = 0.0) -> None:
        self.share = _check.interval(self, "share", share, "[0, 1)")
        self._log_prior = np.zeros(0)
        self._log_weights, self._losses, self._rounds = np.zeros(0), np.zeros(0), np.zeros(1)

    def begin(self, prior: ArrayLike) -> None:
        """Start with these weights, positive numbers of any sum, one for each member."""
        self._log_prior = log_prior(self, prior)
        self._log_weights, self._losses = self._log_prior.copy(), np.zeros(len(self._log_prior))
        self._rounds = np.zeros(1)

    def predict(self, E: Matrix) -> Matrix:
        """Return the logarithms of the mixture's probabilities (rows, K) from the members' logits (rows, N, K)."""
        return np.asarray(_log_sum(self._log_weights[None, :, None] + log_softmax(E)))

    def play(self, E: Matrix, y: Vector) -> Matrix:
        """Close rounds with the members' logits (rounds, N, K) and the class numbers y; return the mixtures' logits."""
        logs, classes = log_softmax(E), y.astype(np.int64)
        mixed = np.empty((len(y), E.shape[2]))
        for t in range(len(y)):
            mixed[t] = _log_sum(self._log_weights[:, None] + logs[t])
            told = logs[t, :, classes[t]]
            self._losses -= told
            after = self._log_weights + told
            after -= np.max(after)
            after -= np.log(np.sum(np.exp(after)))
            self._rounds += 1.0
            if self.share:
                after = np.logaddexp(np.log1p(-self.share) + after, np.log(self.share) + self._log_prior)
            self._log_weights[...] = np.maximum(after, -1e300)
        return mixed

    @property
    def weights(self) -> Vector:
        """The members' weights for the coming round; they sum to 1."""
        return weights_of(self._log_weights)

    @property
    def losses(self) -> Vector:
        """Sum of each member's log-losses so far."""
        return self._losses.copy()

    def cost(self) -> Vector:
        """Return a bound on (the mixture's losses so far) - (each member's): ln(1/p_i), and what the share may cost."""
        return np.asarray(-self._log_prior - self._rounds[0] * np.log1p(-self.share))

    def arrays(self) -> dict[str, Vector]:
        """Return the state by name, the very arrays."""
        return {"log_weights": self._log_weights, "losses": self._losses, "rounds": self._rounds}


def _log_sum(logs: Matrix) -> Matrix:
    """Return ln of the sum of e^logs over the members, the last axis but one."""
    most = np.max(logs, axis=-2, keepdims=True)
    return np.asarray(np.log(np.sum(np.exp(logs - most), axis=-2)) + most[..., 0, :])
