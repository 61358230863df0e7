"""Ensemble: members and a mixer, itself a learner."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, ensemble, store
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.ensemble.mixable import Mixable
from undrift.ensemble.mixer import Mixer
from undrift.ensemble.squared import SelfConfident
from undrift.ensemble.stacked_members import BLOCK, StackedMembers
from undrift.errors import InputError, ModelFileError
from undrift.learners import DiscountedVAW, Learner
from undrift.learners.base import Columns
from undrift.learners.files import learner_from_snapshot
from undrift.learners.row_context import WEIGHT_AND_TIME, Delay, RowContext
from undrift.learners.serializable import Construction, list_items, number_items, with_prefix
from undrift.losses import Loss
from undrift.template import Leaf
from undrift.trace import Trace


class Ensemble(Learner):
    r"""Learners side by side on the same rows, and a mixer that learns whom to trust.

    Members of one kind are stacked and advanced by one kernel call; baselines, learners of your own and other
    ensembles may stand among them.

    Parameters
    ----------
    members
        Fresh learners, all for regression or all for two classes; clones of them are used.
    mixer
        By default `Mixable` for two classes, `SelfConfident` for regression.
    prior
        Positive numbers, one for each member; all equal by default. A member's prior is what the mixture's guarantee
        against it costs.

    Notes
    -----
    `cost` is the mixer's guarantee as a number. O(N d^2) time a round for N linear members.

    Examples
    --------
    >>> import numpy as np, undrift as ud
    >>> model = Ensemble([ud.DiscountedVAW(half_life=h) for h in (5, 50, 500)] + [ud.Persistence()])
    >>> Z = np.column_stack([np.ones(300), np.sin(np.arange(300))])
    >>> trace = model.play(Z, Z @ [1.0, 2.0])
    >>> int(np.argmax(model.weights))
    2
    """

    _prior: Vector | None = None

    def __init__(
        self, members: Sequence[Learner], mixer: Mixer | None = None, *, prior: ArrayLike | None = None
    ) -> None:
        listed = isinstance(members, Sequence) and len(members) > 0
        if not listed or not all(isinstance(one, Learner) for one in members):
            got = _check.describe(members)
            raise InputError(f"{_check.name_of(self)}: members must be a list of learners, at least one, got {got}")
        kinds = {one.binary for one in members}
        if len(kinds) > 1:
            raise InputError(f"{_check.name_of(self)}: members must be all for regression or all for two classes")
        if any(one.rounds for one in members):
            raise InputError(f"{_check.name_of(self)}: members must be fresh, one has learned; pass clone() of it")
        self._setup(kinds.pop(), mixer)
        self._prototypes: list[Learner] = [one.clone() for one in members]
        if any("candidates" in one.parameters for one in members):
            raise InputError(
                f"{_check.name_of(self)}: a member cannot have candidates of its own; give the predictions of all "
                "models as candidates to one OnlineRegressor or OnlineClassifier instead"
            )
        self.least_dim = max(one.least_dim for one in members)  # type: ignore[misc]  # others have a constant
        self.needs_model = any(one.needs_model for one in members)
        self.supports = WEIGHT_AND_TIME.intersection(*(one.supports for one in members))
        self._prior = None if prior is None else _check.finite_array(self, "prior", prior, (len(members),))
        if self._prior is not None and not (self._prior > 0.0).all():
            raise InputError(f"{_check.name_of(self)}: prior must be positive, got {self._prior.min():g}")

    def _setup(self, binary: bool, mixer: Mixer | None, **parameters: Scalar) -> None:
        """Do what every kind of ensemble needs; parameters are those of a subclass."""
        self.binary = binary
        if mixer is not None and (not isinstance(mixer, Mixer) or type(mixer) is Mixer):
            got = _check.describe(mixer)
            raise InputError(f"{_check.name_of(self)}: mixer must be a mixer such as SelfConfident(), got {got}")
        self.mixer = mixer.clone() if mixer is not None else (Mixable() if binary else SelfConfident())
        if self.mixer.binary != binary:
            kind = "two classes" if binary else "regression"
            raise InputError(f"{_check.name_of(self)}: the mixer must be one for {kind}, got {self.mixer!r}")
        super().__init__(**parameters)

    def _build(self, dim: int) -> list[Learner]:
        """Return the members for rows of this width."""
        return [one.clone() for one in self._prototypes]

    def _begin(self, dim: int) -> None:
        learners = self._build(dim)
        self._members = StackedMembers(learners, dim)
        self._rates = np.array([_rate(one) for one in learners])
        self._stability = np.zeros(len(learners))
        self.mixer = self.mixer.clone()
        self.mixer.begin(np.ones(len(learners)) if self._prior is None else self._prior)
        mixer = self.mixer.kernel_arguments()
        self._kernel = None if mixer is None else self._members.kernel(self._stability, mixer, self._exclusive_lock)

    @property
    @thread_lock.hold_shared
    def members(self) -> list[Learner]:
        """The members with the state they have now, as learners of their own; empty before the first row."""
        found = [] if self.dim is None else self._members.learners(self.rounds)
        for one in found:
            one._extra_age = self._extra_age
        return found

    @property
    def loss(self) -> Loss:
        """The loss it is for: the mixer's, if it names one."""
        own = getattr(self.mixer, "loss", None)
        return own if isinstance(own, Loss) else super().loss

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the members as leaves of this ensemble's certificate: each plays the same rows afresh."""
        return [one.leaf(Z, y, u) for one in self._build(Z.shape[1])]

    @property
    def betas(self) -> Vector:
        """The members' discount factors (N,): 0 for a member without memory, 1 for one without a discount."""
        return np.zeros(0) if self.dim is None else np.exp(-self._rates)

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The members' weights for the coming round (N,); they sum to 1."""
        return np.zeros(0) if self.dim is None else self.mixer.weights

    @property
    @thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each member's losses so far (N,)."""
        return np.zeros(0) if self.dim is None else self.mixer.losses

    @property
    @thread_lock.hold_shared
    def stabilities(self) -> Vector:
        """Sum of each member's price of rounds so far (N,); 0 for members without a guarantee.

        For stacked members this is the paper's price, never below the exact one in the `stability` of their own traces
        (`regret_lemmas.paper_stability`): a bound made of it is valid, and looser. `certify` uses the exact ones.
        """
        return np.zeros(0) if self.dim is None else self._stability.copy()

    @thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return the mixer's guarantee (N,): a bound on this ensemble's losses so far minus each member's.

        Where labels came late, losses are those of the served answers, and what the served mixtures lost beyond the
        mixtures of the same answers just before settling is known exactly, and added.
        """
        return np.zeros(0) if self.dim is None else self.mixer.cost() + self._pending.late_excess

    @property
    @thread_lock.hold_shared
    def half_life(self) -> float:
        """Rounds after which a row counts half: ln 2 / (mean of -ln beta by weight) of the members with a memory."""
        if self.dim is None:
            return math.inf
        remembers = np.isfinite(self._rates)
        weights = self.weights[remembers]
        rate = float(np.sum(weights * self._rates[remembers]))
        return math.log(2.0) * float(np.sum(weights)) / rate if rate else math.inf

    @thread_lock.hold_exclusive
    def play(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        *,
        record: str | None = None,
        delay: Delay = 0,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds; `record="weights"` keeps the members' weights before each round in the trace.

        With `delay`, a label is learned after that many further rows were served; the last rows wait for the next call.
        It is one number, or one for each row: `23 - hour` where the labels of a day become known together, at its end.
        A row counts `weight` times in the members, and once in the mixer; it comes the time `elapsed` after the one
        before.
        """
        if record is not None:
            _check.choice(self, "record", record, ("weights",))
        block = self._block(Z)
        labels = self._labels(y, len(block))
        context = self._check_context(len(block), weight=weight, elapsed=elapsed, delay=delay)
        if self._waits(context):
            if record is not None:
                raise InputError(f"{_check.name_of(self)}: record and delay cannot be given together; leave one out")
            return self._play_late(block, labels, context)
        history: list[Matrix] | None = None if record is None else []
        trace = self._close(block, lambda: self._play(block, labels, context, history), context)
        if history is None:
            return trace
        weights = np.concatenate(history) if history else np.empty((0, len(self.weights)))
        return Trace(trace.yhat, None, None, trace.learner, trace.parameters, trace.first, weights, known=trace.known)

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        if self._kernel is None or elapsed != 1.0:
            return self.mixer.predict(self._members.predict(Z, self.rounds, elapsed))
        yhat = np.empty(len(Z))
        _check.raise_on_status(self, self._kernel.predict_rows(self.rounds, Z, yhat), Z.shape[1])
        return yhat

    def _play(self, Z: Matrix, y: Vector, context: RowContext, history: list[Matrix] | None = None) -> Columns:
        yhat = np.empty(len(y))
        if self._kernel is not None and context.ordinary:
            weights = np.empty((0 if history is None else len(y), len(self._stability)))
            _check.raise_on_status(self, self._kernel.play(self.rounds, Z, y, yhat, weights), Z.shape[1])
            if history is not None:
                history.append(weights)
            return Columns(yhat)
        for a in range(0, len(y), BLOCK):
            part = slice(a, a + BLOCK)
            played = self._members.play(Z[part], y[part], self.rounds + a, context.between(a, a + BLOCK))
            before = None if history is None else np.empty(played.yhat.shape)
            yhat[part] = self.mixer.play(played.yhat, y[part], weights=before)
            played.stability[0] += self._stability
            self._stability[...] = np.add.accumulate(played.stability, axis=0, out=played.stability)[-1]
            if history is not None and before is not None:
                history.append(before)
        return Columns(yhat)

    def _serve(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        """Return the record of a row: whether a label was known, the mixture, the members' answers, and the row."""
        E = self._members.predict(Z, self.rounds, elapsed)
        return np.concatenate(([float(self.rounds > 0)], self.mixer.predict(E), E[0], Z[0]))

    def _settle(self, record: Vector, y: float, context: RowContext, *, newest: bool) -> None:
        """Let the members learn the row, and the mixer judge the answers that were served."""
        (served,), E, Z = (one[None] for one in np.split(record[1:], [1, 1 + len(self._stability)]))
        label = np.array([y])
        play = self._members.play if newest else self._members.play_late
        played = play(np.ascontiguousarray(Z), label, self.rounds, context)
        mixed = self.mixer.play(E, label)
        self._stability += played.stability[0]
        self._pending.late_excess += float((self.loss.value(served, label) - self.loss.value(mixed, label))[0])

    def _fits_record(self, record: Vector) -> bool:
        size = 2 + len(self._stability) + (self.dim or 0)
        return len(record) == size and bool((np.abs(record) <= _check.LIMIT).all())

    def _arrays(self) -> Arrays:
        mixing = with_prefix("mixer.", self.mixer.arrays())
        return {"stability": self._stability, **mixing, **self._members.arrays()}

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        self._members.load_arrays(arrays, self.rounds, self._extra_age)

    def _construction(self) -> Construction:
        return Construction((self._prototypes, self.mixer.clone()), {"prior": self._prior})

    def _min_array_size(self, dim: int) -> int:
        """Members that differ in their hint alone share a memory."""
        memories = {(type(one), one.beta, one.reg): one for one in self._build(dim) if type(one) is DiscountedVAW}
        others = [one for one in self._build(dim) if type(one) is not DiscountedVAW]
        return sum(one._min_array_size(dim) for one in (*memories.values(), *others))

    def _composition(self) -> store.Header:
        """Return the mixer, the members and the prior as a header holds them."""
        header: store.Header = {
            "mixer": {"class": type(self.mixer).__name__, "parameters": dict(self.mixer.parameters)},
            "members": number_items(one.snapshot()[0] for one in self._prototypes),
        }
        if self._prior is not None:
            header["prior"] = number_items(self._prior.tolist())
        return header

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        members, prior = header.get("members"), header.get("prior")
        if not isinstance(members, dict) or not all(isinstance(one, dict) for one in members.values()):
            raise ModelFileError(f"{cls.__name__}: the saved members cannot be used")
        learners = [learner_from_snapshot(one, {}) for one in list_items(members)]
        weights = list_items(prior) if isinstance(prior, dict) else None
        return Construction((learners, mixer_from_snapshot(header)), {"prior": weights})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._prototypes!r}, {self.mixer!r})"


def mixer_from_snapshot(header: store.Header) -> Mixer:
    """Return the mixer a snapshot names, one of ours."""
    saved = header["mixer"]
    if not isinstance(saved, dict) or not isinstance(saved.get("parameters"), dict):
        raise KeyError("mixer")
    found = getattr(ensemble, str(saved["class"]), None)
    if not (isinstance(found, type) and issubclass(found, Mixer)):
        raise KeyError(str(saved["class"]))
    return found(**saved["parameters"])  # type: ignore[arg-type]  # __init__ checks every one of them


def _rate(learner: Learner) -> float:
    """Forgetting per round, -ln(beta): infinite without memory, 0 without a discount."""
    beta, half_life = getattr(learner, "beta", 1.0), getattr(learner, "half_life", math.inf)
    return math.inf if beta == 0.0 else math.log(2.0) / half_life if half_life else math.inf
