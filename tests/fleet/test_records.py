"""What becomes of records that are wrong, late, twice, early, or without a label; and of keys that fail."""

import hashlib
import math
import re

import numpy as np
import pytest

import undrift as ud
from undrift import kernels
from undrift.errors import InputError, ModelFileError, UndriftWarning
from undrift.stream.keyed import key_state as states

FIELDS = {"key": "k", "order": "n", "features": ["x"], "target": "y"}


def fleet_of(**more):
    return ud.Fleet(ud.DiscountedVAW(half_life=10), **{**FIELDS, **more})


def row(n, x=1.0, y=2.0, k="a", **more):
    return {"k": k, "n": n, "x": x, "y": y, **more}


def said(outputs):
    return [(one.order, one.status) for one in outputs]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x": "warm"}, "'x' must be a number, got 'warm'"),
        ({"x": None}, "feature 'x' is missing"),
        ({"x": math.nan}, "feature 'x' is missing"),
        ({"x": math.inf}, "feature 'x' is inf, beyond 1e75"),
        ({"x": -1e76}, "feature 'x' is -1e\\+76, beyond 1e75"),
        ({"x": 10**400}, "feature 'x' is inf"),
        ({"x": [1.0]}, "'x' must be a number"),
        ({"y": "high"}, "'y' must be a number, got 'high'"),
        ({"y": math.inf}, "target 'y' is inf, beyond 1e75"),
        ({"n": None}, "'n' is missing"),
        ({"n": 1.5}, "'n' must be an integer, got 1.5"),
        ({"n": True}, "'n' must be an integer, got True"),
        ({"n": 2**70}, "'n' must be at most 2\\^62"),
        ({"k": None}, "key 'k' is missing"),
        ({"k": 1.5}, "key 'k' must be text or an integer, got 1.5"),
    ],
)
def test_each_kind_of_poison_is_reported_and_not_learned(change, reason):
    fleet = fleet_of()
    good = [row(0), row(2), row(0, k="b")]
    run = fleet.run([good[0], {**row(1), **change}, *good[1:]])
    (poison,) = [one for one in run.outputs if one.status == "poison"]
    assert poison.prediction is None
    assert re.search(reason, poison.reason)
    assert run.model("a") == fleet.run(good).model("a")
    assert run.model("b") == fleet.run(good).model("b")


def test_a_record_without_a_feature_or_that_is_no_mapping_is_poison():
    run = fleet_of().run([{"k": "a", "n": 0, "y": 1.0}, 7, row(1)])
    assert [one.reason for one in run.outputs if one.status == "poison"] == [
        "feature 'x' is not there",
        "a record must be a mapping of names to values, got a int",
    ]


def test_labels_of_two_classes_are_checked():
    fleet = ud.Fleet(ud.DiscountedAIOLI(), **FIELDS)
    run = fleet.run([row(0, y=1), row(1, y=0), row(2, y=2), row(3, y=-1), row(4, y=True)])
    assert said(run.outputs) == [(0, "ok"), (1, "ok"), (2, "poison"), (3, "ok"), (4, "ok")]
    assert run.model("a").rounds == 4


def test_early_records_wait_and_late_ones_are_told_from_copies():
    fleet = fleet_of(wait=2)
    state, out = fleet.advance(None, [row(5)])
    assert said(out) == []
    assert fleet.info(state).waiting == 1
    state, out = fleet.advance(state, [row(4), row(7)])
    assert said(out) == [(4, "ok"), (5, "ok")]
    state, out = fleet.advance(state, [row(7), row(9)])
    assert said(out) == [(7, "duplicate"), (6, "gap"), (7, "ok")]
    state, out = fleet.advance(state, [row(6), row(5), row(8)])
    assert said(out) == [(5, "duplicate"), (6, "late"), (8, "ok"), (9, "ok")]
    assert fleet.info(state).counts == {"ok": 5, "duplicate": 2, "gap": 1, "late": 1}


def test_finish_releases_what_waits():
    fleet = fleet_of(wait=10)
    state, out = fleet.advance(None, [row(3), row(1)])
    assert said(out) == []
    state, out = fleet.finish(state, "a")
    assert said(out) == [(1, "ok"), (2, "gap"), (3, "ok")]
    assert fleet.info(state).waiting == 0


def test_times_are_orders_without_gaps():
    pl = pytest.importorskip("polars")
    from datetime import datetime

    times = [datetime(2026, 1, 3), datetime(2026, 1, 1), datetime(2026, 1, 2)]
    frame = pl.DataFrame({"k": ["a"] * 3, "n": times, "x": [1.0] * 3, "y": [3.0, 1.0, 2.0]})
    out = fleet_of(numbered=False).run(frame).outputs
    assert [one.target for one in out] == [1.0, 2.0, 3.0]
    assert out.count() == {"ok": 3}


def test_long_forgotten_orders_are_called_late():
    fleet = fleet_of(numbered=False)
    state, _ = fleet.advance(None, [row(10 * n) for n in range(100)])
    _, out = fleet.advance(state, [row(0), row(985), row(980)])
    assert [(one.order, one.status, one.reason) for one in out] == [
        (0, "late", "or a copy of a record long gone"),
        (980, "duplicate", ""),
        (985, "late", ""),
    ]


def test_labels_that_come_later_are_learned_when_they_come():
    fleet = fleet_of(label_of="of", hold=2)
    out = fleet.run(
        [row(0, 1.0, 2.0), row(1, 2.0, None), row(2, 3.0, None), row(3, None, 5.0, of=1), row(4, None, 5.0, of=1)]
    ).outputs
    assert [one.status for one in out] == ["ok", "predicted", "predicted", "labelled", "poison"]
    model = ud.DiscountedVAW(half_life=10)
    model.learn([1.0], 2.0)
    assert out.prediction[1] == out.prediction[3] == model.predict([2.0])
    assert out.reasons == {3: "label of 1", 4: "no record 1 waits for a label"}
    more = [row(n, 1.0, None) for n in range(3)]
    assert said(fleet.run(more).outputs)[-1] == (0, "expired")
    nothing = fleet.run([row(0, None, None, of=3)]).outputs
    assert nothing.reasons == {0: "it has 'of' but no 'y'"}


def test_the_label_of_a_served_row_may_come_with_the_row_itself_and_is_learned_once():
    fleet = fleet_of(wait=0)
    state, out = fleet.advance(None, [row(0, 1.0, 2.0), row(1, 2.0, None), row(2, 3.0, None), row(3, 1.0, 4.0)])
    assert [one.status for one in out] == ["ok", "predicted", "predicted", "ok"]
    predicted = out.prediction[1]
    state, out = fleet.advance(state, [row(1, 2.0, 5.0), row(4, 1.0, 4.0)])
    assert tuple(next(iter(out)))[1:] == (1, predicted, 5.0, "labelled", "its label came later")
    model = ud.DiscountedVAW(half_life=10)
    model.learn([1.0], 2.0)
    first, _ = model.ask([2.0]), model.ask([3.0])
    model.learn([1.0], 4.0)
    model.tell(first, 5.0)
    model.learn([1.0], 4.0)
    assert fleet.model(state).snapshot()[1].keys() == model.snapshot()[1].keys()
    for name, array in model.snapshot()[1].items():
        assert fleet.model(state).snapshot()[1][name].tobytes() == array.tobytes()
    assert fleet.info(state).unlabelled == 1
    after, out = fleet.advance(state, [row(1, 2.0, 5.0), row(1, 2.0, None), row(2, 3.0, None)])
    assert said(out) == [(1, "duplicate"), (1, "duplicate"), (2, "duplicate")]
    assert fleet.model(after) == fleet.model(state)


def test_a_label_that_cannot_be_used_leaves_its_row_waiting():
    fleet = fleet_of()
    state, _ = fleet.advance(None, [row(0, 1.0, 2.0), row(1, 2.0, None)])
    state, out = fleet.advance(state, [row(1, 2.0, "many")])
    assert [(one.status, one.reason) for one in out] == [("poison", "'y' must be a number, got 'many'")]
    assert said(fleet.advance(state, [row(1, 2.0, 3.0)]).outputs) == [(1, "labelled")]


def test_a_label_that_comes_before_its_row_was_predicted_is_learned_with_the_row():
    fleet = fleet_of(wait=5)
    state, out = fleet.advance(None, [row(0, 1.0, 2.0), row(2, 2.0, None)])
    state, out = fleet.advance(state, [row(2, 2.0, 3.0)])
    assert said(out) == [(2, "duplicate")]
    assert said(fleet.finish(state, "a").outputs) == [(0, "ok"), (1, "gap"), (2, "ok")]


def test_a_row_that_comes_twice_in_a_batch_is_predicted_before_its_label_is_learned():
    records = [row(0, 1.0, 2.0), row(1, 2.0, 3.0), row(1, 2.0, None)]
    together = fleet_of().run(records).outputs
    assert [one.status for one in together] == ["ok", "predicted", "labelled"]
    apart = fleet_of().run([records[0], records[2], records[1]], batch=1).outputs
    assert together.canonical() == apart.canonical()


class Fragile(ud.DiscountedVAW):
    """A user's model with a bug."""

    broken = True

    def _play(self, Z, y, context, hint=None):
        if self.broken and (Z[:, 0] == 13.0).any():
            raise ZeroDivisionError("not my day")
        return super()._play(Z, y, context, hint)


def test_a_raising_model_stops_loudly_and_resumes_exactly_after_the_fix(tmp_path, monkeypatch):
    rows = [row(n, x=float(n), k=k) for n in range(30) for k in ("a", "b")]
    fleet = ud.Fleet(Fragile(), **FIELDS)
    with pytest.raises(ZeroDivisionError) as caught:
        fleet.run(rows, folder=tmp_path, batch=10)
    assert "while advancing key 'a'" in "".join(caught.value.__notes__)
    monkeypatch.setattr(Fragile, "broken", False)
    resumed = fleet.run(rows, folder=tmp_path, batch=10)
    whole = fleet.run(rows)
    assert resumed.outputs.canonical() == whole.outputs.canonical()
    assert dict(resumed.states) == dict(whole.states)


def test_a_failing_key_can_be_reported_and_harms_no_other():
    rows = [row(n, x=float(n) if k == "a" else 1.0, k=k) for n in range(30) for k in ("a", "b")]
    run = ud.Fleet(Fragile(), **FIELDS, on_error="report").run(rows, batch=10)
    failed = [one for one in run.outputs if one.status == "error"]
    assert {one.key for one in failed} == {"a"}
    assert {one.reason for one in failed} == {"ZeroDivisionError: not my day"}
    expected = ud.DiscountedVAW()
    expected.play(np.ones((30, 1)), np.full(30, 2.0))
    assert run.model("b").coef.tobytes() == expected.coef.tobytes()


class Picky(ud.DiscountedVAW):
    """A model that refuses a row in our way."""

    def _play(self, Z, y, context, hint=None):
        if (Z == 4.0).any():
            raise InputError("Picky: 4 is not for me")
        return super()._play(Z, y, context, hint)


def test_a_row_the_model_refuses_is_poison_in_any_cut():
    rows = [row(n, x=float(n)) for n in range(8)]
    fleet = ud.Fleet(Picky(), **FIELDS)
    whole, single = fleet.run(rows), fleet.run(rows, batch=1)
    assert whole.outputs.canonical() == single.outputs.canonical()
    assert whole.states == single.states
    assert [one.order for one in whole.outputs if one.status == "poison"] == [4]


def test_damaged_foreign_and_newer_states_are_refused(monkeypatch):
    fleet = fleet_of()
    state, _ = fleet.advance(None, [row(0)])
    for bit in range(0, 8 * len(state), 37):
        wrong = bytearray(state)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ModelFileError):
            fleet.model(bytes(wrong))
    with pytest.raises(ModelFileError, match="cut off"):
        fleet.advance(state[:10], [])
    with pytest.raises(ModelFileError, match="other parameters or features"):
        ud.Fleet(ud.DiscountedVAW(half_life=11), **FIELDS).advance(state, [row(1)])
    version = states.VERSION
    monkeypatch.setattr(states, "VERSION", version + 1)
    newer, _ = fleet.advance(None, [row(0)])
    monkeypatch.setattr(states, "VERSION", version)
    with pytest.raises(ModelFileError, match=f"version {version + 1}, this undrift reads up to {version}; upgrade"):
        fleet.advance(newer, [row(1)])


def test_states_of_another_kernel_level_warn_and_go_on():
    fleet = fleet_of()
    state, _ = fleet.advance(None, [row(0)])
    other = next(number for number, name in enumerate(states.LEVELS) if name != kernels.level())
    body = state[:6] + bytes([other]) + state[7:-8]
    moved = body + hashlib.blake2b(body, digest_size=8).digest()
    with pytest.warns(UndriftWarning, match=f"states were made at kernel level {states.LEVELS[other]}, .* last bits"):
        again, _ = fleet.advance(moved, [row(1)])
    assert again == fleet.advance(state, [row(1)]).state  # what is written now is this level's


def test_every_level_has_a_number_in_states():
    assert set(kernels.levels()) <= set(states.LEVELS)


def test_a_folder_belongs_to_one_fleet(tmp_path):
    fleet_of().run([row(0)], folder=tmp_path)
    with pytest.raises(InputError, match="made with model half_life = 10, not 11; choose another folder"):
        ud.Fleet(ud.DiscountedVAW(half_life=11), **FIELDS).run([row(0)], folder=tmp_path)
    (tmp_path / "fleet.db").write_bytes(b"nonsense" * 1000)
    with pytest.raises(ModelFileError, match="damaged, or not a fleet of undrift's"):
        fleet_of().run([row(0)], folder=tmp_path)


def test_sources_are_told_apart_in_a_folder(tmp_path):
    fleet = fleet_of()
    fleet.run([row(0), row(1)], folder=tmp_path, source="monday")
    again = fleet.run([row(0), row(1)], folder=tmp_path, source="monday")
    assert again.outputs.count() == {"ok": 2}
    more = fleet.run([row(2)], folder=tmp_path, source="tuesday")
    assert more.outputs.count() == {"ok": 1}
    assert more.model("a").rounds == 3
    assert more.keys() == ["a"]
    assert more.info("a").rounds == 3


def test_states_can_be_handed_from_run_to_run(tmp_path):
    fleet = fleet_of()
    first = fleet.run([row(n) for n in range(5)])
    rest = [row(n) for n in range(5, 9)]
    whole = fleet.run([row(n) for n in range(9)])
    assert fleet.run(rest, states=first.states).states == whole.states
    assert dict(fleet.run(rest, states=first.states, folder=tmp_path).states) == whole.states


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"features": "x"}, "features must be a list of column names"),
        ({"features": []}, "features must name at least one column"),
        ({"target": "x"}, "columns must have different names"),
        ({"order": None, "wait": 3}, "wait and label_of need order="),
        ({"wait": -1}, "wait must be an integer in"),
        ({"on_error": "ignore"}, "on_error must be one of raise, report"),
    ],
)
def test_a_fleet_is_checked_at_the_door(more, message):
    with pytest.raises(InputError, match=message):
        fleet_of(**more)


def test_models_are_checked_at_the_door():
    with pytest.raises(InputError, match="make_model must be a learner or a function"):
        ud.Fleet("vaw", **FIELDS)
    used = ud.DiscountedVAW()
    used.learn([1.0], 1.0)
    with pytest.raises(InputError, match="one that has learned"):
        ud.Fleet(used, **FIELDS)
    with pytest.raises(InputError, match="records of one key, got 'a' and others"):
        fleet_of().advance(None, [row(0), row(0, k="b")])


def test_wrong_columns_of_a_frame_are_refused_as_a_whole():
    pl = pytest.importorskip("polars")
    good = {"k": ["a"], "n": [0], "x": [1.0], "y": [2.0]}
    with pytest.raises(InputError, match=r"column 'x' not found; columns are k, n, xx, y. Did you mean 'xx'\?"):
        fleet_of().run(pl.DataFrame({"k": ["a"], "n": [0], "xx": [1.0], "y": [2.0]}))
    with pytest.raises(InputError, match="column 'x' must be numbers, got String"):
        fleet_of().run(pl.DataFrame({**good, "x": ["1"]}))
    with pytest.raises(InputError, match="column 'n' must be integers or times, got String"):
        fleet_of().run(pl.DataFrame({**good, "n": ["1"]}))


def test_frames_report_what_is_wrong_with_single_cells():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"k": ["a", None, "a"], "n": [0.0, 1.0, 1.5], "x": [1.0] * 3, "y": [1.0] * 3})
    out = fleet_of().run(frame).outputs
    assert out.count() == {"ok": 1, "poison": 2}
    assert sorted(out.reasons.values()) == ["'n' must be an integer, got 1.5", "key 'k' is missing"]


def test_arrival_order_needs_no_order_column():
    fleet = ud.Fleet(ud.DiscountedMean(), key="k", features=[], target="y")
    run = fleet.run([{"k": 1, "y": 1.0}, {"k": 1, "y": "?"}, {"k": 1, "y": 3.0}])
    assert said(run.outputs) == [(0, "ok"), (1, "poison"), (2, "ok")]
    assert run.model(1).rounds == 2


def test_columns_are_what_frames_are_made_from():
    pl = pytest.importorskip("polars")
    run = fleet_of().run([row(0), row(1, y=None)])
    frame = pl.DataFrame(run.outputs.columns())
    assert frame.columns == ["key", "order", "prediction", "target", "status", "reason"]
    assert frame["target"].to_list() == [2.0, None]


@pytest.mark.parametrize("make", [ud.DiscountedVAW, lambda: ud.OnlineRegressor(speed="light"), ud.DiscountedMean])
def test_nothing_is_predicted_before_the_first_label_of_a_key(make):
    """Rows asked before it, and the row that brings it, have no prediction, no loss, and no share in the mean."""
    fleet = ud.Fleet(make, key="k", order="n", features=["x"], target="y", label_of="of")
    plain = {"k": "a", "x": 1.0, "of": None}
    asked = [{**plain, "n": n, "y": None} for n in range(2)]
    labels = [{**plain, "n": 2 + n, "y": 3.0, "of": n} for n in range(2)]
    rest = [{**plain, "n": 4 + n, "y": 5.0} for n in range(3)]
    run = fleet.run([*asked, *labels, *rest])
    said = list(run.outputs)
    assert [one.prediction is None for one in said] == [True] * 4 + [False] * 3
    losses = [(one.prediction - one.target) ** 2 / 2 for one in said[4:]]
    assert run.info("a").rounds == 5
    assert run.info("a").mean_loss == sum(losses) / 3

    at_once = fleet.run([{**plain, "n": n, "y": 3.0} for n in range(4)], batch=2)
    said = list(at_once.outputs)
    assert [one.prediction is None for one in said] == [True, False, False, False]
    losses = [(one.prediction - one.target) ** 2 / 2 for one in said[1:]]
    assert at_once.info("a").mean_loss == sum(losses) / 3
