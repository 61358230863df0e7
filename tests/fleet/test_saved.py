"""Saved states: without spare halves and rows still to come, with the records of served rows; old ones are refused."""

import hashlib
import sqlite3

import numpy as np
import pytest

import undrift as ud
from undrift import kernels
from undrift.errors import ModelFileError
from undrift.stream.keyed import key_state as states

FIELDS = {"key": "k", "order": "n", "features": ["x", "z"], "target": "y"}
ROWS = [{"k": "a", "n": n, "x": float(n % 3), "z": 1.0, "y": float(n % 5)} for n in range(40)]


def fleet_of(members):
    return ud.Fleet(ud.Ensemble([ud.DiscountedVAW(half_life=2.0**k) for k in range(members)]), **FIELDS)


def with_version(state, version):
    """The same bytes, saying that they are of another version."""
    made = states.HEAD.unpack_from(state)
    body = states.HEAD.pack(made[0], version, *made[2:]) + state[states.HEAD.size : -states.DIGEST_SIZE]
    return body + hashlib.blake2b(body, digest_size=states.DIGEST_SIZE).digest()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_states_of_earlier_layouts_are_refused(version):
    fleet = fleet_of(3)
    state, _ = fleet.advance(None, ROWS[:20])
    assert with_version(state, states.VERSION) == state
    with pytest.raises(
        ModelFileError, match=f"version {version}, of undrift 0.1 or 0.2 .* which this undrift does not read; begin"
    ):
        fleet.model(with_version(state, version))


def test_records_ofserved_rows_are_saved(tmp_path):
    """A folder that was left with rows waiting for their label goes on as if it had never stopped."""
    fleet = ud.Fleet(ud.linear_ensemble(100), **FIELDS, label_of="of")
    rows = []
    for n in range(30):
        rows.append({**ROWS[n], "n": 2 * n, "y": None, "of": None})
        rows.append({**ROWS[n - 5], "n": 2 * n + 1, "of": 2 * (n - 5) if n >= 5 else None})
    whole = fleet.run(rows)
    parts = [fleet.run(rows[:cut], folder=tmp_path, batch=7) for cut in (3, 31, 60)]
    assert parts[-1].outputs.canonical() == whole.outputs.canonical()
    assert dict(parts[-1].states) == dict(whole.states)
    model = ud.linear_ensemble(100)
    served = {}
    for row in rows:
        if row["of"] is not None:
            model.tell(served.pop(row["of"]), row["y"])
        elif row["y"] is None:
            served[row["n"]] = model.ask([row["x"], row["z"]])
        else:
            model.learn([row["x"], row["z"]], row["y"])
    assert whole.model("a") == model
    assert len(whole.model("a").pending) == fleet.info(whole.states["a"]).unlabelled == 5


@pytest.mark.parametrize(
    "change",
    [
        lambda records: {"information": records["pending.heads"], **records},
        lambda records: {name: array for name, array in records.items() if name != "pending.heads"},
        lambda records: {**records, "pending.heads": 2.0 * records["pending.heads"]},
        lambda records: {**records, "pending.records": np.full_like(records["pending.records"], np.nan)},
    ],
)
def test_edited_records_are_refused(change):
    fleet = ud.Fleet(ud.DiscountedVAW(half_life=9), **FIELDS)
    state, _ = fleet.advance(None, [{**ROWS[0], "y": None}])
    one = fleet.pool.codec.unpack(state)
    assert fleet.pool.codec.pack(one) == state
    one.records = change(one.records)
    with pytest.raises(ModelFileError, match="it was edited"):
        fleet.advance(fleet.pool.codec.pack(one), ROWS[1:])


def test_an_expired_row_leaves_no_record():
    fleet = ud.Fleet(ud.DiscountedVAW(half_life=9), **FIELDS, label_of="of", hold=2)
    run = fleet.run([{**ROWS[n], "y": None, "of": None} for n in range(6)])
    assert run.outputs.count() == {"predicted": 6, "expired": 4}
    assert [one.serial for one in run.model("a").pending] == [5, 6]


def test_a_spare_half_is_not_saved():
    sizes = {members: len(fleet_of(members).run(ROWS).states["a"]) for members in (4, 8)}
    half = 8 * 4 * (3 * 2 + 3 + 1) - len(',"halved":["part0.information"]')
    by_member = 8 * 4 * 4  # stability, log-weight, loss, charge
    # with AVX-512 the spare lanes are at work
    assert sizes[8] - sizes[4] == by_member + (0 if kernels.level() == "v4" else half)


def test_a_half_that_changed_is_saved():
    fleet = fleet_of(4)
    state, _ = fleet.advance(None, ROWS)
    one = fleet.pool.codec.unpack(state)
    stack = one.arrays["part0.information"]
    stack[-1, 0, 7] = np.nextafter(stack[-1, 0, 7], 2.0)
    again = fleet.pool.codec.pack(one)
    assert b"halved" not in again
    back = fleet.pool.codec.unpack(again)
    assert back.arrays["part0.information"].tobytes() == stack.tobytes()


@pytest.mark.parametrize("members", [1, 4, 8])
def test_unpacked_arrays_may_be_changed(members):
    """However each was written: whole, halved or short."""
    codec = fleet_of(members).pool.codec
    state, _ = fleet_of(members).advance(None, ROWS)
    one = codec.unpack(state)
    for array in one.arrays.values():
        assert array.flags.writeable
        array += 1.0
    assert codec.pack(codec.unpack(state)) == state


@pytest.mark.parametrize("rounds", [1, 4, 40])
def test_rows_of_the_warm_up_still_to_come_are_not_saved(rounds):
    fleet = ud.Fleet(ud.OnlineRegressor(speed="fast"), **FIELDS)
    state, _ = fleet.advance(None, ROWS[:rounds])
    model = ud.OnlineRegressor(speed="fast")
    model.play([[row["x"], row["z"]] for row in ROWS[:rounds]], [row["y"] for row in ROWS[:rounds]])
    whole = sum(array.nbytes for array in model.snapshot()[1].values())
    assert whole - len(state) > (256 - rounds) * (2 + 2 + 1) * 8 - 600  # the JSON text and the fixed head
    assert fleet.model(state) == model


def test_a_table_clustered_by_key_is_read(tmp_path):
    fleet = fleet_of(4)
    fleet.run(ROWS[:20], folder=tmp_path, source="s")
    with sqlite3.connect(tmp_path / "fleet.db") as db:
        state = db.execute("SELECT state FROM states").fetchone()[0]
        db.execute("DROP TABLE states")
        db.execute("CREATE TABLE states (key PRIMARY KEY, state BLOB) WITHOUT ROWID")
        db.execute("INSERT INTO states VALUES ('a', ?)", (state,))
    db.close()
    resumed, whole = fleet.run(ROWS, folder=tmp_path, source="s"), fleet.run(ROWS)
    assert resumed.outputs.canonical() == whole.outputs.canonical()
    assert dict(resumed.states) == dict(whole.states)
