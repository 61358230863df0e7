"""BoostedTrees learns what bends, keeps its bits, and refuses in one sentence what it cannot use."""

import numpy as np
import pytest

import undrift as ud
from undrift import store
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import LEAF, TreeNode


def steps_and_products(rng, rows=3000):
    X = rng.uniform(-1.0, 1.0, size=(rows, 4))
    return X, np.where(X[:, 0] > 0.2, X[:, 1], -X[:, 1]) + (X[:, 2] > 0.5)


@pytest.fixture(scope="module")
def data():
    return steps_and_products(np.random.default_rng(0))


@pytest.fixture(scope="module")
def fitted(data):
    return ud.BoostedTrees(trees=60, columns=1.0).fit(*data)


def test_numbers_that_interact_are_learned(fitted):
    X, y = steps_and_products(np.random.default_rng(1), 1000)
    assert np.mean((fitted.predict(X) - y) ** 2) < 0.03 * np.var(y)


def test_probabilities_are_right_on_average_and_apart(data):
    X, y = data
    p = 1.0 / (1.0 + np.exp(-3.0 * y))
    labels = np.random.default_rng(2).random(len(y)) < p
    model = ud.BoostedTrees("logistic", trees=60, columns=1.0).fit(X[:2000], labels[:2000])
    proba = model.predict_proba(X[2000:])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    assert np.mean((proba[:, 1] - p[2000:]) ** 2) < 0.25 * np.var(p)
    np.testing.assert_allclose(proba[:, 1], 1.0 / (1.0 + np.exp(-model.log_odds(X[2000:]))), rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "names"), [([False, True], [False, True]), ([0, 1], [0, 1]), ([-1.0, 1.0], [-1, 1])], ids=str
)
def test_labels_come_back_as_they_were_given(data, given, names):
    X, y = data
    model = ud.BoostedTrees("logistic", trees=20, columns=1.0).fit(X, np.array(given)[(y > 0.5).astype(int)])
    assert model.classes == names
    said = model.predict(X)
    assert set(said.tolist()) == set(names)
    assert np.mean((said == names[1]) == (y > 0.5)) > 0.9
    assert type(said[0].item()) is type(names[0])


def test_one_row_gives_one_number(fitted, data):
    X = data[0]
    assert isinstance(fitted.predict(X[0]), float)
    assert fitted.predict(X[0]) == fitted.predict(X)[0]
    assert fitted.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("rows", [400, 3000])  # the edges of bins come from all rows, or from a sample of 4,096
def test_a_row_of_weight_w_is_w_rows_bit_for_bit(loss, rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + rng.normal(size=rows)
    y = y if loss == "squared" else (y > 0.0).astype(float)
    weight = rng.choice([0, 1, 2, 3, 7, 40], size=rows)
    options = {"trees": 10, "leaf_weight": 10.0}
    weighted = ud.BoostedTrees(loss, **options).fit(X, y, weight)
    repeated = ud.BoostedTrees(loss, **options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.predict(X).tobytes() == repeated.predict(X).tobytes()
    once = ud.BoostedTrees(loss, **options).fit(X, y)
    assert np.abs(weighted.predict(X) - once.predict(X)).max() > 0.01
    more = (
        weighted.refresh(X, y, weight, trees=4),
        repeated.refresh(np.repeat(X, weight, axis=0), np.repeat(y, weight), trees=4),
    )
    assert more[0].predict(X).tobytes() == more[1].predict(X).tobytes()


def test_weights_of_any_size_give_the_trees_of_their_ratios():
    """Powers of two are exact: leaves of so much weight, and no others, have the same sums in another unit."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 3))
    y, weight = X[:, 0] + rng.normal(size=500), rng.integers(1, 9, size=500).astype(float)
    usual = ud.BoostedTrees(trees=5, leaf_weight=2.0**21).fit(X, y, 2.0**17 * weight).predict(X)
    large = ud.BoostedTrees(trees=5, leaf_weight=2.0**29).fit(X, y, 2.0**25 * weight).predict(X)
    np.testing.assert_allclose(large, usual, rtol=0.0, atol=1e-6)  # the ridge counts less: 3e-7 measured
    assert np.ptp(usual) > 0.1


def test_missing_numbers_go_where_they_do_better():
    rng = np.random.default_rng(4)
    X = np.round(3.0 * rng.normal(size=(2000, 2)))  # few values, so that there is an edge at 0
    missing = rng.random(2000) < 0.3
    X[missing, 0] = np.nan
    for y in (np.where(missing, 5.0, 0.0), np.where(missing, 5.0, np.where(X[:, 0] > 0.0, 5.0, -5.0))):
        model = ud.BoostedTrees(trees=50, columns=1.0).fit(X, y)
        assert np.abs(model.predict(X) - y).max() < 0.2


def test_no_leaf_is_lighter_than_asked(data):
    X, y = data
    model = ud.BoostedTrees(trees=5, leaf_weight=100.0, learning_rate=1.0).fit(X, y)
    tree = model.forest.trees[0]
    assert (tree[:, TreeNode.COLUMN] != LEAF).sum() > 3
    at = np.zeros(len(X), int)
    for _ in range(len(tree)):
        column = tree[at, TreeNode.COLUMN].astype(int)
        left = X[np.arange(len(X)), np.maximum(column, 0)] <= tree[at, TreeNode.VALUE]
        at = np.where(column == LEAF, at, tree[at, TreeNode.LEFT].astype(int) + ~left)
    assert np.bincount(at)[np.unique(at)].min() >= 100


def test_scaled_labels_scale_predictions(fitted, data):
    X, y = data
    scaled = ud.BoostedTrees(trees=60, columns=1.0).fit(X, 1024.0 * y)
    assert (scaled.predict(X) == 1024.0 * fitted.predict(X)).all()


def test_the_seed_decides_everything(data):
    first, same, other = (
        ud.BoostedTrees(trees=9, seed=seed).fit(*data, threads=threads).forest
        for seed, threads in ((0, 1), (0, 3), (1, 1))
    )
    assert first.trees.tobytes() == same.trees.tobytes()
    assert first.trees.tobytes() != other.trees.tobytes()


def test_a_refresh_follows_a_change_and_keeps_the_old_trees(fitted, data):
    X, y = data
    model = ud.BoostedTrees(trees=60, columns=1.0).fit(X, y)
    shifted = y + 2.0 * (X[:, 3] > 0.0)
    before = np.mean((model.predict(X) - shifted) ** 2)
    growth = model.begin_refresh(X, shifted, trees=30)
    steps = 1
    while not growth.step(20_000):
        assert model.forest.trees.tobytes() == fitted.forest.trees.tobytes()  # until all of it is done
        steps += 1
    assert steps > 20
    assert growth.step(1)  # done stays done
    assert model.forest.trees[:60].tobytes() == fitted.forest.trees.tobytes()
    assert np.mean((model.predict(X) - shifted) ** 2) < 0.1 * before
    at_once = ud.BoostedTrees(trees=60, columns=1.0).fit(X, y).refresh(X, shifted, trees=30)
    assert at_once.forest.trees.tobytes() == model.forest.trees.tobytes()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_degenerate_rows_give_finite_predictions(loss):
    X = np.column_stack([np.zeros(50), np.full(50, np.nan), np.full(50, 1e75), np.repeat([-1e75, 1e75], 25)])
    y = np.repeat([0.0, 1.0], 25)
    for labels in (y, np.ones(50), np.zeros(50), y if loss == "logistic" else 1e75 * y):
        model = ud.BoostedTrees(loss, trees=5, leaf_weight=1.0, columns=1.0).fit(X, labels)
        assert np.isfinite(np.asarray(model.predict(X), float)).all()
    assert np.isfinite(model.predict(np.full((1, 4), np.nan)).astype(float)).all()
    assert len(ud.BoostedTrees(loss).fit(X[:1], y[:1]).forest.trees) == 100  # a single row


def test_files_hold_the_same_trees(tmp_path, fitted, data):
    X, y = data
    for model in (fitted, ud.BoostedTrees("logistic", trees=3, leaves=4, seed=2**64 - 1).fit(X, y > 0.0)):
        model.save(tmp_path / "trees.undrift")
        loaded = ud.BoostedTrees.load(tmp_path / "trees.undrift")
        assert loaded.get_params() == model.get_params()
        assert loaded.predict(X).tobytes() == model.predict(X).tobytes()
        assert loaded.forest.trees.tobytes() == model.forest.trees.tobytes()
        more = [one.refresh(X, y > 0.0, trees=2).predict(X).tobytes() for one in (loaded, model)]
        assert more[0] == more[1]
    again = ud.load(tmp_path / "trees.undrift")
    assert isinstance(again, ud.BoostedTrees)
    assert again.get_params() == model.get_params()


@pytest.mark.parametrize(
    ("place", "number"),
    [
        (TreeNode.COLUMN, 4.0),
        (TreeNode.COLUMN, 0.5),
        (TreeNode.COLUMN, -2.0),
        (TreeNode.LEFT, 0.0),
        (TreeNode.LEFT, 60.0),
        (TreeNode.LEFT, 1.5),
        (TreeNode.VALUE, np.inf),
    ],
)
def test_trees_that_lead_nowhere_are_refused(tmp_path, fitted, place, number):
    path = tmp_path / "trees.undrift"
    fitted.save(path)
    header, arrays = store.read(path)
    arrays["trees"] = arrays["trees"].copy()
    arrays["trees"][7, 0, place] = number
    store.write(path, header, arrays)
    with pytest.raises(ModelFileError, match=r"trees\.undrift: the saved trees (lead nowhere|hold unusable)"):
        ud.BoostedTrees.load(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"class": "Other"}, "holds a Other, not a BoostedTrees"),
        ({"dim": 0}, "how many columns"),
        ({"dim": None}, "how many columns"),
        ({"parameters": {"loss": "absolute"}}, "cannot be used"),
        ({"parameters": 5}, "cannot be used"),
        ({"parameters": {"leaves": 30}}, "not those of boosted trees"),
    ],
)
def test_damaged_headers_are_refused(tmp_path, fitted, change, says):
    path = tmp_path / "trees.undrift"
    fitted.save(path)
    header, arrays = store.read(path)
    store.write(path, header | change, arrays)
    with pytest.raises(ModelFileError, match=says):
        ud.BoostedTrees.load(path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"loss": "absolute"}, "loss must be one of squared, logistic, got 'absolute'"),
        ({"trees": 0}, r"trees must be an integer in \[1, 10000\], got 0"),
        ({"leaves": 1}, r"leaves must be an integer in \[2, 255\], got 1"),
        ({"learning_rate": 0.0}, r"learning_rate must be in \(0, 1\], got 0.0"),
        ({"leaf_weight": 0.0}, r"leaf_weight must be in \(0, 1e9\], got 0.0"),
        ({"columns": 1.5}, r"columns must be in \(0, 1\], got 1.5"),
        ({"seed": -1}, "seed must be an integer in"),
    ],
)
def test_wrong_parameters_are_refused(options, says):
    with pytest.raises(InputError, match=f"BoostedTrees: {says}"):
        ud.BoostedTrees(**options)


def test_wrong_rows_and_labels_are_refused(fitted, data):
    X, y = data
    with pytest.raises(InputError, match="fit must come before this"):
        ud.BoostedTrees().predict(X)
    with pytest.raises(InputError, match="fit must come before this"):
        ud.BoostedTrees().refresh(X, y)
    for call, says in [
        (lambda: fitted.predict(X[:, :3]), "must have 4 features as before, got 3"),
        (lambda: fitted.refresh(X[:, :3], y), "must have 4 features as before, got 3"),
        (lambda: fitted.fit(X[:0], y[:0]), "at least one row, got none"),
        (lambda: fitted.fit(X[:, :0], y), "at least one column, got none"),
        (lambda: fitted.fit(X, y[:-1]), "y must have one number a round, 3000, got 2999"),
        (lambda: fitted.fit(np.where(X > 0.9, np.inf, X), y), "must be finite and at most 1e75"),
        (lambda: fitted.fit(X, np.where(y > 0.9, np.nan, y)), "y must be finite"),
        (lambda: fitted.fit(X, y, -np.ones(3000)), r"weight must be in \[0, 1e9\] and not 0 everywhere, got -1 to -1"),
        (lambda: fitted.fit(X, y, np.zeros(3000)), r"not 0 everywhere, got 0 to 0"),
        (lambda: fitted.fit("rows", y), "must be an array of numbers"),
        (lambda: fitted.predict_proba(X), "probabilities need loss='logistic', got 'squared'"),
        (lambda: ud.BoostedTrees("logistic").fit(X, y), "y must be a binary label"),
        (lambda: fitted.begin_refresh(X, y, trees=0), r"trees must be an integer in \[1, 10000\], got 0"),
        (lambda: fitted.begin_refresh(X, y).step(0), "TreeGrowth: budget must be an integer in"),
    ]:
        before = fitted.forest
        with pytest.raises(InputError, match=says):
            call()
        assert fitted.forest is before


def test_input_is_left_alone_and_may_be_of_any_kind(fitted, data):
    X, y = data
    for kind in (np.asfortranarray(X), X.tolist(), X.astype(">f8")):
        assert ud.BoostedTrees(trees=2).fit(kind, y).predict(kind).tobytes() == (
            ud.BoostedTrees(trees=2).fit(X, y).predict(X).tobytes()
        )
    frozen = X.copy()
    frozen.flags.writeable = False
    ud.BoostedTrees(trees=2).fit(frozen, y)
