"""What a classifier of several classes tells about itself: a cost that holds, weights, effects, level 2."""

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_classes


def rows_of_letters(rows=250, seed=0):
    Z, labels = draw_classes(rows, 4, seed=seed)
    return Z, np.array(["c", "a", "b"])[labels]


@pytest.mark.parametrize("delay", [0, 9])
def test_the_cost_covers_what_was_served(delay):
    Z, labels = rows_of_letters()
    model = ud.OnlineClassifier(speed="fast")
    served, lost = [], 0.0
    for t, label in enumerate(labels):
        served.append(model.ask(Z[t]))
        if t >= delay:
            known = served[t - delay].yhat
            if np.size(known) == 3 and label is not None:
                lost -= known[["a", "b", "c"].index(labels[t - delay])]
            model.tell(served[t - delay], labels[t - delay])
    assert len(model.candidates) == len(model.weights) == len(model.losses) == len(model.cost())
    assert model.weights.sum() == pytest.approx(1.0)
    slack = model.cost() - (lost - model.losses)
    assert (slack >= -1e-9).all()
    best = int(np.argmin(model.losses))
    assert slack[best] < 4.0  # ln 6 for the prior and what the other candidates were better for


def test_the_mean_spectrum_is_that_of_the_estimators():
    Z, labels = rows_of_letters()
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z, labels)
    each = [one.spectrum().weights for one in model.estimators]
    np.testing.assert_allclose(model.spectrum().weights, np.mean(each, axis=0), rtol=1e-12)


def test_effects_are_of_the_features_that_matter():
    Z, labels = rows_of_letters(500)
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z, labels)
    found = model.effects(Z[-80:])
    assert found[3] < 0.3 * found[:3].min()
    assert (found <= 1.0).all()


def test_level_2_begins_with_the_log_odds_as_they_are():
    Z, labels = rows_of_letters()
    model = ud.OnlineClassifier(speed="fast")
    model.play(Z[:3], ["b", "a", "c"])
    assert model.combination() == pytest.approx({"a": 1.0, "b": 1.0, "c": 1.0})
    model.play(Z, labels)
    assert sorted(model.combination()) == ["a", "b", "c"]
    assert all(0.1 < one < 3.0 for one in model.combination().values())
