"""NumPy twin of `EnsembleKernel`: learners, what each member predicts from them, and the mixture, round by round."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tests.twins import mix as reference_mix
from tests.twins import reference
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import ENSEMBLE_SLOT, Hint
from undrift.kernels.layout import MixerArguments, State

Integers = NDArray[np.int64]


class EnsembleKernel:
    """Whole rounds of an ensemble over its own arrays, which are changed in place.

    Member i follows learner `leader[i]` of `state`, or predicts 0 where that is -1, with its own loss for stability.
    Under squared loss it predicts by `hinted_predictions`, its `hint` one of `Hint`; under logistic loss (`binary`) its
    log-odds and stability are the learner's own. `stability` sums by member. Without a `mixer` there is one member, and
    its prediction is the ensemble's. The `lock` is for the compiled one's calls of a single row, which the twin lacks.
    """

    def __init__(
        self,
        *,
        binary: bool,
        state: State,
        beta: Vector,
        inverse_curvature: Vector,
        leader: Integers,
        hint: Integers,
        last_label: Vector,
        stability: Vector,
        mixer: MixerArguments | None,
        lock: object = None,
    ) -> None:
        self.binary, self.state, self.beta, self.inverse_curvature = binary, state, beta, inverse_curvature
        self.leader, self.hint, self.last_label, self.stability = leader, hint, last_label, stability
        self.mixer = mixer

    def play(self, first: int, Z: Matrix, y: Vector, yhat: Vector, weights: Matrix) -> int:
        """Close rounds; `weights`, unless it has no rows, receives the weights before each.

        Return the status of `invalid_input`; unless it is 0 nothing changes.
        """
        if bad := reference.invalid_input(Z, y, self.binary):
            return bad
        for t in range(len(y)):
            row, label = Z[t : t + 1], y[t : t + 1]
            one, two = np.empty((1, len(self.beta))), np.empty((1, len(self.beta)))
            if self.binary:
                reference.aioli_play(self.state, self.beta, self.inverse_curvature, first + t, row, label, one, two)
            else:
                reference.vaw_play(self.state, self.beta, first + t, row, label, one, two)
            E, stability = self._predict_members(one, two, label)
            self.stability += stability[0]
            if not self.binary:
                self.last_label[0] = label[0]
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
            E, _ = self._predict_members(one[t : t + 1], two[t : t + 1], np.zeros(1))
            if self.mixer is None:
                yhat[t] = E[0, 0]
            elif self.binary:
                reference_mix.mix_logistic_predict(self.mixer.log_weights, E, yhat[t : t + 1])
            else:
                reference_mix.mix_squared_predict(
                    self.mixer.log_weights, self.mixer.state, self.mixer.rule, E, yhat[t : t + 1]
                )
        return 0

    def slot_size(self) -> int:
        """Numbers that one key's ensemble takes in the states of `play_keys`."""
        size = ENSEMBLE_SLOT.size(information_size=self.state.size, members=len(self.leader))
        return -(-size // 8) * 8  # whole cache lines

    def slot_shape(self) -> tuple[int, int, int]:
        """Shape of the learners' state in a slot; the compiled one may have fewer lanes."""
        groups, length, lanes = self.state.shape
        return groups, length, lanes

    def play_keys(
        self,
        states: Matrix,
        rounds: Integers,
        slots: Integers,
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
            self._in_slot(states[k]).play(int(rounds[k]), Z[i : i + 1], y[i : i + 1], yhat[i : i + 1], np.empty((0, 0)))
            rounds[k] += 1
        return 0

    def _in_slot(self, slot: Vector) -> EnsembleKernel:
        """Return the ensemble whose arrays are those of a slot."""
        part = ENSEMBLE_SLOT.split(slot, information_size=self.state.size, members=len(self.leader))
        mixer = self.mixer and self.mixer._replace(
            log_weights=part["log_weights"],
            state=part["mixer_state"],
            losses=part["losses"],
            clipped_losses=part["clipped_losses"],
        )
        return EnsembleKernel(
            binary=self.binary,
            state=part["information"].reshape(self.state.shape),
            beta=self.beta,
            inverse_curvature=self.inverse_curvature,
            leader=self.leader,
            hint=self.hint,
            last_label=part["last_label"],
            stability=part["stability"],
            mixer=mixer,
        )

    def _predict_members(self, one: Matrix, two: Matrix, y: Vector) -> tuple[Matrix, Matrix]:
        """Return the members' predictions and stability in a round, each (1, members), from the learners' outputs."""
        loss_of_zero = math.log(2.0) if self.binary else 0.5 * float(y[0]) ** 2
        E, stability = np.zeros((1, len(self.leader))), np.full((1, len(self.leader)), loss_of_zero)
        follows = self.leader >= 0
        one, two = one[:, self.leader[follows]], two[:, self.leader[follows]]
        if self.binary:
            E[:, follows], stability[:, follows] = one, two
            return E, stability
        values = {Hint.ZERO: np.zeros_like(one), Hint.LAST: np.full_like(one, self.last_label[0]), Hint.RIDGE: one}
        hint = np.choose(self.hint[follows], [values[kind] for kind in Hint])
        yhat, price = np.empty_like(one), np.empty_like(one)
        reference.hinted_predictions(one, two, hint, y, yhat, price)
        E[:, follows], stability[:, follows] = yhat, price
        return E, stability

    def _mix(self, E: Matrix, y: Vector, yhat: Vector, weights: Matrix) -> None:
        if self.mixer is None:
            yhat[0] = E[0, 0]
            return
        mixer = self.mixer
        if self.binary:
            reference_mix.mix_logistic(
                mixer.log_weights, mixer.log_prior, mixer.share, E, y, yhat, mixer.losses, weights
            )
            mixer.state[0] += 1.0
        else:
            reference_mix.mix_squared(
                mixer.log_weights, mixer.log_prior, mixer.share, mixer.state, mixer.rule, mixer.scale,
                E, y, yhat, mixer.losses, mixer.clipped_losses, weights,
            )  # fmt: skip
