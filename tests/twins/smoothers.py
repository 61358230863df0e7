r"""NumPy twin of the kernels of a bank of smoothers: level, trend and season of one series.

A smoother of the bank has a level l, a trend b and up to two seasons s_1, s_2: arrays with one number for each place of
the season, which is the row's number modulo the period. Its forecast made after row t for the row t + h is

$$l_t+(\phi+\phi^2+\dots+\phi^h)\,b_t+\sum_q s_{q,t}[(t+h)\bmod p_q],$$

where $\phi$ is the damping, and the sum of its powers is the entry h of the smoother's row of `reach`. A value y that
arrives in row t corrects the smoother by its error of one step:

    e    = y - (l + phi b + sum_q s_q[t mod p_q])         0 where the value is missing
    l   <- l + phi b + alpha e                            alpha   = max(LEVEL, 1 / (seen + 1))
    b   <- phi b + alpha TREND e                          0 after the first value
    s_q <- s_q + gamma_q (1 - alpha) e / seasons          gamma_q = max(SEASON, 1 / (visits_q + 1 + q))

`seen` counts the values before this one, and `visits_q` how often this place of season q has passed since the first
value; `seasons` is how many seasons the smoother has, and q is 0 or 1. With the lower limits on alpha and gamma the
first values are averages rather than corrections of zeros. Only the number of the present place changes, so the season
of a step h is known at once: its place is visited every p rows, and p * ceil(horizon / p) numbers hold what each place
was after its last ceil(horizon / p) visits. These are what the forecasts of the last `horizon` origins were made of.

A row with a value judges what every smoother forecast of it h rows ago, for all steps h that the first value allows.
Steps are put together in bands: 1, 2, 3-4, 5-8, and so on. For each band the loss of a smoother and the number of rows
are discounted sums,

    n_g <- BETA n_g + 1       L_g <- BETA L_g + mean over the band of min(error^2, MOST_LOSS * least L_g / n_g)

so that one row cannot decide alone; the limit is left out while the least loss is 0. With the excess
$x_g=\ln(L_g/\min L_g)$ of a smoother, and $r_g=n_g/$ (the middle of the band) as the number of forecasts of this length
that do not overlap, the weights are $w\propto e^{-x\,r/2}$: as for Gaussian errors whose variance is not known. For
the steps of a band x and r are the band's own, with r at least 1. For all steps together x is the sum over bands and r
that of the last band. Bands that were never judged take the weights of the last one that was. A smoother with less than
LEAST_WEIGHT of the best one's weight has none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.twins.constants import SMOOTHER_BETA, SMOOTHER_LEAST_LOSS, SMOOTHER_LEAST_WEIGHT, SMOOTHER_MOST_LOSS
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import INPUT_LIMIT, SmootherGain, SmootherHead
from undrift.kernels.layout import State

Periods = NDArray[np.int64]


def smoothers_size(periods: Periods, horizon: int) -> int:
    """Return how many numbers the state of a bank has; all are 0 before the first row.

    After the numbers of `SmootherHead` come n_g for each band, and then for each smoother: level, trend, L_g for each
    band, the levels and the trends after the last `horizon` rows (that of row t at the place horizon - 1 - t % horizon)
    and each season (visits, places), the newest visits first.
    """
    bands, cells = len(_bands(horizon)), 0
    for pair in periods:
        cells += 2 + bands + 2 * horizon + sum(int(p) * _visits(int(p), horizon) for p in pair if p)
    return len(SmootherHead) + bands + cells


def smoothers_play(
    state: Vector, gains: Matrix, periods: Periods, reach: Matrix, first: int, y: Vector, out: State
) -> int:
    """Take in the values of rows from number `first` on, NaN where missing, and forecast after each.

    Parameters
    ----------
    state
        The numbers of the bank (`smoothers_size`), changed in place.
    gains
        The numbers of `SmootherGain` (smoothers, 4).
    periods
        Rows of the seasons (smoothers, 2), 0 where there is none.
    reach
        The sum of the powers of the damping (smoothers, horizon).
    first
        The number of the first of these rows.
    y
        The values (rows).
    out
        Receives the forecasts (rows, 2, horizon): by weights of the step's band, and by weights of all bands together;
        0 before any value.

    Returns
    -------
    0, or -(1 + index) of the first value that is infinite or too large, and then nothing has changed.
    """
    for r, value in enumerate(y):
        if abs(value) > INPUT_LIMIT:
            return -1 - r
    bank = _Bank(state, gains, periods, reach)
    for r, value in enumerate(y):
        out[r] = bank.play(first + r, float(value))
    return 0


def _bands(horizon: int) -> list[range]:
    """Return the steps of each band, from 1 on."""
    bands, begin = [range(1, 2)], 2
    while begin <= horizon:
        end = min(2 * (begin - 1), horizon)
        bands.append(range(begin, end + 1))
        begin = end + 1
    return bands


def _visits(period: int, horizon: int) -> int:
    """Return how many visits of a place of a season the last `horizon` origins can tell apart."""
    return -(-horizon // period)


class _Smoother:
    """Views into the numbers of one smoother."""

    def __init__(self, cells: Vector, gain: Vector, periods: Vector, reach: Vector, bands: int) -> None:
        self.gain, self.reach = gain, reach
        horizon = len(reach)
        self.level, self.trend, self.losses = cells[0:1], cells[1:2], cells[2 : 2 + bands]
        rest = cells[2 + bands :]
        self.levels, self.trends, rest = rest[:horizon], rest[horizon : 2 * horizon], rest[2 * horizon :]
        self.seasons: list[tuple[int, Matrix]] = []
        for q, period in enumerate(int(p) for p in periods):
            if period:
                size = period * _visits(period, horizon)
                self.seasons.append((q, rest[:size].reshape(-1, period)))
                rest = rest[size:]
        self.size = len(cells) - len(rest)

    def forecast(self, t: int, h: int, ago: int = 0) -> float:
        """Return the forecast of row t made `h` rows before it, if row t - h + ago is the newest one."""
        origin, horizon = t - h, len(self.reach)
        place = horizon - 1 - origin % horizon
        said = self.levels[place] + self.reach[h - 1] * self.trends[place]
        for _, season in self.seasons:
            period = season.shape[1]
            # How often the place of row t was visited after the origin and up to the newest row.
            later = (origin + ago - t % period) // period - (origin - t % period) // period
            said = said + season[later, t % period]
        return float(said)

    def learn(self, t: int, y: float, seen: float, first: int) -> None:
        """Correct level, trend and seasons by the error of one step."""
        level, season, phi, beta = (self.gain[k] for k in SmootherGain)
        expected = self.level[0] + phi * self.trend[0]
        error = 0.0 if np.isnan(y) else y - (expected + sum(s[0, t % s.shape[1]] for _, s in self.seasons))
        alpha = max(level, 1.0 / (seen + 1.0))
        self.level[0] = expected + alpha * error
        self.trend[0] = phi * self.trend[0] + (alpha * beta * error if seen else 0.0)
        for q, visits in self.seasons:
            place = visits[:, t % visits.shape[1]]
            gamma = max(season, 1.0 / ((t - first) // visits.shape[1] + 1 + q))
            place[1:] = place[:-1].copy()
            place[0] += gamma * (1.0 - alpha) * error / len(self.seasons)
        horizon = len(self.reach)
        self.levels[horizon - 1 - t % horizon] = self.level[0]
        self.trends[horizon - 1 - t % horizon] = self.trend[0]


class _Bank:
    """Views into the state of a bank, and its rounds."""

    def __init__(self, state: Vector, gains: Matrix, periods: Periods, reach: Matrix) -> None:
        self.horizon = reach.shape[1]
        self.bands = _bands(self.horizon)
        self.head = state[: len(SmootherHead)]
        self.rows = state[len(SmootherHead) : len(SmootherHead) + len(self.bands)]
        rest, self.smoothers = state[len(SmootherHead) + len(self.bands) :], []
        for gain, pair, powers in zip(gains, periods, reach, strict=True):
            smoother = _Smoother(rest, gain, pair, powers, len(self.bands))
            self.smoothers.append(smoother)
            rest = rest[smoother.size :]

    def play(self, t: int, y: float) -> Matrix:
        """Take in row t and return the forecasts after it (2, horizon)."""
        if not self.head[SmootherHead.SEEN]:
            if np.isnan(y):
                return np.zeros((2, self.horizon))
            self.head[SmootherHead.FIRST] = t
            for smoother in self.smoothers:
                smoother.level[0] = y
        first = int(self.head[SmootherHead.FIRST])
        if not np.isnan(y):
            self._judge(t, y, min(self.horizon, t - first))
        for smoother in self.smoothers:
            smoother.learn(t, y, self.head[SmootherHead.SEEN], first)
        self.head[SmootherHead.SEEN] += not np.isnan(y)
        return self._forecast(t)

    def _judge(self, t: int, y: float, longest: int) -> None:
        """Add the losses of row t, at the steps up to `longest`, before its value is learned."""
        for g, band in enumerate(self.bands):
            steps = [h for h in band if h <= longest]
            if not steps:
                continue
            least, most = min(one.losses[g] for one in self.smoothers), np.inf
            if least > 0.0:
                most = SMOOTHER_MOST_LOSS * least / self.rows[g]
            self.rows[g] = SMOOTHER_BETA * self.rows[g] + 1.0
            for one in self.smoothers:
                losses = [min((y - one.forecast(t, h, h - 1)) ** 2, most) for h in steps]
                one.losses[g] = SMOOTHER_BETA * one.losses[g] + sum(losses) / len(losses)

    def _forecast(self, t: int) -> Matrix:
        """Return the forecasts after row t."""
        weights, together = self._weights()
        out = np.zeros((2, self.horizon))
        for g, band in enumerate(self.bands):
            for h in band:
                said = np.array([one.forecast(t + h, h) for one in self.smoothers])
                out[0, h - 1], out[1, h - 1] = np.sum(weights[g] * said), np.sum(together * said)
        return out

    def _weights(self) -> tuple[Matrix, Vector]:
        """Return the weights of each band (bands, smoothers), and those of all bands together."""
        losses = np.array([one.losses for one in self.smoothers]).T + SMOOTHER_LEAST_LOSS
        excess = np.log(losses / losses.min(axis=1, keepdims=True))
        middles = np.array([(band[0] + band[-1]) / 2.0 for band in self.bands])
        forecasts = self.rows / middles
        known = max(int(np.count_nonzero(self.rows)), 1) - 1
        by_band = [
            _normalise(0.5 * np.maximum(forecasts[g], 1.0) * excess[g])
            for g in np.minimum(np.arange(len(self.bands)), known)
        ]
        return np.array(by_band), _normalise(0.5 * forecasts[known] * excess[: known + 1].sum(axis=0))


def _normalise(excess: Vector) -> Vector:
    weights = np.exp(excess.min() - excess)
    weights[weights < SMOOTHER_LEAST_WEIGHT] = 0.0
    return np.asarray(weights / weights.sum())
