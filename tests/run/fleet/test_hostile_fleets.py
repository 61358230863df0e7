"""A fleet's folder that was tampered with ends in one sentence: no traceback, no endless loop, no needless memory."""

import contextlib
import random
import sqlite3
import tempfile
import tracemalloc
from functools import cache
from pathlib import Path

import pytest

from tests.run.fleet.hostile_fleets import ROWS, SCHEMAS, attack, fleet_of, made, sealed, spoil, with_other_head
from undrift.errors import InputError, ModelFileError
from undrift.stream.keyed import key_state as states


@cache
def bytes_of(model):
    with tempfile.TemporaryDirectory() as name:
        return made(model, Path(name))


def test_tampered_files_and_states_are_refused_or_harmless():
    seen = attack(25, seed=7)
    assert seen.total() == 25
    assert len({kind for kind, _ in seen}) >= 6


@pytest.mark.parametrize("statement", [one for one in SCHEMAS if not one.startswith("PRAGMA")])
def test_only_our_tables_may_be_there(tmp_path, statement):
    (tmp_path / "fleet.db").write_bytes(bytes_of("ensemble"))
    with contextlib.closing(sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)) as db:
        db.execute(statement)
    before = (tmp_path / "fleet.db").read_bytes()
    with pytest.raises(InputError, match="not a file that undrift wrote there"):
        fleet_of("ensemble").run(ROWS, folder=tmp_path)
    assert (tmp_path / "fleet.db").read_bytes() == before


@pytest.mark.parametrize("kind", ["view", "head", "journal"])
def test_a_file_spoiled_in_our_own_folder_is_damaged(tmp_path, kind):
    spoil(tmp_path / "fleet.db", made("ensemble", tmp_path), random.Random(0), kind)
    if kind == "journal":  # SQLite sees that it is none
        assert fleet_of("ensemble").run(ROWS, folder=tmp_path).outputs.count()["ok"] > 180
        return
    with pytest.raises(ModelFileError, match=r"damaged, or not a fleet|it was edited"):
        fleet_of("ensemble").run(ROWS, folder=tmp_path)


def test_a_state_cannot_ask_for_memory(tmp_path):
    fleet = fleet_of("mixed")
    state = fleet.run(ROWS).states["key 3"]
    made_by, at = states.HEAD.unpack_from(state), states.HEAD.size
    for text in (
        b'{"tracker":[],"counts":{},"waiting":[],"unlabelled":[],"model":{"dim":2,"rounds":1},"arrays":{"a":[1000000000]},"short":{"a":0}}',
        b'{"tracker":[],"counts":{},"waiting":[],"unlabelled":[],"model":{"dim":2,"rounds":1},"arrays":{"a":[9000000000,9000000000]}}',
        b'{"tracker":[],"counts":{},"waiting":[],"unlabelled":[],"model":{"dim":100000,"rounds":1},"arrays":true}',
    ):
        hostile = sealed(states.HEAD.pack(*made_by[:-1], len(text)) + text + state[at + made_by[-1] : -8])
        tracemalloc.start()
        with pytest.raises(ModelFileError, match="holds what no fleet writes"):
            fleet.model(hostile)
        assert tracemalloc.get_traced_memory()[1] < 10e6
        tracemalloc.stop()


def test_a_state_cannot_bring_parameters():
    fleet = fleet_of("mixed")
    state = fleet.run(ROWS).states["key 3"]
    dice, seen = random.Random(1), 0
    for _ in range(300):
        hostile = with_other_head(state, dice)
        if b'"parameters"' in hostile or b'"class"' in hostile:
            seen += 1
            with pytest.raises(ModelFileError):
                fleet.model(hostile)
    assert seen > 3
