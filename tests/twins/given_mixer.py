"""NumPy twin of the mixer of predictions made elsewhere: the last step of online estimators, and all of `Mix`.

**The rule.** Members are the predictions that come with a row, their mean and their median, in an estimator also its
own prediction. They are combined so as to be as good as the best convex combination of all of these. Members count as
at most 8 q away from their weighted median, with q the mean |residual|: a broken one does no harm. With yhat the
prediction, p_i a member, and the slope g of the loss at yhat (yhat - s for squared loss, s the label cut at q beyond
all members):

    r_i = g (yhat - p_i),   R_i <- R_i + r_i,   S_i <- S_i + r_i^2,   yhat = sum_i w_i p_i,   w_i ~ max(R_i, 0) / S_i

(polynomially weighted averages). After a shock, when the largest |r| exceeds what the rounds since then make plausible,
all of it is scaled down. `Mix` divides r_i by q^2 (squared loss) or q (pinball loss), so that rounds in which all
predictions are bad count no more than others.

SLOPES adds up g (yhat - p_i) for labels and members as they came: by convexity, weighted by any convex combination, it
is at least the excess over that combination (theory page `gate`).

**Steps.** `Mix` has a mixer for each step ahead. The weights of a step follow from

    R_i = own R_i + a (sum of R_i of all other steps)
    S_i = own S_i + a^2 (sum of S_i of all other steps),   a = 1 / sqrt(steps - 1)

so that all other steps together contribute about as much to S_i as the step itself. The unit q of a step is the mean
|residual| of that step's rounds, times the activity: the mean, over the last rounds of all steps, of |residual| over
the mean of its own step. A single step has no activity. `last` (steps,) holds the last label of each step, in the
order in which labels become known: the prediction of `Mix` where all given ones are missing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tests.twins.constants import GATE_ROUNDS, GIVEN_REACH, LARGEST_REGRET
from tests.twins.estimator_rows import add_up, median
from tests.twins.reference import sigmoid
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import FARTHEST_MEMBER, LEAST_DISCOUNT, WILD, GivenLoss
from undrift.kernels.definitions import GivenMember as M
from undrift.kernels.definitions import GivenNumber as N
from undrift.kernels.layout import State


def price(odds: float) -> float:
    """ln(1 / sigmoid(odds)), what a weight with these log-odds costs."""
    return max(-odds, 0.0) + math.log1p(math.exp(-abs(odds)))


def clip(x: float, low: float, high: float) -> float:
    """Return x, or the end of the range that it is beyond."""
    return min(max(x, low), high)


def follow_residual(numbers: Vector, unit: int, rounds: int, residual: float) -> None:
    """Update a running mean of |residuals|, in which one counts at most WILD times the mean."""
    numbers[rounds] += 1.0
    counted = min(residual, WILD * numbers[unit]) if numbers[unit] > 0.0 else residual
    numbers[unit] += (counted - numbers[unit]) / min(numbers[rounds], GATE_ROUNDS)


class GivenMixer(NamedTuple):
    """The rule; every call brings the numbers (`GivenNumber`) and the members' sums (members, `GivenMember`)."""

    loss: int
    """One of `GivenLoss`,"""
    level: float
    """and its level."""
    scaled: bool = False
    """Whether regrets are in units of the mean |residual|."""

    def gather(self, given: Vector, own: float | None = None) -> Vector:
        """Return all members: the own prediction if any, given ones (NaN for none), their mean and their median."""
        some = given[~np.isnan(given)]
        mean = 0.0
        for k, answer in enumerate(some.tolist()):
            mean += (answer - mean) / (k + 1)
        both = [mean, median(some)] if len(some) else [math.nan, math.nan]
        return np.array([*([] if own is None else [own]), *given, *both])

    def weigh(self, sums: Matrix, unit: float, members: Vector, own: bool) -> tuple[Vector, Vector]:
        """Return the members, clipped to a reach of their weighted median, and their weights, 0 for missing ones."""
        counts = ~np.isnan(members) & (sums[:, M.REGRET] > 0.0)
        weights = np.array(
            [r / s if c else 0.0 for r, s, c in zip(*sums[:, [M.REGRET, M.SQUARES]].T, counts, strict=True)]
        )
        if np.isnan(members).all():
            return members, weights
        if not counts.any():
            weights[0] = 0.0 if not own else 1.0 if math.isnan(members[-2]) else 0.5
            weights[-2] = 1.0 - weights[0]
        weights = weights / add_up(weights.tolist())
        if unit <= 0.0 or self.loss == GivenLoss.LOGISTIC:
            return members, weights
        middle, reach = self._center(members, weights, own), GIVEN_REACH * unit
        return np.clip(members, middle - reach, middle + reach), weights

    def _center(self, members: Vector, weights: Vector, own: bool) -> float:
        """Return the members' weighted median; the weight of the mean is that of the given ones that it is made of."""
        there = [
            (p, w) for p, w in zip([*members[:-2], members[-1]], [*weights[:-2], weights[-1]], strict=True) if p == p
        ]
        given = len(there) - own - (not math.isnan(members[-1]))
        shared = [
            (float(p), w + weights[-2] / given if own <= k < own + given else w) for k, (p, w) in enumerate(there)
        ]
        total = 0.0
        for member, weight in sorted(shared):
            total += weight
            if total >= 0.5:
                return member
        return max(shared)[0]

    def combine(self, clipped: Vector, weights: Vector) -> float:
        """Return the weighted mean of clipped members, of which at least one is there."""
        there = ~np.isnan(clipped)
        yhat = add_up((weights[there] * clipped[there]).tolist())
        return clip(yhat, float(np.min(clipped[there])), float(np.max(clipped[there])))

    def _lose(self, answer: float, y: float) -> float:
        if self.loss == GivenLoss.LOGISTIC:
            return price(y * answer)
        pinball = max(self.level * (y - answer), (1.0 - self.level) * (answer - y))
        return 0.5 * (answer - y) * (answer - y) if self.loss == GivenLoss.SQUARED else pinball

    def learn(
        self,
        n: Vector,
        activity: Vector | None,
        own_sums: Matrix,
        clipped: Vector,
        members: Vector,
        yhat: float,
        y: float,
        late: float,
    ) -> None:
        """Judge the members by the label; a missing one counts as the prediction itself. `clipped` is from `weigh`."""
        squared, logistic = self.loss == GivenLoss.SQUARED, self.loss == GivenLoss.LOGISTIC
        unit = float(n[N.UNIT] * (1.0 if activity is None else activity[N.UNIT]))
        s = clip(y, float(np.nanmin(clipped) - unit), float(np.nanmax(clipped) + unit)) if squared else y
        slope = 0.0 if yhat == y else float(y < yhat) - self.level
        slope = yhat - s if squared else sigmoid(yhat) - float(y > 0.0) if logistic else slope
        if not logistic:
            follow_residual(n, N.UNIT, N.ROUNDS, abs(yhat - y))
            if activity is not None and n[N.UNIT] > 0.0:
                follow_residual(activity, N.UNIT, N.ROUNDS, abs(yhat - y) / float(n[N.UNIT]))
        now = float(n[N.UNIT] * (1.0 if activity is None else activity[N.UNIT]))
        n[N.LOSS] += self._lose(yhat, y)
        for own, member, near in zip(own_sums, members.tolist(), clipped.tolist(), strict=True):
            given, answer = (yhat, yhat) if math.isnan(member) else (member, near)
            regret = self._regret(slope, yhat - answer, now)
            if own[M.SQUARES] + regret * regret > LEAST_DISCOUNT:
                own[[M.REGRET, M.SQUARES]] += regret, regret * regret
            else:  # the square of labels as small as 1e-80 is lost in float64, and no weight can be made of it
                own[M.FORGOTTEN] += max(regret, 0.0)
            own[M.CUT] += self._lose(answer, y) - self._lose(given, y) + (s - y) * (yhat - answer)
            own[M.LOSS] += self._lose(given, y)
            own[M.SLOPES] += (yhat - y if squared else slope) * (yhat - given)
            n[N.LARGEST] = max(n[N.LARGEST], abs(regret))
        if logistic:  # slopes are bounded: there are no shocks
            return
        base = 1.0 if self.scaled else now
        most = FARTHEST_MEMBER * max(late, 1.0) * base * (base if squared else 1.0)
        if n[N.LARGEST] > most:
            kept = most / n[N.LARGEST]
            own_sums[:, M.FORGOTTEN] += (1.0 - kept) * np.maximum(own_sums[:, M.REGRET], 0.0)
            own_sums[:, M.REGRET] *= kept
            own_sums[:, M.SQUARES] *= kept * kept
            lost = own_sums[:, M.SQUARES] <= LEAST_DISCOUNT  # nothing is left of it in float64
            own_sums[lost, M.FORGOTTEN] += np.maximum(own_sums[lost, M.REGRET], 0.0)
            own_sums[lost, M.REGRET] = own_sums[lost, M.SQUARES] = 0.0
            n[N.LARGEST] = most

    def _regret(self, slope: float, away: float, unit: float) -> float:
        if not self.scaled:
            return slope * away
        if unit <= 0.0:  # every prediction was exact so far
            return 0.0
        with np.errstate(over="ignore"):
            regret = float(
                np.float64(slope / unit if self.loss == GivenLoss.SQUARED else slope) * (np.float64(away) / unit)
            )
        return clip(regret, -LARGEST_REGRET, LARGEST_REGRET)


def _weigh_step(mixer: GivenMixer, numbers: Matrix, sums: State, step: int, members: Vector) -> tuple[Vector, Vector]:
    """Return the clipped members and the weights of a step, which follow from its sums and a share of all others."""
    steps, unit, weighed = len(sums), float(numbers[step, N.UNIT]), sums[step]
    if steps > 1:
        unit *= float(numbers[steps, N.UNIT])
        share, others = 1.0 / math.sqrt(steps - 1.0), np.zeros(sums.shape[1:])
        for other in range(steps):
            others += 0.0 if other == step else sums[other]
        weighed = sums[step].copy()
        weighed[:, M.REGRET] += share * others[:, M.REGRET]
        weighed[:, M.SQUARES] += share * share * others[:, M.SQUARES]
    return mixer.weigh(weighed, unit, members, own=False)


def given_predict(
    numbers: Matrix,
    last: Vector,
    sums: State,
    loss: int,
    level: float,
    step: int,
    Z: Matrix,
    yhat: Vector,
    weights: Matrix,
) -> None:
    """Fill the predictions and the weights for rows; the first belongs to this step, each further one to the next.

    If all candidates of a row are missing, the prediction is the last label of the step, and weights are 0.
    """
    mixer = GivenMixer(loss, level, scaled=True)
    for t, z in enumerate(Z):
        h = (step + t) % len(sums)
        clipped, weights[t] = _weigh_step(mixer, numbers, sums, h, mixer.gather(z))
        yhat[t] = last[h] if np.isnan(z).all() else mixer.combine(clipped, weights[t])


def given_learn(
    numbers: Matrix,
    last: Vector,
    sums: State,
    products: Matrix,
    loss: int,
    level: float,
    step: int,
    z: Vector,
    yhat: float,
    y: float,
    late: float,
) -> None:
    """Learn the label of a row for which yhat was served, unless it is NaN.

    If all candidates of the row are missing, it is only kept as the last label of the step.

    `products` (members, members), if it is not empty, adds up the products of how far the prediction is above each
    member: with SLOPES, all that the squared loss of any combination follows from.
    """
    if math.isnan(y):
        return
    last[step] = y
    if np.isnan(z).all():
        return
    mixer = GivenMixer(loss, level, scaled=True)
    members = mixer.gather(z)
    clipped, _ = _weigh_step(mixer, numbers, sums, step, members)
    activity = numbers[-1] if len(sums) > 1 else None
    mixer.learn(numbers[step], activity, sums[step], clipped, members, yhat, y, late)
    if products.size:
        away = np.where(np.isnan(members), 0.0, yhat - members)
        products += away[:, None] * away


def given_play(
    numbers: Matrix,
    last: Vector,
    sums: State,
    products: Matrix,
    loss: int,
    level: float,
    Z: Matrix,
    y: Vector,
    yhat: Vector,
    weights: Matrix,
) -> None:
    """Predict the rows of all steps, then learn their labels, again and again."""
    steps = len(sums)
    for t in range(0, len(Z), steps):
        block = slice(t, t + steps)
        given_predict(numbers, last, sums, loss, level, 0, Z[block], yhat[block], weights[block])
        for h in range(steps):
            k, late = t + h, float(steps - h)
            given_learn(numbers, last, sums, products, loss, level, h, Z[k], float(yhat[k]), float(y[k]), late)
