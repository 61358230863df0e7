"""MultiOutputRegressor: several numbers predicted from the same rows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels, store
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Vector
from undrift.ensemble.ensemble import Ensemble
from undrift.ensemble.mixer import Mixer
from undrift.ensemble.stacked_members import HintedMembers
from undrift.errors import InputError, ModelFileError
from undrift.kernels import layout
from undrift.kernels.definitions import INFORMATION
from undrift.learners import DiscountedVAW, Learner, Zero
from undrift.learners.files import learner_from_snapshot
from undrift.learners.save_point import SavePoint
from undrift.learners.serializable import (
    Construction,
    Serializable,
    fill_arrays,
    merge_parts,
    read_model,
    restore,
    with_prefix,
)

BLOCK = 256
"""Rounds advanced at a time: answers of all members for all outputs are kept for so many."""

Cube = NDArray[np.float64]
MOST_OUTPUTS = 100_000


def can_share(members: Sequence[Learner]) -> bool:
    """Whether members can share a design: discounted VAW, and perhaps `Zero`."""
    kinds = {type(one) for one in members}
    return DiscountedVAW in kinds and kinds <= {DiscountedVAW, Zero}


class SharedOutputs:
    """Discounted VAW at several discounts for all outputs, and a mixer for each output.

    Parameters
    ----------
    members
        Discounted VAW and `Zero`.
    mixer
        Copied for each output.
    prior
        Of the members.
    dim
        Width of a row.
    outputs
        Labels of a row.
    """

    def __init__(self, members: Sequence[Learner], mixer: Mixer, prior: Vector, dim: int, outputs: int) -> None:
        vaw = [one for one in members if isinstance(one, DiscountedVAW)]
        self.members, self.dim = len(members), dim
        self._hinted = HintedMembers(vaw)
        self._at = np.array([i for i, one in enumerate(members) if isinstance(one, DiscountedVAW)])
        self._beta, reg = self._hinted.beta, self._hinted.reg
        at = INFORMATION.slices(dim=dim)
        self.information = np.zeros((len(reg), layout.length(dim), 1))
        self.information[:, at["inverse_pivots"], 0] = 1.0 / reg[:, None]
        self.information[:, at["energy"], 0] = reg[:, None]
        self.theta = np.zeros((len(reg), dim, outputs))
        self.last = np.zeros(outputs)
        """The last label of every output, which hints "last" follow."""
        self.mixers = [mixer.clone() for _ in range(outputs)]
        for one in self.mixers:
            one.begin(prior)

    def predict(self, Z: Matrix, rounds: int) -> Matrix:
        """Return the mixtures (rows, outputs) for rows that might come next."""
        out = np.empty((len(Z), len(self.mixers)))
        for part in _blocks(len(Z)):
            m, h = self._leaders(Z[part], rounds, None)
            for k, mixer in enumerate(self.mixers):
                E = self._answer(m[:, :, k], h, np.full(len(h), self.last[k]))
                out[part, k] = mixer.predict(E)
        return out

    def play(self, Z: Matrix, Y: Matrix, rounds: int) -> Matrix:
        """Close rounds with labels (rows, outputs), NaN where missing, but not all of a row; return the mixtures."""
        out = np.empty(Y.shape)
        for part in _blocks(len(Z)):
            m, h = self._leaders(Z[part], rounds + part.start, Y[part])
            for k, mixer in enumerate(self.mixers):
                y = Y[part, k]
                E = self._answer(m[:, :, k], h, self._last_labels(y, k))
                out[part, k] = _mix(mixer, E, y)
        return out

    def _leaders(self, Z: Matrix, rounds: int, Y: Matrix | None) -> tuple[Cube, Matrix]:
        """Return the leaders' predictions m (rows, leaders, outputs) and leverages h; with labels, close the rounds."""
        m, h = np.empty((len(Z), *self.theta.shape[::2])), np.empty((len(Z), len(self._beta)))
        if Y is None:
            status = kernels.vaw_outputs_predict(self.information, self.theta, self._beta, rounds, Z, m, h)
        else:
            labels = np.ascontiguousarray(Y)
            status = kernels.vaw_outputs_play(self.information, self.theta, self._beta, rounds, Z, labels, m, h)
        _check.raise_on_status("MultiOutputRegressor", status, self.dim)
        return m, h

    def _last_labels(self, y: Vector, output: int) -> Vector:
        """Return the label known before each round, and keep the newest."""
        known = np.concatenate(([self.last[output]], y))
        at = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))
        self.last[output] = known[at[-1]]
        return np.asarray(known[at[:-1]])

    def _answer(self, m: Matrix, h: Matrix, last: Vector) -> Matrix:
        """Return the members' predictions of one output (rows, members): VAW by its hint from the leader's m and h."""
        E = np.zeros((len(m), self.members))
        E[:, self._at] = self._hinted.answer(m, h, last, np.zeros(len(m))).yhat
        return E

    def arrays(self) -> Arrays:
        """Return the state by name, the very arrays."""
        mixing = merge_parts("mixer", [mixer.arrays() for mixer in self.mixers])
        return {"information": self.information, "theta": self.theta, "last": self.last, **mixing}


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(a, min(a + BLOCK, rows)) for a in range(0, rows, BLOCK))


def _mix(mixer: Mixer, E: Matrix, y: Vector) -> Vector:
    """Close the rounds that have a label; where it is missing the mixture is served and nothing is judged."""
    missing = np.isnan(y)
    out = np.empty(len(y))
    edges = [0, *(np.flatnonzero(np.diff(missing)) + 1), len(y)]
    for a, b in itertools.pairwise(edges):
        out[a:b] = mixer.predict(E[a:b]) if missing[a] else mixer.play(E[a:b], np.ascontiguousarray(y[a:b]))
    return out


class MultiOutputTrace(NamedTuple):
    """Predictions of a block of rounds."""

    yhat: NDArray[np.float64]
    """(rounds, outputs), each made before the labels of its round."""
    known: NDArray[np.bool_]
    """Whether any label was known by then (rounds,)."""


class MultiOutputRegressor(Serializable):
    r"""Predict several numbers from the same rows.

    Parameters
    ----------
    model
        A fresh learner for regression. An ensemble of discounted VAW (`LinearEnsemble`, `Ensemble`) shares its
        information matrices over all outputs, and has a mixer for each; any other learner is cloned for each output.
    outputs
        How many numbers.

    Notes
    -----
    With d features, N members and m outputs a shared round costs $O(N(d^2 + dm))$; clones cost m times a round of the
    model. Predictions of an output are those of the model alone, to the bit. A label may be missing (NaN) where members
    are shared, and where the model itself allows it; a row without any label changes nothing. Labels come at once, not
    late.

    Examples
    --------
    >>> import numpy as np, undrift as ud
    >>> model = MultiOutputRegressor(ud.linear_ensemble(), outputs=2)
    >>> Z = np.column_stack([np.ones(200), np.sin(np.arange(200))])
    >>> trace = model.play(Z, Z @ [[1.0, 2.0], [3.0, -1.0]])
    >>> trace.yhat.shape, model.predict([1.0, 0.0]).round(1).tolist()
    ((200, 2), [1.0, 2.0])
    """

    def __init__(self, model: Learner, outputs: int) -> None:
        if not isinstance(model, Learner) or model.binary or model.outputs > 1 or model.rounds:
            got = _check.describe(model)
            raise InputError(f"MultiOutputRegressor: model must be a fresh learner for regression, got {got}")
        self.model, self.outputs = model.clone(), _check.integer(self, "outputs", outputs, 1, MOST_OUTPUTS)
        self.rounds = 0
        self.dim: int | None = None
        self._shared: SharedOutputs | None = None
        self._models: list[Learner] = []
        self._exclusive_lock = kernels.Lock()
        self._shared_lock = self._exclusive_lock.shared

    def _begin(self, dim: int) -> None:
        """Set up what learns, when the first row comes."""
        if isinstance(self.model, Ensemble):
            members = self.model._build(dim)
            if can_share(members):
                prior = np.ones(len(members)) if self.model._prior is None else self.model._prior
                self._shared = SharedOutputs(members, self.model.mixer, prior, dim, self.outputs)
        if self._shared is None:
            self._models = [self.model.clone() for _ in range(self.outputs)]
        self.dim = dim

    @property
    def shares_design(self) -> bool:
        """Whether the outputs share the members' information matrices; known from the first row on."""
        return self._shared is not None

    @thread_lock.hold_shared
    def predict(self, z: ArrayLike) -> NDArray[np.float64]:
        """Return predictions (outputs,) for the coming round, (rows, outputs) for several rows; nothing changes."""
        Z, single = self._rows(z)
        fresh = self
        if self.dim is None:
            fresh = self.clone()
            fresh._begin(Z.shape[1])
        yhat = fresh._predict(Z)
        return yhat[0] if single else yhat

    def _predict(self, Z: Matrix) -> Matrix:
        if self._shared is not None:
            return self._shared.predict(Z, self.rounds)
        return np.column_stack([np.atleast_1d(one.predict(Z)) for one in self._models])

    def learn(self, z: ArrayLike, y: ArrayLike) -> None:
        """Close one round: the labels (outputs,) of row `z` have become known."""
        Z, single = self._rows(z)
        if not single and len(Z) != 1:
            raise InputError(f"MultiOutputRegressor: learn takes one row, got {len(Z)}; use play(Z, Y) for a block")
        self.play(Z, np.atleast_2d(_check._real_array(self, "y", y)))

    @thread_lock.hold_exclusive
    def play(self, Z: ArrayLike, Y: ArrayLike) -> MultiOutputTrace:
        """Close a block of rounds with labels (rounds, outputs); the same numbers as `predict` then `learn`."""
        rows, _ = self._rows(Z)
        labels = _check._real_array(self, "Y", Y)
        if labels.shape != (len(rows), self.outputs):
            raise InputError(f"MultiOutputRegressor: Y must have shape {(len(rows), self.outputs)}, got {labels.shape}")
        labels = _check.within_limit(self, "Y", np.ascontiguousarray(labels), nan=True)
        first = self.rounds
        with SavePoint(self):
            if self.dim is None and len(rows):
                self._begin(rows.shape[1])
            yhat = self._play_shared(rows, labels) if self._shared is not None else self._play_each(rows, labels)
        known = first + np.cumsum(np.append(0, ~np.isnan(labels).all(axis=1)))[:-1] > 0
        return MultiOutputTrace(yhat, known)

    def _play_each(self, Z: Matrix, Y: Matrix) -> Matrix:
        """Let a model play each output."""
        columns = [one.play(Z, np.ascontiguousarray(y)).yhat for one, y in zip(self._models, Y.T, strict=True)]
        self.rounds += int(np.count_nonzero(~np.isnan(Y).all(axis=1)))
        return np.column_stack(columns) if columns else np.empty(Y.shape)

    def _play_shared(self, Z: Matrix, Y: Matrix) -> Matrix:
        """Close the rounds that have a label, in runs; rows without any are served as they come."""
        empty = np.asarray(np.isnan(Y).all(axis=1))
        yhat, edges = np.empty(Y.shape), [0, *(np.flatnonzero(np.diff(empty)) + 1).tolist(), len(Y)]
        for a, b in itertools.pairwise(edges):
            if b > a and empty[a]:
                yhat[a:b] = self._predict(Z[a:b])
            elif b > a and self._shared is not None:
                yhat[a:b] = self._shared.play(Z[a:b], Y[a:b], self.rounds)
                self.rounds += b - a
        return yhat

    def _rows(self, z: ArrayLike) -> tuple[Matrix, bool]:
        Z = _check.rows(self, z, self.dim, nan=self.model.accepts_nan)
        if Z.shape[1] < self.model.least_dim:
            raise InputError("MultiOutputRegressor: z must have at least one feature, got none")
        return Z, len(Z) == 1 and np.ndim(_check.fill_masked(z)) == 1

    @thread_lock.hold_shared
    def weights(self) -> NDArray[np.float64]:
        """Return the members' weights for the coming round by output (outputs, members); for ensembles."""
        return np.array([one.weights for one in self._mixing()])

    @thread_lock.hold_shared
    def cost(self) -> NDArray[np.float64]:
        """Return bounds on the losses so far minus those of each member (outputs, members); for ensembles."""
        return np.array([one.cost() for one in self._mixing()])

    def _mixing(self) -> list[Any]:
        """Return what mixes members, one for each output."""
        found: list[Any] = self._shared.mixers if self._shared is not None else list(self._models)
        if not found or not all(hasattr(one, "cost") for one in found):
            raise InputError("MultiOutputRegressor: there are no members; pass an ensemble, and play a row first")
        return found

    def _construction(self) -> Construction:
        return Construction((self.model, self.outputs), {})

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        return Construction((learner_from_snapshot(header["model"], {}), header["outputs"]), {})  # type: ignore[arg-type]  # checked there

    @thread_lock.hold_shared
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything it is: a JSON header and its arrays, copied."""
        header: store.Header = {
            "class": "MultiOutputRegressor",
            "outputs": self.outputs,
            "rounds": self.rounds,
            "dim": self.dim,
            "model": self.model.snapshot()[0],
        }
        if self._shared is not None:
            return header, {name: np.array(array) for name, array in self._shared.arrays().items()}
        arrays: Arrays = {}
        for k, one in enumerate(self._models):
            header[f"model {k}"], own = one.snapshot()
            arrays |= with_prefix(f"{k}/", own)
        return header, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return what `save` wrote to `path`; it goes on with the same bits."""
        return read_model(cls, _check.path("MultiOutputRegressor", path))

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        """Return what `snapshot` described; refuse what does not fit."""
        try:
            if header["class"] != "MultiOutputRegressor":
                raise ModelFileError(f"holds a {header['class']!r:.60}, not a MultiOutputRegressor")
            return restore(cls, cls._saved_construction(header), header, arrays)
        except ModelFileError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise ModelFileError(f"MultiOutputRegressor: the saved state cannot be used ({why:.200})") from None

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        self.rounds = _check.integer(self, "rounds", header["rounds"], 0, 2**53)
        if header["dim"] is not None:
            self._load(_check.integer(self, "dim", header["dim"], 0, 10**6), header, arrays)

    def _load(self, dim: int, header: store.Header, arrays: Arrays) -> None:
        """Take over saved arrays, whose sizes are looked at before room is made for them."""
        if "theta" not in arrays:
            parts: dict[str, Arrays] = {}
            for name, array in arrays.items():
                where, _, own = name.partition("/")
                parts.setdefault(where, {})[own] = array
            each = (header[f"model {k}"] for k in range(self.outputs))
            self._models = [learner_from_snapshot(one, parts.get(str(k), {})) for k, one in enumerate(each)]  # type: ignore[arg-type]  # checked there
            self.dim = dim
            return
        if arrays["theta"].shape[1:] != (dim, self.outputs):
            raise ModelFileError("MultiOutputRegressor: the saved arrays are of another width")
        self._begin(dim)
        own_arrays: Arrays = {} if self._shared is None else self._shared.arrays()
        if own_arrays.keys() != arrays.keys():
            raise ModelFileError("MultiOutputRegressor: the saved arrays are not those of its model")
        fill_arrays("MultiOutputRegressor", own_arrays, arrays)

    def __repr__(self) -> str:
        return f"MultiOutputRegressor({self.model!r}, outputs={self.outputs})"
