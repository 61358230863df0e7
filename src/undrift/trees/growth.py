"""TreeGrowth: trees that grow a bounded piece of work at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import TreeNode

ALL_AT_ONCE = 2**62
"""A budget that no fit uses up."""


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
