"""Ensembles of learners of several classes: members, and a mixer of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, store
from undrift._internal import thread_lock
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixable import MixableProbabilities
from undrift.errors import InputError, ModelFileError
from undrift.learners import DiscountedSoftmax
from undrift.learners.base import Arrays, Columns
from undrift.learners.class_learner import ClassLearner
from undrift.learners.files import learner_from_snapshot
from undrift.learners.row_weights import RowWeights


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

    def _predict(self, Z: Matrix) -> Matrix:
        return self._predict_after(Z, 1.0)

    def _predict_after(self, Z: Matrix, elapsed: float) -> Matrix:
        return self.mixer.predict(np.stack([one._predict_at(Z, elapsed) for one in self._members], axis=1))

    def _require_row_weights(self) -> None:
        for one in self.prototypes:
            one._require_row_weights()

    def _play(self, Z: Matrix, y: Vector) -> Columns:
        return self._play_members(Z, y, None)

    def _play_weighted(self, Z: Matrix, y: Vector, rows: RowWeights) -> Columns:
        return self._play_members(Z, y, rows)

    def _play_members(self, Z: Matrix, y: Vector, rows: RowWeights | None) -> Columns:
        logits = []
        for one in self._members:
            logits.append(one._play_rows_with(Z, y, rows).yhat)
            one.rounds += len(y)
            one._grow_older(rows)
        return Columns(self.mixer.play(np.stack(logits, axis=1), y))

    def _arrays(self) -> Arrays:
        mixing = {f"mixer.{name}": array for name, array in self.mixer.arrays().items()}
        members = {f"member{i}.{k}": a for i, one in enumerate(self._members) for k, a in one._arrays().items()}
        return {**mixing, **members}

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        for one in self._members:
            one._load_arrays({name: array.copy() for name, array in one._arrays().items()})  # checks what it holds
            one.rounds, one._extra_age = self.rounds, self._extra_age

    def _min_array_size(self, dim: int) -> int:
        return sum(one._min_array_size(dim) for one in self.prototypes)

    def clone(self) -> Self:
        """Return a fresh ensemble with the same members."""
        return type(self)(self.prototypes, share=self.mixer.share, prior=self._prior)

    def copy(self) -> Self:
        """Return an ensemble with the same members and state, sharing nothing."""
        return self._clone_with_state(*self.snapshot())

    def _clone_with_state(self, header: store.Header, arrays: Arrays) -> Self:
        other = self.clone()
        other._load_state(header["rounds"], header["dim"], arrays)
        return other

    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the ensemble is: a JSON header and its arrays, copied."""
        header, arrays = super().snapshot()
        return {**header, **self._composition()}, arrays

    def _composition(self) -> store.Header:
        return {
            "members": {str(i): one.snapshot()[0] for i, one in enumerate(self.prototypes)},
            "prior": {str(i): float(p) for i, p in enumerate(self._prior)},
        }

    def _identity(self) -> list[object]:
        return [*super()._identity(), self._composition()]

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        members, prior, parameters = header.get("members"), header.get("prior"), header.get("parameters")
        try:
            if not (isinstance(members, dict) and isinstance(prior, dict) and isinstance(parameters, dict)):
                raise TypeError("members, prior or parameters are missing")
            learners = [learner_from_snapshot(members[str(i)], {}) for i in range(len(members))]  # type: ignore[arg-type]  # checked there
            weights = [prior[str(i)] for i in range(len(prior))]
            fresh = cls(learners, share=parameters["share"], prior=weights)  # type: ignore[arg-type]  # checked there
            return fresh._clone_with_state(header, arrays)
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise ModelFileError(f"{cls.__name__}: the saved parameters cannot be used ({error})") from None

    def __reduce__(self) -> tuple[Callable[..., ClassEnsemble], tuple[Any, ...]]:
        return _unpickle, (type(self), self.prototypes, self.mixer.share, self._prior, *self.snapshot())

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


def _unpickle(
    cls: type[ClassEnsemble],
    members: list[ClassLearner],
    share: float,
    prior: Vector,
    header: store.Header,
    arrays: Arrays,
) -> ClassEnsemble:
    return cls(members, share=share, prior=prior)._clone_with_state(header, arrays)
