"""Comparisons honour what runs honour: late labels, weights, elapsed times, holes, intervals, given columns."""

import numpy as np
import pytest

from tests.helpers import draw_classes
from tests.run.row_files import write_csv
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.errors import DataError, InputError
from undrift.learners.row_context import ORDINARY, check_context
from undrift.losses import log_odds
from undrift.metrics import coverage, interval_pinball, pinball
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.run import FileComparison, Settings
from undrift.run.finish import compare, peers
from undrift.run.finish.peers import Contender
from undrift.run.play.scores import score_predictions

ROWS = 150
HOURS = np.cumsum(np.resize([1, 1, 1, 1, 3, 1, 1, 12], ROWS))
NAMES = ["a", "b"]
TASKS = ("regression", "classification", "multiclass")


class Stream:
    """Rows of two numbers, one with holes, targets of three kinds, times and weights, some of them 0."""

    def __init__(self):
        rng = np.random.default_rng(3)
        self.Z = rng.normal(size=(ROWS, 2))
        self.numbers = 3.0 + 2.0 * self.Z[:, 0] - self.Z[:, 1] + 0.3 * rng.normal(size=ROWS)
        self.Z[rng.random(ROWS) < 0.1, 0] = np.nan
        self.weight = rng.choice([0.0, 1.0, 4.0], size=ROWS)
        self.elapsed = np.diff(HOURS, prepend=HOURS[0] - 1).astype(float)
        self.vendor = np.where(rng.random(ROWS) < 0.3, np.nan, self.numbers + 0.5 * rng.normal(size=ROWS))
        codes = np.digitize(self.numbers, np.quantile(self.numbers, [0.33, 0.66]))
        codes[:3] = 0, 1, 2
        self.labels = {
            "regression": self.numbers,
            "classification": (self.numbers > 3.0).astype(float),
            "multiclass": codes.astype(float),
        }

    def write(self, folder, task, **more):
        when = np.datetime64("2024-01-01T00:00") + HOURS * np.timedelta64(1, "h")
        label = {"regression": None, "classification": ["no", "yes"], "multiclass": ["x", "y", "z"]}[task]
        y = [None if np.isnan(v) else v if label is None else label[int(v)] for v in self.labels[task].tolist()]
        columns = {"when": when.astype(str).tolist(), **dict(zip(NAMES, self.Z.T.tolist(), strict=True))}
        columns["a"] = [None if np.isnan(cell) else cell for cell in columns["a"]]
        return str(write_csv(folder / "rows.csv", {**columns, **more, "y": y}))

    def play(self, task, names=NAMES, Z=None, *, speed="fast", model=None, **given):
        """Return the predictions of the library, as they are scored."""
        cls = OnlineRegressor if task == "regression" else OnlineClassifier
        estimator, y = cls(speed=speed, **(model or {})), self.labels[task]
        rows = Table(names, self.Z if Z is None else Z)
        if task != "multiclass":
            return estimator.play(rows, y, **given)
        yhat = estimator.play(rows, np.array([f"{k:.0f}" for k in y]), **given).yhat
        assert estimator.classes == ["0", "1", "2"]
        return np.exp(yhat)


@pytest.fixture
def stream():
    return Stream()


def scored(yhat, y, task, rows):
    return score_predictions(task, yhat[rows], y[rows])


def compared(path, *, target="y", **settings):
    """Return the results of ours, the naive guesses and given columns by name, and the comparison."""
    only = settings.pop("only", ("fast",))
    comparison = FileComparison(path, Settings(target=target, **settings), peers=False, only=only)
    comparison.play()
    return {result.name: result for result in comparison.results}, comparison


@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("task", TASKS)
def test_scores_of_late_labels_are_those_of_play(stream, tmp_path, task, delay):
    if task == "regression":
        stream.labels[task][[0, 1, 40]] = np.nan
    y = stream.labels[task]
    results, comparison = compared(stream.write(tmp_path, task), missing="fill", delay=delay, only=("fast", "best"))
    rows = ~np.isnan(y) & (np.arange(ROWS) > int(np.flatnonzero(~np.isnan(y))[0]) + delay)
    for name, result in results.items():
        assert result.rows == np.sum(rows), name
    kind = "OnlineRegressor" if task == "regression" else "OnlineClassifier"
    for speed in ("fast", "best"):
        played = stream.play(task, speed=speed, delay=delay)
        yhat = played if task == "multiclass" else played.yhat
        assert results[f"{kind} ({speed})"].scores == scored(yhat, y, task, rows)
    if task == "multiclass":
        naive = ClassBaselines(delay=delay).play(y, 3)
    else:
        naive = Baselines(binary=task == "classification", delay=delay).play(y).T
    assert {name for name, result in results.items() if result.kind == "naive"} == set(baseline_names(task))
    for name, guess in zip(baseline_names(task), naive, strict=True):
        assert results[name].scores == scored(guess, y, task, rows)
    assert ("every learner gets labels 7 rows late" in " ".join(comparison.notes)) == (delay == 7)


@pytest.mark.parametrize("task", TASKS)
def test_weights_and_elapsed_times_reach_ours(stream, tmp_path, task):
    path = stream.write(tmp_path, task, w=stream.weight.tolist())
    y, rows = stream.labels[task], np.arange(ROWS) > 2
    both = {"weight": stream.weight, "elapsed": stream.elapsed}
    kind = "OnlineRegressor (fast)" if task == "regression" else "OnlineClassifier (fast)"
    for given in ({"weight": "w"}, {"weight": "w", "elapsed": True}):
        results, _ = compared(path, missing="fill", delay=2, **given)
        played = stream.play(task, delay=2, **{name: both[name] for name in given})
        yhat = played if task == "multiclass" else played.yhat
        assert results[kind].scores == scored(yhat, y, task, rows)
    plain, _ = compared(path, missing="fill", delay=2, drop=("w",))
    assert plain[kind].scores != results[kind].scores
    naive = next(name for name in plain if plain[name].kind == "naive")
    assert plain[naive].scores == results[naive].scores  # scores and naive guesses count every row once


def test_ours_are_made_as_the_model_of_a_run(stream, tmp_path):
    path, y, rows = stream.write(tmp_path, "regression"), stream.labels["regression"], np.arange(ROWS) > 0
    for settings, model in (
        ({"missing": "indicators"}, {"indicators": True}),
        ({"missing": "fill", "half_life": 20.0}, {"half_life": 20.0}),
        ({"missing": "fill", "seed": 5}, {"seed": 5}),
        ({"missing": "fill", "nonnegative": True}, {"limits": (0.0, None)}),
    ):
        results, _ = compared(path, only=("best",), **settings)
        trace = stream.play("regression", speed="best", model=model, interval=0.9)
        assert results["OnlineRegressor (best)"].scores == scored(trace.yhat, y, "regression", rows)
        assert results["OnlineRegressor (best)"].intervals == interval_scores(trace, y, rows, 0.9)
    results, _ = compared(path, missing="auto")  # whose indicators are features that the schema has added
    Z = np.column_stack([stream.Z, np.isnan(stream.Z[:, 0])])
    trace = stream.play("regression", ["a", "b", "a missing"], Z)
    assert results["OnlineRegressor (fast)"].scores == scored(trace.yhat, y, "regression", rows)


def interval_scores(trace, y, rows, level):
    ends = [np.where(np.isfinite(end), end, np.nan)[rows] for end in (trace.lower, trace.upper)]
    return {
        f"{100 * level:g}% coverage": coverage(*ends, y[rows]),
        "pinball": interval_pinball(*ends, y[rows], level=level),
    }


def test_intervals_and_quantiles_of_the_settings_are_scored(stream, tmp_path):
    path, y, rows = stream.write(tmp_path, "regression"), stream.labels["regression"], np.arange(ROWS) > 3
    trace = stream.play("regression", delay=3, interval=0.8, quantiles=(0.1, 0.5))
    results, _ = compared(path, missing="fill", delay=3, level=0.8)
    expected = interval_scores(trace, y, rows, 0.8)
    assert results["OnlineRegressor (fast)"].intervals == expected
    assert results["last value"].intervals == {}
    results, _ = compared(path, missing="fill", delay=3, level=0.8, quantiles=(0.1, 0.5))
    there = rows & np.isfinite(trace.quantiles).all(axis=1)
    losses = [pinball(trace.quantiles[there, k], y[there], level=level) for k, level in enumerate((0.1, 0.5))]
    assert results["OnlineRegressor (fast)"].intervals == {**expected, "pinball": pytest.approx(np.mean(losses))}


def test_the_learner_of_the_speed_in_the_settings_takes_part(stream, tmp_path):
    path = stream.write(tmp_path, "regression")
    assert "OnlineRegressor (light)" in FileComparison(path, Settings(target="y", speed="light")).missing
    assert "OnlineRegressor (light)" not in FileComparison(path, Settings(target="y", speed="fast")).missing


def test_a_given_column_is_scored_with_late_labels_and_weights_where_it_has_a_prediction(stream, tmp_path):
    vendor = [None if np.isnan(cell) else cell for cell in stream.vendor.tolist()]
    path = stream.write(tmp_path, "regression", w=stream.weight.tolist(), vendor=vendor)
    y, rows = stream.labels["regression"], np.arange(ROWS) > 5
    results, comparison = compared(path, missing="fill", delay=5, weight="w", candidate=("vendor",))
    there = rows & ~np.isnan(stream.vendor)
    own = scored(stream.vendor, y, "regression", there)
    assert results["vendor"].scores == own
    assert results["vendor"].same_rows["vendor"] == own["rmse"]
    assert results["vendor"].rows == np.sum(there) < results["last value"].rows == np.sum(rows)
    Z = np.column_stack([stream.Z, stream.vendor])
    ours = stream.play(
        "regression", [*NAMES, "vendor"], Z, model={"candidates": ["vendor"]}, delay=5, weight=stream.weight
    ).yhat
    assert results["OnlineRegressor (fast)"].scores == scored(ours, y, "regression", rows)
    last = Baselines(binary=False, delay=5).play(y)[:, 0]
    for name, yhat in (("OnlineRegressor (fast)", ours), ("last value", last)):
        assert results[name].same_rows["vendor"] == scored(yhat, y, "regression", there)["rmse"]
    assert comparison.notes[0] == "ours weigh the given predictions too"


def test_probabilities_made_elsewhere_are_scored_where_there_are_some(stream, tmp_path):
    p = np.where(np.isnan(stream.vendor), np.nan, 1.0 / (1.0 + np.exp(3.0 - stream.vendor)))
    cells = [None if np.isnan(cell) else cell for cell in p.tolist()]
    results, _ = compared(stream.write(tmp_path, "classification", vendor=cells), delay=4, candidate=("vendor",))
    there = (np.arange(ROWS) > 4) & ~np.isnan(p)
    assert results["vendor"].scores == scored(log_odds(p), stream.labels["classification"], "classification", there)


@pytest.mark.parametrize(
    ("task", "settings", "sentence"),
    [
        (
            "regression",
            {"alert": True},
            "compare: alert is not for comparisons: a comparison does not watch the stream",
        ),
        ("classification", {"level": 0.8}, "compare: level is not for comparisons: classes are predicted by probab"),
        ("multiclass", {"quantiles": (0.1,)}, "compare: quantiles is not for comparisons: classes are predicted by"),
        ("classification", {"nonnegative": True}, "nonnegative is for targets that are numbers, not for classes"),
        ("multiclass", {"candidate": ("b",)}, r"several classes .*, but --candidate is for numbers or two classes"),
    ],
)
def test_settings_without_a_meaning_are_refused_by_name(stream, tmp_path, task, settings, sentence):
    with pytest.raises(InputError, match=sentence):
        FileComparison(stream.write(tmp_path, task), Settings(target="y", **settings))


def test_labels_that_come_after_the_last_row_leave_nothing_to_score(stream, tmp_path):
    path = stream.write(tmp_path, "regression")
    with pytest.raises(DataError, match=f"no row can be scored, as no label is known {ROWS - 1} rows late before"):
        FileComparison(path, Settings(target="y", delay=ROWS - 1))
    assert FileComparison(path, Settings(target="y", delay=ROWS - 2), peers=False).results[0].rows == 1


def test_peers_see_the_same_rows_without_holes_and_where_these_were(stream, tmp_path, monkeypatch):
    seen = []

    def play(Z, y, context):
        seen.append((Z, y, context))
        return np.zeros(len(y))

    monkeypatch.setattr(compare, "installed_peers", lambda task, seed: [Contender("spy", "Spy", play, 1.0)])
    path = stream.write(tmp_path, "regression", w=stream.weight.tolist())
    settings = {"target": "y", "weight": "w", "elapsed": True, "delay": 6}
    for missing in ("fill", "indicators"):
        FileComparison(path, Settings(missing=missing, **settings), only=["spy"]).play()
    (plain, y, context), (marked, *_) = seen
    assert not np.isnan(plain).any()
    holes = np.isnan(stream.Z[:, 0])
    np.testing.assert_array_equal(plain[~holes], stream.Z[~holes])
    np.testing.assert_array_equal(marked, np.column_stack([plain, holes]))
    np.testing.assert_array_equal(y, stream.numbers)
    assert context.delay == 6
    np.testing.assert_array_equal(context.weight, stream.weight)
    np.testing.assert_array_equal(context.elapsed, stream.elapsed)


# ---- peers ---------------------------------------------------------------------------------------------------------


class Counter:
    """Learns in the way of River, and predicts the number of the last row it has learned; keeps weights."""

    def __init__(self):
        self.learned, self.weights, self.steps = -1, [], {"counter": self}

    def predict_one(self, x):
        return float(self.learned)

    def learn_one(self, x, y, w=1.0):
        assert x["0"] == y  # the row that belongs to the label
        self.learned = int(y)
        self.weights.append(w)


def test_rows_are_learned_when_their_labels_are_known_and_not_before():
    t = np.arange(40.0)
    for delay in (0, 5):
        model = Counter()
        seen = peers._play_river(model, "regression", t[:, None], t, check_context(None, 40, delay=delay))
        np.testing.assert_array_equal(seen, np.maximum(t - 1.0 - delay, -1.0))
        assert model.weights == [1.0] * (40 - delay)
    model, weight = Counter(), np.resize([2.0, 0.0, 0.5], 40)
    peers._play_river(model, "regression", t[:, None], t, check_context(None, 40, weight=weight, delay=5))
    assert model.weights == weight[:35][weight[:35] > 0.0].tolist()


def all_peers(task):
    return list(peers.installed_peers(task, 0))


def peer(task, name):
    """Return a fresh learner, as they remember what they have learned."""
    return next(contender for contender in all_peers(task) if contender.name == name)


PEERS = [(task, contender.name) for task in TASKS for contender in all_peers(task)]


def peer_stream(task):
    Z, labels = draw_classes(320, sharpness=4.0)
    y = labels.astype(float)
    if task == "classification":
        return Z, (y > 0.0).astype(float)
    return (Z, y) if task == "multiclass" else (Z, y + 0.2 * np.random.default_rng(1).normal(size=len(y)))


@pytest.mark.parametrize(("task", "name"), PEERS)
def test_no_peer_knows_a_label_early(task, name):
    Z, y = peer_stream(task)
    delay, changed = 9, 296  # the ridge is fitted again before row 300, when this label is still unknown
    other = y.copy()
    other[changed:] = {"regression": y + 5.0, "classification": 1.0 - y, "multiclass": (y + 1.0) % 3.0}[task][changed:]
    late = check_context(None, len(y), delay=delay)
    first, second = (peer(task, name).play(Z, labels, late) for labels in (y, other))
    np.testing.assert_array_equal(first[: changed + delay + 1], second[: changed + delay + 1])
    in_time = peer(task, name).play(Z, other, ORDINARY)
    if "every 1,000" not in name:  # which is fitted once here
        assert (first[changed + delay + 1 :] != second[changed + delay + 1 :]).any()
    assert (in_time != second).any()


@pytest.mark.parametrize(("task", "name"), PEERS)
def test_weights_reach_the_peers_that_take_some_and_rows_of_weight_0_are_learned_by_none(task, name):
    Z, y = peer_stream(task)
    weight = np.random.default_rng(4).choice([1.0, 3.0], size=len(y))
    contender = peer(task, name)
    weighted = contender.play(Z, y, check_context(None, len(y), weight=weight))
    plain = peer(task, name).play(Z, y, ORDINARY)
    assert (weighted != plain).any() == contender.takes_weights
    silent = np.random.default_rng(5).random(len(y)) < 0.3
    context = check_context(None, len(y), weight=np.where(silent, 0.0, weight))
    other = np.where(silent, 0.0, y)
    np.testing.assert_array_equal(*(peer(task, name).play(Z, labels, context) for labels in (y, other)))


def test_only_river_has_learners_without_weights():
    without = {contender.name for task in TASKS for contender in all_peers(task) if not contender.takes_weights}
    assert without == {
        "BayesianLinearRegression", "KNNRegressor", "ARFRegressor", "ARFClassifier", "AMFClassifier",
        "SoftmaxRegression",
    }  # fmt: skip


def test_a_ridge_counts_a_row_as_often_as_its_weight():
    Z, y = peer_stream("regression")
    weight = np.ones(len(y))
    weight[40:80] = 3.0
    weighted = peers.play_windowed_ridge("regression", Z, y, check_context(None, len(y), weight=weight))
    often = np.repeat(np.arange(100), weight[:100].astype(int))
    X = peers.with_last_label(Z, y)
    A, b = X[often], y[often]
    A = (A - A.mean(axis=0)) / A.std(axis=0)
    coef = np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ (b - b.mean()))
    rows = (X[100:125] - X[often].mean(axis=0)) / X[often].std(axis=0)
    np.testing.assert_allclose(weighted[100:125], b.mean() + rows @ coef, rtol=1e-10)


class Fitted:
    """A model that keeps the weights it was fitted with."""

    def fit(self, X, y, sample_weight=None):
        Fitted.calls.append((X, y, sample_weight))
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_refitted_models_get_the_rows_whose_labels_are_known_with_their_weights():
    Fitted.calls = []
    Z, y = peer_stream("regression")
    weight = np.resize([1.0, 0.0, 2.0, 4.0], len(y))
    context = check_context(None, len(y), weight=weight, delay=20)
    out = peers.play_retrained(Fitted, 100, "regression", Z, y, context)
    counted = np.flatnonzero(weight > 0.0)
    begin = int(counted[99]) + 1 + 20  # the row by which a hundred labels are known
    assert len(Fitted.calls) == 2
    for k, (X, labels, weights) in enumerate(Fitted.calls):
        past = counted[counted < begin + 100 * k - 20]
        np.testing.assert_array_equal(labels, y[past])
        np.testing.assert_array_equal(weights, weight[past])
        np.testing.assert_array_equal(X[:, :-1], Z[past])
        before = [counted[counted < t - 20] for t in past]
        np.testing.assert_array_equal(X[:, -1], [y[rows[-1]] if len(rows) else 0.0 for rows in before])
    assert (out[begin:] == 0.0).all()
    np.testing.assert_array_equal(out[21:begin], [y[counted[counted < t - 20][-1]] for t in range(21, begin)])
