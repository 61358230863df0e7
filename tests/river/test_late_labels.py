"""River's delayed evaluation: late labels are learned from what was predicted, and predicting changes no model."""

import copy
import pickle
from threading import Thread

import numpy as np
import pytest

river = pytest.importorskip("river")
from river import evaluate, metrics  # noqa: E402  (after the check that River is there)

import undrift as ud  # noqa: E402  (after that check too)
import undrift.river as host  # noqa: E402  (after that check too)
from undrift.learners.served import ServedPrediction  # noqa: E402  (after that check too)

NAMES = "abc"


def random_walk_rows(count=400, seed=0):
    rng = np.random.default_rng(seed)
    Z = np.clip(rng.normal(size=(count, 3)), -2.0, 2.0)  # no outliers: limits advance when rows count as come
    y = Z @ [1.0, -2.0, 0.5] + np.cumsum(rng.normal(size=count))
    return [dict(zip(NAMES, row, strict=True)) for row in Z.tolist()], Z, y


def predictions(model, names, labels, delay):
    """Return what River's own delayed evaluation is told, in order of the questions."""
    said, real = [], type(model).predict_proba_one if hasattr(model, "predict_proba_one") else type(model).predict_one

    class Spy(type(model)):
        def _keep(self, x):
            said.append(real(self, x))
            return said[-1]

    setattr(Spy, real.__name__, Spy._keep)
    model.__class__ = Spy
    metric = metrics.MAE() if real.__name__ == "predict_one" else metrics.LogLoss()
    evaluate.progressive_val_score(list(zip(names, labels, strict=True)), model, metric, delay=delay)
    return said


@pytest.mark.parametrize("delay", [1, 2, 25])
def test_delayed_evaluation_is_a_late_play(delay):
    """River reveals a label just before the question `delay` rows later, which is a `play` of one row less.

    Light models have no running means of features, which advance when labels come, as `predict_one` changes nothing.
    """
    names, Z, y = random_walk_rows()
    model = host.DriftRegressor(speed="light")
    said = predictions(model, names, y.tolist(), delay)
    plain = ud.OnlineRegressor(speed="light")
    np.testing.assert_array_equal(said, plain.play(Z, y, delay=delay - 1).yhat)
    waiting = len(y) - plain.rounds  # River reveals these labels too; intervals begin with the same row
    assert [one.rounds for one in model.model.coverage()] == [one.rounds + waiting for one in plain.coverage()]
    assert model.model.rounds == len(y)  # River reveals all labels in the end
    assert len(model._predicted) == 0


def test_delayed_evaluation_of_two_classes_is_a_late_play():
    names, Z, y = random_walk_rows()
    model = host.DriftClassifier(speed="light")
    said = predictions(model, names, (y > 0.0).tolist(), 8)
    trace = ud.OnlineClassifier(speed="light").play(Z, y > 0.0, delay=7)
    both = np.flatnonzero(np.diff(y > 0.0, prepend=y[0] > 0.0))[0] + 8  # from here on both classes are known
    odds = [np.log(one[True] / one[False]) for one in said[both:]]
    np.testing.assert_allclose(odds, trace.yhat[both:], rtol=1e-9, atol=1e-12)


def test_delayed_evaluation_of_three_classes_is_a_late_play():
    """The third class appears while labels wait; River is told of no share for a class that has not appeared."""
    names, Z, y = random_walk_rows()
    labels = np.array(["down", "same", "up"])[np.digitize(y, np.quantile(y, [0.33, 0.66]))]
    assert len(set(labels[:10])) < 3
    model = host.DriftClassifier(speed="light")
    said = predictions(model, names, labels.tolist(), 8)
    p = np.exp(ud.OnlineClassifier(speed="light").play(Z, labels, delay=7).yhat)
    third = max(np.flatnonzero(labels == one)[0] for one in ("down", "same", "up")) + 8
    mine = np.array([[one[label] for label in ("down", "same", "up")] for one in said[third:]])
    np.testing.assert_allclose(mine, (p / p.sum(axis=1, keepdims=True))[third:], rtol=1e-12)
    assert model.model.rounds == len(y)
    assert len(model._predicted) == 0


@pytest.mark.parametrize("classes", [0, 3])
def test_late_labels_of_rows_at_uneven_times_are_a_late_play(classes):
    """The times of the first rows count too, which were predicted when nothing was known."""
    names, Z, y = random_walk_rows(120)
    labels = np.array(["a", "b", "c"])[np.digitize(y, [-2.0, 2.0])] if classes else y
    elapsed = np.random.default_rng(1).choice([1.0, 0.5, 20.0], size=120).tolist()
    model = host.DriftClassifier(speed="light") if classes else host.DriftRegressor(speed="light")
    uneven, even = (type(model.model)(speed="light") for _ in range(2))
    for t, row in enumerate(names):
        model.predict_one(row, elapsed=elapsed[t])
        if t >= 4:
            model.learn_one(names[t - 4], labels[t - 4].item(), elapsed=elapsed[t - 4])
    uneven.play(Z, labels, delay=4, elapsed=elapsed)
    even.play(Z, labels, delay=4)
    ask = "predict_proba" if classes else "predict"
    np.testing.assert_array_equal(getattr(model.model, ask)(names[5]), getattr(uneven, ask)(Z[5]))
    assert not np.array_equal(getattr(uneven, ask)(Z[5]), getattr(even, ask)(Z[5]))


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_late_labels_are_learned_by_what_was_predicted_at_any_speed(classes):
    """What the estimator's own `peek` and `learn(served=...)` do; learning as if just predicted is something else."""
    names, _, y = random_walk_rows(120)
    labels = {0: y, 2: y > 0.0, 3: np.array(["a", "b", "c"])[np.digitize(y, [-2.0, 2.0])]}[classes].tolist()
    model = host.DriftClassifier(speed="fast") if classes else host.DriftRegressor(speed="fast")
    peeked, blind = (type(model.model)(speed="fast") for _ in range(2))
    waiting = []
    for t, row in enumerate(names):
        model.predict_one(row)
        waiting.append(peeked.peek(row))
        if t >= 5:
            model.learn_one(names[t - 5], labels[t - 5])
            peeked.learn(names[t - 5], labels[t - 5], served=waiting[t - 5])
            blind.learn(names[t - 5], labels[t - 5])
    assert model.model == peeked != blind


def test_predicting_changes_no_model():
    names, _, y = random_walk_rows(60)
    model = host.DriftRegressor(speed="fast")
    for row, value in zip(names[:40], y[:40], strict=True):
        model.learn_one(row, value)
    before = pickle.dumps(model.model)
    first = model.predict_one(names[50])
    for row in ({**names[51], "new": 4.0}, {"a": float("nan")}, names[50]):
        model.predict_one(row)
    assert pickle.dumps(model.model) == before
    assert model.predict_one(names[50]) == first
    assert model.model.names == list(NAMES)


def test_a_row_predicted_twice_before_a_lesson_is_kept_once_and_at_most_as_many_as_said():
    names, _, y = random_walk_rows(60)
    model = host.DriftRegressor(speed="fast", pending=5)
    for row, value in zip(names[:40], y[:40], strict=True):
        model.learn_one(row, value)
    for row in (*names[40:43], names[42], names[42]):
        model.predict_one(row)
    assert len(model._predicted) == 3
    for row in names[43:50]:
        model.predict_one(row)
    assert len(model._predicted) == 5
    assert model._predicted.take(names[44], None) is None  # the oldest went first
    assert model._predicted.take(names[45], None) is not None
    none = host.DriftRegressor(speed="fast", pending=0)
    none.predict_one(names[0])
    assert len(none._predicted) == 0


def test_equal_rows_are_taken_oldest_first_and_those_of_other_times_are_others():
    kept = host.KeptPredictions(10)
    peeked = [ServedPrediction(float(rounds), True, 0, np.empty(0), "", rounds) for rounds in range(4)]
    for one in peeked[1:]:
        kept.keep({"a": 1}, None, one)
    kept.keep({"a": 1}, 2.0, peeked[0])
    assert kept.take({"a": 1.0}, 3.0) is None
    assert [kept.take({"a": 1.0}, None) for _ in range(3)] == peeked[1:]
    assert kept.take({"a": 1}, None) is None
    assert kept.take({"a": 1}, 2.0) is peeked[0]
    kept.keep({"a": []}, None, peeked[1])  # a value that cannot be looked up
    assert len(kept) == 0


def test_names_may_appear_while_labels_wait():
    """The new feature's value is learned with the row that brought it, though its prediction did not know it."""
    names, _, y = random_walk_rows(300)
    rows = [row if t < 100 else {**row, "late": float(t % 2)} for t, row in enumerate(names)]
    labels = y + 10.0 * np.array([row.get("late", 0.0) for row in rows])
    model = host.DriftRegressor(speed="fast")
    said = np.array(predictions(model, rows, labels.tolist(), 4))
    assert model.model.names == [*NAMES, "late"]
    assert model.model.rounds == 300
    assert np.mean(np.abs(said - labels)[200:]) < 0.5 * np.mean(np.abs(np.diff(labels[200:])))


def test_copies_and_pickles_keep_waiting_predictions():
    names, _, y = random_walk_rows(80)
    model = host.DriftRegressor(speed="fast")
    for t in range(60):
        model.predict_one(names[t])
        if t >= 5:
            model.learn_one(names[t - 5], y[t - 5])
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for t in range(55, 60):
            twin.learn_one(names[t], y[t])
        assert twin.predict_one(names[70]) != model.predict_one(names[70])
    for t in range(55, 60):
        model.learn_one(names[t], y[t])
    assert twin.predict_one(names[70]) == model.predict_one(names[70])


def test_threads_may_predict_while_one_learns():
    names, _, y = random_walk_rows(300)
    model = host.DriftRegressor(speed="fast", pending=64)

    def predict():
        for row in names[:200]:
            assert np.isfinite(model.predict_one(row))

    threads = [Thread(target=predict) for _ in range(3)]
    for thread in threads:
        thread.start()
    for row, value in zip(names, y, strict=True):
        model.learn_one(row, value)
    for thread in threads:
        thread.join()
    assert model.model.rounds == 300
    assert len(model._predicted) <= 64
