"""Sequences of forecasts and labels made to hurt `Mix`, and what it lost on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import undrift as ud

ROUNDS = 40
LOSSES = [{"loss": "squared"}, {"loss": "absolute"}, {"loss": "quantile", "quantile": 0.9}]


@dataclass(frozen=True)
class MixOutcome:
    """What was served for labelled rows with a forecast, and members: forecasts, mean, median; NaN where missing."""

    mix: ud.Mix
    labels: np.ndarray
    yhat: np.ndarray
    members: np.ndarray
    steps: np.ndarray

    def losses(self, answers):
        """Return the losses of answers (rows, ...) as `Mix` counts them."""
        y = self.labels.reshape(-1, *[1] * (answers.ndim - 1))
        return self.mix.loss.value(answers, y)

    @property
    def filled(self):
        """The members, a missing one as the prediction."""
        return np.where(np.isnan(self.members), self.yhat[:, None], self.members)

    @property
    def scale(self):
        """The size of all terms, to which rounding is relative."""
        away = np.abs(self.mix.loss.slope(self.yhat, self.labels))[:, None] * np.abs(self.yhat[:, None] - self.filled)
        return float(away.sum() + self.losses(self.filled).sum() + self.losses(self.yhat).sum()) + np.finfo(float).tiny

    def excess(self, u):
        """Return the loss minus that of the combination u."""
        return float(self.losses(self.yhat).sum() - self.losses(self.filled @ u).sum())


def draw_forecasts(rng, rounds, offered):
    """Draw a signal and forecasts of it, some biased, wild, broken, silent, perfect, or opposite to it."""
    y = np.cumsum(rng.normal(size=rounds)) * 10.0 ** rng.uniform(-3, 3)
    y *= 10.0 ** np.repeat(rng.uniform(-2, 2, 4) * (rng.random() < 0.5), -(-rounds // 4))[:rounds]
    Z = y[:, None] + y.std() * rng.normal(size=(rounds, offered)) * 10.0 ** rng.uniform(-2, 1, offered)
    for k in range(offered):
        kind = rng.integers(8)
        if kind == 0:
            Z[:, k] = y
        elif kind == 1:
            Z[rng.random(rounds) < 0.1, k] *= 10.0 ** rng.uniform(1, 6)
        elif kind == 2:
            Z[rng.random(rounds) < 0.5, k] = np.nan
        elif kind == 3:
            Z[rounds // 2 :, k] = 0.0
        elif kind == 4:
            Z[:, k] = -y
    if rng.random() < 0.2:
        Z[rng.integers(rounds, size=3)] = np.nan
    return y, Z


def choose_label(rng, rule, y, yhat, forecasts):
    """Return the label of a row: as drawn, a shock, opposite to the prediction, a forecast, or missing."""
    if rng.random() < 0.03:
        return np.nan
    if rule == 1 and rng.random() < 0.1:
        return y + float(rng.choice([-1.0, 1.0])) * (1.0 + abs(y)) * 10.0 ** rng.uniform(0, 6)
    if rule == 2:
        return yhat + float(rng.choice([-1.0, 1.0])) * (1.0 + abs(y))
    if rule == 3 and not np.isnan(forecasts).all():  # the forecast that is farthest from the prediction was right
        return float(forecasts[np.nanargmax(np.abs(forecasts - yhat))])
    return float(y)


def gather(z):
    """Return the forecasts of a row, their mean and their median."""
    some = z[~np.isnan(z)]
    return np.array([*z, *([some.mean(), np.median(some)] if len(some) else [np.nan, np.nan])])


def play(rng, rounds=ROUNDS, **settings):
    """Play a drawn sequence with labels that come at once or late, in any order."""
    horizon, offered = int(rng.choice([1, 1, 3])), int(rng.integers(1, 6))
    mix, rule, latest = ud.Mix(horizon=horizon, **settings), int(rng.integers(4)), int(rng.choice([0, 0, 5]))
    drawn, Z = draw_forecasts(rng, rounds * horizon, offered)
    told, waiting = [], []
    for t in range(rounds):
        block = slice(t * horizon, (t + 1) * horizon)
        asked = mix.ask(Z[block] if horizon > 1 else Z[block][0])
        for h, served in enumerate(asked if horizon > 1 else [asked]):
            k = t * horizon + h
            y = choose_label(rng, rule, drawn[k], served.yhat, Z[k])
            waiting.append((t + int(rng.integers(latest + 1)), k, served, y))
        for due in [one for one in waiting if one[0] <= t or t == rounds - 1]:
            waiting.remove(due)
            _, k, served, y = due
            mix.tell(served, y)
            if not np.isnan(y) and not np.isnan(Z[k]).all():
                told.append((y, served.yhat, gather(Z[k]), k % horizon))
    columns = [np.array(column) for column in zip(*told, strict=True)]
    return MixOutcome(mix, *columns)
