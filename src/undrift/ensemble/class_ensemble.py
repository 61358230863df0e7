"""Ensembles of learners of several classes: members, and a mixer of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, store
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble.mixable import MixableProbabilities
from undrift.errors import InputError
from undrift.learners import DiscountedSoftmax
from undrift.learners.base import Columns
from undrift.learners.class_learner import ClassLearner
from undrift.learners.files import learner_from_snapshot
from undrift.learners.row_context import WEIGHT_AND_TIME, RowContext
from undrift.learners.serializable import Construction, list_items, merge_parts, number_items, with_prefix


class ClassEnsemble(ClassLearner):
    """Learners of the same classes side by side on the same rows, mixed by their probabilities.

    Parameters
    ----------
    members
        Fresh learners of the same number of classes; clones of them are used.
    share
        As for `MixableProbabilities`.
    prior
        Positive numbers, one for each member; all equal by default.

    Notes
    -----
    Guarantee `softmax`: the best member's, plus `cost`, at most ln N with equal weights and no share.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = np.column_stack([np.ones(600), rng.normal(size=600)])
    >>> shift = np.where(np.arange(600) < 300, 0, 1)
    >>> y = (np.digitize(Z[:, 1], [-0.5, 0.5]) + shift) % 3
    >>> model = ClassEnsemble([DiscountedSoftmax(3, half_life=h, bound=5.0) for h in (30, 3000)])
    >>> trace = model.play(Z, y)
    >>> int(np.argmax(model.weights))
    0
    """

    def __init__(self, members: Sequence[ClassLearner], *, share: float = 0.0, prior: ArrayLike | None = None) -> None:
        listed = isinstance(members, Sequence) and len(members) > 0
        if not listed or not all(isinstance(one, ClassLearner) for one in members):
            got = _check.describe(members)
            raise InputError(f"{_check.name_of(self)}: members must be learners of classes, at least one, got {got}")
        if len({one.outputs for one in members}) > 1:
            raise InputError(f"{_check.name_of(self)}: members must have the same number of classes")
        if any(one.rounds for one in members):
            raise InputError(f"{_check.name_of(self)}: members must be fresh, one has learned; pass clone() of it")
        self.prototypes: list[ClassLearner] = [one.clone() for one in members]
        self._prior = (
            np.ones(len(members)) if prior is None else _check.finite_array(self, "prior", prior, (len(members),))
        )
        self.supports = WEIGHT_AND_TIME.intersection(*(one.supports for one in members))
        self.mixer = MixableProbabilities(share=share)
        self.mixer.begin(self._prior)
        super().__init__(classes=members[0].outputs, share=share)

    @property
    @thread_lock.hold_shared
    def members(self) -> list[ClassLearner]:
        """The members with the state they have now, as learners of their own; empty before the first row."""
        return [] if self.dim is None else [one.copy() for one in self._members]

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The members' weights for the coming round (N,); they sum to 1."""
        return self.mixer.weights

    @property
    @thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each member's log-losses so far (N,)."""
        return self.mixer.losses

    @thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return the mixer's guarantee (N,): a bound on this ensemble's losses so far minus each member's.

        For labels that came at once; late ones are scored with the weights of their settling.
        """
        return self.mixer.cost()

    @property
    @thread_lock.hold_shared
    def half_life(self) -> float:
        """Rounds after which a row counts half: ln 2 / (mean of -ln beta by weight)."""
        rates = np.array([math.log(2.0) / getattr(one, "half_life", math.inf) for one in self.prototypes])
        rate = float(self.mixer.weights @ rates)
        return math.log(2.0) / rate if rate else math.inf

    def _begin(self, dim: int) -> None:
        self._members = [one.clone() for one in self.prototypes]
        for one in self._members:
            one._fix_width(dim)
        self.mixer = MixableProbabilities(share=self.mixer.share)
        self.mixer.begin(self._prior)

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        return self.mixer.predict(np.stack([one._predict(Z, elapsed) for one in self._members], axis=1))

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        logits = [one._advance(Z, y, context).yhat for one in self._members]
        return Columns(self.mixer.play(np.stack(logits, axis=1), y))

    def _arrays(self) -> Arrays:
        members = merge_parts("member", [one._arrays() for one in self._members])
        return with_prefix("mixer.", self.mixer.arrays()) | members

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        for one in self._members:
            one._adopt_arrays(self)

    def _min_array_size(self, dim: int) -> int:
        return sum(one._min_array_size(dim) for one in self.prototypes)

    def _construction(self) -> Construction:
        return Construction((self.prototypes,), {"share": self.mixer.share, "prior": self._prior})

    def _composition(self) -> store.Header:
        return {
            "members": number_items(one.snapshot()[0] for one in self.prototypes),
            "prior": number_items(self._prior.tolist()),
        }

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        members, prior, parameters = header.get("members"), header.get("prior"), header.get("parameters")
        if not (isinstance(members, dict) and isinstance(prior, dict) and isinstance(parameters, dict)):
            raise TypeError("members, prior or parameters are missing")
        learners = [learner_from_snapshot(one, {}) for one in list_items(members)]
        return Construction((learners,), {"share": parameters["share"], "prior": list_items(prior)})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.prototypes!r}, share={self.mixer.share!r})"


def softmax_ensemble(
    classes: int, *, reg: float = 1.0, bound: float = 4.0, radius: float = 1.0, share: float = 0.0
) -> ClassEnsemble:
    """Return `DiscountedSoftmax` learners with half-lives of 10 to 100,000 rounds and without end, mixed.

    Parameters
    ----------
    classes, reg, bound, radius
        As for `DiscountedSoftmax`.
    share
        As for `MixableProbabilities`.

    Examples
    --------
    >>> model = softmax_ensemble(4)
    >>> model.learn([1.0, 0.5], 2)
    >>> len(model.members), model.predict_proba([1.0, 0.5]).shape
    (6, (4,))
    """
    half_lives = [10.0**k for k in range(1, 6)] + [math.inf]
    members = [DiscountedSoftmax(classes, **_memory(one), reg=reg, bound=bound, radius=radius) for one in half_lives]
    return ClassEnsemble(members, share=share)


def _memory(half_life: float) -> dict[str, float]:
    return {"half_life": half_life} if math.isfinite(half_life) else {"beta": 1.0}
