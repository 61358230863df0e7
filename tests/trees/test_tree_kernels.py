"""Compiled boosted trees against their twin: the same trees, bit for bit, in any number of steps and threads.

These loops are the same at every kernel level, so the tests need not run at each.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins import trees as reference
from undrift import kernels
from undrift.kernels.definitions import LEAF, TreeNode


def problem(rng, rows, dim, *, missing=0.0, weighted=False, logistic=False):
    """Return columns of several kinds: normal, few values, mostly one value, constant; some of it missing."""
    X = rng.normal(size=(rows, dim))
    X[:, 1::4] = np.round(X[:, 1::4])
    X[:, 2::4] = np.where(rng.random(X[:, 2::4].shape) < 0.8, 0.0, X[:, 2::4])
    X[:, 3::4] = 7.0
    y = X[:, 0] * X[:, -1] + np.abs(X[:, 0]) + rng.normal(scale=0.3, size=rows)
    X[rng.random(X.shape) < missing] = np.nan
    weight = rng.exponential(size=rows) if weighted else np.empty(0)
    return X, (y > 0.5).astype(float) if logistic else y, weight


def grow(builder, data, *, trees=3, leaves=7, old=None, base=0.0, budget=2**62, threads=1, **options):
    X, y, weight = data
    room = np.full((trees, 2 * leaves - 1, len(TreeNode)), np.nan)
    old = np.empty((0, *room.shape[1:])) if old is None else old
    given = {"logistic": False, "columns": X.shape[1], "learning_rate": 0.1, "leaf_weight": 5.0, "seed": 0} | options
    one = builder(X=X, y=y, weight=weight, old=old, base=base, trees=room, **given)
    calls = 1
    while not one.step(budget, threads):
        calls += 1
    return room, one.base, calls


@pytest.mark.parametrize("logistic", [False, True])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_trees_are_those_of_the_twin(logistic, missing, weighted):
    rng = np.random.default_rng(1)
    data = problem(rng, 100, 6, missing=missing, weighted=weighted, logistic=logistic)
    for columns in (6, 2):
        options = {"logistic": logistic, "columns": columns, "seed": columns}
        ours, base, _ = grow(kernels.TreeBuilder, data, **options)
        twin, twin_base, _ = grow(reference.TreeBuilder, data, **options)
        assert base == twin_base
        assert ours.tobytes() == twin.tobytes()
        assert (ours[:, 0, TreeNode.COLUMN] != LEAF).any()  # something was split
        scores = np.empty(100), np.empty(100)
        kernels.trees_predict(ours, base, data[0], scores[0])
        reference.trees_predict(twin, base, data[0], scores[1])
        assert scores[0].tobytes() == scores[1].tobytes()


@given(
    seed=st.integers(0, 2**64 - 1),
    rows=st.integers(1, 60),
    dim=st.integers(1, 5),
    leaves=st.integers(1, 9),
    leaf_weight=st.floats(0.1, 30.0),
    exponent=st.integers(-250, 70),
)
@settings(max_examples=60)
def test_compiled_trees_are_those_of_the_twin_on_any_small_problem(seed, rows, dim, leaves, leaf_weight, exponent):
    rng = np.random.default_rng(seed)
    X, y, weight = problem(rng, rows, dim, missing=0.2, weighted=bool(seed % 2))
    data = X, 10.0**exponent * y, weight
    options = {"trees": 2, "leaves": leaves, "leaf_weight": leaf_weight, "seed": seed, "columns": 1 + seed % dim}
    ours, base, _ = grow(kernels.TreeBuilder, data, **options)
    twin, twin_base, _ = grow(reference.TreeBuilder, data, **options)
    assert (base, ours.tobytes()) == (twin_base, twin.tobytes())


def test_edges_of_long_columns_are_those_of_the_twin():
    rng = np.random.default_rng(2)
    X, y, weight = problem(rng, 5000, 4, missing=0.1)
    X[:, 3] = np.sort(rng.exponential(size=5000))
    options = {"trees": 2, "leaves": 3, "leaf_weight": 20.0}
    ours, twin = (grow(kind, (X, y, weight), **options)[0] for kind in (kernels.TreeBuilder, reference.TreeBuilder))
    assert ours.tobytes() == twin.tobytes()
    assert max(len(reference.bin_edges(x)) for x in X.T) == 62


@pytest.mark.parametrize("logistic", [False, True])
def test_steps_and_threads_do_not_matter(logistic):
    rng = np.random.default_rng(3)
    data = problem(rng, 70_000, 24, missing=0.05, logistic=logistic)  # enough for a second thread
    options = {"logistic": logistic, "leaves": 15, "trees": 4, "columns": 12}
    whole, base, _ = grow(kernels.TreeBuilder, data, **options)
    for budget, threads in ((1, 1), (300_000, 1), (2**62, 2), (1_000_000, 5)):
        parts, parts_base, calls = grow(kernels.TreeBuilder, data, budget=budget, threads=threads, **options)
        assert (parts_base, parts.tobytes()) == (base, whole.tobytes())
        assert calls > 100 if budget == 1 else calls > 5 or budget == 2**62


def test_trees_go_on_from_older_ones_as_the_twin_does():
    rng = np.random.default_rng(4)
    first, later = problem(rng, 120, 5, missing=0.1), problem(rng, 90, 5)
    old, base, _ = grow(kernels.TreeBuilder, first)
    ours = grow(kernels.TreeBuilder, later, old=old, base=base)
    twin = grow(reference.TreeBuilder, later, old=old, base=base)
    assert (ours[1], ours[0].tobytes()) == (base, twin[0].tobytes())
    whole, _, _ = grow(kernels.TreeBuilder, first, trees=5)
    more, _, _ = grow(kernels.TreeBuilder, first, trees=2, old=whole[:3], base=base)
    assert more.tobytes() == whole[3:].tobytes()  # on the same rows: as if all had been grown at once


def test_arrays_that_do_not_fit_are_refused():
    data = problem(np.random.default_rng(5), 30, 3)
    for wrong in ({"columns": 0}, {"columns": 4}, {"leaf_weight": 0.0}, {"old": np.zeros((1, 3, 4))}):
        with pytest.raises(ValueError, match="do not fit together"):
            grow(kernels.TreeBuilder, data, **wrong)
    with pytest.raises(ValueError, match="do not fit together"):
        grow(kernels.TreeBuilder, (data[0], data[1][:-1], data[2]))
