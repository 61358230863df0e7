"""An sktime forecaster: `fit`, `predict`, and `update` that learns new rows without fitting again."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from undrift.errors import MissingExtraError
from undrift.forecast import Forecaster
from undrift.forecast.intervals import LEVELS

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster
except ImportError:
    raise MissingExtraError("undrift.sktime needs sktime; install it with: pip install 'undrift[sktime]'") from None

Frame = Any
"""A pandas frame, as sktime passes it."""


class DriftForecaster(BaseForecaster):  # type: ignore[misc]  # sktime has no types
    """`Forecaster` for sktime. `update` learns the new rows as they are; nothing is ever fitted again.

    It keeps the rows it has seen, whatever sktime's `remember_data` says: a larger `fh` needs them. Its parameters are
    what it has seen, so rows given to `update` are learned with `update_params=False` too.

    Parameters
    ----------
    horizon
        Steps ahead that are learned; a larger `fh` makes it learn all rows once more.
    season
        As in `Forecaster`: rows after which values repeat, several such numbers, 0 for none, None to find them.
    nonnegative
        As in `Forecaster`: whether forecasts below 0 become 0; None: while a series has had no value below 0.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from undrift.sktime import DriftForecaster
    >>> y = pd.Series(np.sin(np.arange(120) * 2 * np.pi / 12))
    >>> model = DriftForecaster(horizon=3).fit(y[:100])
    >>> model.update(y[100:]).predict(fh=[1, 2, 3]).shape
    (3,)
    """

    _tags = {  # noqa: RUF012  # sktime's own form
        "authors": ["undrift"],
        "scitype:y": "both",
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "requires-fh-in-fit": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:exogenous": True,
        "capability:update": True,
        "python_dependencies": None,
    }

    def __init__(self, horizon: int = 24, season: Any = None, nonnegative: bool | None = None) -> None:
        self.horizon = horizon
        self.season = season
        self.nonnegative = nonnegative
        super().__init__()

    def _fit(self, y: Frame, X: Frame, fh: Any) -> Self:
        self._past = (y, X)
        self._learn_all(self.horizon)
        return self

    def _learn_all(self, steps: int) -> None:
        """Learn all rows seen so far, from the first one on."""
        y, X = self._past
        self.model_ = Forecaster(steps, self.season, nonnegative=self.nonnegative)
        self._names, self._last = list(y.columns), y.index[-1]
        self.model_.play(_values(y), known=_known_columns(X, y.index))

    def _update(self, y: Frame, X: Frame = None, update_params: bool = True) -> Self:
        fresh = y[y.index > self._last]
        if len(fresh):
            self.model_.play(_values(fresh), known=_known_columns(X, fresh.index))
            self._last = fresh.index[-1]
            self._past = (_join(self._past[0], fresh), _join(self._past[1], X))
        return self

    def _steps(self, fh: Any) -> NDArray[np.int64]:
        """Return which steps are asked for; where they are too far ahead, learn all rows again with these."""
        steps = np.asarray(fh.to_relative(self.cutoff), dtype=np.int64)
        if steps.max() > self.model_.horizon:
            self._learn_all(int(steps.max()))
        return steps

    def _ends(self, fh: Any, X: Frame, coverage: float) -> list[NDArray[np.float64]]:
        """Return forecasts and both ends (steps, series); levels that are not followed go by the normal ones."""
        steps = self._steps(fh)
        level = float(np.clip(coverage, LEVELS[0], LEVELS[-1]))
        ahead = None if X is None else _ahead(X, fh.to_absolute_index(self.cutoff), steps, self.model_.horizon)
        yhat, _, upper = self.model_.forecast(level=level, known=ahead)
        scale = _normal(coverage) / _normal(level)
        half = (upper - yhat) * scale
        lower = np.maximum(yhat - half, self.model_.lower_limits[:, None])
        return [part.T[steps - 1] for part in (yhat, lower, yhat + half)]

    def _predict(self, fh: Any, X: Frame) -> Frame:
        return pd.DataFrame(self._ends(fh, X, 0.9)[0], index=fh.to_absolute_index(self.cutoff), columns=self._names)

    def _predict_interval(self, fh: Any, X: Frame, coverage: Any) -> Frame:
        columns, parts = [], []
        found = {one: self._ends(fh, X, one) for one in coverage}
        for s, name in enumerate(self._get_varnames()):
            for one, (_, lower, upper) in found.items():
                columns += [(name, one, "lower"), (name, one, "upper")]
                parts += [lower[:, s], upper[:, s]]
        index = fh.to_absolute_index(self.cutoff)
        return pd.DataFrame(np.column_stack(parts), index=index, columns=pd.MultiIndex.from_tuples(columns))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's own checks."""
        return [{"horizon": 4}, {"horizon": 6, "season": 4, "nonnegative": True}]


def _normal(level: float) -> float:
    """Return the half-width of a normal interval of this level, in deviations."""
    return NormalDist().inv_cdf((1.0 + min(level, 1.0 - 1e-12)) / 2.0) if level > 0.0 else 0.0


def _join(old: Frame, new: Frame) -> Frame:
    """Return the rows of both frames; where both have a row, the newer one."""
    if old is None or new is None:
        return old if new is None else new
    both = pd.concat([old, new])
    return both[~both.index.duplicated(keep="last")].sort_index()


def _values(y: Frame) -> NDArray[np.float64]:
    return np.ascontiguousarray(y.to_numpy(dtype=np.float64))


def _known_columns(X: Frame, index: Any) -> NDArray[np.float64] | None:
    """Return the columns known in advance, for these rows and all that follow in the frame."""
    if X is None:
        return None
    rows = X[X.index >= index[0]].ffill().fillna(0.0)
    return np.ascontiguousarray(rows.to_numpy(dtype=np.float64))


def _ahead(X: Frame, index: Any, steps: NDArray[np.int64], horizon: int) -> NDArray[np.float64]:
    """Return the known columns of the next rows; between and after the steps asked for, the last known goes on."""
    given = X.reindex(index).ffill().bfill().fillna(0.0).to_numpy(dtype=np.float64)
    place = np.clip(np.searchsorted(steps, np.arange(1, horizon + 1), side="right") - 1, 0, len(steps) - 1)
    return np.ascontiguousarray(given[place])
