"""Estimators are made of parts: what comes with a row goes through every one of them, for numbers and for classes."""

import itertools
import pickle

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.online.core import Core


def stream(kind, rows=300, seed=0, classes=3):
    """Return rows and labels: numbers, two classes or several."""
    rng = np.random.default_rng(seed)
    Z = np.clip(rng.normal(size=(rows, 3)), -2.0, 2.0)
    scores = Z @ rng.normal(size=(3, classes)) + 0.5 * rng.gumbel(size=(rows, classes))
    y = scores[:, 0]
    if kind == "two":
        y = (y > 0.0).astype(int)
    if kind == "several":
        y = np.array(["red", "green", "blue", "grey"])[np.argmax(scores, axis=1)]
    return Z, y


def make(kind, **options):
    return (ud.OnlineRegressor if kind == "numbers" else ud.OnlineClassifier)(**options)


def test_estimators_are_four_classes_deep():
    for kind in (ud.OnlineRegressor, ud.OnlineClassifier):
        assert [one.__name__ for one in kind.__mro__[1:-1]] == ["OnlineEstimator", "Learner", "Serializable"]


@pytest.mark.parametrize("kind", ["numbers", "two", "several"])
def test_a_row_peeked_at_and_learned_at_once_is_learned(kind):
    Z, y = stream(kind)
    plain, peeking = make(kind, speed="fast"), make(kind, speed="fast")
    for z, label in zip(Z, y, strict=True):
        plain.learn(z, label)
        peeking.learn(z, label, served=peeking.peek(z))
    np.testing.assert_array_equal(plain._score(Z[:20], None), peeking._score(Z[:20], None))
    assert plain.rounds == peeking.rounds == 300


@pytest.mark.parametrize("kind", ["numbers", "two", "several"])
@pytest.mark.parametrize("speed", ["light", "best"])
def test_late_labels_of_peeked_rows_are_those_of_rows_that_were_asked(kind, speed):
    """Light estimators have no running means of features, which advance when a peeked row is learned."""
    Z, y = stream(kind, rows=400)
    asking, peeking, waiting = make(kind, speed=speed), make(kind, speed=speed), []
    for t, z in enumerate(Z):
        waiting.append((asking.ask(z), peeking.peek(z)))
        if speed == "light":
            np.testing.assert_array_equal(waiting[-1][0].yhat, waiting[-1][1].yhat)
        if t >= 7:
            served, peeked = waiting[t - 7]
            asking.tell(served, y[t - 7])
            peeking.learn(Z[t - 7], y[t - 7], served=peeked)
    assert asking.rounds == peeking.rounds == 393
    with pytest.raises(InputError, match="a row that was peeked at is learned by"):
        peeking.tell(peeked, y[0])


@pytest.mark.parametrize("speed", ["fast", "best"])
def test_the_time_before_a_row_is_part_of_every_prediction(speed):
    Z, y = stream("numbers", rows=400)
    elapsed = np.random.default_rng(1).choice([0.0, 1.0, 30.0], size=400)
    model, played = ud.OnlineRegressor(speed=speed, trees=False), ud.OnlineRegressor(speed=speed, trees=False)
    trace = played.play(Z, y, elapsed=elapsed, interval=0.8, quantiles=(0.3,))
    for t in range(400):
        time = elapsed[t]
        promised = model.predict(Z[t], elapsed=time), model.predict_interval(Z[t], 0.8, elapsed=time)
        assert (promised[0], *promised[1]) == (trace.yhat[t], trace.lower[t], trace.upper[t])
        assert model.predict_quantiles(Z[t], [0.3], elapsed=time)[0] == trace.quantiles[t, 0]
        assert model.peek(Z[t], elapsed=time).yhat == trace.yhat[t]
        if t % 2:
            model.learn(Z[t], y[t], elapsed=time)
            continue
        served = model.ask_rows(Z[t : t + 1], elapsed=[time])[0] if t % 4 else model.ask(Z[t], elapsed=time)
        assert (served.yhat, served.interval(0.8), served.quantile(0.3)) == (*promised, trace.quantiles[t, 0])
        model.tell(served, y[t])
    usual = model.predict_interval(Z[0], 0.8)
    assert model.predict_interval(Z[0], 0.8, elapsed=50.0) != usual
    assert np.array_equal(model._core.state, played._core.state)


@pytest.mark.parametrize("names", [("no", "yes"), ("yes", "no"), (1, 2), (2, 1), (0, 7), (-1, 5)])
@pytest.mark.parametrize("speed", ["light", "best"])
def test_two_classes_of_any_name_are_the_same_however_they_are_learned(names, speed):
    """Quick calls, general ones, late labels and weights, before and after trees are grown; then a third class."""
    Z, y = stream("two", rows=420)
    y, weight = [names[k] for k in y], np.where(np.arange(420) % 7 == 3, 2.0, 1.0)
    whole, single = ud.OnlineClassifier(speed=speed), ud.OnlineClassifier(speed=speed)
    trace = whole.play(Z, y, weight=weight)
    for t in range(420):
        if t >= 20:  # both classes are known
            p = np.exp(trace.yhat[t])
            np.testing.assert_allclose(single.predict_proba(Z[t]), p / p.sum(), rtol=1e-12)
        z = Z[t] if t % 2 else Z[t : t + 1]  # a matrix goes the general way
        label = np.array(y)[t] if t % 5 else y[t]
        if t % 3:
            single.tell(single.ask(z), label, weight=weight[t])
        elif t % 4:
            single.learn(z, label, weight=weight[t])
        else:
            single.learn(z, label, weight=weight[t], served=single.peek(z))
    assert whole.classes == single.classes == sorted(names)
    assert None not in [single._plain_label(np.array(names)[k]) for k in (0, 1)]
    np.testing.assert_array_equal(whole.predict_proba(Z[:50]), single.predict_proba(Z[:50]))
    assert whole == single
    for model in (whole, single):
        model.learn(Z[0], 9 if isinstance(names[0], int) else "maybe")
    assert len(whole.classes) == 3
    assert whole == single


def given_probabilities(Z, y, labels, sure, seed=0):
    """Return rows with a column for each label: probabilities of somebody who is right as often as `sure`."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(len(labels)), size=len(y)) * (1.0 - sure)
    p[np.arange(len(y)), [labels.index(label) for label in y]] += sure
    names = [f"p_{label}" for label in labels]
    return [
        dict(zip(["a", "b", "c", *names], [*z, *q], strict=True)) for z, q in zip(Z.tolist(), p.tolist(), strict=True)
    ]


LABELS = ["blue", "green", "red"]
CANDIDATES = {"mine": {label: f"p_{label}" for label in LABELS}}


@pytest.mark.parametrize("speed", ["light", "best"])
def test_a_candidate_that_knows_the_class_is_believed(speed):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(500, 3)), rng.choice(LABELS, size=500)  # nothing else tells the class
    rows = given_probabilities(Z, y, LABELS, sure=0.9)
    model = ud.OnlineClassifier(speed=speed, candidates=CANDIDATES)
    trace = model.play(rows, y)
    at = np.arange(500), [model.classes.index(label) for label in y]
    assert -trace.yhat[at][100:].mean() < 0.12
    own = -np.log([row[f"p_{label}"] for row, label in zip(rows, y, strict=True)])
    assert model.candidates[-1] == "mine"
    counted = 500 - int(np.argmax(np.cumsum([len(set(y[:t])) == 3 for t in range(1, 501)]) > 0)) - 1
    assert model.losses[-1] == pytest.approx(own[-counted:].sum())  # from the row after the third class on
    assert -trace.yhat[at][-counted:].sum() - model.losses[-1] <= model.cost()[-1]
    plain = ud.OnlineClassifier(speed=speed)
    assert -plain.play(Z, y).yhat[at][100:].mean() > 0.9


def test_candidates_of_classes_may_be_missing_and_name_fewer_classes():
    Z, y = stream("several", rows=400, classes=4)
    rows = given_probabilities(Z, ["red" if label == "grey" else label for label in y], LABELS, sure=0.6)
    for row in itertools.islice(rows, 0, None, 5):
        del row["p_red"]
    whole, single = (ud.OnlineClassifier(speed="light", candidates=CANDIDATES) for _ in range(2))
    trace = whole.play(rows, y)
    assert np.isfinite(trace.yhat).all()
    for row, label in zip(rows, y, strict=True):
        single.learn(row, label)
    assert whole == single
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert whole.classes == ["blue", "green", "grey", "red"]
    served = whole.ask(rows[0])
    whole.tell(served, "red")
    np.testing.assert_allclose(sum(whole.served_probabilities(served).values()), 1.0, atol=0.01)


@pytest.mark.parametrize(
    ("candidates", "text"),
    [
        ({"mine": ["p"]}, "a dict of dicts from label to column"),
        ({"mine": {"red": "p", "blue": "p"}}, "candidates must be a list of different column names"),
        ({}, "candidates must be a list of different column names"),
    ],
)
def test_wrong_candidates_of_classes_are_refused(candidates, text):
    with pytest.raises(InputError, match=text):
        ud.OnlineClassifier(candidates=candidates)


def test_a_column_of_the_second_class_is_not_for_several():
    model = ud.OnlineClassifier(speed="light", candidates=["p"])
    rows = [{"a": 1.0, "p": 0.5}, {"a": 0.0, "p": 0.2}]
    model.play(rows, [0, 1])
    before = model.copy()
    with pytest.raises(InputError, match="for others name a column for every label"):
        model.learn(rows[0], 2)
    with pytest.raises(InputError, match=r"candidate 'p_red' must be a probability, in \[0, 1\], got 2"):
        ud.OnlineClassifier(candidates={"m": {"red": "p_red", "blue": "p_blue"}}).learn(
            {"a": 1.0, "p_red": 2.0, "p_blue": 0.0}, "red"
        )
    assert model == before


def test_a_copy_keeps_that_two_classes_are_all_it_takes():
    model = ud.OnlineClassifier(speed="light", two_classes_only=True)
    model.learn([1.0], 0)
    for other in (model.copy(), model.clone(), pickle.loads(pickle.dumps(model))):
        assert other.two_classes_only
        with pytest.raises(InputError, match="y must be"):
            other.learn([1.0], 2)


@pytest.mark.parametrize("kind", ["numbers", "two", "several"])
def test_the_view_is_what_the_estimator_offers(kind):
    Z, y = stream(kind)
    model = make(kind, speed="fast")
    model.play(Z, y)
    view = model.inspect
    assert view.candidates == model.candidates
    assert len(view.weights) == len(view.losses) == len(model.cost()) == len(model.candidates)
    np.testing.assert_allclose(model.weights.sum(), 1.0)
    np.testing.assert_allclose(view.spectrum().weights.sum(), 1.0)
    assert view.missing.tolist() == [0.0] * 3
    assert view.effects(Z[:50]).shape == (3,)
    assert "spectrum" in dir(model)
    assert "memory length" in type(model).spectrum.__doc__


def test_records_of_two_classes_are_learned_by_the_core_of_several():
    """Rows asked, scheduled and peeked at before the third class came are learned after it."""
    Z, y = stream("several", rows=200)
    labels = np.array([{"red": 0, "green": 1, "blue": 2}[label] for label in y])
    early, late = np.flatnonzero(labels < 2), np.flatnonzero(labels == 2)
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z[early[:40]], labels[early[:40]])
    asked, peeked = model.ask(Z[early[40]]), model.peek(Z[early[41]])
    assert isinstance(model._core, Core)
    model.learn(Z[late[0]], 2)
    assert model.several_classes
    model.tell(asked, labels[early[40]])
    model.learn(Z[early[41]], labels[early[41]], served=peeked)
    assert model.rounds == 43
    assert model == model.copy()
