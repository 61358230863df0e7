"""NumPy twin of `Round`: memories, what each member makes of them, and the mixture, round by round."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.kernels import reference, reference_mix
from undrift.kernels.arguments import MixerArguments
from undrift.kernels.definitions import ENSEMBLE_SLOT
from undrift.kernels.layout import State


class Round:
    """Whole rounds of an ensemble over its own arrays, which are changed in place.

    Member i is memory `at[i]` of `state`, or says 0 where that is -1, and pays what that loses. Under squared loss it
    answers (m + h hint) / (1 + h), its hint zero, the last label or the leader's prediction m, and pays
    (hint - y)^2 / 2 h / (1 + h), summed in `stability`; under logistic loss (`binary`) log-odds and price are the
    memory's own. Without a `mixer` there is one member and its prediction is the ensemble's. The `lock` is for the
    compiled one's calls of a single row, which the twin lacks.
    """

    def __init__(
        self,
        binary: bool,
        state: State,
        beta: Vector,
        bend: Vector,
        at: Vector,
        hint: Vector,
        last: Vector,
        stability: Vector,
        mixer: MixerArguments | None,
        lock: object = None,
    ) -> None:
        self.binary, self.state, self.beta, self.bend = binary, state, beta, bend
        self.at, self.hint, self.last, self.stability, self.mixer = at.astype(int), hint, last, stability, mixer

    def play(self, first: int, Z: Matrix, y: Vector, yhat: Vector, weights: Matrix) -> int:
        """Close rounds; `weights`, unless it has no rows, receives the weights before each.

        The status is that of `refusal`: 0, or where the first number is that may not be used; then nothing changes.
        """
        if bad := reference.invalid_input(Z, y, self.binary):
            return bad
        for t in range(len(y)):
            row, label = Z[t : t + 1], y[t : t + 1]
            one, two = np.empty((1, len(self.beta))), np.empty((1, len(self.beta)))
            if self.binary:
                reference.aioli_play(self.state, self.beta, self.bend, first + t, row, label, one, two)
            else:
                reference.vaw_play(self.state, self.beta, first + t, row, label, one, two)
            E, price = self._members(one[0], two[0], float(label[0]))
            self.stability += price
            if not self.binary:
                self.last[0] = label[0]
            self._mix(E, label, yhat[t : t + 1], weights[t : t + 1])
        return 0

    def predict_rows(self, first: int, Z: Matrix, yhat: Vector) -> int:
        """Fill `yhat` with the predictions for rows that might come next; nothing changes. The status as in `play`."""
        if bad := reference.invalid_input(Z, np.empty(0)):
            return bad
        one, two = np.empty((len(Z), len(self.beta))), np.empty((len(Z), len(self.beta)))
        if self.binary:
            reference.aioli_predict(self.state, self.beta, first, Z, one)
        else:
            reference.vaw_predict(self.state, self.beta, first, Z, one, two)
        for t in range(len(Z)):
            E, _ = self._members(one[t], two[t], 0.0)
            if self.mixer is None:
                yhat[t] = E[0, 0]
            elif self.binary:
                reference_mix.mix_logistic_predict(self.mixer.log_weights, E, yhat[t : t + 1])
            else:
                reference_mix.mix_squared_predict(
                    self.mixer.log_weights, self.mixer.state, self.mixer.rule, E, yhat[t : t + 1]
                )
        return 0

    def slot(self) -> int:
        """Numbers that one key's ensemble takes in the states of `play_keys`."""
        size = ENSEMBLE_SLOT.size(information_size=self.state.size, members=len(self.at))
        return -(-size // 8) * 8  # whole cache lines

    def slot_shape(self) -> tuple[int, int, int]:
        """Shape of the memories' state in a slot; the compiled one may have fewer lanes."""
        groups, length, lanes = self.state.shape
        return groups, length, lanes

    def play_keys(
        self,
        states: Matrix,
        rounds: NDArray[np.int64],
        slots: NDArray[np.int64],
        Z: Matrix,
        y: Vector,
        yhat: Vector,
        threads: int = 1,
    ) -> int:
        """Close a round of the ensemble in row slots[i] of `states` with row i, one record after the other.

        A slot holds the parts of `ENSEMBLE_SLOT`. `rounds` counts by slot. The status as in `play`.
        """
        if bad := reference.invalid_input(Z, y, self.binary):
            return bad
        for i, k in enumerate(slots):
            self._at(states[k]).play(int(rounds[k]), Z[i : i + 1], y[i : i + 1], yhat[i : i + 1], np.empty((0, 0)))
            rounds[k] += 1
        return 0

    def _at(self, slot: Vector) -> Round:
        """The ensemble whose arrays are those of a slot."""
        part = ENSEMBLE_SLOT.split(slot, information_size=self.state.size, members=len(self.at))
        mixer = self.mixer and self.mixer._replace(
            log_weights=part["log_weights"],
            state=part["mixer_state"],
            losses=part["losses"],
            clipped_losses=part["clipped_losses"],
        )
        state, last, stability = part["information"].reshape(self.state.shape), part["last_label"], part["stability"]
        return Round(self.binary, state, self.beta, self.bend, self.at, self.hint, last, stability, mixer)

    def _members(self, one: Vector, two: Vector, y: float) -> tuple[Matrix, Vector]:
        E, price = np.zeros(len(self.at)), np.full(len(self.at), math.log(2.0) if self.binary else 0.5 * y * y)
        for i, at in enumerate(self.at):
            if at >= 0 and self.binary:
                E[i], price[i] = one[at], two[at]
            elif at >= 0:
                m, h = one[at], two[at]
                hint = (0.0, float(self.last[0]), m)[int(self.hint[i])]
                E[i] = (m + h * hint) / (1.0 + h)
                price[i] = 0.5 * (hint - y) ** 2 * h / (1.0 + h)
        return E[None, :], price

    def _mix(self, E: Matrix, y: Vector, yhat: Vector, weights: Matrix) -> None:
        if self.mixer is None:
            yhat[0] = E[0, 0]
            return
        log_weights, log_prior, share, state, rule, scale, losses, clipped_losses = self.mixer
        if self.binary:
            reference_mix.mix_logistic(log_weights, log_prior, share, E, y, yhat, losses, weights)
            state[0] += 1.0
        else:
            reference_mix.mix_squared(
                log_weights, log_prior, share, state, rule, scale, E, y, yhat, losses, clipped_losses, weights
            )
