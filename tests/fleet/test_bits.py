"""A fleet's predictions and models are those of a plain loop over keys, to the bit, however the stream arrives."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import undrift as ud
from tests.fleet.dirty import FEATURES, WAIT, arrivals, clean, comparable, cuts, plain_loop, spoil
from undrift.ensemble import SelfConfident
from undrift.fleet import canonical
from undrift.learners.files import learner_from_snapshot

MODELS = {
    "vaw": lambda: ud.DiscountedVAW(half_life=20, hint="last"),
    "linear ensemble": lambda: ud.linear_ensemble(1000),
    "mixed ensemble": lambda: ud.Ensemble([ud.DiscountedVAW(half_life=9), ud.Persistence()], SelfConfident()),
    "aioli": lambda: ud.DiscountedAIOLI(half_life=20),
    "logistic ensemble": lambda: ud.logistic_ensemble(2.0, 3.0, 1000),
    "online regressor": lambda: ud.OnlineRegressor(speed="fast"),
    "light regressor": lambda: ud.OnlineRegressor(speed="light"),
    "online classifier": lambda: ud.OnlineClassifier(speed="fast"),
    "waves": lambda: ud.OnlineRegressor(seed=3, trees=False),
}


def fleet_of(make_model, **more):
    return ud.Fleet(
        make_model, key="key", order="n", features=FEATURES, target="y", label_of="of", **{"wait": WAIT, **more}
    )


def streamed(fleet, batches):
    """Advance key by key through the pure function alone, a batch at a time."""
    states, rows = {}, []
    for batch in batches:
        keys = dict.fromkeys(row["key"] for row in batch)
        for key in keys:
            states[key], outputs = fleet.advance(states.get(key), [row for row in batch if row["key"] == key])
            rows += outputs
    return finished(fleet, states, rows)


def finished(fleet, states, rows):
    for key in states:
        states[key], outputs = fleet.finish(states[key], key)
        rows += outputs
    return states, rows


def models_of(fleet, states):
    return {key: fleet.model(state) for key, state in states.items()}


@pytest.mark.parametrize("name", MODELS)
def test_any_cut_and_bounded_disorder_give_the_bits_of_a_plain_loop(name):
    make, binary = MODELS[name], MODELS[name]().binary
    streams = spoil(clean(5, 40, seed=1, binary=binary), seed=2, holes=make().accepts_nan)
    models, rows = plain_loop(make, streams)
    fleet = fleet_of(make)
    for seed in range(4):
        states, said = streamed(fleet, cuts(arrivals(streams, seed), seed))
        assert canonical(comparable(said)) == canonical(rows)
        assert models_of(fleet, states) == models
        assert any(row.status == "duplicate" for row in said)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_state_itself_does_not_depend_on_cuts(seed):
    rows = arrivals(spoil(clean(2, 30, seed), seed), seed)
    fleet = fleet_of(MODELS["vaw"])
    one, said_one = streamed(fleet, [rows])
    many, said_many = streamed(fleet, cuts(rows, seed))
    assert one == many
    assert canonical(said_one) == canonical(said_many)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wait", [0, WAIT])
def test_run_in_memory_in_a_folder_and_with_workers_agree(tmp_path, name, wait):
    make = MODELS[name]
    streams = spoil(clean(7, 30, seed=3, binary=make().binary), seed=4, holes=make().accepts_nan)
    rows = arrivals(streams, seed=5, wait=wait)
    fleet = fleet_of(make, wait=wait)
    whole = fleet.run(rows)
    small = fleet.run(rows, batch=13)
    folder = fleet.run(rows, batch=50, folder=tmp_path / "f")
    two = fleet.run(rows, batch=100, workers=2)
    for other in (small, folder, two):
        assert canonical(other.outputs) == canonical(whole.outputs)
        assert dict(other.states) == dict(whole.states)
    models, _ = plain_loop(make, streams)
    ended, _ = finished(fleet, dict(whole.states), [])
    assert models_of(fleet, ended) == models


@pytest.mark.parametrize("name", MODELS)
def test_the_compiled_table_and_the_pure_function_agree(name):
    """Mostly plain records, so that both the short and the long way are taken, key by key and batch by batch."""
    make = MODELS[name]
    streams = clean(9, 60, seed=13, ask=0.02, binary=make().binary)
    streams = spoil(streams, seed=14, poison=0.01, drop=0.01, holes=make().accepts_nan)
    rows = [
        {name: value for name, value in row.items() if name != "spoiled"}
        for n in range(60)
        for stream in streams.values()
        for row in stream
        if row["n"] == n
    ]
    fleet = fleet_of(make, wait=0)
    states, said = streamed(fleet, [rows[a : a + 45] for a in range(0, len(rows), 45)])
    models, expected = plain_loop(make, streams)
    assert canonical(comparable(said)) == canonical(expected)
    for workers in (1, 2) if name != "mixed ensemble" else (1,):
        run = fleet.run(rows, batch=45, workers=workers)
        assert canonical(run.outputs) == canonical(said)
        assert dict(run.states) == states
    assert models_of(fleet, states) == models


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_frames_and_mappings_agree(library):
    streams = spoil(clean(4, 30, seed=6), seed=7, untyped=False)
    rows = arrivals(streams, seed=8)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    made = pytest.importorskip(library)
    frame = made.table(columns) if library == "pyarrow" else made.DataFrame(columns)
    fleet = fleet_of(MODELS["vaw"])
    assert canonical(fleet.run(frame).outputs) == canonical(fleet.run(rows).outputs)
    assert fleet.run(frame, batch=17).states == fleet.run(rows).states


def test_online_estimators_work_in_fleets():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    Z[5, 1] = np.nan
    records = [
        {"key": 1, "n": n, **dict(zip(FEATURES, z, strict=True)), "y": label}
        for n, (z, label) in enumerate(zip(Z, y, strict=True))
    ]
    fleet = fleet_of(lambda: ud.OnlineRegressor(speed="fast"), wait=0)
    run = fleet.run(records, batch=77)
    model = ud.OnlineRegressor(speed="fast")
    trace = model.play(Z, y)
    assert np.isnan(run.outputs.prediction[:1]).all()
    assert not trace.known[0]
    assert run.outputs.prediction[1:].tobytes() == trace.yhat[1:].tobytes()
    assert run.model(1) == model


def test_a_fleet_survives_pickling():
    fleet = fleet_of(MODELS["linear ensemble"])
    rows = arrivals(clean(2, 20, seed=9), seed=9)
    fleet.run(rows)
    other = pickle.loads(pickle.dumps(fleet))
    assert other.run(rows).states == fleet.run(rows).states


def test_the_comparison_sees_one_flipped_bit_and_one_deleted_row():
    fleet = fleet_of(MODELS["vaw"])
    rows = arrivals(clean(3, 20, seed=10), seed=10)
    run = fleet.run(rows)
    flipped = run.outputs
    expected = canonical(flipped)
    at = int(np.flatnonzero(~np.isnan(flipped.prediction))[0])
    flipped.prediction.view(np.int64)[at] ^= 1
    assert canonical(flipped) != expected
    assert canonical(list(fleet.run(rows).outputs)[1:]) != expected
    model, other = run.model("k0"), run.model("k0")
    header, arrays = other.snapshot()
    arrays["information"].flat[0] = np.nextafter(arrays["information"].flat[0], 2.0)
    assert model == other
    assert model != learner_from_snapshot(header, arrays)
    values = [row for row in rows if row["key"] == "k0" and row["of"] is None and row["y"] is not None]
    values[0]["a"] += 1e-9  # one bit less can be lost to rounding on the way to the state
    assert fleet.run(rows).states != run.states
