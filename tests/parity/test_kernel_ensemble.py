"""Whole rounds in one call: against the NumPy twin, and bit for bit against the calls they join."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import undrift as ud
from tests.parity.tolerances import TOLERANCES
from tests.twins.ensemble import EnsembleKernel
from undrift import kernels
from undrift.ensemble import Aggregating, Ensemble, Mixable, RangeMean, ResidualScale, SelfConfident
from undrift.kernels import layout
from undrift.kernels.definitions import MixerState, MixingRule
from undrift.kernels.layout import MixerArguments

MIXERS = [RangeMean(), Aggregating(), SelfConfident(), ResidualScale(), SelfConfident(share=0.01)]


def badly_scaled_rows(dim, rounds, binary, seed=0):
    rng = np.random.default_rng([seed, dim])
    Z = rng.normal(size=(rounds, dim)) * 10.0 ** rng.integers(-3, 4, size=dim)
    Z[:, dim // 2] = 0.0
    y = rng.normal(size=rounds) + np.linspace(0.0, 5.0, rounds)
    return Z, np.where(rng.random(rounds) < 0.3, 1.0, -1.0) if binary else y


def vaws(count, hints=("zero",)):
    return [ud.DiscountedVAW(half_life=1.5**k + 0.5, reg=0.1, hint=hints[k % len(hints)]) for k in range(count)]


def aiolis(count):
    return [ud.DiscountedAIOLI(half_life=1.5**k + 0.5, curvature=0.5 ** (k % 3)) for k in range(count)]


CASES = {
    "one hint": lambda: vaws(7),
    "all hints over shared memories": lambda: [
        ud.DiscountedVAW(half_life=h, hint=hint) for hint in ("last", "zero", "ridge") for h in (3, 30, 300)
    ],
    "a Zero in the middle": lambda: [*vaws(3, ("ridge",)), ud.Zero(), *vaws(12, ("last", "zero"))[3:]],
    "two": lambda: vaws(2, ("last",)),
    "one": lambda: vaws(1),
    "log-odds": lambda: aiolis(9),
    "log-odds, and a Zero": lambda: [ud.Zero(binary=True), *aiolis(3)],
    "two log-odds": lambda: aiolis(2),
}


def unknown_to_kernels(mixer):
    """Return a mixer that an ensemble takes for a user's own: its members and itself are advanced by separate calls."""
    kind = type(mixer)
    return type(kind.__name__, (kind,), {"kernel_arguments": lambda self: None})(**mixer.parameters)


def cases():
    for case in CASES:
        for mixer in [Mixable(), Mixable(share=0.01)] if "odds" in case else MIXERS:
            yield pytest.param(case, mixer, id=f"{case}, {mixer!r}")


@pytest.mark.parametrize(("case", "mixer"), list(cases()))
def test_one_call_gives_the_bits_of_the_calls_it_joins(case, mixer) -> None:
    Z, y = badly_scaled_rows(3, 300, "odds" in case)
    one, many = Ensemble(CASES[case](), mixer), Ensemble(CASES[case](), unknown_to_kernels(mixer))
    for part in (slice(0, 1), slice(1, 150), slice(150, 300)):
        assert np.array_equal(one.predict(Z[part]), many.predict(Z[part]))
        a, b = one.play(Z[part], y[part], record="weights"), many.play(Z[part], y[part], record="weights")
        assert np.array_equal(a.yhat, b.yhat)
        assert np.array_equal(a.weights, b.weights)
    assert one == many
    assert np.array_equal(one.stabilities, many.stabilities)
    assert one.members == many.members


@pytest.mark.parametrize(("case", "mixer"), list(cases()))
def test_every_case_is_one_call(case, mixer, monkeypatch) -> None:
    class Called(Exception):
        pass

    def refuse(**_: object) -> None:
        raise Called

    monkeypatch.setattr(kernels, "EnsembleKernel", refuse)
    Z, y = badly_scaled_rows(3, 5, "odds" in case)
    with pytest.raises(Called):
        Ensemble(CASES[case](), mixer).play(Z, y)


@pytest.mark.parametrize(("case", "mixer"), list(cases()))
def test_row_by_row_is_the_same_as_a_block(case, mixer) -> None:
    Z, y = badly_scaled_rows(3, 150, "odds" in case)
    block, rows = Ensemble(CASES[case](), mixer), Ensemble(CASES[case](), mixer)
    yhat = block.play(Z, y).yhat
    for t in range(len(y)):
        assert rows.predict(Z[t]) == yhat[t]
        rows.learn(Z[t], float(y[t]))
    assert rows == block


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_twin_agrees(binary, mixed) -> None:
    dim, count = 4, 5 if mixed else 1
    Z, y = badly_scaled_rows(dim, 120, binary)
    results = []
    for kind in (kernels.EnsembleKernel, EnsembleKernel):
        state = layout.fresh(dim, np.ones(count))
        leader = np.array([4, 0, -1, 2, 3, 1, 0] if mixed else [0])
        last, stability = np.zeros(1), np.zeros(len(leader))
        prior = np.full(len(leader), -np.log(len(leader)))
        losses, clipped_losses, rate = np.zeros(len(leader)), np.zeros(len(leader)), np.zeros(len(MixerState))
        rule = MixingRule.SELF_CONFIDENT
        mixer = MixerArguments(prior.copy(), prior, 0.01, rate, rule, 1.0, losses, clipped_losses) if mixed else None
        rounds = kind(
            binary=binary,
            state=state,
            beta=np.linspace(0.8, 1.0, count),
            inverse_curvature=np.linspace(1.0, 3.0, count) if binary else np.empty(0),
            leader=leader,
            hint=np.arange(len(leader)) % 3,
            last_label=last,
            stability=stability,
            mixer=mixer,
        )
        yhat, ahead = np.empty(len(y)), np.empty(3)
        rounds.play(0, Z[:100], y[:100], yhat[:100], np.empty((0, len(leader))))
        rounds.predict_rows(100, Z[100:103], ahead)
        weights = np.empty((20, len(leader)))
        rounds.play(100, Z[100:], y[100:], yhat[100:], weights)
        results.append([yhat, ahead, stability, losses, rate, last, weights if mixed else last])
    for ours, twin in zip(*results, strict=True):
        TOLERANCES["ensemble"].check(ours, twin)


@pytest.mark.parametrize("model", [ud.DiscountedVAW(hint="last"), ud.DiscountedAIOLI(), Ensemble(vaws(3))])
def test_copies_have_rounds_of_their_own(model) -> None:
    model = model.clone()
    Z, y = badly_scaled_rows(3, 60, model.binary)
    model.play(Z[:30], y[:30])
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.copy()):
        before = model.copy()
        twin.learn(Z[30], float(y[30]))
        assert model == before
        assert twin != before
        for t in range(31, 60):
            twin.learn(Z[t], float(y[t]))
        whole = model.clone()
        whole.play(Z, y)
        assert twin == whole


@pytest.mark.parametrize("model", [ud.DiscountedVAW(), Ensemble(vaws(3))])
@pytest.mark.parametrize(
    ("z", "y"),
    [
        ([1.0, np.nan, 0.0], 1.0),
        ([1.0, 1e80, 0.0], 1.0),
        ([1.0, 0.0], 1.0),
        ([1.0, 2.0, 3.0], float("nan")),
        ([1.0, 2.0, 3.0], 1e80),
        ([1.0, 2.0, 3.0], "1"),
    ],
)
def test_a_refused_row_changes_nothing(model, z, y) -> None:
    model = model.clone()
    Z, labels = badly_scaled_rows(3, 20, False)
    model.play(Z, labels)
    before = model.copy()
    with pytest.raises(ud.errors.InputError):
        model.learn(np.array(z), y)
    assert model == before


def test_whole_numbers_booleans_lists_and_strided_rows_take_the_long_way() -> None:
    Z, y = badly_scaled_rows(3, 20, False)
    plain, other = Ensemble(vaws(3)), Ensemble(vaws(3))
    for t in range(20):
        plain.learn(Z[t], float(round(y[t])))
        other.learn([Z[t].tolist(), np.asfortranarray(Z)[t], Z[t].astype(">f8")][t % 3], round(y[t]))
    assert plain == other


def test_arrays_that_do_not_fit_are_refused() -> None:
    state = layout.fresh(3, np.ones(4))
    good = {
        "binary": False,
        "state": state,
        "beta": np.ones(4),
        "inverse_curvature": np.empty(0),
        "leader": np.arange(4),
        "hint": np.zeros(4, dtype=np.int64),
        "last_label": np.zeros(1),
        "stability": np.zeros(4),
        "mixer": None,
    }
    for name, wrong, error in (
        ("state", state[:, :5], "state, beta and inverse_curvature do not fit together"),
        ("state", state[:, ::2], "state must be a contiguous array"),
        ("beta", np.ones(9), "state, beta and inverse_curvature do not fit together"),
        ("inverse_curvature", np.ones(2), "state, beta and inverse_curvature do not fit together"),
        ("leader", np.arange(4.0), "leader must be a contiguous array"),
        ("leader", np.full(4, 7), "leader and hint do not fit together"),
        ("hint", np.full(4, 3), "leader and hint do not fit together"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            kernels.EnsembleKernel(**{**good, name: wrong})
    with pytest.raises(ValueError, match="members and mixer"):
        kernels.EnsembleKernel(**good)
