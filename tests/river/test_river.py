"""undrift.river: a good citizen of River, and the same numbers as the estimators behind it."""

import numpy as np
import pandas as pd
import pytest

river = pytest.importorskip("river")
from river import checks, compose, evaluate, metrics, preprocessing  # noqa: E402  (after the check that River is there)

import undrift as ud  # noqa: E402  (after that check too)
import undrift.river as host  # noqa: E402  (after that check too)

MODELS = [host.DriftRegressor(speed="fast"), host.DriftClassifier(speed="fast")]
CHECKS = [(model, check) for model in MODELS for check in checks.yield_checks(model)]


def name_of(value):
    return getattr(value, "__name__", None) or getattr(getattr(value, "func", None), "__name__", type(value).__name__)


@pytest.mark.filterwarnings("ignore")  # River's own data sets and pandas deprecations
@pytest.mark.parametrize(("model", "check"), CHECKS, ids=name_of)
def test_rivers_own_checks(model, check):
    if name_of(check) not in model._unit_test_skips():
        check(model.clone())


def rows(count=300, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(count, 3))
    return [dict(zip("abc", row, strict=True)) for row in Z.tolist()], Z, Z @ [1.0, -2.0, 0.5]


def test_pipelines_delays_and_progressive_validation():
    names, _, y = rows()
    model = preprocessing.StandardScaler() | host.DriftRegressor(speed="fast")
    score = evaluate.progressive_val_score(zip(names, y, strict=True), model, metrics.R2())
    assert score.get() > 0.95
    timed = [({**row, "t": t}, value) for t, (row, value) in enumerate(zip(names, y, strict=True))]
    late = evaluate.progressive_val_score(timed, host.DriftRegressor(speed="fast"), metrics.R2(), moment="t", delay=10)
    assert late.get() > 0.8


def test_one_at_a_time_and_many_are_the_same_numbers():
    names, Z, y = rows()
    one, many, plain = host.DriftRegressor(), host.DriftRegressor(), ud.OnlineRegressor()
    for row, value in zip(names[:50], y[:50], strict=True):
        one.learn_one(row, value)
    many.learn_many(pd.DataFrame(names[:50]), pd.Series(y[:50]))
    plain.play(Z[:50], y[:50])
    assert one.predict_one(names[60]) == many.predict_one(names[60]) == plain.predict(Z[60])
    frame = pd.DataFrame(names[50:60], index=range(100, 110))
    pd.testing.assert_series_equal(many.predict_many(frame), pd.Series(plain.predict(Z[50:60]), index=frame.index))


def test_classes_of_any_name_and_a_third_that_comes_later():
    names, _, y = rows()
    model = host.DriftClassifier(speed="fast")
    for row, value in zip(names, y, strict=True):
        model.learn_one(row, "high" if value > 0 else "low")
    p = model.predict_proba_one({"a": 2.0, "b": -2.0, "c": 0.0})
    assert p["high"] > 0.95
    assert sum(p.values()) == pytest.approx(1.0)
    assert model.predict_one({"a": -2.0, "b": 2.0, "c": 0.0}) == "low"
    before = model.model.copy()
    with pytest.raises(ud.errors.InputError, match="feature 'a' must be a number, got 'x'"):
        model.learn_one({"a": "x"}, "low")
    assert model.model == before
    assert list(model.predict_proba_many(pd.DataFrame(names[:4])).columns) == model.classes
    for _ in range(30):
        model.predict_one({"a": 9.0, "b": 9.0, "c": 9.0})
        model.learn_one({"a": 9.0, "b": 9.0, "c": 9.0}, "middle")
    p = model.predict_proba_one({"a": 9.0, "b": 9.0, "c": 9.0})
    assert list(p) == model.classes
    assert p["middle"] > 0.9
    assert sum(p.values()) == pytest.approx(1.0)
    frame = model.predict_proba_many(pd.DataFrame(names[:4]))
    assert list(frame.columns) == model.classes
    np.testing.assert_allclose(frame.sum(axis=1), 1.0)


def test_intervals_quantiles_limits_and_a_fixed_memory_reach_river():
    model = host.DriftRegressor(speed="fast", half_life=50.0, limits=(0.0, None))
    assert model.predict_interval({"x": 1.0}) == (0.0, np.inf)
    for t in range(120):
        model.learn_one({"x": float(t % 7)}, float((t % 7) * (t % 3)))
    low, high = model.predict_interval({"x": 3.0}, level=0.8)
    found = model.predict_quantiles({"x": 3.0}, (0.1, 0.5, 0.9))
    assert (low, high) == (found[0.1], found[0.9])
    assert 0.0 <= low < found[0.5] < high
    assert model.model.parameters["half_life"] == 50.0
    assert model.clone().limits == (0.0, None)


@pytest.mark.parametrize("binary", [False, True])
def test_weights_of_rows_are_those_of_the_estimators(binary):
    rng = np.random.default_rng(5)
    kind, own = (host.DriftClassifier, ud.OnlineClassifier) if binary else (
        host.DriftRegressor, ud.OnlineRegressor
    )  # fmt: skip
    ours, plain, model = kind(speed="fast"), kind(speed="fast"), own(speed="fast")
    for _ in range(80):
        x = {"a": float(rng.normal()), "b": float(rng.normal())}
        y, w = x["a"] + float(rng.normal()), float(rng.choice([0.0, 0.5, 1.0, 3.0]))
        label = y > 0.0 if binary else y
        if rng.random() < 0.5:
            ours.predict_one(x)  # learned from what was predicted, or not: the same where labels come at once
        ours.learn_one(x, label, w=w)
        plain.learn_one(x, label)
        model.learn(x, (1.0 if label else -1.0) if binary else y, weight=w)
    assert ours.model != plain.model
    rows = {"a": 0.3, "b": -0.2}
    score = (lambda one: one.log_odds(rows)) if binary else (lambda one: one.predict(rows))
    assert score(ours.model) == pytest.approx(score(model), rel=1e-9)


def test_a_row_that_is_no_dict_is_told_what_to_pass():
    model = host.DriftRegressor()
    for call in (model.predict_one, lambda x: model.learn_one(x, 1.0), host.DriftClassifier().predict_proba_one):
        with pytest.raises(
            ud.errors.InputError, match=r"x must be a dict of features, got a Series; pass x\.to_dict\(\)"
        ):
            call(pd.Series({"a": 1.0}))
        with pytest.raises(ud.errors.InputError, match=r"x must be a dict of features, got a list$"):
            call([1.0])


@pytest.mark.parametrize("labels", [["cat", "dog"], [False, True], [0, 1], [1, 2, 3], list("abcdefg")])
def test_before_the_first_label_nothing_is_predicted_and_no_class_is_made_up(labels):
    model = host.DriftClassifier(speed="fast")
    assert model.predict_one({"x": 1.0}) is None
    assert model.predict_proba_one({"x": 1.0}) == {}
    assert model.predict_one({}) is None
    assert model.predict_many(pd.DataFrame([{"x": 1.0}])).empty
    last = labels[-1]
    model.learn_one({"x": 1.0}, last)
    assert model.predict_proba_one({"x": 1.0}) == {last: 1.0}
    assert model.predict_one({"x": 1.0}) == last
    assert model.predict_many(pd.DataFrame([{"x": 1.0}])).tolist() == [last]
    for t in range(1, 40):
        model.learn_one({"x": float(t)}, labels[t % len(labels)])
        assert set(model.predict_proba_one({"x": 1.0})) == set(model.classes) <= set(labels)
    assert set(model.predict_proba_many(pd.DataFrame([{"x": 1.0}])).columns) == set(labels)


def test_scores_of_seven_classes_have_no_ghost_among_them():
    rng, labels = np.random.default_rng(3), list("abcdefg")
    centres = [(np.cos(angle), np.sin(angle)) for angle in np.linspace(0.0, 2.0 * np.pi, 7, endpoint=False)]
    stream = [(dict(zip("xy", rng.normal(centres[k], 0.1), strict=True)), labels[k]) for k in rng.integers(0, 7, 400)]
    macro, table = metrics.MacroF1(), metrics.ConfusionMatrix()
    evaluate.progressive_val_score(stream, host.DriftClassifier(speed="fast"), macro)
    evaluate.progressive_val_score(stream, host.DriftClassifier(speed="fast"), table)
    assert sorted(table.classes) == labels
    assert "g" in str(table)
    ours = [table.true_positives(one) for one in labels]
    wrong = [table.false_positives(one) + table.false_negatives(one) for one in labels]
    by_hand = np.mean([2 * hit / (2 * hit + miss) for hit, miss in zip(ours, wrong, strict=True)])
    assert macro.get() == pytest.approx(by_hand)
    assert macro.get() > 0.8


def test_a_label_that_is_a_list_is_refused_before_anything_is_learned():
    model = host.DriftClassifier(speed="fast")
    model.learn_one({"x": 1.0}, "a")
    before = model.model.copy()
    with pytest.raises(ud.errors.InputError, match="DriftClassifier: y must be a text, a number or a bool, got a list"):
        model.learn_one({"x": 1.0}, ["b"])
    assert (model.model, model.classes) == (before, ["a"])


def test_labels_come_back_as_they_were_given_and_a_missing_one_closes_its_row():
    for labels in ([3, 5], [-1, 1], ["a", "b"], [True, False], [np.str_("a"), np.str_("b"), np.str_("c")]):
        model = host.DriftClassifier(speed="fast")
        for k in np.random.default_rng(0).integers(0, len(labels), size=80).tolist():
            model.predict_one({f"is {k}": 1.0})
            model.learn_one({f"is {k}": 1.0}, labels[k])
            model.predict_one({"is 0": 0.5})
            model.learn_one({"is 0": 0.5}, float("nan"))
        assert model.classes == sorted(labels)
        assert [model.predict_one({f"is {k}": 1.0}) for k in range(len(labels))] == labels
        assert (model.model.rounds, model.model.unlabelled) == (80, 80)


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_elapsed_times_are_those_of_the_estimators_and_pipelines_pass_them_on(classes):
    names, _, y = rows(120)
    labels = {0: y, 2: y > 0.0, 3: np.array(["a", "b", "c"])[np.digitize(y, [-1.0, 1.0])]}[classes].tolist()
    elapsed = np.random.default_rng(1).choice([1.0, 1.0, 30.0], size=120).tolist()
    kind = host.DriftClassifier if classes else host.DriftRegressor
    model, plain = kind(speed="fast"), kind(speed="fast").model
    pipeline, unaware = compose.FuncTransformer(dict) | kind(speed="fast"), kind(speed="fast")
    for row, label, time in zip(names, labels, elapsed, strict=True):
        assert model.predict_one(row, elapsed=time) == pipeline.predict_one(row, elapsed=time)
        model.learn_one(row, label, elapsed=time)
        pipeline.learn_one(row, label, elapsed=time)
        unaware.learn_one(row, label)
        plain.learn(row, label, elapsed=time)
    row, inside = names[0], pipeline[kind.__name__]
    if classes:
        assert inside.predict_proba_one(row, elapsed=9.0) == model.predict_proba_one(row, elapsed=9.0)
        own = model.predict_proba_one(row, elapsed=9.0)
        expected = plain.predict_proba(row, elapsed=9.0).tolist()
        assert [own[label] for label in model.classes] == pytest.approx(expected, rel=1e-9)
        assert own != model.predict_proba_one(row) != unaware.predict_proba_one(row)
    else:
        assert model.predict_one(row, elapsed=9.0) == inside.predict_one(row, elapsed=9.0)
        assert model.predict_one(row, elapsed=9.0) == pytest.approx(plain.predict(row, elapsed=9.0), rel=1e-9)
        assert model.predict_one(row, elapsed=9.0) != model.predict_one(row) != unaware.predict_one(row)
        assert model.predict_interval(row, elapsed=9.0) == model.model.predict_interval(row, elapsed=9.0)
        assert model.predict_interval(row, elapsed=9.0) != model.predict_interval(row)
        assert list(model.predict_quantiles(row, elapsed=9.0).values()) != list(model.predict_quantiles(row).values())


def test_a_time_that_learning_alone_is_told_is_learned_as_if_just_predicted():
    names, _, y = rows(60)
    model, plain = host.DriftRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    for t, (row, value) in enumerate(zip(names, y.tolist(), strict=True)):
        model.predict_one(row)
        model.learn_one(row, value, elapsed=1.0 + t % 3)
        plain.learn(row, value, elapsed=1.0 + t % 3)
    assert model.model == plain


@pytest.mark.parametrize("late", [0, 4])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_candidates_that_know_the_answer_win(classes, late):
    """Features say nothing; a candidate does, and a row may lack it."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=200)
    names = [{"noise": float(one)} for one in rng.normal(size=200)]
    if classes == 3:
        labels = np.array(["blue", "green", "red"])[np.digitize(y, [-0.5, 0.5])].tolist()
        given = [{f"p_{one}": 0.9 if one == label else 0.05 for one in ("blue", "green", "red")} for label in labels]
        candidates = {"mine": {one: f"p_{one}" for one in ("blue", "green", "red")}}
    else:
        labels = (y > 0.0).tolist() if classes else y.tolist()
        given = [{"mine": 0.95 if label else 0.05} if classes else {"mine": label} for label in labels]
        candidates = ["mine"]
    given[150] = {}
    losses = []
    for more in ({}, {"candidates": candidates}):
        model = host.DriftClassifier(speed="fast", **more) if classes else host.DriftRegressor(speed="fast", **more)
        stream = [{**row, **(one if more else {})} for row, one in zip(names, given, strict=True)]
        found = []
        for t, row in enumerate(stream):
            found.append(model.predict_proba_one(row).get(labels[t], 0.0) if classes else model.predict_one(row))
            if t >= late:
                model.learn_one(stream[t - late], labels[t - late])
        losses.append(-np.mean(np.log(found[100:])) if classes else np.mean(np.abs(np.array(found) - y)[100:]))
        assert model.model.names == ["noise"]
        assert model.clone().candidates == more.get("candidates")
    assert losses[1] < 0.4 * losses[0]
