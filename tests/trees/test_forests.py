"""Forests beside the compiled state answer as candidates, and the same bits however a stream is cut."""

import itertools
import pickle

import numpy as np
import pytest

import undrift as ud
from tests.twins import tree_context as reference
from tests.twins.trees import trees_predict
from undrift import kernels
from undrift.errors import InputError, ModelFileError
from undrift.losses import sigmoid
from undrift.online.plan import SPEEDS, make_plan
from undrift.trees import forests as module
from undrift.trees import refit
from undrift.trees.refit import BLOCK, DEFAULT_TREES, MOST_TREES, RefitSchedule, RowBuffer, Work

ROWS = 660
KINDS = [ud.OnlineRegressor, ud.OnlineClassifier]
both_speeds = pytest.mark.parametrize("speed", ["best", "max"])


def interaction_with_holes(kind, rows=ROWS, seed=0):
    """Return rows whose relation is an interaction, with holes and rows without a label."""
    rng = np.random.default_rng(seed)
    Z = rng.uniform(-1, 1, size=(rows, 3))
    y = np.where(Z[:, 0] > 0, Z[:, 1], -Z[:, 1]) + 0.1 * rng.normal(size=rows)
    Z[rng.random(Z.shape) < 0.02] = np.nan
    y = y if kind is ud.OnlineRegressor else (y > 0.0).astype(float)
    y[rng.random(rows) < 0.02] = np.nan
    return Z, y


@pytest.fixture
def early(monkeypatch):
    """Let small forests be refreshed early, so that short streams see everything."""
    for name, value in {"FIRST_FIT": 100, "LEAST_SPAN": 16, "REFRESH_SPAN": 32}.items():
        monkeypatch.setattr(refit, name, value)
    monkeypatch.setitem(SPEEDS, "max", SPEEDS["max"]._replace(forests=MOST_TREES._replace(refresh=100)))
    monkeypatch.setattr(refit, "TREES", 12)
    monkeypatch.setattr(module, "WINDOW", 350)
    monkeypatch.setattr(module, "REFRESHED_ROWS", 150)


def score(model, z):
    return model.predict(z) if isinstance(model, ud.OnlineRegressor) else model.log_odds(z)


@both_speeds
@pytest.mark.parametrize("kind", KINDS)
def test_rows_one_by_one_asked_and_told_copied_and_pickled_are_the_block_bit_for_bit(kind, speed, early):
    Z, y = interaction_with_holes(kind)
    whole = kind(speed=speed)
    yhat = whole.play(Z, y).yhat
    assert whole._core.forests._grown
    single, asked, said, served = kind(speed=speed), kind(speed=speed), [], []
    for t in range(ROWS):
        said.append(score(single, Z[t]))
        single.learn(Z[t], y[t])
        one = asked.ask(Z[t])
        served.append(one.yhat)
        asked.tell(one, y[t])
        if t % 97 == 0:
            single = single.copy()
        if t % 101 == 50:
            single = pickle.loads(pickle.dumps(single))
    assert np.array_equal(said, yhat)
    assert np.array_equal(served, yhat)
    assert single == whole == asked
    assert np.array_equal(score(single, Z[:5]), score(whole, Z[:5]))


@both_speeds
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [1, 40])
def test_late_labels_are_learned_from_what_was_served_however_the_stream_is_cut(kind, delay, speed, early, tmp_path):
    Z, y = interaction_with_holes(kind)
    whole = kind(speed=speed)
    yhat = whole.play(Z, y, delay=delay).yhat
    parts, cut = [], kind(speed=speed)
    for begin in range(0, ROWS, 73):
        parts.append(cut.play(Z[begin : begin + 73], y[begin : begin + 73], delay=delay).yhat)
        cut.save(tmp_path / "cut.undrift")
        cut = ud.load(tmp_path / "cut.undrift")
    assert np.array_equal(np.concatenate(parts), yhat)
    assert cut == whole
    asked, waiting, said = kind(speed=speed), [], []
    for t in range(ROWS):
        waiting.append((asked.ask(Z[t]), y[t]))
        said.append(waiting[-1][0].yhat)
        if len(waiting) > delay:
            asked.tell(*waiting.pop(0))
    assert np.array_equal(said, yhat)


@both_speeds
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delay", [0, 30])
def test_weights_reach_the_trees_however_the_stream_is_cut(kind, delay, speed, early):
    Z, y = interaction_with_holes(kind)
    rng = np.random.default_rng(8)
    rows = {"weight": rng.choice([0.0, 0.5, 1.0, 3.0], ROWS), "elapsed": rng.choice([0.5, 1.0, 2.0], ROWS)}
    whole, cut, asked = (kind(speed=speed) for _ in range(3))
    yhat = whole.play(Z, y, delay=delay, **rows).yhat
    parts, waiting = [], []
    for begin in range(0, ROWS, 73):
        some = slice(begin, begin + 73)
        parts.append(cut.play(Z[some], y[some], delay=delay, **{name: one[some] for name, one in rows.items()}).yhat)
        cut = pickle.loads(pickle.dumps(cut))
    assert np.array_equal(np.concatenate(parts), yhat)
    assert cut == whole
    for t in range(ROWS):
        waiting.append((t, asked.ask(Z[t], elapsed=rows["elapsed"][t])))
        assert waiting[-1][1].yhat == yhat[t]
        if len(waiting) > delay:
            told, served = waiting.pop(0)
            asked.tell(served, y[told], weight=rows["weight"][told])
    plain = kind(speed=speed)
    plain.play(Z, y, delay=delay)
    assert plain._core.forests._grown[0].trees.tobytes() != whole._core.forests._grown[0].trees.tobytes()


@both_speeds
def test_trees_learn_rows_as_often_as_they_weigh_and_not_at_all_at_0(speed, early):
    Z, y = interaction_with_holes(ud.OnlineRegressor)
    spoiled = np.arange(ROWS) % 2 == 1
    labels = np.where(spoiled, 50.0 + y, y)
    ones, halves, zeros = (ud.OnlineRegressor(speed=speed) for _ in range(3))
    ones.play(Z, labels)
    halves.play(Z, labels, weight=np.where(spoiled, 0.01, 1.0))
    zeros.play(Z, labels, weight=np.where(spoiled, 0.0, 1.0))
    said = [np.median(one._core.forests.answer(one._core.forests.view(Z))[:, 0]) for one in (ones, halves, zeros)]
    assert said[0] > 5.0 > 1.0 > said[1] > said[2]
    assert abs(said[2]) < 0.3
    nothing = ud.OnlineRegressor(speed=speed)
    nothing.play(Z, y, weight=np.zeros(ROWS))
    assert nothing._core.forests._grown == ()


def test_wide_and_short_streams_have_no_trees_and_keep_no_rows(monkeypatch):
    rng = np.random.default_rng(9)
    Z, y = rng.normal(size=(700, 3)), rng.normal(size=700)
    short = ud.OnlineRegressor()
    short.play(Z[:255], y[:255])
    assert short._core.forests._grown == ()
    assert short._core.forests._refit is None
    narrow = SPEEDS["best"]._replace(forests=DEFAULT_TREES._replace(most_features=2))
    monkeypatch.setitem(SPEEDS, "best", narrow)
    wide = ud.OnlineRegressor()
    wide.play(Z, y)
    assert wide._core.forests._grown == ()
    assert not any("rows" in name for name in wide.snapshot()[1] if name.startswith(module.PREFIX))
    again = pickle.loads(pickle.dumps(wide))
    assert again == wide
    assert again.play(Z, y).yhat.tobytes() == wide.play(Z, y).yhat.tobytes()


def test_features_that_make_rows_too_wide_end_the_trees(early, monkeypatch):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 400)
    rows = [dict(zip("abc", row, strict=True)) for row in np.nan_to_num(Z).tolist()]
    narrow = SPEEDS["best"]._replace(forests=DEFAULT_TREES._replace(most_features=3))
    monkeypatch.setitem(SPEEDS, "best", narrow)
    model = ud.OnlineRegressor()
    model.play(rows[:300], y[:300])
    assert model._core.forests._grown
    model.play([row | {"d": 1.0} for row in rows[300:]], y[300:])
    assert model._core.forests._grown == ()
    assert pickle.loads(pickle.dumps(model)) == model


@both_speeds
def test_an_interaction_is_found_and_the_excess_over_every_candidate_is_within_cost(speed):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 1200, seed=1)
    y = np.where(np.isnan(y), 0.0, y)
    model, known = ud.OnlineRegressor(speed=speed), slice(600, None)
    yhat = model.play(Z, y).yhat
    without = ud.OnlineRegressor(trees=False).play(Z, y).yhat
    gain = {"best": 0.85, "max": 0.77}[speed]  # of 1,200 rows; the labels of both ends are trimmed
    assert np.mean((yhat - y)[known] ** 2) < gain * np.mean((without - y)[known] ** 2)
    names = list(SPEEDS[speed].forests.names)
    assert model.candidates[-3 - len(names) : -3] == names
    own = 0.5 * np.sum((yhat - y)[1:] ** 2)
    assert np.all(own - model.losses <= model.cost() + 1e-9)


@pytest.mark.parametrize(("a", "s"), [(-1e6, 1.0), (1e3, 3.0), (0.0, 0.5)])
@both_speeds
def test_shifted_and_scaled_labels_shift_and_scale_predictions(a, s, speed):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 700)
    plain, moved = (ud.OnlineRegressor(speed=speed).play(Z, labels).yhat[1:] for labels in (y, a + s * y))
    assert np.max(np.abs(moved - (a + s * plain))) <= 1e-9 * s + 1e3 * np.finfo(float).eps * abs(a)
    assert (a, s) != (0.0, 0.5) or (s * plain).tobytes() == moved.tobytes()


@both_speeds
def test_features_that_come_later_reach_the_forests(speed, early):
    rng = np.random.default_rng(2)
    Z, y = rng.uniform(-1, 1, size=(600, 2)), rng.normal(size=600)
    y[300:] = np.where(Z[300:, 0] > 0, Z[300:, 1], -Z[300:, 1])
    rows = [{"a": a} if t < 300 else {"a": a, "b": b} for t, (a, b) in enumerate(Z.tolist())]
    whole, cut = ud.OnlineRegressor(speed=speed), ud.OnlineRegressor(speed=speed)
    yhat = np.concatenate([whole.play(rows[:300], y[:300]).yhat, whole.play(rows[300:], y[300:]).yhat])
    said = []
    for t, row in enumerate(rows):
        said.append(cut.predict(row))
        cut.learn(row, y[t])
        cut = cut.copy() if t % 50 == 7 else cut
    assert np.flatnonzero(said != yhat).tolist() in ([], [300])  # when its name is not known yet
    assert cut == whole
    assert whole._core.forests._grown[0].dim == 3
    assert whole._core.forests.dim == 2


@both_speeds
def test_a_row_asked_before_features_came_can_be_told_after(speed):
    model = ud.OnlineRegressor(speed=speed)
    for t in range(5):
        model.learn({"a": float(t)}, float(t))
    served = model.ask({"a": 5.0})
    model.learn({"a": 6.0, "b": 1.0}, 6.0)
    model = pickle.loads(pickle.dumps(model))
    model.tell(served, 5.0)
    assert model.rounds == 7
    assert not model.pending


@both_speeds
def test_own_candidates_come_beside_the_forests(speed, early):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 300)
    rows = np.column_stack([Z, np.where(np.isnan(y), 0.0, y)])
    model = ud.OnlineRegressor(speed=speed, candidates=[3])
    whole = model.play(rows, y).yhat
    again = ud.OnlineRegressor(speed=speed, candidates=[3])
    assert np.array_equal([again.play(rows[t : t + 1], y[t : t + 1]).yhat[0] for t in range(300)], whole)
    names = list(SPEEDS[speed].forests.names)
    assert model.candidates[-6 - len(names) : -5] == ["column 3", *names]
    settings = ud.OnlineRegressor(speed=speed, candidates=["trees"])._settings
    assert make_plan(settings, 2, 2).given[0] == "column 'trees'"


@both_speeds
def test_river_learns_with_forests_what_was_predicted(speed, early):
    host = pytest.importorskip("undrift.river")
    Z, y = interaction_with_holes(ud.OnlineRegressor, 250)
    Z, y = np.nan_to_num(Z), np.nan_to_num(y)
    rows = [dict(zip("abc", row, strict=True)) for row in Z.tolist()]
    river, plain = host.DriftRegressor(speed=speed), ud.OnlineRegressor(speed=speed)
    for t, row in enumerate(rows):
        assert river.predict_one(row) == plain.predict(row)
        river.learn_one(row, float(y[t]))
        plain.learn(row, float(y[t]))
    assert river.model == plain
    assert plain._core.forests._grown
    late = host.DriftRegressor(speed=speed)
    for t, row in enumerate(rows):
        late.predict_one(row)
        if t >= 5:
            late.learn_one(rows[t - 5], float(y[t - 5]))
    served = pickle.loads(pickle.dumps(late.model))
    assert served._core.forests._grown
    assert served.predict(rows[0]) == late.model.predict(rows[0])


@both_speeds
def test_scikit_learn_fits_with_forests(speed, early):
    host = pytest.importorskip("undrift.sklearn")
    Z, y = interaction_with_holes(ud.OnlineRegressor, 250)
    Z, y = np.nan_to_num(Z), np.nan_to_num(y)
    plain = ud.OnlineRegressor(speed=speed)
    plain.play(Z, y)
    assert np.array_equal(host.DriftRegressor(speed=speed).fit(Z, y).predict(Z), plain.predict(Z))


def test_fleets_take_estimators_without_trees_and_refuse_max_with_one_sentence():
    columns = {"key": "k", "order": "n", "features": ["x"], "target": "y"}
    fleet = ud.Fleet(ud.OnlineRegressor(), **columns)
    records = [{"k": "a", "n": n, "x": float(n % 7), "y": float(n % 7)} for n in range(300)]
    model = fleet.run(records).model("a")
    assert model.rounds == 300
    assert model.parameters["trees"] is False
    assert "trees" not in model.candidates
    with pytest.raises(InputError, match=r"Fleet: speed='max' is for single estimators, .*; use 'best' or less$"):
        ud.Fleet(ud.OnlineRegressor(speed="max"), **columns)


def test_files_whose_forests_do_not_fit_are_refused(early):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 215)
    model = ud.OnlineRegressor(speed="max")
    model.play(Z, y)
    served = model.ask(Z[0])
    header, arrays = model.snapshot()
    assert model.pending[0].serial == served.serial
    assert model._core.forests._schedule.work == Work.REFRESH
    spoiled = {
        "context": lambda a: a[:-1],
        "counts": lambda a: a + 1.0,
        "schedule": lambda a: a * 0.5,
        "rows": lambda a: np.where(a == module.MISSING, 1e90, a),
        "labels": lambda a: a * np.nan,
        "weights": lambda a: -a,
        "trees.base": lambda a: a + 100.0,
        "trees in context.nodes": lambda a: np.where(a == -1.0, 0.0, a),
    }
    assert {module.PREFIX + name for name in spoiled} < set(arrays)
    for name, spoil in spoiled.items():
        with pytest.raises(ModelFileError, match="the saved forests cannot be used"):
            type(model)._from_snapshot(header, arrays | {module.PREFIX + name: spoil(arrays[module.PREFIX + name])})
    plain = ud.OnlineRegressor(trees=False)
    plain.play(Z, y)
    header, own = plain.snapshot()
    with pytest.raises(ModelFileError, match="the saved arrays hold forests, which this model does not"):
        type(model)._from_snapshot(header, own | {"forests.rows": arrays["forests.rows"]})


def play_schedule(plan, rows, window):
    """Return the counts at which work of each kind begins and ends."""
    schedule, seen, fitted = RefitSchedule(plan, window), {"FIT": [], "REFRESH": [], "ends": []}, False
    for count in range(1, rows):
        if schedule.is_due(count):
            seen["ends"].append(count)
            schedule.close()
            fitted = True
        if schedule.begin_if_due(count, fitted):
            seen[schedule.work.name].append(count)
    return seen


def test_fits_follow_the_growth_of_labelled_rows_and_refreshes_do_not_wait_for_them():
    seen = play_schedule(MOST_TREES, 60_000, 32_768)
    fits, refreshes = seen["FIT"], seen["REFRESH"]
    assert fits[:4] == [256, 384, 576, 864]
    full = [count for count in fits if count >= 32_768]
    assert np.all(np.diff(full) == 8192)
    assert all(a * 3 // 2 == b for a, b in itertools.pairwise(fits) if a < 32_768)
    assert {256 + 96, 1100} < set(seen["ends"])
    assert refreshes[0] == 1000
    assert len(refreshes) > 50
    assert all(count % 1000 == 0 for count in refreshes)


def test_the_default_is_fitted_when_rows_have_grown_by_half_and_when_a_full_window_is_new():
    seen = play_schedule(DEFAULT_TREES, 40_000, 8192)
    assert seen["FIT"][:9] == [256, 384, 576, 864, 1296, 1944, 2916, 4374, 6561]
    assert np.diff(seen["FIT"][9:]).tolist() == [8192] * (len(seen["FIT"]) - 10)
    assert seen["ends"][:3] == [256 + 96, 384 + 96, 576 + 96]
    assert not seen["REFRESH"]
    assert not play_schedule(DEFAULT_TREES, 1000, 0)["FIT"]


def test_a_buffer_keeps_rows_by_number():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3 * BLOCK, 2)), rng.normal(size=3 * BLOCK)
    buffer = RowBuffer(2)
    for begin in range(0, len(y), 700):
        buffer.append(X[begin : begin + 700], y[begin : begin + 700], -y[begin : begin + 700])
        buffer.forget(max(0, begin - 1000))
    rows, labels, weights = np.empty((1100, 2)), np.empty(1100), np.empty(1100)
    buffer.read(len(y) - 1100, len(y), rows, labels, weights)
    assert np.array_equal(rows, X[-1100:])
    assert np.array_equal(labels, y[-1100:])
    assert np.array_equal(weights, -labels)
    assert len(buffer._blocks) == 2
    assert buffer.first == 1800
    buffer.widen(1)
    wide = np.empty((1100, 3))
    buffer.read(len(y) - 1100, len(y), wide, labels, weights)
    assert np.array_equal(wide[:, :2], rows)
    assert not wide[:, 2].any()


@pytest.mark.parametrize("logistic", [True, False])
def test_answers_to_rows_are_those_of_the_twin(logistic):
    rng = np.random.default_rng(4)
    X, context, spans = rng.normal(size=(300, 8)), np.zeros(5 + 2), np.array([25.0])  # 4 labels, 3 features, 1 distance
    seen = np.array([0, 4, 6, 7])
    labels = X[:, 0] * X[:, 4]
    model = ud.BoostedTrees("logistic" if logistic else "squared", trees=20)
    forest = model.fit(X[:, seen], labels > 0.0 if logistic else labels).forest
    row, answers, score = kernels.ForestRow(), np.empty((300, 1)), np.empty(300)
    row.point(context, spans, 3, 1, logistic, [])
    row.answer(X, answers)
    assert np.isnan(answers).all()
    row.point(context, spans, 3, 1, logistic, [(forest.trees, forest.base, seen)])
    row.answer(X, answers)
    trees_predict(forest.trees, forest.base, X[:, seen], score)
    np.testing.assert_allclose(answers[:, 0], sigmoid(score) if logistic else score, rtol=1e-15)
    with pytest.raises(ValueError, match="ForestRow: the arrays do not fit together"):
        row.point(context, spans, 3, 1, logistic, [(forest.trees, forest.base, seen + 1)])
    with pytest.raises(ValueError, match="ForestRow: the arrays do not fit together"):
        row.offer((np.empty((5, 8)), np.empty(5), np.empty(5)), np.array([0]), 3, 3)


@both_speeds
def test_single_rows_are_kept_without_python_between_fits(speed, early):
    Z, y = interaction_with_holes(ud.OnlineRegressor, 90)
    model = ud.OnlineRegressor(speed=speed)
    model.learn(Z[0], 0.0)
    learn = model._core.forests.learn
    model._core.forests.learn = None  # which Python would call
    for t in range(1, 90):
        assert model._one_row.learn(model, Z[t], float(t))
    model._core.forests.learn = learn
    model.play(Z, y)
    whole = ud.OnlineRegressor(speed=speed)
    whole.play(Z[:90], np.arange(90.0))
    whole.play(Z, y)
    assert whole == model


@pytest.mark.parametrize("commit", [True, False])
def test_rows_in_context_are_those_of_the_twin(commit):
    rng = np.random.default_rng(3)
    Z, y, spans = rng.normal(size=(200, 4)), rng.normal(size=200), np.array([25.0, 1.0])
    Z[rng.random(Z.shape) < 0.3] = np.nan
    y[rng.random(200) < 0.3] = np.nan
    ours, twin = np.zeros(5 + 3 * 3), np.zeros(5 + 3 * 3)
    for block in (slice(0, 1), slice(1, 90), slice(90, 200)):
        X, expected = np.full((len(Z[block]), 4 + 4 + 3 * 2), 7.0), np.full((len(Z[block]), 4 + 4 + 3 * 2), 7.0)
        kernels.tree_rows(ours, spans, Z[block], y[block], X, commit)
        reference.tree_rows(twin, spans, Z[block], y[block], expected, commit)
        assert X.tobytes() == expected.tobytes()
        assert ours.tobytes() == twin.tobytes()
        kernels.settle_tree_label(ours, 1.5, newest=False)
        reference.settle_tree_label(twin, 1.5, newest=False)
    assert ours.any()
    assert ours.tobytes() == twin.tobytes()
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.tree_rows(ours, spans, Z, y, np.empty((200, 5)), commit)


@pytest.mark.parametrize("binary", [False, True])
def test_a_refit_on_rows_of_weight_w_is_one_on_w_rows_bit_for_bit(binary):
    rng = np.random.default_rng(5)
    X, weight = rng.normal(size=(600, 4)), rng.choice([0.0, 1.0, 2.0, 5.0], size=600)
    y = X[:, 0] * X[:, 1] + rng.standard_t(2, size=600)
    y = np.sign(y) if binary else y
    grown = []
    for copies in (np.ones(600, int), weight.astype(int)):
        buffer = RowBuffer(4)
        rows = np.repeat(np.arange(600), copies)
        buffer.append(X[rows], y[rows], weight if len(rows) == 600 else np.ones(len(rows)))
        work = refit.ForestRefit(buffer, 0, len(rows), [np.arange(4)], (), refresh=False, binary=binary, seed=3)
        grown.append(work.finish()[0])
    weighted, repeated = grown
    assert weighted.base == repeated.base
    assert weighted.trees.tobytes() == repeated.trees.tobytes()
