r"""NumPy twin of boosted trees: gradient boosting over binned columns, slow and plain.

Each tree lowers $\sum_i w_i\ell(F_i,y_i)$ by a Newton step: with gradients $g_i$ and curvatures $h_i$ at the scores F,
a leaf adds $-\eta\,G/(H+\lambda)$, where G and H are their sums over its rows, and a split of a leaf gains

$$\frac{G_l^2}{H_l+\lambda}+\frac{G_r^2}{H_r+\lambda}-\frac{G^2}{H+\lambda}.$$

The leaf with the largest gain is split next. While a tree grows, $g_i$ and $h_i$ are whole numbers of a unit that is a
power of two: their sums are exact, whatever the order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.twins.constants import (
    BIN_SAMPLE,
    GRADIENT_BITS,
    LEAST_GAIN,
    LOGISTIC_CURVATURE,
    MOST_COPIES,
    MOST_WEIGHT,
    SUM_BITS,
    TREE_BINS,
    TREE_RIDGE,
)
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import INPUT_LIMIT, LEAF, TreeNode

MISSING_BIN = TREE_BINS - 1
WORD = 2**64
Units = NDArray[np.int64]
"""Gradients as whole numbers."""
Trees = NDArray[np.float64]
"""Shape (trees, 2 leaves - 1, numbers of `TreeNode`)."""


def sample_rows(weight: Vector) -> list[int]:
    """Return the rows whose values decide the edges of bins: evenly spaced in the sum of their weights."""
    ends = np.cumsum(weight)
    count = max(1, math.ceil(min(ends[-1], BIN_SAMPLE)))
    places = [i * float(ends[-1]) / count for i in range(count)]
    return [min(int(np.searchsorted(ends, place, side="right")), len(weight) - 1) for place in places]


def bin_edges(x: Vector) -> list[float]:
    """Return the upper edges of all bins of a sampled column but the last: about as many rows in each bin."""
    values, counts = np.unique(x[~np.isnan(x)], return_counts=True)
    edges: list[float] = []
    inside, left, bins = 0, int(counts.sum()), TREE_BINS - 1
    for k in range(len(values) - 1):
        inside += int(counts[k])
        if len(values) > TREE_BINS - 1 and (bins == 1 or inside * bins < left):
            continue
        middle = float(values[k] + 0.5 * (values[k + 1] - values[k]))
        edges.append(middle if middle < values[k + 1] else float(values[k]))
        left, inside, bins = left - inside, 0, bins - 1
    return edges


def mix_bits(x: int) -> int:
    """Return 64 bits that look random (splitmix64)."""
    x = (x + 0x9E3779B97F4A7C15) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def choose_columns(dim: int, count: int, seed: int, tree: int) -> list[int]:
    """Return the columns that a tree may use."""
    columns = list(range(dim))
    key = mix_bits((mix_bits(seed) + tree) % WORD)
    for j in range(count):
        k = j + mix_bits((key + j) % WORD) % (dim - j)
        columns[j], columns[k] = columns[k], columns[j]
    return sorted(columns[:count])


def trees_predict(trees: Trees, base: float, X: Matrix, score: Vector) -> None:
    """Fill `score` with the sum of the base and of the leaf of every tree that each row falls into."""
    for i, z in enumerate(X):
        score[i] = base
        for tree in trees:
            at = 0
            while tree[at, TreeNode.COLUMN] != LEAF:
                x = z[int(tree[at, TreeNode.COLUMN])]
                left = tree[at, TreeNode.MISSING_LEFT] == 1.0 if np.isnan(x) else x <= tree[at, TreeNode.VALUE]
                at = int(tree[at, TreeNode.LEFT]) + (0 if left else 1)
            score[i] += tree[at, TreeNode.VALUE]


def weigh(units: Units, weight: Vector) -> Units:
    """Return whole numbers times the weights: exactly, where these are whole too."""
    whole = weight % 1.0 == 0.0
    exact = units * np.where(whole, weight, 0.0).astype(np.int64)
    return np.where(whole, exact, np.rint(units * weight).astype(np.int64))


class GrowingLeaf:
    """A leaf of the tree that grows: its node, its rows, and its best split."""

    def __init__(self, node: int, rows: NDArray[np.intp], g: Units, h: Units) -> None:
        self.node, self.rows = node, rows
        self.g, self.h = int(g[rows].sum()), int(h[rows].sum())
        self.gain = 0.0
        self.column = self.bin = 0
        self.missing_left = False


class TreeBuilder:
    """Grows as many trees as `trees` has room for, after those in `old`.

    No `weight` means 1 for every row. `base` is what the old trees add to; without old trees it is fitted.
    """

    def __init__(
        self,
        *,
        X: Matrix,
        y: Vector,
        weight: Vector,
        old: Trees,
        base: float,
        trees: Trees,
        logistic: bool,
        columns: int,
        learning_rate: float,
        leaf_weight: float,
        seed: int,
    ) -> None:
        self.X, self.y, self.old, self.trees = X, y, old, trees
        self.weight = weight if len(weight) else np.ones(len(y))
        self.logistic, self.columns, self.seed = logistic, columns, seed
        self.learning_rate, self.leaf_weight = learning_rate, leaf_weight
        self.base = base if len(old) else self._fit_base()

    def _fit_base(self) -> float:
        total = label_sum = 0.0
        for w, y in zip(self.weight.tolist(), self.y.tolist(), strict=True):
            for part in [y] * int(w) if w <= MOST_COPIES and w % 1.0 == 0.0 else [w * y]:
                label_sum += part
            total += w
        if self.logistic:
            return math.log((label_sum + 1.0) / (total - label_sum + 1.0))
        return label_sum / total

    def step(self, budget: int, threads: int = 1) -> bool:
        """Grow all trees; the compiled builder stops when the budget is used up and goes on in the next call."""
        self.edges = [bin_edges(column) for column in self.X[sample_rows(self.weight)].T]
        bins = [np.searchsorted(edges, x) for edges, x in zip(self.edges, self.X.T, strict=True)]
        self.bins = np.where(np.isnan(self.X), MISSING_BIN, np.column_stack(bins))
        score = np.empty(len(self.y))
        trees_predict(self.old, self.base, self.X, score)
        for t, tree in enumerate(self.trees):
            for leaf in self._grow(
                tree, score, choose_columns(self.X.shape[1], self.columns, self.seed, len(self.old) + t)
            ):
                score[leaf.rows] += tree[leaf.node, TreeNode.VALUE]
        return True

    def _set_gradients(self, score: Vector) -> None:
        """Set gradients and curvatures as whole numbers, and what depends on their units."""
        if self.logistic:
            p = np.array([1.0 / (1.0 + math.exp(-one)) for one in score.tolist()])
            g, h = p - self.y, p * (1.0 - p)
        else:
            g, h = score - self.y, np.ones(len(self.y))
        total, excess = float(sum(self.weight.tolist())), 0
        while math.ldexp(total, -excess) > MOST_WEIGHT:
            excess += 1
        bits = min(GRADIENT_BITS, SUM_BITS - max(0, math.ceil(math.ldexp(total, -excess)) - 1).bit_length())
        exponents = [min(bits - math.frexp(float(np.abs(one).max()))[1], 1000) for one in (g, h)]
        self.g_unit, self.h_unit = (math.ldexp(1.0, -one) for one in exponents)
        units = [np.rint(np.ldexp(one, e)).astype(np.int64) for one, e in zip((g, h), exponents, strict=True)]
        self.g, self.h = (weigh(one, np.ldexp(self.weight, -excess)) for one in units)
        curvature = LOGISTIC_CURVATURE if self.logistic else 1.0
        self.ridge = math.ldexp(TREE_RIDGE * curvature / self.h_unit, -excess)
        self.least = math.ceil(min(math.ldexp(self.leaf_weight * curvature / self.h_unit, -excess), 4e18))

    def _grow(self, tree: Matrix, score: Vector, columns: list[int]) -> list[GrowingLeaf]:
        """Fill the nodes of a tree and return its leaves."""
        self._set_gradients(score)
        tree[...] = 0.0
        tree[:, TreeNode.COLUMN] = LEAF
        leaves = [GrowingLeaf(0, np.arange(len(self.y)), self.g, self.h)]
        most = (len(tree) + 1) // 2
        if most > 1:
            self._find_split(leaves[0], columns)
        while len(leaves) < most:
            leaf = max(leaves, key=lambda one: one.gain)
            if not leaf.gain > 0.0:
                break
            child = 2 * len(leaves) - 1
            edges = self.edges[leaf.column]
            value = edges[leaf.bin] if leaf.bin < len(edges) else INPUT_LIMIT
            tree[leaf.node] = [leaf.column, value, child, leaf.missing_left]
            bins = self.bins[leaf.rows, leaf.column]
            left = np.where(bins == MISSING_BIN, leaf.missing_left, bins <= leaf.bin)
            both = [
                GrowingLeaf(child, leaf.rows[left], self.g, self.h),
                GrowingLeaf(child + 1, leaf.rows[~left], self.g, self.h),
            ]
            leaves[leaves.index(leaf)] = both[0]
            leaves.append(both[1])
            for one in both:
                self._find_split(one, columns)
        for leaf in leaves:
            step = (leaf.g * self.g_unit) / ((leaf.h + self.ridge) * self.h_unit)
            tree[leaf.node, TreeNode.VALUE] = -self.learning_rate * step
        return leaves

    def _find_split(self, leaf: GrowingLeaf, columns: list[int]) -> None:
        """Find the best split of a leaf: by any column, above any bin in use, missing numbers right or left.

        Of equally good ones the first is taken.
        """
        for column in columns:
            bins = self.bins[leaf.rows, column]
            missing = bins == MISSING_BIN
            any_missing = self._sums(leaf.rows[missing]) != (0, 0)
            for b in range(len(self.edges[column]) + 1):
                if self._sums(leaf.rows[bins == b]) == (0, 0):
                    continue
                for side in (False, True):
                    gl, hl = self._sums(leaf.rows[np.where(missing, side, bins <= b)])
                    gr, hr = leaf.g - gl, leaf.h - hl
                    if min(hl, hr) < self.least:
                        continue
                    gain, parts = self._gain(gl, hl, gr, hr)
                    if gain > LEAST_GAIN * parts and gain > leaf.gain:
                        leaf.gain, leaf.column, leaf.bin = gain, column, b
                        leaf.missing_left = side if any_missing else hl >= hr

    def _sums(self, rows: NDArray[np.intp]) -> tuple[int, int]:
        """Return the sums of gradients and curvatures over rows."""
        return int(self.g[rows].sum()), int(self.h[rows].sum())

    def _gain(self, gl: int, hl: int, gr: int, hr: int) -> tuple[float, float]:
        """Return what a split gains, and the score of its two sides."""
        whole = float(gl + gr) ** 2 / (float(hl + hr) + self.ridge)
        left, right = float(hl) + self.ridge, float(hr) + self.ridge
        parts = (float(gl) * float(gl) * right + float(gr) * float(gr) * left) / (left * right)
        return parts - whole, parts
