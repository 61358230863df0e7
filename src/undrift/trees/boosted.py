"""BoostedTrees: gradient boosting of small trees, for relations that bend, jump and interact.

Written by hand, because forests that learn beside a stream must grow a bounded piece of work at a time (`TreeGrowth`),
give the same bits on every machine and thread count, and be data-only files; no boosting library offers all three.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels, store
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import LEAF, TreeNode
from undrift.losses import sigmoid

ALL_AT_ONCE = 2**62
"""A budget that no fit uses up."""
LOSSES = ("squared", "logistic")
MOST_WEIGHT = 1e9


class Forest(NamedTuple):
    """What boosted trees have learned."""

    dim: int
    """Columns of the rows."""
    base: float
    """The score of a row before the first tree."""
    trees: NDArray[np.float64]
    """Shape (trees, 2 leaves - 1, numbers of `TreeNode`)."""
    labels: tuple[float, float]
    """What the two classes are called; (0, 0) for numbers."""
    boolean: bool
    """Whether the two classes were given as False and True."""

    def score(self, X: Matrix) -> Vector:
        """Return the sum of the base and the leaves of every row."""
        score = np.empty(len(X))
        kernels.trees_predict(self.trees, self.base, X, score)
        return score


class GrowthOptions(NamedTuple):
    """How trees grow; the parameters of `BoostedTrees`."""

    logistic: bool
    leaves: int
    columns: float
    learning_rate: float
    leaf_weight: float
    seed: int


class TreeGrowth:
    """Trees that grow step by step; made by `BoostedTrees.begin_fit` and `begin_refresh`.

    The trees are the same bits, however the work is cut into steps. The model takes them over in the last one, and
    predicts with what it had until then.

    Examples
    --------
    >>> import undrift as ud
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(2000, 3)), rng.normal(size=2000)
    >>> model = ud.BoostedTrees(trees=10)
    >>> growth = model.begin_fit(X, y)
    >>> steps = 1
    >>> while not growth.step(50_000):
    ...     steps += 1
    >>> steps > 10
    True
    >>> bool((model.predict(X) == ud.BoostedTrees(trees=10).fit(X, y).predict(X)).all())
    True
    """

    def __init__(
        self,
        options: GrowthOptions,
        start: Forest,
        data: tuple[Matrix, Vector, Vector],
        trees: int,
        finish: Callable[[Forest], None],
    ) -> None:
        X, y, weight = data
        self.done = False
        self._start, self._finish = start, finish
        self._room = np.empty((trees, 2 * options.leaves - 1, len(TreeNode)))
        self._builder = kernels.TreeBuilder(
            X=X,
            y=y,
            weight=weight,
            old=start.trees,
            base=start.base,
            trees=self._room,
            logistic=options.logistic,
            columns=math.ceil(options.columns * X.shape[1]),
            learning_rate=options.learning_rate,
            leaf_weight=options.leaf_weight,
            seed=options.seed,
        )

    def step(self, budget: int = 100_000, *, threads: int = 1) -> bool:
        """Work until the budget is used up; return whether all trees are grown.

        Parameters
        ----------
        budget
            About how many cells (rows times columns) are counted into histograms; 100,000 take about 0.2 ms. A piece
            of work is done whole: the rows of one leaf, or one column's quantiles.
        threads
            Most threads of the call, used where there is enough to do.
        """
        budget = _check.integer(self, "budget", budget, 1, ALL_AT_ONCE)
        if not self.done and self._builder.step(budget, _check.integer(self, "threads", threads, 1, 1024)):
            start = self._start
            trees = np.concatenate([start.trees, self._room])
            self._finish(start._replace(base=self._builder.base, trees=trees))
            self.done = True
        return self.done


def forest_arrays(forest: Forest) -> tuple[store.Header, Arrays]:
    """Return a header and arrays from which `make_forest` makes the same trees."""
    header: store.Header = {"dim": forest.dim, "boolean": forest.boolean}
    return header, {"base": np.array([forest.base]), "labels": np.array(forest.labels), "trees": forest.trees}


def read_forest(path: str | os.PathLike[str], cls: type[Any]) -> tuple[dict[str, Any], Forest]:
    """Return the parameters and trees that a file holds for a model of class `cls`; refuse what does not fit."""
    header, arrays = store.read(path)
    try:
        if header.get("class") != cls.__name__:
            raise ModelFileError(f"holds a {header.get('class')!s:.60}, not a {cls.__name__}")
        parameters = dict(header["parameters"])  # type: ignore[arg-type]  # anything else fails right here
        leaves = cls(**parameters).leaves
        forest = make_forest(header, arrays, leaves)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: the saved parameters cannot be used ({_check.one_line(str(error), 120)})"
        ) from None
    return parameters, forest


def make_forest(header: store.Header, arrays: Arrays, leaves: int) -> Forest:
    """Return the trees that `forest_arrays` described; refuse trees that a row could not be walked down."""
    dim, boolean = header.get("dim"), header.get("boolean")
    if not isinstance(dim, int) or isinstance(dim, bool) or dim < 1 or not isinstance(boolean, bool):
        raise ModelFileError("the header does not say how many columns rows have")
    shapes = {name: array.shape for name, array in arrays.items()}
    nodes = 2 * leaves - 1
    fits = set(shapes) == {"base", "labels", "trees"} and shapes["base"] == (1,) and shapes["labels"] == (2,)
    if not fits or len(shapes["trees"]) != 3 or shapes["trees"][1:] != (nodes, len(TreeNode)):
        raise ModelFileError("the saved arrays are not those of boosted trees")
    trees = np.ascontiguousarray(arrays["trees"])
    if not all(np.isfinite(array).all() and array.dtype == np.float64 for array in arrays.values()):
        raise ModelFileError("the saved trees hold unusable numbers")
    column, left = trees[..., TreeNode.COLUMN], trees[..., TreeNode.LEFT]
    inner = column != LEAF
    here = np.broadcast_to(np.arange(nodes), inner.shape)
    sound = (column[inner] % 1.0 == 0.0) & (column[inner] >= 0.0) & (column[inner] < dim)
    sound &= (left[inner] % 1.0 == 0.0) & (left[inner] > here[inner]) & (left[inner] + 1 < nodes)
    steps = np.where(inner, 0.0, np.abs(trees[..., TreeNode.VALUE]))
    with np.errstate(over="ignore"):
        most = abs(float(arrays["base"][0])) + float(steps.max(axis=1, initial=0.0).sum())
    if not sound.all() or not np.isfinite(most):
        raise ModelFileError("the saved trees lead nowhere: columns or children do not exist")
    names = (float(arrays["labels"][0]), float(arrays["labels"][1]))
    if names not in ((0.0, 0.0), (0.0, 1.0), (-1.0, 1.0)):
        raise ModelFileError("the saved labels of two classes must be 0 and 1, or -1 and +1")
    return Forest(dim, float(arrays["base"][0]), trees, names, boolean)


class BoostedTrees:
    r"""Gradient boosted trees over binned columns, fitted to rows given at once.

    Each tree takes a Newton step down the loss: the leaf with the largest gain is split next, a leaf adds
    $-\eta\,G/(H+1)$ with the sums G of gradients and H of curvatures over its rows. Columns are cut into 63 bins by
    quantiles; missing numbers (NaN) go to the side where they do better.

    Parameters
    ----------
    loss
        "squared" for numbers, "logistic" for two classes.
    trees
        How many trees `fit` grows, 1 to 10,000.
    leaves
        Most leaves of a tree, 2 to 255.
    learning_rate
        What part of a Newton step a tree takes, in (0, 1]; smaller ones want more trees.
    leaf_weight
        Least weight of a leaf, in rows. Under logistic loss a row counts $4p(1-p)$: rows that are settled count less.
    columns
        Share of the columns that a tree may use, in (0, 1], drawn anew for each.
    seed
        Of that draw. The same seed gives the same bits, whatever the number of threads or steps.

    Notes
    -----
    A fit takes about half of LightGBM's time on one thread (`python -m benchmarks trees`), a prediction some
    microseconds. `refresh` adds trees for newer rows, `begin_fit` cuts a fit into small steps.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 3))
    >>> y = np.where(X[:, 0] > 0, X[:, 1], -X[:, 1]) + 0.1 * rng.normal(size=4000)
    >>> model = BoostedTrees(columns=1.0).fit(X[:3000], y[:3000])
    >>> error = y[3000:] - model.predict(X[3000:])
    >>> bool(np.mean(error**2) < 0.1 * np.var(y))  # the noise alone is 0.03 of it
    True
    """

    accepts_nan = True

    def __init__(
        self,
        loss: str = "squared",
        *,
        trees: int = 100,
        leaves: int = 31,
        learning_rate: float = 0.1,
        leaf_weight: float = 20.0,
        columns: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.loss = _check.choice(self, "loss", loss, LOSSES)
        self.trees = _check.integer(self, "trees", trees, 1, 10_000)
        self.leaves = _check.integer(self, "leaves", leaves, 2, 255)
        self.learning_rate = _check.interval(self, "learning_rate", learning_rate, "(0, 1]")
        self.leaf_weight = _check.interval(self, "leaf_weight", leaf_weight, "(0, 1e9]")
        self.columns = _check.interval(self, "columns", columns, "(0, 1]")
        self.seed = _check.integer(self, "seed", seed, 0, 2**64 - 1)
        self._forest: Forest | None = None

    @property
    def logistic(self) -> bool:
        """Whether labels are two classes."""
        return self.loss == "logistic"

    @property
    def _estimator_type(self) -> str:
        """What scikit-learn asks a model for."""
        return "classifier" if self.logistic else "regressor"

    @property
    def forest(self) -> Forest:
        """What was learned: the trees as flat arrays."""
        if self._forest is None:
            raise InputError("BoostedTrees: fit must come before this; no rows were learned yet")
        return self._forest

    def fit(self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, *, threads: int = 1) -> Self:
        """Learn from rows (n, d) and their labels; what was learned before is forgotten.

        A row of weight w counts as w rows; without weights every row counts once.
        """
        self.begin_fit(X, y, weight).step(ALL_AT_ONCE, threads=threads)
        return self

    def refresh(
        self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, *, trees: int = 8, threads: int = 1
    ) -> Self:
        """Add trees that correct the others on these rows, newer ones for example."""
        self.begin_refresh(X, y, weight, trees=trees).step(ALL_AT_ONCE, threads=threads)
        return self

    def begin_fit(self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> TreeGrowth:
        """Return a fit to be done in steps. Rows may not be copied: leave them as they are until it is done."""
        rows = self._rows(X, None)
        data, (labels, boolean) = self._data(rows, y, weight), self._label_names(y)
        empty = np.empty((0, 2 * self.leaves - 1, len(TreeNode)))
        start = Forest(rows.shape[1], 0.0, empty, labels, boolean)
        return TreeGrowth(self._options(), start, data, self.trees, self._take)

    def begin_refresh(
        self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, *, trees: int = 8
    ) -> TreeGrowth:
        """Return a refresh to be done in steps. Rows may not be copied: leave them as they are until it is done."""
        count = _check.integer(self, "trees", trees, 1, 10_000)
        start = self.forest
        return TreeGrowth(self._options(), start, self._data(self._rows(X, start.dim), y, weight), count, self._take)

    def predict(self, X: ArrayLike) -> Any:
        """Return predictions of rows: numbers, or the more probable labels as they were given; one for a single row."""
        score = self._score(X)
        if not self.logistic:
            return score
        forest = self.forest
        names = np.array(forest.labels, bool if forest.boolean else np.int64)
        return names[(np.asarray(score) > 0.0).astype(np.intp)]

    def predict_proba(self, X: ArrayLike) -> Vector:
        """Return the probabilities of both classes, (n, 2), or (2,) for one row."""
        score = np.asarray(self.log_odds(X))
        return np.stack([sigmoid(-score), sigmoid(score)], axis=-1)

    def log_odds(self, X: ArrayLike) -> Any:
        """Return the log-odds of the label +1 (1, True)."""
        if not self.logistic:
            raise InputError("BoostedTrees: probabilities need loss='logistic', got 'squared'")
        return self._score(X)

    @property
    def classes(self) -> list[int] | list[bool]:
        """The two labels as they were given, the negative one first; none for numbers."""
        forest = self.forest
        if not self.logistic:
            return []
        return [False, True] if forest.boolean else [int(label) for label in forest.labels]

    def get_params(self, deep: bool = True) -> dict[str, Scalar]:
        """Return the parameters by name, as scikit-learn does."""
        return {
            "loss": self.loss,
            "trees": self.trees,
            "leaves": self.leaves,
            "learning_rate": self.learning_rate,
            "leaf_weight": self.leaf_weight,
            "columns": self.columns,
            "seed": self.seed,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters and trees to a data-only file that `BoostedTrees.load` reads; whole or not at all."""
        _check.path(self, path)
        header, arrays = forest_arrays(self.forest)
        store.write(path, {"class": "BoostedTrees", "parameters": dict(self.get_params()), **header}, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the model that `save` wrote to `path`."""
        parameters, forest = read_forest(_check.path("BoostedTrees.load", path), cls)
        model = cls(**parameters)
        model._take(forest)
        return model

    def __repr__(self) -> str:
        return f"BoostedTrees({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"

    def _take(self, forest: Forest) -> None:
        self._forest = forest

    def _options(self) -> GrowthOptions:
        return GrowthOptions(self.logistic, self.leaves, self.columns, self.learning_rate, self.leaf_weight, self.seed)

    def _rows(self, X: ArrayLike, dim: int | None) -> Matrix:
        rows = _check.rows(self, X, dim, nan=True)
        if not rows.shape[1]:
            raise InputError("BoostedTrees: rows must have at least one column, got none")
        return rows

    def _data(self, X: Matrix, y: ArrayLike, weight: ArrayLike | None) -> tuple[Matrix, Vector, Vector]:
        """Return checked rows, labels (0 and 1 for classes) and weights; rows of weight 0 are left out."""
        if not len(X):
            raise InputError("BoostedTrees: fit needs at least one row, got none")
        labels = _check.signs(self, y, len(X)) if self.logistic else _check.column(self, "y", y, len(X))
        target = np.array(labels > 0.0, np.float64) if self.logistic else np.array(labels)
        if weight is None:
            return X, target, np.empty(0)
        weights = _check.column(self, "weight", weight, len(X))
        low, high = weights.min(), weights.max()
        if low < 0.0 or high > MOST_WEIGHT or high == 0.0:
            raise InputError(f"BoostedTrees: weight must be in [0, 1e9] and not 0 everywhere, got {low:g} to {high:g}")
        used = weights > 0.0
        return np.ascontiguousarray(X[used]), target[used], weights[used]

    def _label_names(self, y: ArrayLike) -> tuple[tuple[float, float], bool]:
        if not self.logistic:
            return (0.0, 0.0), False
        given: NDArray[Any] = np.asarray(_check.fill_masked(y))
        return (-1.0 if np.any(given == -1) else 0.0, 1.0), given.dtype.kind == "b"

    def _score(self, X: ArrayLike) -> Any:
        forest = self.forest
        score = forest.score(self._rows(X, forest.dim))
        return float(score[0]) if len(score) == 1 and np.ndim(_check.fill_masked(X)) == 1 else score
