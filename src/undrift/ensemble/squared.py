r"""Mixers for squared loss: where the mixing rate comes from, and what it can cost.

All of them clip members to the labels seen so far, the last two also to a reach around the heaviest member, and all
share one accounting. With the inverse rate $\iota_t$ of
round t, the mix loss $m_t = -\iota_t\ln\sum_i w_{t,i}e^{-\ell_{t,i}/\iota_t}$, the prior p and the mixture's loss
$\ell_t$: when weights are tempered towards the prior as the rate falls and kept as it rises
(`tests/twins/mix.py`),

$$\sum_t \ell_t - \ell_{t,i} \le \sum_t(\ell_t - m_t) + \ln\tfrac1{p_i}\sum_t(\iota_{t+1} - \iota_t)_+
  + \sum_t\iota_{t+1}\ln S_t + (1-p_i)\sum_t\iota_{t+1}\ln\tfrac1{1-\alpha_t}.$$

Proof. $m_t - \ell_{t,i} = \iota_t(\ln\frac1{w_{t,i}} - \ln\frac1{v_{t,i}})$ for the posterior v. If the rate falls,
$r = \iota_t/\iota_{t+1} \le 1$, the weights $v^rp^{1-r}/S_t$ have
$\iota_{t+1}\ln\frac1{w_{t+1,i}} = \iota_t\ln\frac1{v_{t,i}} + (\iota_{t+1}-\iota_t)\ln\frac1{p_i} + \iota_{t+1}\ln S_t$
and $S_t \le 1$ (Hoelder); if it rises, $w_{t+1} = v_t$, $S_t = 1$ and
$\iota_{t+1}\ln\frac1{v_{t,i}} \le \iota_t\ln\frac1{v_{t,i}}$; a share $\alpha_t$ multiplies a weight by at least
$1-\alpha_t(1-p_i) \ge (1-\alpha_t)^{1-p_i}$. Sum, drop $-\iota_{T+1}\ln\frac1{w_{T+1,i}} \le 0$.

Nothing is asked of the rates, nor of how members are clipped: losses are those of the clipped members, and `cost` adds
what clipping changed. So rates may forget a shock. With the mean |residual| $q$ of the last 20 rounds or so, what a
rate is made of is cut down to a multiple of $q^2$, and members count as at most $36q$ away from the heaviest.

Squared loss $(e-y)^2/2$ is exp-concave at the rate $1/\max_i(e_i-y)^2$, so gaps $\ell_t - m_t$ are positive only in
rounds whose residuals are larger than the rate allowed for.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Scalar, Vector
from undrift.ensemble.mixer import Mixer
from undrift.kernels.definitions import MixerState, MixingRule
from undrift.kernels.layout import MixerArguments


class SquaredMixer(Mixer):
    """Base of the mixers for squared loss: one kernel, a rule of `MixingRule` each."""

    binary = False
    rule: ClassVar[MixingRule]

    def __init__(self, *, share: float = 0.0, **parameters: Scalar) -> None:
        super().__init__(share=share, **parameters)
        self._scale = 1.0

    def kernel_arguments(self) -> MixerArguments:
        """Return this mixer as `kernels.EnsembleKernel` takes it."""
        return self._arguments(rule=self.rule, scale=self._scale)

    def _advance(self, E: Matrix, y: Vector, weights: Matrix) -> Vector:
        yhat, a = np.empty(len(y)), self._arrays
        kernels.mix_squared(
            a["log_weights"], self._log_prior, self.share, a["rate"], self.rule, self._scale,
            E, y, yhat, a["losses"], a["charged"], weights,
        )  # fmt: skip
        return yhat

    def predict(self, E: Matrix) -> Vector:
        """Return the mixture of each row of E, predictions of the members for the coming round; nothing changes."""
        yhat = np.empty(len(E))
        arrays = self._arrays
        kernels.mix_squared_predict(arrays["log_weights"], arrays["rate"], self.rule, np.ascontiguousarray(E), yhat)
        return yhat

    def _range_cost(self, factor: float) -> Vector:
        """Y^2 (factor ln(1/p_i) + 3/2), and the share."""
        state = self._arrays["rate"]
        largest, share_cost = state[MixerState.LABEL_MAX], state[MixerState.SHARE_COST]
        return np.asarray(largest**2 * (1.5 - factor * self._log_prior) + share_cost)

    def _accounted_cost(self) -> Vector:
        """Mixability gaps, rises of the inverse rate and share; and each member's clipped losses minus its losses."""
        a, state = self._arrays, self._arrays["rate"]
        rises, share = state[MixerState.RATE_RISES], state[MixerState.SHARE_COST]
        bound = state[MixerState.GAPS] - self._log_prior * rises - np.expm1(self._log_prior) * share
        return np.asarray(bound + (a["charged"] - a["losses"]), dtype=np.float64)


class RangeMean(SquaredMixer):
    r"""Weighted mean at the rate $1/(4Y^2)$, $Y$ the largest label so far.

    Proved before the first round: losses exceed member i's by at most $Y^2(4\ln\frac1{p_i} + \frac32)$. Safe and slow:
    one large label slows it for good.

    Parameters
    ----------
    share
        As in `Mixer`.

    Examples
    --------
    >>> import numpy as np
    >>> mixer = RangeMean()
    >>> mixer.begin([1.0, 1.0])
    >>> yhat = mixer.play(np.array([[1.0, -1.0]] * 40), np.ones(40))
    >>> mixer.weights.round(3).tolist()
    [1.0, 0.0]
    >>> mixer.cost().round(3).tolist()          # 4 ln 2 + 3/2
    [4.273, 4.273]
    """

    rule = MixingRule.RANGE

    def cost(self) -> Vector:
        """Y^2 (4 ln(1/p_i) + 3/2), and the share."""
        return self._range_cost(4.0)


class Aggregating(SquaredMixer):
    r"""Vovk's aggregating rule at the rate $1/Y^2$, $Y$ the largest label so far.

    Proved before the first round: losses exceed member i's by at most $Y^2(\ln\frac1{p_i} + \frac32)$. Its prediction
    is not the mean but the point that suits both ends of the range.

    Parameters
    ----------
    share
        As in `Mixer`.

    Examples
    --------
    >>> import numpy as np
    >>> mixer = Aggregating()
    >>> mixer.begin([1.0, 1.0])
    >>> yhat = mixer.play(np.array([[1.0, -1.0]] * 40), np.ones(40))
    >>> mixer.cost().round(3).tolist()          # ln 2 + 3/2
    [2.193, 2.193]
    """

    rule = MixingRule.AGGREGATING

    def cost(self) -> Vector:
        """Y^2 (ln(1/p_i) + 3/2), and the share."""
        return self._range_cost(1.0)


class SelfConfident(SquaredMixer):
    r"""Weighted mean at a rate that follows the residuals, not the labels: as fast as the data allow.

    The inverse rate is $\Delta_t/C$, $\Delta_t$ the sum of positive mixability gaps, $C = \max(1, \ln N)$, cut down to
    $36q^2$ where the recent mean |residual| $q$ says that a shock is over. With a uniform prior and no share, losses
    exceed each (clipped) member's by at most $R^2(2C + 1)$ plus twice what was cut, $R$ the largest residual of any
    member: a gap is positive only while $\Delta_{t-1} < C R^2$, and is at most $R^2/2$. `cost` gives the number for the
    run itself.

    Parameters
    ----------
    share
        As in `Mixer`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=200)
    >>> E = y[:, None] + np.array([0.01, 0.1]) * rng.normal(size=(200, 2))
    >>> mixer = SelfConfident()
    >>> mixer.begin([1.0, 1.0])
    >>> yhat = mixer.play(E, y)
    >>> mixer.weights.round(3).tolist()
    [1.0, 0.0]
    >>> print(f"{mixer.cost()[0]:.2f}")
    1.33
    """

    rule = MixingRule.SELF_CONFIDENT

    def cost(self) -> Vector:
        """The accounted cost of the rates used, in the run so far."""
        return self._accounted_cost()


class ResidualScale(SquaredMixer):
    r"""Weighted mean at the rate 1 / (`scale` x mean squared residual of the mixture over the last 1000 rounds or so).

    That mean is cut down to $12q^2$ where the recent mean |residual| $q$ says that a shock is over.
    Quick: made to be followed by a learner over several such mixtures. Nothing is proved before the run; `cost` is
    the accounted cost of the rates used, valid for every run and possibly large.

    Parameters
    ----------
    share
        As in `Mixer`; 0.01 by default.
    scale
        Larger is slower; 2 by default.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.sin(np.arange(300) / 10.0)
    >>> E = np.column_stack([np.where(np.arange(300) < 150, y, 0.0), np.where(np.arange(300) < 150, 0.0, y)])
    >>> mixer = ResidualScale()
    >>> mixer.begin([1.0, 1.0])
    >>> bool(np.abs(mixer.play(E, y) - y)[200:].max() < 0.05)          # it changed horses
    True
    """

    rule = MixingRule.RESIDUAL_SCALE

    def __init__(self, *, share: float = 0.01, scale: float = 2.0) -> None:
        super().__init__(share=share, scale=scale)
        self._scale = _check.interval(self, "scale", scale, "(0, 1e6]")

    def cost(self) -> Vector:
        """The accounted cost of the rates used, in the run so far."""
        return self._accounted_cost()
