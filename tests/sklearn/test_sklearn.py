"""undrift.sklearn: passes scikit-learn's own checks, and the same numbers as the estimators behind it."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

import undrift as ud
import undrift.sklearn as host

STREAM = "rows are a stream: a row of weight 2 is one round, in mixers too, and a repeated row is two"
EXPECTED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"), STREAM
)


def test_sample_weights_are_those_of_the_estimators():
    rng = np.random.default_rng(3)
    X, weight = rng.normal(size=(120, 3)), rng.choice([0.0, 0.5, 1.0, 4.0], 120)
    y = X[:, 0] + rng.normal(size=120)
    model, own = host.DriftRegressor(speed="fast"), ud.OnlineRegressor(speed="fast")
    model.fit(X[:60], y[:60], sample_weight=weight[:60]).partial_fit(X[60:], y[60:], sample_weight=weight[60:])
    own.play(X, y, weight=weight)
    assert model.model_ == own
    labels = np.where(y > 0.0, "up", "down")
    model, own = host.DriftClassifier(speed="fast"), ud.OnlineClassifier(speed="fast")
    model.fit(X[:60], labels[:60], sample_weight=weight[:60])
    model.partial_fit(X[60:], labels[60:], sample_weight=weight[60:])
    own.play(X, np.where(y > 0.0, 1.0, -1.0), weight=weight)
    assert model.model_ == own
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(X, labels, sample_weight=-weight)


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns about checks it skips
@pytest.mark.parametrize("model", [host.DriftRegressor(speed="fast"), host.DriftClassifier(speed="fast")])
def test_scikit_learns_own_checks(model):
    found = check_estimator(model, on_fail=None, expected_failed_checks=EXPECTED)
    failed = [one for one in found if one["status"] == "failed"]
    assert [(one["check_name"], str(one["exception"])[:200]) for one in failed] == []


def test_partial_fit_continues_where_fit_ended():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X @ [1.0, 2.0]
    X[5, 0] = np.nan
    parts = host.DriftRegressor().fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    plain = ud.OnlineRegressor()
    plain.play(X, y)
    np.testing.assert_array_equal(parts.predict(X[:5]), plain.predict(X[:5]))


def test_classes_keep_their_names_and_unnamed_ones_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.where(X[:, 0] > 0.0, "up", "down")
    model = host.DriftClassifier(speed="fast").partial_fit(X, y, classes=["up", "down"])
    assert model.classes_.tolist() == ["down", "up"]
    assert model.predict([[3.0, 0.0], [-3.0, 0.0]]).tolist() == ["up", "down"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    with pytest.raises(ValueError, match=r"a class that was not there before: .*'flat'"):
        model.partial_fit(X[:1], ["flat"])


def test_several_classes_are_sorted_and_may_be_named_before_they_come():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.array(["c", "a", "b"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = host.DriftClassifier(speed="fast").partial_fit(X[:1], y[:1], classes=["c", "b", "a", "never"])
    assert model.classes_.tolist() == ["a", "b", "c", "never"]
    model.partial_fit(X[1:], y[1:])
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p[:, 3] == 0.0).all()
    assert np.mean(model.predict(X) == y) > 0.9
    assert model.decision_function(X).shape == (400, 4)
    whole = host.DriftClassifier(speed="fast").fit(X, y)
    np.testing.assert_array_equal(whole.predict_proba(X), p[:, :3])


def test_intervals_quantiles_limits_coefficients_and_a_fixed_memory_reach_scikit_learn():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = np.maximum(3.0 * X[:, 0] + 6.0 + np.random.default_rng(1).normal(size=400), 0.0)
    model = host.DriftRegressor(speed="fast", half_life=200.0, limits=(0.0, None)).fit(X, y)
    low, high = model.predict_interval(X[:5], level=0.8)
    found = model.predict_quantiles(X[:5])
    assert found.shape == (5, 3)
    np.testing.assert_array_equal(np.column_stack([low, high]), found[:, [0, 2]])
    assert model.predict_quantiles([[-5.0, 0.0]], [0.01]) == 0.0
    assert model.coef_ == pytest.approx([3.0, 0.0], abs=0.4)
    assert model.intercept_ == pytest.approx(6.0, abs=0.5)
    with pytest.raises(NotFittedError):
        host.DriftRegressor().predict_interval(X)


def table(rows=400):
    """A frame with times, a category, many texts and a number with holes, and labels that follow from them."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=rows, freq="h"),
            "tool": pd.Categorical(rng.choice(list("abc"), rows)),
            "user": rng.choice([f"u{k}" for k in range(40)], rows),
            "x": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
        }
    )
    return frame, frame.x.fillna(0.0) * 2.0 + (frame.tool == "a") * 3.0 + 0.1 * rng.normal(size=rows)


@pytest.mark.parametrize("more", [{}, {"lag": [1, 24], "calendar": True}])
@pytest.mark.parametrize("delay", [0, 2])
def test_columns_of_any_kind_are_learned_as_by_a_stream(more, delay):
    frame, y = table()
    more = {**more, "lag": [lag + delay for lag in more["lag"]]} if more else {}
    model = host.DriftRegressor(speed="fast", **more).fit(frame[:200], y[:200], delay=delay)
    model.partial_fit(frame[200:300], y[200:300], delay=delay)
    stream = ud.Stream("y", speed="fast", missing="fill", delay=delay, **more).infer(frame[:200].assign(y=y[:200]))
    stream.play(frame[:300].assign(y=y[:300]))
    np.testing.assert_array_equal(model.predict(frame[300:]), stream.predict(frame[300:]).yhat)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame[300:]), model.predict(frame[300:]))
    assert model.score(frame[300:], y[300:]) > 0.8


@pytest.mark.parametrize("edges", [[1.0], [0.0, 2.0]])
def test_classes_are_learned_from_columns_of_any_kind(edges):
    frame, y = table()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, edges)]
    model = host.DriftClassifier(speed="fast").fit(frame[:300], labels[:300])
    assert model.score(frame[300:], labels[300:]) > 0.8
    assert clone(model).fit(frame[:300], labels[:300]).predict_proba(frame[300:]).tobytes() == (
        model.predict_proba(frame[300:]).tobytes()
    )


def test_frames_with_texts_and_their_columns_are_checked():
    frame, y = table(50)
    model = host.DriftRegressor(speed="light").fit(frame, y)
    before = model.predict(frame[:5])
    with pytest.raises(ValueError, match="now missing"):
        model.predict(frame.drop(columns="tool"))
    with pytest.raises(ValueError, match="'x' is a column of numbers, got 'high'"):
        model.partial_fit(frame.assign(x="high"), y)
    np.testing.assert_array_equal(model.predict(frame[:5]), before)


@pytest.mark.parametrize("make", [host.DriftRegressor, host.DriftClassifier])
def test_texts_and_lags_of_arrays_are_refused_with_what_to_do(make):
    with pytest.raises((TypeError, ValueError), match="pass a data frame"):
        make().fit(np.array([["a"], ["b"]]), [0, 1])
    with pytest.raises(ValueError, match="must be a data frame"):
        make(lag=[1]).fit(np.zeros((5, 1)), [0, 1, 0, 1, 0])


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_elapsed_times_are_those_of_the_estimators(classes):
    X = np.random.default_rng(2).normal(size=(150, 2))
    elapsed = np.random.default_rng(3).choice([1.0, 1.0, 40.0], size=150)
    y = X[:, 0] + np.where(np.arange(150) < 75, 0.0, X[:, 1])
    labels = {0: y, 2: np.where(y > 0.0, 1, -1), 3: np.digitize(y, [-0.5, 0.5])}[classes]
    make = host.DriftClassifier if classes else host.DriftRegressor
    own = ud.OnlineClassifier(speed="fast") if classes else ud.OnlineRegressor(speed="fast")
    own.play(X, labels, elapsed=elapsed)
    unaware = make(speed="fast").fit(X, labels)
    model = make(speed="fast").fit(X, labels, elapsed=elapsed)
    parts = make(speed="fast").partial_fit(X[:90], labels[:90], elapsed=elapsed[:90])
    parts.partial_fit(X[90:], labels[90:], elapsed=elapsed[90:])
    assert model.model_ == parts.model_ == own != unaware.model_
    methods = ("predict_proba",) if classes else ("predict", "predict_interval", "predict_quantiles")
    for name in methods:
        found = getattr(model, name)(X[:5], elapsed=20.0)
        np.testing.assert_array_equal(found, getattr(own, name)(X[:5], elapsed=20.0))
        assert not np.array_equal(found, getattr(model, name)(X[:5]))
    if classes:
        assert not np.array_equal(model.decision_function(X[:5], elapsed=20.0), model.decision_function(X[:5]))
        assert model.predict(X[:5], elapsed=20.0).shape == (5,)
    before = model.model_
    with pytest.raises(ValueError, match="elapsed"):
        model.fit(X, labels, elapsed=-elapsed)
    assert model.model_ is before == own


@pytest.mark.parametrize("by", ["name", "number"])
@pytest.mark.parametrize("classes", [0, 2, "two by label", 3])
def test_candidates_that_know_the_answer_win(classes, by):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(4)
    y = rng.normal(size=240)
    names = np.array(["low", "high", "middle"])[np.digitize(y, [-0.5, 0.5])] if classes == 3 else (
        np.where(y > 0.0, "up", "down")
    )  # fmt: skip
    kinds = sorted(set(names))
    if classes in (3, "two by label"):
        columns = {f"p_{one}": np.where(names == one, 0.9, 0.1 / (len(kinds) - 1)) for one in kinds}
        places = columns if by == "name" else range(len(kinds))
        candidates = {"mine": dict(zip(kinds, places, strict=True))}
    else:
        columns = {"mine": np.where(names == "up", 0.95, 0.05) if classes else y}
        candidates = ["mine"] if by == "name" else [0]
    frame = pd.DataFrame({**columns, "noise": rng.normal(size=240)})
    X = frame if by == "name" else frame.to_numpy()
    labels = names if classes else y
    make = host.DriftClassifier if classes else host.DriftRegressor
    losses = []
    for rows, more in ((frame[["noise"]].to_numpy(), {}), (X, {"candidates": candidates})):
        model = clone(make(speed="fast", **more)).fit(rows[:200], labels[:200])
        if classes:
            p = model.predict_proba(rows[200:])
            losses.append(-np.mean(np.log(p[np.arange(40), np.searchsorted(kinds, labels[200:])])))
            assert np.array_equal(np.argmax(p, axis=1), np.searchsorted(kinds, model.predict(rows[200:])))
            assert len(model.decision_function(rows[200:])) == 40
        else:
            losses.append(np.mean(np.abs(model.predict(rows[200:]) - y[200:])))
        assert model.model_.dim == 1
    assert losses[1] < 0.4 * losses[0]
    assert model.n_features_in_ == X.shape[1]


def test_candidates_of_a_class_that_is_not_there_are_refused_by_name():
    X, y = np.random.default_rng(0).random((20, 3)), np.arange(20) % 3
    with pytest.raises(ValueError, match="candidates name a class that y has not: 7; classes are"):
        host.DriftClassifier(candidates={"mine": {0: 0, 7: 1}}).fit(X, y)
    with pytest.raises(ValueError, match="candidates have names, but rows have none"):
        host.DriftRegressor(candidates=["mine"]).fit(X, y)


@pytest.mark.parametrize("make", [host.DriftRegressor, host.DriftClassifier])
def test_missing_labels_are_refused_by_name_with_the_reason(make):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2.0
    model = make(speed="fast").fit(X, y)
    before = model.model_.copy()
    holes = np.where(np.arange(30) == 5, np.nan, y)
    for labels in (holes, holes.tolist(), np.where(np.isnan(holes), None, y)):
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(ud.errors.InputError, match="y contains NaN, in row 5, but scikit-learn requires"):
                learn(X, labels)
    assert model.model_ == before


def test_late_labels_are_learned_when_they_are_due():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + np.cumsum(rng.normal(size=300))
    played = ud.OnlineRegressor(speed="fast")
    trace = played.play(X, y, delay=4)
    model, said = host.DriftRegressor(speed="fast"), [0.0]
    for t in range(300):
        if t:
            said.append(model.predict(X[t : t + 1])[0])
        model.partial_fit(X[t : t + 1], y[t : t + 1], delay=4)
    np.testing.assert_array_equal(said, trace.yhat)
    assert model.model_ == host.DriftRegressor(speed="fast").fit(X, y, delay=4).model_ == played


def test_the_second_class_may_come_first():
    model = host.DriftClassifier(speed="fast").partial_fit([[1.0]], ["up"], classes=["down", "up"])
    assert model.predict_proba([[1.0]]).shape == (1, 2)
    assert model.predict([[1.0]]).tolist() == ["up"]
