"""Ensembles on a grid: the paper's two, of discounts, and one of `DriftVAW` over prices of movement."""

from __future__ import annotations

import numpy as np

from undrift import _check, store
from undrift._internal.discount import Discount, linear_grid, logistic_grid
from undrift._typing import Scalar
from undrift.ensemble.ensemble import Ensemble, mixer_from_snapshot
from undrift.ensemble.mixer import Mixer
from undrift.ensemble.squared import RangeMean
from undrift.errors import InputError
from undrift.learners import DiscountedAIOLI, DiscountedVAW, DriftVAW, Learner, Zero
from undrift.learners.row_context import WEIGHT_AND_TIME
from undrift.learners.serializable import Construction
from undrift.learners.vaw import HINTS


class DiscountGridEnsemble(Ensemble):
    """An ensemble whose members follow from a few numbers and the width of the rows."""

    def __init__(self, binary: bool, mixer: Mixer | None, **parameters: Scalar) -> None:
        self._setup(binary, mixer, **parameters)
        self._prototypes: list[Learner] = []

    supports = WEIGHT_AND_TIME
    unusable = (KeyError, TypeError, ValueError)

    def _construction(self) -> Construction:
        return Construction((), {**self.parameters, "mixer": self.mixer.clone()})

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        return Construction((), {**header["parameters"], "mixer": mixer_from_snapshot(header)})  # type: ignore[dict-item]  # __init__ checks every one of them

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items() if value is not None)
        return f"{type(self).__name__}({given}{', ' if given else ''}mixer={self.mixer!r})"


class LinearEnsemble(DiscountGridEnsemble):
    r"""Linear regression that learns its own memory length: discounted VAW over a grid of discounts, and `Zero`.

    Parameters
    ----------
    horizon
        Rounds to come, at least 1. None covers every horizon up to $2^{40}$ rounds with a longer grid and $\beta = 1$.
    reg
        Ridge $\lambda > 0$ of every member.
    hint
        As in `DiscountedVAW`; the theorem is about "zero".
    mixer
        `RangeMean` by default, for which the theorem is stated; `SelfConfident` follows the residuals instead.

    Notes
    -----
    Guarantee `linear-ensemble`: for every path $u_1, ..., u_T$, with $Y = \max|y_t|$ and $N$ members,
    $\text{D-Reg} \le Y^2(4\ln N + 2) + \frac\lambda2|u_1|^2 + \frac d2Y^2\ln(1 + \frac{\sum|z_t|^2}{\lambda d})
    + 3\sqrt{\frac d2TY^2P_T^{\beta^*}}$. Without a horizon it holds for every $T \le 2^{40}$ with that grid's N.

    Examples
    --------
    >>> import numpy as np
    >>> model = LinearEnsemble(horizon=400)
    >>> Z = np.column_stack([np.ones(400), np.sin(np.arange(400))])
    >>> y = np.where(np.arange(400) < 200, 1.0, -1.0) * Z[:, 1]
    >>> trace = model.play(Z, y)
    >>> len(model.members), bool(np.corrcoef(trace.yhat[300:], y[300:])[0, 1] > 0.99)
    (10, True)
    """

    def __init__(
        self, *, horizon: float | None = None, reg: float = 1.0, hint: str = "zero", mixer: Mixer | None = None
    ) -> None:
        super().__init__(False, RangeMean() if mixer is None else mixer, horizon=horizon, reg=reg, hint=hint)
        self.horizon = _horizon(self, horizon)
        self.reg = _check.interval(self, "reg", reg, "[1e-140, 1e140]")
        self.hint = _check.choice(self, "hint", hint, HINTS)

    def _build(self, dim: int) -> list[Learner]:
        vaws = [
            DiscountedVAW(**_parameters(one), reg=self.reg, hint=self.hint) for one in linear_grid(dim, self.horizon)
        ]
        return [*vaws, Zero()]


class LogisticEnsemble(DiscountGridEnsemble):
    r"""Logistic regression that learns its own memory length: discounted AIOLI over a grid of discounts.

    Parameters
    ----------
    bound, radius
        $B$ and $R$: the guarantee is against paths with $|u_t| \le B$ on rows with $|z_t| \le R$.
    horizon
        As in `LinearEnsemble`.
    mixer
        `Mixable` by default.

    Notes
    -----
    Guarantee `logistic-ensemble`: $\text{D-Reg} = O(dB\log(BT) + \sqrt{dBT\,P_T^{\beta^*}})$; the mixing part is
    $\ln N$. The ridge is $1/B^2$.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(300, 2))
    >>> y = rng.random(300) < 1 / (1 + np.exp(-3 * Z[:, 0]))
    >>> model = LogisticEnsemble(bound=5.0, radius=4.0, horizon=300)
    >>> trace = model.play(Z, y)
    >>> bool(model.predict([2.0, 0.0]) > 1.0)
    True
    """

    def __init__(
        self, *, bound: float, radius: float, horizon: float | None = None, mixer: Mixer | None = None
    ) -> None:
        super().__init__(True, mixer, bound=bound, radius=radius, horizon=horizon)
        self.bound = _check.interval(self, "bound", bound, "[1e-50, 1e50]")
        self.radius = _check.interval(self, "radius", radius, "[0, 1e50]")
        self.horizon = _horizon(self, horizon)

    def _build(self, dim: int) -> list[Learner]:
        B, R = self.bound, self.radius
        grid = logistic_grid(dim, B, R, self.horizon)
        return [DiscountedAIOLI(**_parameters(one), reg=B**-2, bound=B, radius=R) for one in grid]


def linear_ensemble(
    horizon: float | None = None, reg: float = 1.0, *, hint: str = "zero", mixer: Mixer | None = None
) -> LinearEnsemble:
    """Return linear regression that learns its own memory length: a `LinearEnsemble`, which explains the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.repeat([1.0, -1.0], 50)
    >>> bool(np.abs(linear_ensemble(horizon=100).play(np.ones((100, 1)), y).yhat[90:] + 1.0).max() < 0.3)
    True
    """
    return LinearEnsemble(horizon=horizon, reg=reg, hint=hint, mixer=mixer)


def logistic_ensemble(
    bound: float, radius: float, horizon: float | None = None, *, mixer: Mixer | None = None
) -> LogisticEnsemble:
    """Return logistic regression that learns its own memory length: a `LogisticEnsemble`, which explains parameters.

    Examples
    --------
    >>> import numpy as np
    >>> model = logistic_ensemble(bound=3.0, radius=1.0, horizon=100)
    >>> bool(model.play(np.ones((100, 1)), np.repeat([1, 0], 50)).yhat[90:].max() < 0.0)
    True
    """
    return LogisticEnsemble(bound=bound, radius=radius, horizon=horizon, mixer=mixer)


def _horizon(who: object, horizon: float | None) -> float | None:
    return None if horizon is None else _check.interval(who, "horizon", horizon, "[1, 1e15]")


def _parameters(discount: Discount) -> dict[str, float]:
    """Return the parameters of a learner with this discount: the half-life keeps 1 - beta to full precision."""
    return {"half_life": discount.half_life} if discount.one_minus_beta else {"beta": 1.0}


def drift_ensemble(
    slowest: float = 1e8, fastest: float = 1.0, *, reg: float = 1.0, hint: str = "zero", mixer: Mixer | None = None
) -> Ensemble:
    r"""Return an ensemble of `DriftVAW` whose prices $\tau$ of movement are ten times apart.

    Parameters
    ----------
    slowest, fastest
        Largest and smallest $\tau$, in losses per squared coefficient: from hardly drifting to following every label.
    reg, hint
        As for `DriftVAW`.
    mixer
        By default `SelfConfident`.

    Notes
    -----
    Guarantee `drift`: for every path, the best member's, whose $\tau$ is within a factor $\sqrt{10}$ of the best one
    between the ends (its price of movement within that factor), plus the mixer's `cost`.

    Examples
    --------
    >>> Z = np.column_stack([np.ones(500), np.sin(np.arange(500))])
    >>> y = np.sin(np.arange(500) / 50) * Z[:, 1]
    >>> model = drift_ensemble(hint="ridge")
    >>> trace = model.play(Z, y)
    >>> len(model.members), float(np.argmax(model.weights))
    (9, 8.0)
    """
    high = _check.interval("drift_ensemble", "slowest", slowest, "[1e-100, 1e100]")
    low = _check.interval("drift_ensemble", "fastest", fastest, "[1e-100, 1e100]")
    if low > high:
        raise InputError(f"drift_ensemble: fastest must be at most slowest = {high:g}, got {low:g}")
    count = round(float(np.log10(high / low))) + 1
    return Ensemble([DriftVAW(float(tau), reg=reg, hint=hint) for tau in np.geomspace(high, low, max(count, 1))], mixer)
