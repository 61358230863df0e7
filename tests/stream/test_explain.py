"""What each column adds to a prediction: coefficient times distance for a line, nothing for what does not matter."""

import math

import numpy as np
import pytest

import undrift as ud
from tests.stream.tables import CASES


def linear_rows(count=900, seed=1, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)) + np.array([1.0, -2.0, 0.0])
    y = 4.0 + 2.0 * X[:, 0] - 3.0 * X[:, 1] + noise * rng.normal(size=count)
    return [{"a": a, "b": b, "idle": c, "y": label} for (a, b, c), label in zip(X.tolist(), y.tolist(), strict=True)]


def test_columns_of_a_line_add_coefficient_times_distance_from_the_usual():
    rows = linear_rows()
    stream = ud.Stream("y", speed="light", half_life=math.inf)
    stream.play(rows)
    given = {"a": 2.5, "b": 0.5, "idle": 3.0}
    found = stream.explain(given)
    usual = stream.features.usual_values()
    assert usual == pytest.approx({name: np.mean([row[name] for row in rows[-128:]]) for name in usual})
    assert found.prediction == stream.predict(given).yhat[0]
    assert found.usual == stream.predict(usual).yhat[0]
    adds = {part.column: part.adds for part in found.contributions}
    expected = {"a": 2.0 * (2.5 - usual["a"]), "b": -3.0 * (0.5 - usual["b"]), "idle": 0.0}
    for name, value in expected.items():  # of a line without noise that was learned from 900 rows: measured 2e-3
        assert adds[name] == pytest.approx(value, abs=0.01)
    assert [part.column for part in found.contributions] == ["b", "a", "idle"]  # the largest first
    assert abs(found.together) < 0.01
    assert found.label is None


@pytest.mark.parametrize("name", ["few texts", "many texts", "calendar", "lags", "candidate", "weight", "elapsed"])
def test_contributions_are_of_the_columns_that_matter(name):
    case, rows = CASES[name], CASES[name].rows()
    stream = case.stream()
    stream.play(rows[:-1])
    row = {key: cell for key, cell in rows[-1].items() if key != case.target}
    found = stream.explain(row)
    columns = {part.column for part in found.contributions}
    assert columns == {*stream.features.groups}
    assert columns.isdisjoint({"w", "y"})
    assert found.prediction == stream.predict(row).yhat[0]
    assert found.prediction == stream.copy().play(rows[-1]).yhat[0]
    total = found.usual + sum(part.adds for part in found.contributions) + found.together
    assert total == pytest.approx(found.prediction, rel=1e-12)


def test_a_usual_value_adds_nothing_and_neither_does_a_column_that_never_moves():
    rows = [{**row, "fixed": 7.0} for row in linear_rows(200, noise=0.5)]
    stream = ud.Stream("y", speed="light")
    stream.play(rows)
    usual = stream.features.usual_values()
    found = stream.explain({**usual, "a": usual["a"] + 1.0})
    adds = {part.column: part.adds for part in found.contributions}
    assert adds["b"] == adds["idle"] == adds["fixed"] == 0.0
    assert adds["a"] == found.prediction - found.usual != 0.0
    assert stream.explain(usual).together == 0.0


def test_a_column_without_a_value_is_explained_as_it_is_predicted():
    stream = ud.Stream("y", speed="light")
    stream.play(linear_rows(200, noise=0.5))
    row = {"a": 1.0, "b": None, "idle": 0.0}
    assert stream.explain(row).prediction == stream.predict(row).yhat[0]


def test_two_classes_are_explained_in_log_odds_of_the_likelier_one():
    rows = [{**row, "y": "big" if row["y"] > 12.0 else "low"} for row in linear_rows(400, noise=2.0)]
    stream = ud.Stream("y", speed="light")
    stream.play(rows)
    for row, label in (({"a": 4.0, "b": -5.0, "idle": 0.0}, "big"), ({"a": -2.0, "b": 1.0, "idle": 0.0}, "low")):
        found, answers = stream.explain(row), stream.predict(row)
        odds = answers.yhat[0]
        assert found.label == answers.labels[0] == label
        assert found.prediction == (odds if label == stream.classes[1] else -odds) > 0.0
        adds = {part.column: part.adds for part in found.contributions}
        assert adds["a"] > 0.2
        assert adds["b"] > 0.2
        assert abs(adds["idle"]) < 0.5 * adds["a"]


def test_several_classes_are_explained_in_log_odds_against_all_others():
    case, rows = CASES["several classes"], CASES["several classes"].rows()
    stream = case.stream()
    stream.play(rows)
    row = {"x": 2.0, "few": "t1", "holes": 0.0}
    found, answers = stream.explain(row), stream.predict(row)
    assert found.label == answers.labels[0]
    p = answers.probabilities[0] / answers.probabilities[0].sum()
    p = p[stream.classes.index(found.label)]
    assert found.prediction == pytest.approx(math.log(p / (1.0 - p)), rel=1e-9)
    assert {part.column for part in found.contributions} == {"x", "few", "holes"}


def test_a_candidate_abstains_where_it_is_left_out():
    case, rows = CASES["candidate"], CASES["candidate"].rows()
    stream = case.stream()
    stream.play(rows)
    row = {"x": 0.3, "guess": 5.0}
    found = stream.explain(row)
    adds = {part.column: part.adds for part in found.contributions}
    silent = stream.predict({"x": 0.3, "guess": None}).yhat[0]
    assert adds["guess"] == found.prediction - silent != 0.0
    assert {part.column: part.adds for part in stream.explain({"x": 0.3}).contributions}["guess"] == 0.0


def test_an_explanation_before_the_first_label_is_of_a_placeholder():
    case, rows = CASES["numbers"], CASES["numbers"].rows()
    stream = case.stream().infer(rows)
    found = stream.explain({"x": 1.0, "holes": 0.0})
    assert (found.prediction, found.usual, found.together) == (0.0, 0.0, 0.0)
    assert {part.adds for part in found.contributions} == {0.0}
    for name in ("two classes", "several classes"):
        case, rows = CASES[name], CASES[name].rows()
        found = case.stream().infer(rows).explain({"x": 1.0, "few": "t1", "holes": 0.0})
        assert found.label is None
