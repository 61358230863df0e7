"""Peers of several classes see only the past, and their answers are probabilities."""

import numpy as np
import pytest

from tests.helpers import draw_classes
from undrift.metrics import class_scores
from undrift.online import OnlineClassifier
from undrift.run import Settings
from undrift.run.finish import peers

SETTINGS = Settings(target="y")


def classes_with_a_gap(rows=300):
    Z, labels = draw_classes(rows, sharpness=4.0)
    y = labels.astype(np.float64)
    y[10] = np.nan
    return Z, y


class Recorder:
    """A model that keeps how many rows it was fitted to, and answers how often each class came."""

    fits: list = []  # noqa: RUF012  (shared on purpose)

    def fit(self, X, y):
        Recorder.fits.append(X.shape)
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares = counts / counts.sum()
        return self

    def predict_proba(self, X):
        return np.tile(self.shares, (len(X), 1))


def play_light(Z, y):
    names = [str(j) for j in range(Z.shape[1])]
    return peers.play_ours(OnlineClassifier(speed="light", seed=0), SETTINGS, "multiclass", names, Z, y).yhat


def check(p, y):
    assert p.shape == (len(y), 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p > 0.0).all()
    known = ~np.isnan(y)
    return class_scores(p[known], y[known])["log_loss"]


def test_ours_and_those_of_others_are_better_than_guessing():
    Z, y = classes_with_a_gap()
    models = peers._river_models("multiclass", 0)
    assert set(models) == {"SoftmaxRegression", "HoeffdingAdaptiveTreeClassifier", "ARFClassifier", "AMFClassifier"}
    assert check(peers._play_river(models["SoftmaxRegression"], "multiclass", Z, y), y) < np.log(3.0)
    p = peers._play_sklearn(peers._sklearn_model("multiclass", 0)[1], "multiclass", Z, y)
    check(p, y)
    assert np.mean(p.argmax(axis=1) == y) > 0.6
    p = play_light(Z, y)
    known = ~np.isnan(y)
    assert class_scores(p[known][5:], y[known][5:])["log_loss"] < 0.7


@pytest.mark.parametrize("changed", [150, 299])
def test_nothing_of_a_row_or_later_changes_its_prediction(changed):
    Z, y = classes_with_a_gap()
    other = y.copy()
    other[changed:] = (other[changed:] + 1.0) % 3.0
    for play in (
        lambda y: play_light(Z, y),
        lambda y: peers._play_river(peers._river_models("multiclass", 0)["SoftmaxRegression"], "multiclass", Z, y),
        lambda y: peers.play_retrained(Recorder, 50, "multiclass", Z, y),
    ):
        np.testing.assert_array_equal(play(y)[: changed + 1], play(other)[: changed + 1])


def test_a_model_is_fitted_to_all_past_rows_every_so_many_rows():
    Recorder.fits.clear()
    Z, y = classes_with_a_gap()
    p = peers.play_retrained(Recorder, 100, "multiclass", Z, y)
    assert [rows for rows, _ in Recorder.fits] == [100, 200]
    assert Recorder.fits[0][1] == 3 + 3  # the row, and the last label as one column for each class
    np.testing.assert_allclose(p[:100], 1.0 / 3.0)
    check(p, y)


def test_what_cannot_be_probabilities_becomes_some():
    given = np.array([[np.nan, np.nan], [0.0, 0.0], [np.inf, 0.0], [3.0, 1.0]])
    np.testing.assert_allclose(
        peers._as_probabilities(given), [[0.5, 0.5], [0.5, 0.5], [1, 0], [0.75, 0.25]], atol=2e-6
    )


def test_the_contenders_are_ours_and_what_is_installed():
    names = [
        (one.library, one.name)
        for one in (*peers.our_contenders(SETTINGS, "multiclass", ["a"]), *peers.installed_peers("multiclass", 0))
    ]
    assert [name for library, name in names if library == "undrift"] == [
        f"OnlineClassifier ({speed})" for speed in ("max", "best", "best, no trees", "fast")
    ]
    assert ("river", "AMFClassifier") in names
    assert len(list(peers.our_contenders(SETTINGS, "multiclass", ["a"]))) == 4
