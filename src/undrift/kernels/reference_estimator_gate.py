"""NumPy twin of the last two steps of an online estimator's prediction: the gate, and the mixer of given answers.

**The gate.** A regressor has two arms. The raw one learns labels as they are; the robust one cuts labels that jump too
far. Which one to trust shows in the row, before its label is known: in how far the two disagree. With b the raw arm's
answer, a the robust one's, and q the mean |residual| of the gate over GATE_ROUNDS rounds, a row belongs to the bucket

    0   if |b - a| <= 4 q (or q = 0),   1   if <= 32 q,   2   if <= 256 q,   3   beyond

and each bucket has its own weight w of the raw arm. Bucket 0 is a self-confident mixer of the two, as the last mixer is
one of all candidates, on labels cut at 8 q beyond both arms. The others have log-odds L and a rate of their own:

    serve    the lighter arm is clipped to 36 q around the heavier one, and yhat = (1 - w) a + w b, w = sigmoid(L)
    settle   s = clip(y, min(a, b) - q, max(a, b) + q),   iota = (b - a)^2 / 4
             L <- L + ((a - s)^2 - (b - s)^2) / (2 iota), cut at +-MOST_GATE_ODDS, then a share towards the prior

so that three or four rounds decide. A label that is far beyond both arms says nothing about which one is better. A
bucket that is used for the first time begins with the weight of the nearest used one. A late label is
judged in the bucket, and with the q, of its serving; iota is larger by min(late, 4).

`GateNumber` adds up what the gate may have lost against each arm (theory page `gate`).

**Given answers.** Predictions that come with a row are members of the raw arm, and in the end they are combined with
the gate's answer once more, with their mean and their median, so as to be as good as the best convex combination of
all of these. Members count as at most 8 q away from the heaviest: a broken one does no harm. With yhat the prediction,
p_i a member, and the slope g of the loss at yhat (yhat - s for squared loss, s the label cut at q beyond all members):

    r_i = g (yhat - p_i),   R_i <- R_i + r_i,   S_i <- S_i + r_i^2,   yhat = sum_i w_i p_i,   w_i ~ max(R_i, 0) / S_i

(polynomially weighted averages). R_i bounds the excess over member i as it was clipped, on labels s, and sum u_i R_i
that over the combination u of these.
After a shock, when the largest |r| exceeds what the rounds since then make plausible, all of it is scaled down.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Vector
from undrift.kernels.definitions import (
    DISAGREEMENT_STEP,
    FARTHEST_MEMBER,
    FIRST_DISAGREEMENT,
    GATE_BUCKETS,
    GATE_CUT,
    GATE_ROUNDS,
    GATE_SHARE,
    GIVEN_REACH,
    LEAST_DISCOUNT,
    LEAST_PRIOR,
    MOST_GATE_ODDS,
    MOST_LATENESS,
    MOST_PRIOR,
    WILD,
    GivenLoss,
)
from undrift.kernels.definitions import GateBucket as B
from undrift.kernels.definitions import GateNumber as G
from undrift.kernels.definitions import GivenMember as M
from undrift.kernels.definitions import GivenNumber as N
from undrift.kernels.definitions import RecordPart as R
from undrift.kernels.reference import sigmoid
from undrift.kernels.reference_estimator_rows import add_up, median
from undrift.kernels.reference_estimator_stages import MixerSettings, Parts, Stage


def find_bucket(distance: float, unit: float) -> int:
    """Return the bucket of two arms that disagree by `distance`, in units of the mean |residual|."""
    if unit <= 0.0 or 0.25 * distance * distance == 0.0:
        return 0
    reaches = [unit * FIRST_DISAGREEMENT * DISAGREEMENT_STEP**k for k in range(GATE_BUCKETS - 1)]
    return sum(abs(distance) > reach for reach in reaches)


def log_odds(p: float) -> float:
    """ln(p / (1 - p))."""
    return math.log(p) - math.log1p(-p)


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


class Gate:
    """Chooses between the raw and the robust arm; every call brings the state vector and changes it."""

    def __init__(self, settings: MixerSettings) -> None:
        self.mixer, self.parts = Stage(False, settings), settings["parts"]

    def _numbers(self, state: Vector) -> Vector:
        begin, size = self.parts["gate.numbers"]
        return state[begin : begin + size]

    def _buckets(self, state: Vector) -> Vector:
        begin, size = self.parts["gate.buckets"]
        return state[begin : begin + size].reshape(GATE_BUCKETS, len(B))

    def weight(self, state: Vector, bucket: int) -> float:
        """Return the raw arm's weight in a bucket, or where it was not used so far, that of the nearest used one."""
        buckets = self._buckets(state)
        raw, robust = self.mixer.view(state, "log_weights").tolist()
        odds = [raw - robust, *buckets[1:, B.LOG_ODDS].tolist()]
        used = [k for k in range(GATE_BUCKETS) if buckets[k, B.ROUNDS] > 0.0]
        if bucket == 0 or bucket in used:
            return sigmoid(odds[bucket])
        if not used:
            return MOST_PRIOR
        nearest = min(used, key=lambda k: (abs(k - bucket), k))
        return clip(sigmoid(odds[nearest]), LEAST_PRIOR, 1.0 - LEAST_PRIOR if nearest else MOST_PRIOR)

    def predict(self, state: Vector, record: Vector, late: float) -> None:
        """Choose between RAW and ROBUST of a record; fills BUCKET, UNIT and GATED.

        The last label is that of the row `late` rows before. Where labels are late, a wrong choice lasts until the
        first of them comes, so that the robust arm decides a tie.
        """
        raw, robust, unit = float(record[R.RAW]), float(record[R.ROBUST]), float(self._numbers(state)[G.UNIT])
        bucket = find_bucket(raw - robust, unit)
        record[[R.BUCKET, R.UNIT]] = bucket, unit
        if bucket == 0:
            record[R.GATED] = self.mixer.mix(state, np.array([raw, robust]))
            return
        w, reach = self.weight(state, bucket), FARTHEST_MEMBER * unit
        if w > 0.5 or (w == 0.5 and late <= 1.0):
            robust = clip(robust, raw - reach, raw + reach)
        else:
            raw = clip(raw, robust - reach, robust + reach)
        record[R.GATED] = (1.0 - w) * robust + w * raw

    def learn(self, state: Vector, record: Vector, y: float, late: float) -> None:
        """Judge both arms by the label, in the bucket that the row was served from."""
        n, (raw, robust, served, unit) = self._numbers(state), record[[R.RAW, R.ROBUST, R.GATED, R.UNIT]].tolist()
        quarter, late = 0.25 * (raw - robust) * (raw - robust), max(late, 1.0)
        bucket = int(record[R.BUCKET]) if quarter > 0.0 else 0
        own, room = self._buckets(state)[bucket], (unit if bucket else GATE_CUT * unit) if unit > 0.0 else math.inf
        s = clip(y, min(raw, robust) - room, max(raw, robust) + room)
        if bucket == 0:
            arms = np.array([raw, robust])
            now = self.mixer.mix(state, arms)
            self.mixer.learn_mixer(state, arms, s, late, served)
            n[G.LATE] += (served - now) * (0.5 * (served + now) - s)  # of losses
        else:
            slow = min(late, MOST_LATENESS)
            iota = quarter * slow
            if own[B.ROUNDS] == 0.0:
                own[B.PRIOR] = self.weight(state, bucket)
                own[B.LOG_ODDS] = log_odds(own[B.PRIOR])
            odds, rise = float(own[B.LOG_ODDS]), max(iota - float(own[B.INVERSE_RATE]), 0.0)
            raw_loss, robust_loss, w = 0.5 * (raw - s) ** 2, 0.5 * (robust - s) ** 2, sigmoid(odds)
            least = min(raw_loss, robust_loss)
            mixed = w * math.exp((least - raw_loss) / iota) + (1.0 - w) * math.exp((least - robust_loss) / iota)
            n[G.GAPS] += 0.5 * (served - s) ** 2 - (least - iota * math.log(mixed))
            share = GATE_SHARE / late
            posterior = odds + 2.0 * ((s - raw) + (s - robust)) / (
                (raw - robust) * slow
            )  # (robust_loss - raw_loss) / iota
            cut = sigmoid(clip(posterior, -MOST_GATE_ODDS, MOST_GATE_ODDS))
            after = log_odds((1.0 - share) * cut + share * float(own[B.PRIOR]))
            for cost, sign in ((G.RAW_COST, 1.0), (G.ROBUST_COST, -1.0)):
                n[cost] += rise * price(sign * odds)
                n[cost] += iota * max(price(sign * after) - price(sign * posterior), 0.0)
            own[B.LOG_ODDS], own[B.INVERSE_RATE] = after, iota
        self.mixer.widen_range(state, y)
        n[[G.RAW_CUT, G.ROBUST_CUT]] += (s - y) * (served - raw), (s - y) * (served - robust)
        own[B.ROUNDS] += 1.0
        n[G.ROBUST_LOSS] += 0.5 * (robust - y) ** 2
        # What was served until a label came late could not know it: the better arm says what is ordinary.
        residual = min(abs(raw - y), abs(robust - y)) if late > 1.0 else abs(served - y)
        follow_residual(n, G.UNIT, G.ROUNDS, residual)


class GivenMixer:
    """Combines given answers with the own prediction; every call brings the state vector and changes it."""

    def __init__(self, parts: Parts, offered: int, loss: int, level: float) -> None:
        self.parts, self.offered, self.loss, self.level = parts, offered, loss, level

    def _numbers(self, state: Vector) -> Vector:
        begin, size = self.parts["given.numbers"]
        return state[begin : begin + size]

    def _members(self, state: Vector) -> Vector:
        begin, size = self.parts["given.members"]
        return state[begin : begin + size].reshape(-1, len(M))

    def gather(self, own: float, given: Vector) -> Vector:
        """Return all members: the own prediction, given ones (NaN for none), their mean and their median."""
        some = given[~np.isnan(given)]
        mean = 0.0
        for k, answer in enumerate(some.tolist()):
            mean += (answer - mean) / (k + 1)
        both = [mean, median(some)] if len(some) else [math.nan, math.nan]
        return np.array([own, *given, *both])

    def weigh(self, state: Vector, members: Vector) -> tuple[Vector, Vector]:
        """Return the members, clipped to a reach around the heaviest, and their weights, 0 for missing ones."""
        numbers, own = self._numbers(state), self._members(state)
        counts = ~np.isnan(members) & (own[:, M.REGRET] > 0.0)
        weights = np.array(
            [r / s if c else 0.0 for r, s, c in zip(*own[:, [M.REGRET, M.SQUARES]].T, counts, strict=True)]
        )
        if not counts.any():
            weights[0] = 1.0 if math.isnan(members[-2]) else 0.5
            weights[-2] = 1.0 - weights[0]
        weights = weights / add_up(weights.tolist())
        unit = float(numbers[N.UNIT])
        if unit <= 0.0 or self.loss == GivenLoss.LOGISTIC:
            return members, weights
        heaviest, reach = float(members[int(np.argmax(weights))]), GIVEN_REACH * unit
        return np.clip(members, heaviest - reach, heaviest + reach), weights

    def combine(self, state: Vector, members: Vector) -> float:
        """Return the weighted mean of the members."""
        clipped, weights = self.weigh(state, members)
        there = ~np.isnan(clipped)
        yhat = add_up((weights[there] * clipped[there]).tolist())
        return clip(yhat, float(np.min(clipped[there])), float(np.max(clipped[there])))

    def _lose(self, answer: float, y: float) -> float:
        if self.loss == GivenLoss.LOGISTIC:
            return price(y * answer)
        pinball = max(self.level * (y - answer), (1.0 - self.level) * (answer - y))
        return 0.5 * (answer - y) ** 2 if self.loss == GivenLoss.SQUARED else pinball

    def learn(self, state: Vector, members: Vector, yhat: float, y: float, late: float) -> None:
        """Judge the members by the label; a missing one counts as the prediction itself."""
        n, all_members, clipped = self._numbers(state), self._members(state), self.weigh(state, members)[0]
        squared, logistic = self.loss == GivenLoss.SQUARED, self.loss == GivenLoss.LOGISTIC
        s = clip(y, float(np.nanmin(clipped) - n[N.UNIT]), float(np.nanmax(clipped) + n[N.UNIT])) if squared else y
        slope = 0.0 if yhat == y else float(y < yhat) - self.level
        slope = yhat - s if squared else sigmoid(yhat) - float(y > 0.0) if logistic else slope
        for own, member, near in zip(all_members, members.tolist(), clipped.tolist(), strict=True):
            given, answer = (yhat, yhat) if math.isnan(member) else (member, near)
            regret = slope * (yhat - answer)
            if own[M.SQUARES] + regret * regret > LEAST_DISCOUNT:
                own[[M.REGRET, M.SQUARES]] += regret, regret * regret
            else:  # the square of labels as small as 1e-80 is lost in float64, and no weight can be made of it
                own[M.FORGOTTEN] += max(regret, 0.0)
            own[M.CUT] += self._lose(answer, y) - self._lose(given, y) + (s - y) * (yhat - answer)
            own[M.LOSS] += self._lose(given, y)
            n[N.LARGEST] = max(n[N.LARGEST], abs(regret))
        if logistic:  # slopes are bounded: there are no shocks
            return
        follow_residual(n, N.UNIT, N.ROUNDS, abs(yhat - y))
        most = FARTHEST_MEMBER * max(late, 1.0) * n[N.UNIT] * (n[N.UNIT] if squared else 1.0)
        if n[N.LARGEST] > most:
            kept = most / n[N.LARGEST]
            all_members[:, M.FORGOTTEN] += (1.0 - kept) * np.maximum(all_members[:, M.REGRET], 0.0)
            all_members[:, M.REGRET] *= kept
            all_members[:, M.SQUARES] *= kept * kept
            lost = all_members[:, M.SQUARES] <= LEAST_DISCOUNT  # nothing is left of it in float64
            all_members[lost, M.FORGOTTEN] += np.maximum(all_members[lost, M.REGRET], 0.0)
            all_members[lost, M.REGRET] = all_members[lost, M.SQUARES] = 0.0
            n[N.LARGEST] = most
