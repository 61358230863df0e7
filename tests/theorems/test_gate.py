"""gate: losses never exceed those of a candidate by more than `cost()`, whatever the labels; and no term is idle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theorems import gate_runs as runs
from tests.twins.constants import GATE_CUT
from tests.twins.given_mixer import GivenMixer
from undrift.kernels.definitions import (
    MOST_LATENESS,
    EstimatorNumber,
    GateBucket,
    GateNumber,
    GivenLoss,
    GivenMember,
    GivenNumber,
)
from undrift.kernels.definitions import RecordPart as R

ROUNDING = 1e-9
LOSSES = [runs.SQUARED, runs.PINBALL, runs.LOGISTIC]


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), loss=st.sampled_from([runs.SQUARED, *LOSSES]))
def test_no_stream_costs_more_than_stated(seed, loss):
    rng = np.random.default_rng(seed)
    outcome = runs.play(runs.draw_stream(rng, loss))
    assert outcome.ratio() <= ROUNDING
    members = outcome.members.shape[1]
    for _ in range(3 if members > 1 else 0):
        assert outcome.combination_ratio(rng.dirichlet(np.full(members, 0.5)), loss) <= ROUNDING


@pytest.mark.parametrize("speed", ["light", "fast"])
@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("factor", [1e-3, 1e6])
def test_changes_of_scale_and_longer_streams(speed, delay, factor):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        stream = runs.draw_stream(rng, speed=speed, rounds=500)
        stream.value[200:350] *= factor
        stream.delay[:] = delay
        assert runs.play(stream).ratio() <= ROUNDING


@pytest.mark.parametrize("loss", LOSSES)
def test_a_search_for_the_worst_stream_finds_none(loss):
    for seed in range(3):
        rng = np.random.default_rng([7, seed])
        worst, _ = runs.climb(rng, runs.draw_stream(rng, loss, rounds=60), steps=40)
        assert worst <= ROUNDING


class GateAccount:
    """The gate's terms summed again from records and log-odds, and all that the proof drops, against each arm."""

    def __init__(self):
        self.excess, self.dropped, self.cut = np.zeros(2), np.zeros(2), np.zeros(2)
        self.last = np.zeros(2)
        self.held, self.rows, self.size = {}, 0, 0.0

    def tell(self, model, served, y, weight):
        record, before = served.record, model.part("gate.buckets")[:, GateBucket.LOG_ODDS].copy()
        numbers = model.part("numbers")
        late = max(float(numbers[EstimatorNumber.SERVED]) - float(record[R.SERIAL]) + 1.0, 1.0)
        model.tell(served, y, weight=weight)
        if np.isnan(y) or not record[R.KNOWN]:
            return
        arms, k = record[[R.RAW, R.ROBUST]], int(record[R.BUCKET])
        g, unit = float(record[R.GATED]), float(record[R.UNIT])
        room = np.inf if unit == 0.0 else unit if k else GATE_CUT * unit
        s = np.clip(y, min(arms) - room, max(arms) + room)
        self.cut += (s - y) * (g - arms)
        losses = np.sum((arms - y) ** 2) + (g - y) ** 2
        self.size += float(losses + np.sum(np.abs((s - y) * (g - arms))))
        if k == 0:
            return
        self.rows += 1
        bucket = model.part("gate.buckets")[k]
        first = k not in self.held
        prior = float(bucket[GateBucket.PRIOR])
        odds = np.log(prior) - np.log1p(-prior) if first else before[k]
        iota, held = 0.25 * (arms[0] - arms[1]) ** 2 * min(late, MOST_LATENESS), self.held.get(k, 0.0)
        sign, lost = np.array([1.0, -1.0]), 0.5 * (arms - s) ** 2
        ln_w = -np.logaddexp(0.0, -sign * odds)
        ln_v = ln_w - lost / iota
        ln_v = ln_v - np.logaddexp(*ln_v)
        ln_next = -np.logaddexp(0.0, -sign * bucket[GateBucket.LOG_ODDS])
        self.excess += 0.5 * (g - s) ** 2 - lost
        self.dropped += max(held - iota, 0.0) * -ln_w + iota * np.maximum(ln_next - ln_v, 0.0)
        # What telescopes leaves only the last round's inverse rate times ln(1/w) in each bucket.
        self.last += iota * -ln_next - (0.0 if first else held * -ln_w)
        self.held[k] = iota


def test_the_gates_terms_are_the_excess_and_what_the_proof_drops():
    """GAPS + COST = excess on cut labels + falls of the inverse rate + gifts of the share + last weights, exactly."""
    rows = 0
    for seed in range(60):
        account = GateAccount()
        stream = runs.draw_stream(np.random.default_rng([17, seed]))
        numbers = runs.play(stream, account.tell).model.part("gate.numbers")
        both = numbers[GateNumber.GAPS] + numbers[[GateNumber.RAW_COST, GateNumber.ROBUST_COST]]
        scale = ROUNDING * (account.size + np.abs(both).max() + 1e-300)
        np.testing.assert_allclose(both, account.excess + account.dropped + account.last, rtol=0.0, atol=scale)
        cuts = numbers[[GateNumber.RAW_CUT, GateNumber.ROBUST_CUT]]
        np.testing.assert_allclose(cuts, account.cut, rtol=0.0, atol=scale)
        rows += account.rows
    assert rows > 300


def breaks(name, attempts=400):
    """Return how many drawn streams it takes until the bound without one term is broken."""
    for seed in range(attempts):
        outcome = runs.play(runs.draw_stream(np.random.default_rng([11, seed])))
        other = runs.drop_term(outcome.model, name)
        if other is not None and outcome.ratio(other) > 1e-6:
            return seed + 1
    return None


@pytest.mark.parametrize("name", runs.TERMS)
def test_the_bound_breaks_without_any_of_its_terms(name):
    assert breaks(name) is not None


def test_combinations_need_what_clipping_hides():
    """Two wild members whose mean is right: each is charged for its own losses, which the mean does not have."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng([13, seed])
        outcome = runs.play(runs.draw_stream(rng))
        if outcome.members.shape[1] > 1:
            u = rng.dirichlet(np.full(outcome.members.shape[1], 0.5))
            found += outcome.combination_ratio(u, runs.SQUARED, complete=False) > 1e-6
    assert found > 5


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("loss", [GivenLoss.SQUARED, GivenLoss.PINBALL])
def test_the_potential_of_prompt_labels_is_bounded_before_the_run(loss, scaled):
    """Phi <= sum_i 1 + (1 + theta_i^2) sum_t ln((S + r^2) / S), however labels are chosen."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        mixer, numbers, own = GivenMixer(loss, 0.5, scaled), np.zeros(len(GivenNumber)), np.zeros((6, len(GivenMember)))
        sudden, logs = np.zeros(6), np.zeros(6)
        scale = 10.0 ** np.repeat(rng.uniform(-2, 2, 6), 50)
        for t in range(300):
            members, unit = mixer.gather(rng.normal(size=3) * scale[t], rng.normal()), float(numbers[GivenNumber.UNIT])
            clipped, weights = mixer.weigh(own, unit, members, own=True)
            yhat = mixer.combine(clipped, weights)
            y = yhat + rng.normal() * scale[t] if rng.random() < 0.5 else float(rng.choice(members))
            slope = yhat - np.clip(y, min(clipped) - unit, max(clipped) + unit)
            if loss == GivenLoss.PINBALL:
                slope = 0.0 if yhat == y else float(y < yhat) - 0.5
            r, before = slope * (yhat - clipped), own[:, GivenMember.SQUARES].copy()
            mixer.learn(numbers, None, own, clipped, members, yhat, y, 1.0)
            r = r / numbers[GivenNumber.UNIT] ** (2 - loss) if scaled else r
            old = before > 0.0
            sudden[old] = np.maximum(sudden[old], np.abs(r[old]) / np.sqrt(before[old]))
            logs[old] += np.log1p(r[old] ** 2 / before[old])
            R, S = np.maximum(own[:, GivenMember.REGRET], 0.0), own[:, GivenMember.SQUARES]
            potential = np.sum(R**2 / np.where(S > 0.0, S, 1.0))
            assert potential <= np.sum(1.0 + (1.0 + sudden**2) * logs) * (1.0 + ROUNDING)
