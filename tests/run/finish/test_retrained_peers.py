"""Peers that are refitted on a schedule see only the past, and are refitted when they should be."""

import numpy as np
import pytest

from undrift.learners.row_context import ORDINARY
from undrift.run.finish import peers


class Recorder:
    """A model that keeps what it was fitted to, and predicts the mean label."""

    fits: list = []  # noqa: RUF012  (shared on purpose)

    def fit(self, X, y):
        Recorder.fits.append((X.copy(), y.copy()))
        self.mean = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)

    def predict_proba(self, X):
        return np.tile([1.0 - self.mean, self.mean], (len(X), 1))


@pytest.fixture(autouse=True)
def no_fits():
    Recorder.fits.clear()


def test_the_last_label_is_that_of_the_last_labelled_row_before():
    y = np.array([np.nan, 3.0, np.nan, 5.0, 7.0])
    np.testing.assert_array_equal(peers.with_last_label(np.zeros((5, 1)), y)[:, 1], [0.0, 0.0, 3.0, 3.0, 5.0])


def test_a_model_is_fitted_to_all_past_rows_every_so_many_rows():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(900, 2)), rng.normal(size=900)
    y[:20] = np.nan
    out = peers.play_retrained(Recorder, 250, "regression", Z, y)
    assert [len(labels) for _, labels in Recorder.fits] == [100, 350, 600, 850]
    assert out[119] == y[118]
    assert (out[120:370] == y[20:120].mean()).all()
    assert out[-1] == pytest.approx(y[20:870].mean())
    np.testing.assert_array_equal(Recorder.fits[0][0][:, :2], Z[20:120])


def test_later_labels_change_no_earlier_prediction():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(700, 3)), rng.normal(size=700)
    other = y.copy()
    other[400:] += 10.0
    for play in (
        lambda labels: peers.play_retrained(Recorder, 100, "regression", Z, labels),
        lambda labels: peers.play_windowed_ridge("regression", Z, labels),
    ):
        assert (play(y)[:401] == play(other)[:401]).all()
        assert (play(y)[500:] != play(other)[500:]).any()


def test_two_classes_give_log_odds_and_one_class_waits():
    y = np.concatenate([np.ones(150), np.tile([0.0, 1.0], 100)])
    out = peers.play_retrained(Recorder, 50, "classification", np.zeros((350, 1)), y)
    assert (out[:200] == 0.0).all()
    p = y[:300].mean()
    assert out[-1] == pytest.approx(np.log(p / (1.0 - p)))


def test_a_ridge_over_a_window_follows_a_change():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(4000, 2))
    y = np.where(np.arange(4000) < 2000, 1.0, -1.0) * Z[:, 0] + 0.1 * rng.normal(size=4000)
    error = np.abs(peers.play_windowed_ridge("regression", Z, y) - y)
    assert error[1000:2000].mean() < 0.1
    assert error[3050:].mean() < 0.1
    labels = (y > 0.0).astype(float)
    odds = peers.play_windowed_ridge("classification", Z, labels)
    assert np.mean((odds[3100:] > 0.0) == (labels[3100:] > 0.0)) > 0.9


def test_installed_forests_stand_beside_ours():
    pytest.importorskip("sklearn")
    names = [one.name for one in peers.installed_peers("regression", 0)]
    assert "HistGradientBoostingRegressor, refitted every 250" in names
    assert "HistGradientBoostingRegressor, refitted every 1,000" in names
    assert "ridge over 1,000 rows" in names
    rng = np.random.default_rng(3)
    Z, y = rng.normal(size=(260, 2)), rng.normal(size=260)
    for task, labels in (("regression", y), ("classification", (y > 0.0).astype(float))):
        for _, _, make in peers.forest_makers(task, 0):
            assert np.isfinite(peers.play_retrained(make, 250, task, Z, labels)).all()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_constant_and_empty_columns_are_left_out(task):
    rng = np.random.default_rng(2)
    Z = np.column_stack([rng.normal(size=300), np.ones(300), np.full(300, np.nan)])
    Z[250:, 1] = 2.0
    y = rng.integers(0, 2, size=300).astype(float)
    out = peers.play_retrained(Recorder, 100, task, Z, y)
    assert np.isfinite(out).all()
    assert [X.shape[1] for X, _ in Recorder.fits] == [2, 2]
    np.testing.assert_array_equal(Recorder.fits[0][0][:, 0], Z[:100, 0])


def test_peers_of_one_seed_predict_the_same_twice():
    pytest.importorskip("river")
    rng = np.random.default_rng(5)
    Z, y = rng.normal(size=(700, 2)), rng.normal(size=700)  # the graph of neighbours begins after 500 rows
    first, second = (
        next(one.play(Z, y, ORDINARY) for one in peers.installed_peers("regression", 0) if one.name == "KNNRegressor")
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
