"""Threads may share a fleet and what it found: the same bits as one after the other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import undrift as ud

KEYS, ROUNDS = 6, 40


def rows_of(key):
    rng = np.random.default_rng(key)
    return [{"k": key, "x": a, "y": b} for a, b in rng.normal(size=(ROUNDS, 2)).tolist()]


def test_threads_advance_keys_of_one_fleet_to_the_same_bits():
    fleet = ud.Fleet(ud.linear_ensemble(100), key="k", features=["x"], target="y")

    def advance(key):
        state = None
        for row in rows_of(key):
            state = fleet.advance(state, [row]).state
        return state

    with ThreadPoolExecutor(KEYS) as pool:
        together = list(pool.map(advance, range(KEYS)))
    assert together == [advance(key) for key in range(KEYS)]


@pytest.mark.parametrize("kept", [False, True])
def test_threads_read_what_a_run_left(tmp_path, kept):
    fleet = ud.Fleet(ud.OnlineRegressor(speed="fast"), key="k", features=["x"], target="y")
    records = [row for key in range(KEYS) for row in rows_of(key)]
    run = fleet.run(records, folder=tmp_path if kept else None)
    expected = {key: run.model(key).predict([[1.0]]).tolist() for key in range(KEYS)}

    def look(trial):
        lent = {key: model.predict([[1.0]]).tolist() for key, model in run.iter_models(range(KEYS))}
        assert run.outputs.count() == {"ok": len(records)}
        return lent, {key: run.model(key).predict([[1.0]]).tolist() for key in range(KEYS)}

    with ThreadPoolExecutor(4) as pool:
        for lent, owned in pool.map(look, range(8)):
            assert lent == owned == expected


def test_threads_run_one_fleet_at_the_same_time():
    fleet = ud.Fleet(ud.linear_ensemble(100), key="k", features=["x"], target="y")
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda key: fleet.run(rows_of(key), batch=7), range(4)))
    for key, run in enumerate(runs):
        assert run.states[key] == fleet.run(rows_of(key)).states[key]
