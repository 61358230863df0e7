"""Hostile streams for the guarantee of theory page `gate`, and what a model loses on them beyond its `cost()`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import undrift as ud
from undrift.kernels.definitions import (
    LEAST_PROBABILITY,
    EstimatorNumber,
    GateNumber,
    GivenMember,
)
from undrift.kernels.definitions import RecordPart as R

PLAIN, BESIDE, FAR_SIDE, LAST, NEAR_RAW, NEAR_ROBUST, NEAR_GIVEN, MISSING = range(8)
"""How a label is chosen when its row has been served: see `choose_label`."""
LIKELY = {
    "plain": [1.0, 0, 0, 0, 0, 0, 0, 0],
    "adversary": [0.2, 0.3, 0.3, 0.05, 0, 0, 0.1, 0.05],
    "arms": [0.4, 0, 0.05, 0.05, 0.25, 0.25, 0, 0],
    "all": [0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05],
}
"""How often each rule is drawn, by the kind of stream."""
SQUARED, PINBALL, LOGISTIC = "squared", "pinball", "logistic"


LEVEL = 0.3
"""Of the pinball loss."""


@dataclass(frozen=True)
class Stream:
    """Rows, given predictions, rules for labels and delays; labels may depend on what is predicted."""

    speed: str
    loss: str
    Z: np.ndarray
    given: np.ndarray
    """Given predictions (rounds, members), NaN where missing."""
    rule: np.ndarray
    value: np.ndarray
    """The label under PLAIN, a distance under the other rules."""
    delay: np.ndarray
    """How many further rows are served before each label."""
    weight: np.ndarray


@dataclass(frozen=True)
class Outcome:
    """What a model lost on a stream, against each candidate and against combinations of given predictions."""

    model: ud.OnlineRegressor | ud.OnlineClassifier
    total: float
    labels: np.ndarray
    members: np.ndarray
    """Of the judged rows: the model's own prediction, given ones, their mean and median, NaN where missing."""
    yhat: np.ndarray

    def ratio(self, model=None) -> float:
        """Return the largest (excess - cost) / losses over all candidates; the theorem says: never above rounding."""
        judged = self.model if model is None else model
        scale = self.total + judged.losses + np.finfo(float).tiny
        return float(np.max((self.total - judged.losses - judged.cost()) / scale))

    def combination_ratio(self, u: np.ndarray, loss: str, complete: bool = True) -> float:
        """Return the same for the convex combination u of the members; a missing one is the prediction.

        `complete` takes slopes at members as they came; the bounds for single members are none for combinations.
        """
        p = np.where(np.isnan(self.members), self.yhat[:, None], self.members)
        rival = float(np.sum(lose(loss, p @ u, self.labels)))
        scale = self.total + float(u @ np.sum(lose(loss, p, self.labels[:, None]), axis=0))
        slopes = self.model.part("given.members")[:, GivenMember.SLOPES]
        bound = float(u @ (slopes if complete else self.model.inspect._given_cost()))
        return (self.total - rival - bound) / (scale + np.finfo(float).tiny)


def lose(loss: str, yhat, y):
    """Return the losses of predictions, which are log-odds for two classes."""
    if loss == LOGISTIC:
        return np.logaddexp(0.0, np.where(y > 0.0, -yhat, yhat))
    if loss == PINBALL:
        return np.maximum(LEVEL * (y - yhat), (1.0 - LEVEL) * (yhat - y))
    return 0.5 * (yhat - y) ** 2


def draw_labels(rng, rounds, X):
    """Draw labels with spikes, sentinels, rare effects, changes of scale, jumps of level or constant stretches."""
    y = X @ rng.normal(size=X.shape[1]) + rng.normal() * 3.0 + 10.0 ** rng.uniform(-2, 0.5) * rng.normal(size=rounds)
    for kind in rng.choice(6, size=rng.integers(0, 4), replace=False):
        at, size = int(rng.integers(rounds)), 10.0 ** rng.uniform(0.5, 4)
        if kind == 0:  # spikes
            y += size * (rng.random(rounds) < 0.03)
        elif kind == 1:  # a sentinel
            y[rng.random(rounds) < 0.04] = rng.choice([-999.0, 0.0, 9999.0])
        elif kind == 2:  # a rare effect of a feature
            X[:, 0] = rng.random(rounds) < 0.06
            y += size * X[:, 0]
        elif kind == 3:
            y[at:] *= 10.0 ** rng.uniform(-3, 6)
        elif kind == 4:
            y[at:] += rng.choice([-1.0, 1.0]) * size
        else:
            y[at : at + 40] = y[at]
    return y


def draw_given(rng, y, kinds=None):
    """Draw given predictions: good, perfect, wild, missing half of the time, broken for a while, constant."""
    members, spread = [], float(np.std(y)) + 1e-3
    for kind in rng.integers(0, 6, size=rng.integers(1, 5)) if kinds is None else kinds:
        p = y + 10.0 ** rng.uniform(-2, 0.5) * spread * rng.normal(size=len(y))
        if kind == 1:
            p = y.copy()
        elif kind == 2:
            p = spread * 10.0 ** rng.uniform(0, 5, len(y)) * rng.normal(size=len(y))
        elif kind == 3:
            p[rng.random(len(y)) < 0.5] = np.nan
        elif kind == 4:
            at = int(rng.integers(len(y)))
            p[at : at + 30] = rng.choice([0.0, 1e6 * spread, np.nan])
        elif kind == 5:
            p[:] = rng.normal() * spread
        members.append(p)
    return np.column_stack(members)


def draw_stream(rng, loss=SQUARED, speed=None, rounds=None):
    """Draw a stream; half of those for squared loss have given predictions, a third late labels."""
    rounds = int(rng.integers(60, 151)) if rounds is None else rounds
    X = rng.normal(size=(rounds, int(rng.integers(1, 4))))
    y = draw_labels(rng, rounds, X)
    given = draw_given(rng, y) if loss != SQUARED or rng.random() < 0.5 else np.empty((rounds, 0))
    if loss == LOGISTIC:
        given = 1.0 / (1.0 + np.exp(-np.clip(given, -30.0, 30.0)))
    late = int(rng.integers(1, 31)) if rng.random() < 0.34 else 0
    delay = rng.integers(0, late + 1, size=rounds) if rng.random() < 0.5 else np.full(rounds, late)
    kind = str(rng.choice(list(LIKELY)))
    rule = rng.choice(8, p=np.array(LIKELY[kind]) / np.sum(LIKELY[kind]), size=rounds)
    spread = 10.0 ** rng.uniform(-2, 3) * (1.0 + np.std(y[: rounds // 2]))
    value = np.where(rule == PLAIN, y, spread * rng.normal(size=rounds) * 10.0 ** rng.uniform(-2, 0, size=rounds))
    weight = rng.choice([0.1, 1.0, 5.0], size=rounds) if rng.random() < 0.2 else np.ones(rounds)
    speed = str(rng.choice(["light", "light", "fast"])) if speed is None else speed
    return Stream(speed, loss, X, given, rule, value, delay, weight)


def mutate(rng, stream):
    """Change some labels, or the delays."""
    rule, value, delay = stream.rule.copy(), stream.value.copy(), stream.delay
    for _ in range(int(rng.integers(1, 6))):
        at, length = int(rng.integers(len(rule))), int(rng.choice([1, 1, 3, 20]))
        change = int(rng.integers(5))
        if change == 0:
            rule[at : at + length] = rng.integers(0, 8)
        elif change == 1:
            value[at : at + length] *= rng.choice([-1.0, 0.1, 0.5, 2.0, 10.0])
        elif change == 2:
            value[at : at + length] += rng.normal() * (np.std(value) + 1e-3)
        elif change == 3:
            value[at : at + length] = value[at]
        elif rng.random() < 0.2:
            delay = np.full(len(rule), int(rng.integers(0, 6)))
    return replace(stream, rule=rule, value=value, delay=delay)


def choose_label(stream, t, record, last):
    """Return the label of a served row: a number, or one that depends on what was predicted."""
    rule, value, yhat = int(stream.rule[t]), float(stream.value[t]), float(record[R.YHAT])
    raw, robust = float(record[R.RAW]), float(record[R.ROBUST])
    if stream.loss == LOGISTIC:
        return np.nan if rule == MISSING else float(yhat < 0.0) if rule in (BESIDE, FAR_SIDE) else float(value > 0.0)
    if rule == BESIDE:
        return yhat + value
    if rule == FAR_SIDE:  # beyond the arm that the prediction is farther from
        arm = max(raw, robust, key=lambda answer: abs(answer - yhat))
        return arm + np.copysign(abs(value), arm - yhat)
    if rule == NEAR_GIVEN and stream.given.shape[1] and not np.isnan(stream.given[t, 0]):
        return float(stream.given[t, 0]) + 1e-3 * value
    near = {LAST: last, NEAR_RAW: raw + 1e-3 * value, NEAR_ROBUST: robust + 1e-3 * value, MISSING: np.nan}
    return near.get(rule, value)


def tell(model, served, label, weight):
    """Give a label back to the model."""
    model.tell(served, label, weight=weight)


def play(stream, tell=tell):
    """Serve the rows, choose labels and give them back as late, and in as odd an order, as the stream says."""
    width, rounds = stream.Z.shape[1], len(stream.Z)
    kind = ud.OnlineClassifier if stream.loss == LOGISTIC else ud.OnlineRegressor
    places = list(range(width, width + stream.given.shape[1]))
    by_loss = {"loss": LEVEL} if stream.loss == PINBALL else {}
    model = kind(speed=stream.speed, candidates=places or None, **by_loss)
    rows, due = np.column_stack([stream.Z, stream.given]), {}
    last, judged = 0.0, []
    for t in range(rounds):
        served = model.ask(rows[t])
        y = choose_label(stream, t, served.record, last)
        last = last if np.isnan(y) else y
        due.setdefault(min(t + int(stream.delay[t]), rounds - 1), []).append((served, y, t))
        for other, label, at in due.pop(t, ()):
            members = gather(stream, float(other.record[R.GATED]), stream.given[at])
            tell(model, other, label, float(stream.weight[at]))
            if other.record[R.KNOWN] and not np.isnan(label):
                judged.append((label, float(other.record[R.YHAT]), members))
    if not judged:
        judged = [(0.0, 0.0, members)]
    y, yhat, members = (np.array(column) for column in zip(*judged, strict=True))
    return Outcome(model, float(np.sum(lose(stream.loss, yhat, y))), y, members, yhat)


def gather(stream, own, given):
    """Return the own prediction of a row, given ones, their mean and median."""
    if not len(given):
        return np.array([own])
    if stream.loss == LOGISTIC:
        p = np.clip(given, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        given = np.log(p) - np.log1p(-p)
    spoken = given[~np.isnan(given)]
    combined = [np.mean(spoken), np.median(spoken)] if len(spoken) else [np.nan, np.nan]
    return np.array([own, *given, *combined])


def climb(rng, stream, steps, judge=lambda outcome: outcome.ratio()):
    """Change a stream again and again, keeping what raises the ratio; return the largest one, and its stream."""
    worst = judge(play(stream))
    for _ in range(steps):
        changed = mutate(rng, stream)
        ratio = judge(play(changed))
        if ratio > worst:
            worst, stream = ratio, changed
    return worst, stream


TERMS = {
    "RAW_CUT": ("gate.numbers", GateNumber.RAW_CUT),
    "ROBUST_CUT": ("gate.numbers", GateNumber.ROBUST_CUT),
    "GAPS": ("gate.numbers", GateNumber.GAPS),
    "RAW_COST": ("gate.numbers", GateNumber.RAW_COST),
    "ROBUST_COST": ("gate.numbers", GateNumber.ROBUST_COST),
    "gate LATE": ("gate.numbers", GateNumber.LATE),
    "raw LATE": ("numbers", EstimatorNumber.LATE),
    "FORGOTTEN": ("given.members", GivenMember.FORGOTTEN),
    "CUT": ("given.members", GivenMember.CUT),
    "REGRET": ("given.members", GivenMember.REGRET),
}
"""The terms of the bound: part of the state and place in its last axis."""


def drop_term(model, name):
    """Return a copy of the model in whose `cost()` one term is 0, or None where the model has no such term."""
    part, place = TERMS[name]
    if part not in model.plan.layout.starts:
        return None
    other = model.copy()
    other.part(part)[..., place] = 0.0
    return other
