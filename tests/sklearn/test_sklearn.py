"""undrift.sklearn: passes scikit-learn's own checks, and the same numbers as the estimators behind it."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
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


@pytest.mark.parametrize("make", [host.DriftRegressor, host.DriftClassifier])
def test_texts_and_times_are_told_what_to_do(make):
    pd = pytest.importorskip("pandas")
    for column, advice in (
        (["a", "b"], "encode texts first, for example with OneHotEncoder"),
        (pd.Categorical(["a", "b"]), "encode texts first, for example with OneHotEncoder"),
        (pd.date_range("2024", periods=2), "leave times out, or make numbers of them"),
    ):
        with pytest.raises((TypeError, ValueError), match=advice):
            make().fit(pd.DataFrame({"x": [1.0, 2.0], "c": column}), [0, 1])
