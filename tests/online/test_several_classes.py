"""Labels of any kind, of any number of classes, some of which appear later."""

import pickle

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_classes
from undrift.errors import InputError

KINDS = {
    "numbers": np.array([0, 1, 2]),
    "other numbers": np.array([7, -1, 30]),
    "texts": np.array(["c", "a", "b"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_several_classes_are_learned_whatever_they_are_called(kind):
    Z, y = draw_classes(800)
    labels = KINDS[kind][y]
    model = ud.OnlineClassifier(speed="fast")
    trace = model.play(Z, labels)
    names = model.classes
    assert names == sorted(KINDS[kind].tolist())
    assert trace.yhat.shape == (800, 3)
    at = np.array([names.index(one) for one in labels.tolist()])
    assert -trace.yhat[200:][np.arange(600), at[200:]].mean() < 0.55  # ln 3 is 1.1
    p = model.predict_proba(Z[:5])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.predict(Z[0]) in names
    assert (model.predict(Z[:50]) == labels[:50]).mean() > 0.7
    assert len(model.estimators) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_rows_and_files_go_on(kind, tmp_path):
    Z, y = draw_classes(120)
    labels = KINDS[kind][y].tolist()
    whole, single, told = (ud.OnlineClassifier(speed="fast") for _ in range(3))
    logs = whole.play(Z, labels).yhat
    for z, label in zip(Z, labels, strict=True):
        single.learn(z, label)
        told.tell(told.ask(z), label)
    assert single == whole
    assert told == whole
    part = ud.OnlineClassifier(speed="fast")
    last = []
    for a, b in ((0, 1), (1, 2), (2, 50), (50, 120)):
        last = part.play(Z[a:b], labels[a:b]).yhat
        part.save(tmp_path / "model.undrift")
        part = pickle.loads(pickle.dumps(ud.load(tmp_path / "model.undrift"))).copy()
    assert part == whole
    assert last.tobytes() == logs[50:].tobytes()


@pytest.mark.parametrize("delay", [1, 7])
def test_late_labels_are_the_same_wherever_the_stream_is_cut(delay):
    Z, y = draw_classes(90)
    whole, part = ud.OnlineClassifier(speed="fast"), ud.OnlineClassifier(speed="fast")
    whole.play(Z, y, delay=delay)
    for a, b in ((0, 2), (2, 40), (40, 90)):
        part.play(Z[a:b], y[a:b], delay=delay)
        part = part.copy()
    assert part == whole
    assert (whole.rounds, len(whole.pending)) == (90 - delay, delay)


def test_a_class_that_appears_is_scored_by_the_share_kept_for_it():
    model = ud.OnlineClassifier(speed="fast")
    Z, y = draw_classes(99)
    model.play(Z, np.where(y > 0, "a", "b"))
    trace = model.play(Z[:1], ["new"])
    assert trace.yhat[0, model.classes.index("new")] == pytest.approx(np.log(1.0 / 100.0))
    np.testing.assert_allclose(np.exp(trace.yhat).sum(axis=1), 1.0)


def test_rows_without_a_label_are_served_and_change_no_count():
    Z, y = draw_classes(60)
    labels = y.astype(float)
    labels[[20, 21, 40]] = np.nan
    model, single = ud.OnlineClassifier(speed="fast"), ud.OnlineClassifier(speed="fast")
    trace = model.play(Z, labels)
    for z, label in zip(Z, labels, strict=True):
        single.learn(z, label)
    assert model == single
    assert model.rounds == 57
    assert np.isfinite(trace.yhat).all()


def test_two_classes_called_as_ever_keep_the_compiled_round():
    Z, y = draw_classes(200)
    model = ud.OnlineClassifier(speed="fast")
    trace = model.play(Z, (y > 0).astype(int))
    assert trace.yhat.shape == (200,)
    assert not model.several_classes
    named = ud.OnlineClassifier(speed="fast")
    logs = named.play(Z, np.where(y > 0, "yes", "no")).yhat
    np.testing.assert_allclose(logs[20:, 1] - logs[20:, 0], trace.yhat[20:], rtol=1e-9, atol=1e-9)


def test_two_classes_among_any_labels_lose_what_is_kept_for_a_third_and_no_more():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(3000, 2))
    y = (Z[:, 0] + rng.logistic(size=3000) > 0.0).astype(int)
    plain = ud.OnlineClassifier(speed="light").play(Z, y).yhat
    logs = ud.OnlineClassifier(speed="light").play(Z, np.where(y > 0, "yes", "no")).yhat
    losses = -logs[np.arange(3000), y], np.logaddexp(0.0, np.where(y > 0, -plain, plain))
    first = max(np.argmax(y == 0), np.argmax(y == 1)) + 1  # from here on both classes are known
    kept = np.log(3000.0 / first)  # the sum of ln((t + 1) / t), .0009 a row in 10,000 rows
    assert losses[0][first:].sum() - losses[1][first:].sum() == pytest.approx(kept, rel=1e-6)


def test_wrong_labels_are_one_sentence_and_change_nothing():
    Z, y = draw_classes(60)
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z, y)
    before = model.copy()
    for call, text in (
        (lambda: model.learn(Z[0], "a"), "labels must be all texts or all numbers"),
        (lambda: model.learn(Z[0], 0.5), "labels must be texts, whole numbers or booleans"),
        (lambda: model.play(Z[:2], [1]), "y must have one label for each of the 2 rows"),
        (lambda: model.log_odds(Z[0]), "log_odds are of two classes"),
        (lambda: model.line(), "this is known of two classes"),
    ):
        with pytest.raises(InputError, match=text):
            call()
        assert model == before
    with pytest.raises(InputError, match=r"several classes from arrays; use Fleet\.of_table"):
        ud.Fleet(ud.DiscountedSoftmax(3), key="k", order="t", features=["a"], target="y")


def test_no_rows_of_three_classes_have_no_probabilities():
    rng = np.random.default_rng(0)
    Z, labels = rng.normal(size=(60, 2)), np.array(["a", "b", "c"])[rng.integers(3, size=60)]
    model = ud.OnlineClassifier(speed="light")
    model.play(Z, labels)
    assert model.predict_proba(np.empty((0, 2))).shape == (0, 3)
    assert model.predict(np.empty((0, 2))).shape == (0,)
