"""One fleet in several threads: every key ends as if it had been alone."""

import pickle

import numpy as np
import pytest

import undrift as ud
from tests.learners.test_threads import together

MODELS = {
    "vaw": lambda: ud.DiscountedVAW(half_life=20),
    "ensemble": lambda: ud.linear_ensemble(100),
    "regressor": lambda: ud.OnlineRegressor(speed="fast"),
}


def records(key: str, count: int = 60) -> list[dict]:
    rng = np.random.default_rng(sum(map(ord, key)))
    x = rng.normal(size=count)
    return [{"k": key, "n": n, "x": float(x[n]), "y": float(2.0 * x[n])} for n in range(count)]


def fleet_of(name: str) -> ud.Fleet:
    return ud.Fleet(MODELS[name](), key="k", order="n", features=["x"], target="y")


def states(fleet: ud.Fleet, key: str) -> bytes:
    state = None
    rows = records(key)
    for a in range(0, len(rows), 3):
        state = fleet.advance(state, rows[a : a + 3]).state
    return state


@pytest.mark.parametrize("name", MODELS)
def test_keys_advance_at_the_same_time(name) -> None:
    keys = [f"key {k}" for k in range(4)]
    expected = {key: states(fleet_of(name), key) for key in keys}
    fleet = fleet_of(name)
    got: dict[str, bytes] = {}

    def work(key: str) -> None:
        got[key] = states(fleet, key)
        model = fleet.model(got[key])
        assert np.isfinite(model.predict([1.0]))
        assert fleet.info(got[key]).rounds == 60

    together(*(lambda key=key: work(key) for key in keys))
    assert got == expected
    assert states(pickle.loads(pickle.dumps(fleet)), keys[0]) == expected[keys[0]]


@pytest.mark.parametrize("name", ["vaw", "regressor"])
@pytest.mark.parametrize("kept", [False, True])
def test_runs_and_what_they_left_are_read_by_several_threads(name, kept, tmp_path) -> None:
    fleet = fleet_of(name)
    rows = [row for key in "abcd" for row in records(key, 40)]
    run = fleet.run(rows, folder=tmp_path / "whole" if kept else None)
    expected = {key: run.model(key).predict([1.0]) for key in run.states}

    def look() -> None:
        for key in list("abcd") * 5:
            assert run.model(key).predict([1.0]) == expected[key]
            assert run.info(key).rounds == 40
        assert len(run.outputs) == 160

    def again(where) -> None:
        other = fleet.run(rows, folder=where if kept else None)
        assert {key: other.model(key).predict([1.0]) for key in other.states} == expected

    together(look, lambda: again(tmp_path / "one"), look, lambda: again(tmp_path / "two"))
