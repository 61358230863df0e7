"""Boosted trees as data: what goes into a file, and what a file must fulfil before its trees are walked."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift import _check, store
from undrift.errors import ModelFileError
from undrift.kernels.definitions import LEAF, TreeNode
from undrift.trees.growth import Forest

Arrays = dict[str, NDArray[np.float64]]


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
