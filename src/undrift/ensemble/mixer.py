"""Mixer: predictions of many members in, one prediction out, and a bound on what that cost."""

from __future__ import annotations

import copy
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Matrix, Scalar, Vector
from undrift.errors import InputError
from undrift.kernels.definitions import MixerState
from undrift.kernels.layout import MixerArguments


class Mixer:
    r"""Weights over N members, in the log domain, moved by the members' losses.

    Parameters
    ----------
    share
        Part of the weight in [0, 1) that returns to the prior each round. 0 follows the best member in the long run;
        1e-3 to 1e-2 follows the best one of the moment, and is paid for by $\ln\frac{1}{1-\text{share}}$ a round.

    Notes
    -----
    A mixer of your own derives from this class and provides `binary`, `cost`, and `_advance(E, y, weights)`, which
    changes its arrays and returns the mixture's predictions, each made before its label is used: `predict` calls it on
    a copy with a label of no meaning. A copy is made with `parameters`: they are what the constructor takes.
    """

    binary: ClassVar[bool]
    """Whether predictions are log-odds of two classes."""

    def __init__(self, *, share: float = 0.0, **parameters: Scalar) -> None:
        self.share = _check.interval(self, "share", share, "[0, 1)")
        self.parameters: dict[str, Scalar] = {"share": share, **parameters}
        self._arrays: dict[str, Vector] = {}

    def begin(self, prior: ArrayLike) -> None:
        """Start with these weights, positive numbers of any sum; the members' number is theirs."""
        self._log_prior = log_prior(self, prior)
        self._arrays = {
            "log_weights": self._log_prior.copy(),
            "losses": np.zeros(len(self._log_prior)),
            "charged": np.zeros(len(self._log_prior)),
            "rate": np.zeros(len(MixerState)),
        }

    def restart(self) -> None:
        """Forget every round; the prior stays."""
        for name, array in self._arrays.items():
            array[...] = self._log_prior if name == "log_weights" else 0.0

    def play(self, E: Matrix, y: Vector, *, weights: Matrix | None = None) -> Vector:
        """Close rounds with the members' predictions E (rounds, members); return the mixture's predictions.

        `weights`, if given, receives the weights before each round.
        """
        E = np.ascontiguousarray(E)
        return self._advance(E, y, np.empty((0, E.shape[1])) if weights is None else weights)

    def predict(self, E: Matrix) -> Vector:
        """Return the mixture of each row of E, predictions of the members for the coming round; nothing changes."""
        E, yhat = np.ascontiguousarray(E), np.empty(len(E))
        for t in range(len(E)):
            trial = copy.copy(self)  # with arrays of its own: other threads may predict at the same time
            trial._arrays = {name: array.copy() for name, array in self._arrays.items()}
            yhat[t] = trial._advance(E[t : t + 1], np.ones(1), np.empty((0, E.shape[1])))[0]
        return yhat

    def kernel_arguments(self) -> MixerArguments | None:
        """Return this mixer as `kernels.EnsembleKernel` takes it; None for a mixer of your own."""
        return None

    def _arguments(self, rule: int, scale: float) -> MixerArguments:
        """Return the arrays and settings of a mixer that kernels know."""
        a = self._arrays
        return MixerArguments(
            log_weights=a["log_weights"],
            log_prior=self._log_prior,
            share=self.share,
            state=a["rate"],
            rule=rule,
            scale=scale,
            losses=a["losses"],
            clipped_losses=a["charged"],
        )

    @property
    def weights(self) -> Vector:
        """The members' weights for the coming round; they sum to 1."""
        return weights_of(self._arrays["log_weights"])

    @property
    def prior(self) -> Vector:
        """The members' weights before the first round."""
        return np.asarray(np.exp(self._log_prior))

    @property
    def losses(self) -> Vector:
        """Sum of each member's losses so far."""
        return self._arrays["losses"].copy()

    def cost(self) -> Vector:
        """Return a bound on (the mixture's losses so far) - (each member's losses so far)."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Vector]:
        """Return the state by name, the very arrays."""
        return self._arrays

    def clone(self) -> Self:
        """Return a mixer with the same parameters that has seen nothing."""
        return type(self)(**self.parameters)  # type: ignore[arg-type]  # __init__ checks every one of them

    def _advance(self, E: Matrix, y: Vector, weights: Matrix) -> Vector:
        raise NotImplementedError

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({given})"


def log_prior(who: object, prior: ArrayLike) -> Vector:
    """Return the logarithms of positive numbers of any sum, divided by it."""
    p = _check.finite_array(who, "prior", prior, (None,))
    if not len(p) or not (p > 0.0).all():
        raise InputError(f"{_check.name_of(who)}: prior must be positive for every member, got {p.tolist()}")
    return np.asarray(np.log(p) - np.log(np.sum(p)))


def weights_of(log_weights: Vector) -> Vector:
    """Return weights that sum to 1 from their logarithms, which are known up to a constant."""
    w = np.exp(log_weights)
    return np.asarray(w / np.sum(w), dtype=np.float64)
