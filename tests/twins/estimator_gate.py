"""NumPy twin of the gate of an online estimator, which chooses between the raw and the robust arm.

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

Predictions that come with a row are members of the raw arm, and in the end they are combined with the gate's answer
once more, by `given_mixer`.
"""

from __future__ import annotations

import math

import numpy as np

from tests.twins.constants import GATE_CUT, LEAST_PRIOR, MOST_GATE_ODDS, MOST_PRIOR
from tests.twins.estimator_stages import MixerSettings, Stage
from tests.twins.given_mixer import clip, follow_residual, price
from tests.twins.reference import sigmoid
from undrift._typing import Vector
from undrift.kernels.definitions import (
    DISAGREEMENT_STEP,
    FARTHEST_MEMBER,
    FIRST_DISAGREEMENT,
    GATE_BUCKETS,
    GATE_SHARE,
    MOST_LATENESS,
)
from undrift.kernels.definitions import GateBucket as B
from undrift.kernels.definitions import GateNumber as G
from undrift.kernels.definitions import RecordPart as R


def find_bucket(distance: float, unit: float) -> int:
    """Return the bucket of two arms that disagree by `distance`, in units of the mean |residual|."""
    if unit <= 0.0 or 0.25 * distance * distance == 0.0:
        return 0
    reaches = [unit * FIRST_DISAGREEMENT * DISAGREEMENT_STEP**k for k in range(GATE_BUCKETS - 1)]
    return sum(abs(distance) > reach for reach in reaches)


def log_odds(p: float) -> float:
    """ln(p / (1 - p))."""
    return math.log(p) - math.log1p(-p)


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
