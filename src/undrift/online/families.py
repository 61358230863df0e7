"""The families of an online estimator: which columns their memories see, and how long they remember."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import ExpandedColumn, FamilyDesign, LabelContext
from undrift.online.memories import BETAS
from undrift.trees import forests

CONTEXT, HINGES, PRODUCTS = "context", "hinges and products", "products in context"
"""Names among the candidates of the families that see more than the features and their waves."""

CURVATURES = (1.0, 0.2, 0.04)
"""1 / (1 + BR) of the linear families of a classifier: B is learned, not asked for."""
WAVE_CURVATURE, CONTEXT_CURVATURE = 0.1, 0.2
"""The same for the family with waves, and for all later ones."""
REGRESSION_WAVE_BETAS = 1.0 - 1.0 / np.array([250.0, 2000.0])
"""Two memories suffice for the many-parameter family, which cannot use short ones."""
CLASSIFICATION_WAVE_BETAS = 1.0 - 1.0 / np.array([1000.0, 10000.0])
"""A label of two classes says less than a number: the many-parameter family needs longer memories."""
CONTEXT_BETAS = BETAS[[1, 3, 5, 7]]
"""Every second memory of the linear family: level 2 hears each of them."""
EXPANDED_BETAS = np.array([1.0 - 1.0 / 2000.0, 1.0])
"""Long memories, as hinges and products are many parameters; level 2 hears both."""

SPANS = (*forests.SPANS, 125.0, 2.0)
"""Rows over which the features' running means are taken; wide rows see the first of them only. A mean over 1 row is the
row before. Slower changes are left to forgetting."""
LOGISTIC_COLUMNS = 80
"""Columns of a classifier's rows in context: a round costs it twice as much, and a label says less."""
EXPANDED_SPANS = 2
"""How many of these enter products."""
MOST_KNOTS, FEWER_KNOTS, FEW_INPUTS = 3, 1, 20
"""Hinges of a feature where there are at most FEW_INPUTS inputs, and where there are more."""


class FamilyPlan(NamedTuple):
    """What one family is made of."""

    design: FamilyDesign
    """What its rows hold."""
    dim: int
    """Columns, the constant first."""
    betas: Vector
    """Its memories."""
    curvature: float = 0.0
    """For two classes."""
    spans: int = 0
    """How many running means of the features it sees; -1: the last labels alone."""
    knots: int = 0
    """Hinges of an input."""
    screened: int = 0
    """Products that are chosen by what a linear family leaves over; the others are spread evenly."""
    order: Vector = np.empty(0)
    """Its inputs in the order in which products pair them."""
    columns: Matrix = np.empty((0, len(ExpandedColumn)))
    """Hinges and products before the first row is seen: none."""

    @property
    def has_singles(self) -> bool:
        """Whether level 2 hears every memory by itself, beside their mixture."""
        return self.design >= FamilyDesign.CONTEXT

    @property
    def span_lengths(self) -> Vector:
        """The spans of the running means it sees."""
        return np.array(SPANS[: max(self.spans, 0)])


def plan_families(
    binary: bool, width: int, inputs: int, waves: int, seed: int, betas: Vector | None, *, expanded: bool, columns: int
) -> dict[str, FamilyPlan]:
    """Return the families by name, for rows of `width` scaled features, `inputs` of them from the start.

    Features that came after the warm-up are columns of their own in every family, but have no waves, running means or
    products. A family with context or expansions has at most `columns` columns for the features it began with.
    """
    linear = FamilyPlan(FamilyDesign.LINEAR, 1 + width, BETAS if betas is None else betas)
    found = {f"curvature {k:g}": linear._replace(curvature=k) for k in CURVATURES} if binary else {"linear": linear}
    if waves:
        usual = CLASSIFICATION_WAVE_BETAS if binary else REGRESSION_WAVE_BETAS
        memories = usual if betas is None else betas
        found["waves"] = FamilyPlan(FamilyDesign.WAVES, 1 + width + waves, memories, WAVE_CURVATURE)
    room = min(columns, LOGISTIC_COLUMNS) if binary else columns
    context = _plan_context(width, inputs, room, CONTEXT_BETAS if betas is None else betas)
    found[CONTEXT] = context
    if expanded:
        memories = EXPANDED_BETAS if betas is None else betas
        hinges = _plan_expanded(width, inputs, 0, columns, seed, memories)
        products = _plan_expanded(width, inputs, min(EXPANDED_SPANS, context.spans), columns, seed, memories)
        if hinges is not None:  # hinges take up to half of its columns
            found[HINGES] = hinges._replace(screened=len(hinges.columns) // 4)
        if products is not None and products.spans > 0:
            found[PRODUCTS] = products._replace(screened=len(products.columns) // 2)
    return found


def _plan_context(width: int, inputs: int, columns: int, betas: Vector) -> FamilyPlan:
    """Return the family that sees the last labels and, where the features leave room, their running means."""
    labels = 1 + len(LabelContext)
    if labels + inputs > columns:  # the features alone are too many: linear families have them
        return FamilyPlan(FamilyDesign.CONTEXT, labels, betas, CONTEXT_CURVATURE, spans=-1)
    spans = min(len(SPANS), (columns - labels - inputs) // inputs)
    dim = labels + width + spans * inputs
    return FamilyPlan(FamilyDesign.CONTEXT, dim, betas, CONTEXT_CURVATURE, spans=spans)


def _plan_expanded(
    width: int, inputs: int, most_spans: int, columns: int, seed: int, betas: Vector
) -> FamilyPlan | None:
    """Return a family of hinges and products over features, running means and the last label.

    Its inputs take at most half of the columns; None where the features alone would take more. Where it sees running
    means, all other columns are products, since another family has the hinges.
    """
    room = columns // 2 - 2  # beside the constant and the last label
    if inputs > room:
        return None
    spans = max(0, min(most_spans, room // inputs - 1))
    count = inputs * (1 + spans) + 1
    knots = 0 if most_spans > 0 else MOST_KNOTS if count <= FEW_INPUTS else FEWER_KNOTS
    more = min(columns - 1 - count, knots * (count - 1) + count * (count - 1) // 2)
    none = np.tile([-1.0, -1.0, 0.0], (more, 1))
    order = np.random.default_rng([seed, spans]).permutation(count).astype(np.float64)
    dim = 1 + count + more + (width - inputs)
    return FamilyPlan(FamilyDesign.EXPANDED, dim, betas, CONTEXT_CURVATURE, spans, knots, 0, order, none)
