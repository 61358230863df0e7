"""PeriodicRefit: a model of one's own follows the stream, and a file needs it back."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

import undrift as ud
from tests.helpers import draw_stream
from undrift.errors import InputError, ModelFileError


class Counter:
    """A model that remembers how many rows it was fitted to, and predicts that."""

    fits = []  # noqa: RUF012  (shared by copies on purpose)

    def fit(self, X, y):
        self.size = len(X)
        Counter.fits.append((len(X), float(X[0, 0]), float(X[-1, 0])))

    def predict(self, X):
        return np.full(len(X), float(self.size))


def noisy_line(rounds, dim=2, seed=0):
    return draw_stream(rounds, dim, lambda Z: 3.0 * Z[:, 0] - Z[:, 1], noise=0.1, seed=seed)


def test_it_is_fitted_when_its_past_has_grown_and_to_the_window():
    Counter.fits.clear()
    Z = np.arange(400.0)[:, None]
    yhat = ud.PeriodicRefit(Counter(), grow=1.5, window=100).play(Z, Z[:, 0]).yhat
    sizes = [size for size, _, _ in Counter.fits]
    last = [int(end) for _, _, end in Counter.fits]
    assert sizes[:4] == [32, 48, 72, 100]
    assert last == [31, 47, 71, 107, 157, 207, 257, 307, 357]  # then every half window
    assert all(end - begin + 1 == size for size, begin, end in Counter.fits)
    assert (yhat[32:48] == 32.0).all()
    assert (yhat[48:72] == 48.0).all()
    assert yhat[10] == np.arange(10.0).mean()  # before the first fit


def test_a_linear_model_is_followed_and_forgotten_with_the_window():
    Z, y = noisy_line(2000)
    y[1000:] *= -1.0
    error = np.abs(ud.PeriodicRefit(LinearRegression(), window=100).play(Z, y).yhat - y)
    assert error[500:1000].mean() < 0.2
    assert error[1000:1040].mean() > 1.0
    assert error[1300:].mean() < 0.2


def test_classifiers_predict_log_odds_and_one_class_is_a_base_rate():
    Z, y = noisy_line(600)
    labels = np.where(y > 0.0, 1.0, -1.0)
    labels[:40] = 1.0  # when the first fit is due
    model = ud.PeriodicRefit(LogisticRegression(), grow=2.0)
    assert model.binary
    trace = model.play(Z, labels)
    assert np.mean((trace.yhat[200:] > 0.0) == (labels[200:] > 0.0)) > 0.8
    assert trace.yhat[35] == pytest.approx(np.log(33.0))  # 32 labels +1, none -1, one of each added


def test_missing_numbers_go_to_models_that_take_them():
    Z, y = noisy_line(300)
    Z[::7, 1] = np.nan
    trees = ud.PeriodicRefit(HistGradientBoostingClassifier(max_iter=5, random_state=0))
    trees.play(Z, y > 0.0)
    assert trees.accepts_nan
    with pytest.raises(InputError, match="must be finite"):
        ud.PeriodicRefit(LinearRegression()).play(Z, y)


def test_a_file_needs_the_model_and_goes_on_with_it(tmp_path):
    Z, y = noisy_line(300)
    model = ud.PeriodicRefit(ud.BoostedTrees(trees=5, seed=3), window=80)
    model.play(Z[:200], y[:200])
    model.save(tmp_path / "m")
    loaded = ud.load(tmp_path / "m", model=ud.BoostedTrees(trees=5, seed=3))
    assert loaded == model
    assert loaded.play(Z[200:], y[200:]).yhat.tobytes() == model.play(Z[200:], y[200:]).yhat.tobytes()
    with pytest.raises(
        ModelFileError, match=r"holds rows and not the model; pass load\(path, model=...\) with BoostedTrees"
    ):
        ud.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match="and the parameters it had, got BoostedTrees"):
        ud.load(tmp_path / "m", model=ud.BoostedTrees(trees=6, seed=3))
    with pytest.raises(ModelFileError, match="got LinearRegression"):
        ud.load(tmp_path / "m", model=LinearRegression())


def test_a_model_that_fails_leaves_the_learner_as_it_was():
    class Fragile(LinearRegression):
        def fit(self, X, y):
            if len(X) > 40:
                raise ZeroDivisionError("no more\nthan 40")
            return super().fit(X, y)

    Z, y = noisy_line(200)
    model = ud.PeriodicRefit(Fragile(), window=64)
    model.play(Z[:35], y[:35])
    before = model.copy()
    with pytest.raises(InputError, match=r"could not be fitted to 48 rows \(ZeroDivisionError: no more than 40\)"):
        model.play(Z[35:], y[35:])
    assert model == before
    assert model.predict(Z[0]) == before.predict(Z[0])
    with pytest.raises(InputError, match="must predict finite numbers"):
        ud.PeriodicRefit(DummyRegressor(strategy="constant", constant=[1e80])).play(Z, y)


def test_it_is_a_member_like_any_other(tmp_path):
    Z, y = noisy_line(400)
    y = y + np.where(Z[:, 0] > 0.5, 4.0, 0.0)
    members = [ud.DiscountedVAW(half_life=100), ud.PeriodicRefit(ud.BoostedTrees(trees=30, columns=1.0), window=200)]
    model = ud.Ensemble(members)
    trace = model.play(Z[:300], y[:300])
    assert np.all(np.sum((trace.yhat - y[:300]) ** 2) / 2.0 - model.losses <= model.cost() + 1e-9)
    assert model.copy() == model
    model.save(tmp_path / "m")
    loaded = ud.load(tmp_path / "m", model=ud.BoostedTrees(trees=30, columns=1.0))
    assert loaded.play(Z[300:], y[300:]).yhat.tobytes() == model.play(Z[300:], y[300:]).yhat.tobytes()
    with pytest.raises(ModelFileError, match="not the model"):
        ud.load(tmp_path / "m")


def test_fleets_refuse_it():
    for model in (ud.PeriodicRefit(LinearRegression()), ud.Ensemble([ud.PeriodicRefit(LinearRegression())])):
        with pytest.raises(InputError, match="make_model must give a model that is data only"):
            ud.Fleet(model, key="k", features=["x"], target="y")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ud.PeriodicRefit(LinearRegression), r"must be an object with fit\(X, y\) and predict\(X\)"),
        (lambda: ud.PeriodicRefit("model"), "must be an object with fit"),
        (lambda: ud.PeriodicRefit(LinearRegression(), grow=1.0), r"grow must be in \(1, 100\], got 1.0"),
        (lambda: ud.PeriodicRefit(LinearRegression(), window=1), "window must be an integer in"),
    ],
)
def test_wrong_arguments_are_refused(call, says):
    with pytest.raises(InputError, match=says):
        call()


def test_damaged_counts_are_refused():
    Z, y = noisy_line(60)
    model = ud.PeriodicRefit(LinearRegression(), window=40)
    model.play(Z, y)
    header, arrays = model.snapshot()
    for counts in ([5.5, 1.0], [10.0, 20.0], [1000.0, 40.0], [-1.0, -1.0]):
        with pytest.raises(ModelFileError, match="counts of rows do not fit together"):
            model.clone()._load_state(header["rounds"], header["dim"], arrays | {"counts": np.array(counts)})


@pytest.mark.parametrize("answer", [["x"] * 5, [None], [[1.0], [2.0, 3.0]], "text", [1j]])
def test_a_model_that_answers_no_numbers_is_one_sentence_and_changes_nothing(answer):
    class Words:
        def __init__(self, **parameters):
            pass

        def get_params(self, deep=True):
            return {}

        def fit(self, X, y):
            return self

        def predict(self, X):
            return answer

    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2))
    model = ud.PeriodicRefit(Words(), window=40)
    with pytest.raises(InputError, match="the model must predict finite numbers of shape"):
        model.play(Z, Z[:, 0])
    assert (model.rounds, model.dim) == (0, None)
