"""Many ensembles in one array: bit for bit the ensembles one by one, and the NumPy twin."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from tests.parity.tolerances import TOLERANCES
from tests.twins.ensemble import EnsembleKernel
from undrift import kernels
from undrift.ensemble import Ensemble, Mixable, ResidualScale, SelfConfident
from undrift.kernels import layout
from undrift.stream.keyed.slots import SlotLayout
from undrift.stream.keyed.stream_pool import initial_model

KEYS, DIM, RECORDS = 5, 4, 150
MODELS = {
    "twelve memories": lambda: Ensemble([ud.DiscountedVAW(half_life=2.0**k) for k in range(12)], SelfConfident()),
    "hints": lambda: Ensemble(
        [ud.DiscountedVAW(half_life=9, hint=hint) for hint in ("last", "ridge")], ResidualScale()
    ),
    "grid": lambda: ud.linear_ensemble(1000),
    "log-odds": lambda: Ensemble([ud.DiscountedAIOLI(half_life=2.0**k) for k in range(9)], Mixable(share=0.01)),
    "one learner": lambda: ud.DiscountedVAW(half_life=7, hint="last"),
    "one classifier": lambda: ud.DiscountedAIOLI(half_life=7),
}


def begun(name):
    return initial_model(MODELS[name](), DIM)


def records(binary):
    rng = np.random.default_rng(0)
    Z, slots = rng.normal(size=(RECORDS, DIM)), rng.integers(0, KEYS, RECORDS)
    y = Z[:, 0] * (1.0 + slots) + rng.normal(size=RECORDS)
    return Z, np.where(y > 0.0, 1.0, -1.0) if binary else y, slots


def started(slot):
    return np.tile(slot.blank, (KEYS, 1)), np.zeros(KEYS, np.int64), np.empty(RECORDS)


@pytest.mark.parametrize("name", MODELS)
def test_slots_are_the_models_one_by_one(name):
    model = begun(name)
    Z, y, slots = records(model.binary)
    slot = SlotLayout(model)
    states, rounds, yhat = started(slot)
    assert slot.round.play_keys(states, rounds, slots, Z, y, yhat) == 0
    for k in range(KEYS):
        alone, mine = begun(name), slots == k
        assert yhat[mine].tobytes() == alone.play(Z[mine], y[mine]).yhat.tobytes()
        assert rounds[k] == alone.rounds
        found = slot.read(states[k])
        for part, array in alone.snapshot()[1].items():
            assert found[part].tobytes() == np.ascontiguousarray(array).tobytes()
        again = np.zeros(slot.size)
        slot.write(again, found)
        assert all(again[where].tobytes() == states[k, where].tobytes() for where, _ in slot.parts.values())


@pytest.mark.parametrize("name", ["twelve memories", "log-odds", "one learner"])
@pytest.mark.parametrize("lopsided", [False, True])
def test_threads_do_not_matter(name, lopsided):
    slot, keys, count = SlotLayout(begun(name)), 900, 5000  # enough records for all the threads
    rng = np.random.default_rng(1)
    slots = np.sort(rng.integers(0, keys, count))
    if lopsided:  # most cuts fall inside one slot
        slots[500:4500] = slots[500]
    Z, y = rng.normal(size=(count, DIM)), rng.choice([-1.0, 1.0], count)
    backwards = np.argsort(-slots, kind="stable")  # not sorted, but what a slot sees is in the same order
    results = []
    for threads, rows in [(1, np.arange(count)), (2, np.arange(count)), (5, np.arange(count)), (3, backwards)]:
        states, rounds, yhat = np.tile(slot.blank, (keys, 1)), np.zeros(keys, np.int64), np.empty(count)
        assert slot.round.play_keys(states, rounds, slots[rows], Z[rows], y[rows], yhat, threads) == 0
        said = np.empty(count)
        said[rows] = yhat
        results.append((states.tobytes(), rounds.tobytes(), said.tobytes()))
    assert len(set(results)) == 1


@pytest.mark.parametrize("name", [name for name in MODELS if "one" not in name])
def test_the_twin_agrees(name, monkeypatch):
    model = begun(name)
    Z, y, slots = records(model.binary)
    slot = SlotLayout(model)
    monkeypatch.setattr(kernels, "EnsembleKernel", EnsembleKernel)
    other = SlotLayout(begun(name))
    ours, theirs = started(slot), started(other)
    slot.round.play_keys(ours[0], ours[1], slots, Z, y, ours[2])
    other.round.play_keys(theirs[0], theirs[1], slots, Z, y, theirs[2])
    TOLERANCES["keyed predictions"].check(ours[2], theirs[2])
    for k in range(KEYS):
        a, b = slot.read(ours[0][k]), other.read(theirs[0][k])
        assert a.keys() == b.keys()
        for part in a.keys() - {slot.information}:
            TOLERANCES["keyed states"].check(a[part], b[part])
        for i in range(len(other.round.beta)):  # padding lanes hold whatever they hold
            one, two = (layout.column(x[slot.information], i) for x in (a, b))
            TOLERANCES["keyed states"].check(one, two)
    assert (ours[1] == theirs[1]).all()


def test_what_does_not_fit_is_refused():
    slot = SlotLayout(begun("grid"))
    Z, y, slots = records(binary=False)
    states, rounds, yhat = started(slot)
    before = states.copy()
    for bad in (slots + KEYS, slots - KEYS):
        with pytest.raises(ValueError, match="do not fit together"):
            slot.round.play_keys(states, rounds, bad, Z, y, yhat)
    with pytest.raises(ValueError, match="do not fit together"):
        slot.round.play_keys(states[:, :-8].copy(), rounds, slots, Z, y, yhat)
    wrong = Z.copy()
    wrong[7, 1] = np.inf
    assert slot.round.play_keys(states, rounds, slots, wrong, y, yhat) == 1 + 7 * DIM + 1
    assert states.tobytes() == before.tobytes()
    assert not rounds.any()
