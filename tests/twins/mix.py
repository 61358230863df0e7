r"""NumPy twin of the mixing kernels: how N members' predictions become one, round by round.

Weights live in the log domain, up to a constant: the largest logarithm is 0 after every round, except that they stay
the prior's while no inverse rate has been positive. Between rounds a
posterior v, reached at the rate $1/\iota$ ("inverse rate" $\iota$, in units of loss), becomes the next round's
weights w at the inverse rate $\iota'$:

    v_i ~ w_i exp(-loss_i / iota)
    w_i ~ v_i^r p_i^(1 - r)   if r = iota / iota' <= 1,   v_i otherwise
    w_i <- (1 - share) w_i + share p_i

With p the prior, the first branch normalises by a sum of at most 1 (Hoelder), and ln(1/v_i) >= 0, so that
iota' ln(1/w_i) <= iota ln(1/v_i) + max(0, iota' - iota) ln(1/p_i) + iota' ln(1/(1 - share)): lowering the rate is paid
once, raising it again is free. Summed over rounds this bounds the mix loss by member i's, for any rates whatever.
"""

from __future__ import annotations

import math

import numpy as np

from tests.twins.constants import MOST_GAPS, MOST_SQUARED_RESIDUAL, RECENT_ROUNDS, RESIDUAL_ROUNDS
from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import FARTHEST_MEMBER, MIX_LIMIT, MOST_LATENESS, WILD, MixingRule
from undrift.kernels.definitions import MixerState as S


def mix_logistic(
    log_weights: Vector,
    log_prior: Vector,
    share: float,
    E: Matrix,
    y: Vector,
    yhat: Vector,
    losses: Vector,
    weights: Matrix,
) -> None:
    """Mix log-odds E (rounds, members) for labels -1, +1 by the mixable rule, changing `log_weights` in place.

        yhat = ln(sum_i w_i sigma(E_i)) - ln(sum_i w_i sigma(-E_i))      attains the mix loss for both labels
        w_i ~ w_i sigma(y E_i), then the fixed share

    Adds each member's loss to `losses`; `weights`, unless it has no rows, receives the weights before each round. A
    member whose prediction is NaN is left out of the round and charged a loss of MIX_LIMIT.
    """
    for t in range(len(y)):
        if len(weights):
            weights[t] = _normalized_weights(log_weights)
        present = ~np.isnan(E[t])
        yhat[t] = _mix_log_odds(log_weights, E[t])
        loss = np.full(E.shape[1], MIX_LIMIT)
        loss[present] = softplus(-y[t] * np.clip(E[t][present], -MIX_LIMIT, MIX_LIMIT))
        losses += loss
        _set_log_weights(log_weights, log_weights - (loss - np.min(loss)))
        _apply_fixed_share(log_weights, log_prior, share)


def mix_squared(
    log_weights: Vector,
    log_prior: Vector,
    share: float,
    state: Vector,
    rule: int,
    scale: float,
    E: Matrix,
    y: Vector,
    yhat: Vector,
    losses: Vector,
    clipped_losses: Vector,
    weights: Matrix,
    late: float = 1.0,
    served: Vector | None = None,
) -> None:
    """Mix predictions E (rounds, members) of real labels under (yhat - y)^2 / 2, changing weights and state in place.

    Members are clipped to the labels' range so far, a NaN counting as 0: to [-M, M], M = max |y|, under RANGE and
    AGGREGATING, to [min y, max y] otherwise (0 before the first label), and there to
    FARTHEST_MEMBER recent mean |residuals| around the heaviest member. The inverse rate is

    | rule | inverse rate of the next round | prediction |
    |---|---|---|
    | RANGE | 4 M^2 | weighted mean |
    | AGGREGATING | M^2 | Vovk's substitution for labels in [-M, M] |
    | SELF_CONFIDENT | (sum of positive mixability gaps) / max(1, ln N) | weighted mean |
    | RESIDUAL_SCALE | `scale` times the running mean of (yhat - y)^2 | weighted mean |

    The sum and the mean are cut down to MOST_GAPS and MOST_SQUARED_RESIDUAL squares of the recent mean |residual|.
    `MixerState` says what the numbers of `state` are; mixability gaps, the loss of yhat minus the mix loss, are summed
    under the last two rules only. Adds each member's loss to `losses` as it predicted, to `clipped_losses` as it was
    clipped; `weights` as in `mix_logistic`. Whatever the rates, under the last two rules
    sum of losses of yhat - clipped_losses_i <= GAPS + ln(1/p_i) RATE_RISES + (1 - p_i) SHARE_COST.

    An online estimator's label may come `late` rows after members answered, 1 if promptly, and what was predicted then
    is `served` (rounds). Under SELF_CONFIDENT the gaps are those of the served predictions: their loss minus the mix
    loss. Weights that turn while labels are on their way make served predictions worse, which slows the weights down;
    their own prediction of now would not show it, as they know the neighbours of the label by now. Under
    RESIDUAL_SCALE the inverse rate is multiplied by min(`late`, MOST_LATENESS). Neighbours within `late` rows tell
    little more than one: the recent mean is over `late` times as many rounds, up to RESIDUAL_ROUNDS, each counting at
    most WILD times that mean; the sum of gaps may be min(`late`, MOST_LATENESS) times as large, and `share` is divided
    by `late`.
    """
    symmetric = rule in (MixingRule.RANGE, MixingRule.AGGREGATING)
    share /= late
    for t in range(len(y)):
        if len(weights):
            weights[t] = _normalized_weights(log_weights)
        label = float(y[t])
        low, high = float(state[S.LABEL_MIN]), float(state[S.LABEL_MAX])
        inverse_rate = float(state[S.INVERSE_RATE])
        raw = _clamp_predictions(E[t])
        e = _clip_members(log_weights, state, rule, raw)
        yhat[t] = _mix_predictions(log_weights, state, rule, raw)
        losses += 0.5 * (raw - label) ** 2
        clipped_losses += 0.5 * (e - label) ** 2

        # The proofs of RANGE and AGGREGATING charge the label as the range so far allowed it.
        clipped_label = min(max(label, low), high) if symmetric else label
        loss = 0.5 * (e - clipped_label) ** 2
        best = float(np.min(loss))
        mix_loss = best
        if inverse_rate > 0.0:
            v = log_weights - (loss - best) / inverse_rate
            mix_loss -= inverse_rate * (log_sum_exp(v) - log_sum_exp(log_weights))
            _set_log_weights(log_weights, v)
        if not symmetric:
            gap = 0.5 * (yhat[t] - clipped_label) ** 2 - mix_loss
            state[S.GAPS] += gap
            said = yhat[t] if served is None else served[t]
            state[S.POSITIVE_GAPS] += max(0.5 * (said - clipped_label) ** 2 - mix_loss, 0.0)
        state[S.ROUNDS] += 1.0
        residual = (yhat[t] - label) ** 2
        change = residual - state[S.MEAN_SQUARED_RESIDUAL]
        state[S.MEAN_SQUARED_RESIDUAL] += change / min(state[S.ROUNDS], RESIDUAL_ROUNDS)
        size, recent = abs(float(yhat[t]) - label), float(state[S.RECENT_RESIDUAL])
        if late > 1.0 and recent > 0.0:  # so long a mean would not forget a shock
            size = min(size, WILD * recent)
        change = size - recent
        recent_rounds = min(RECENT_ROUNDS * late, RESIDUAL_ROUNDS)
        state[S.RECENT_RESIDUAL] += change / min(state[S.ROUNDS], recent_rounds)
        if symmetric:
            state[S.LABEL_MAX] = max(high, abs(label))
            state[S.LABEL_MIN] = -state[S.LABEL_MAX]
        elif state[S.ROUNDS] == 1.0:
            state[S.LABEL_MIN] = state[S.LABEL_MAX] = label
        else:
            state[S.LABEL_MIN], state[S.LABEL_MAX] = min(low, label), max(high, label)

        next_rate = _inverse_rate(rule, scale, state, len(e), late)
        state[S.RATE_RISES] += max(next_rate - inverse_rate, 0.0)
        if next_rate > 0.0:
            state[S.SHARE_COST] -= next_rate * math.log1p(-share)
            if next_rate > inverse_rate:
                r = inverse_rate / next_rate
                tempered = r * log_weights + (1.0 - r) * log_prior
                if not symmetric:
                    log_sum = log_sum_exp(tempered) - r * log_sum_exp(log_weights)
                    state[S.GAPS] += next_rate * min(log_sum, 0.0)  # by Hoelder it is never positive
                _set_log_weights(log_weights, tempered)
            _apply_fixed_share(log_weights, log_prior, share)
        state[S.INVERSE_RATE] = next_rate


def mix_logistic_predict(log_weights: Vector, E: Matrix, yhat: Vector) -> None:
    """Fill `yhat` with the predictions of `mix_logistic` if members predicted each row of E in the coming round."""
    for t in range(len(E)):
        yhat[t] = _mix_log_odds(log_weights, E[t])


def mix_squared_predict(log_weights: Vector, state: Vector, rule: int, E: Matrix, yhat: Vector) -> None:
    """Fill `yhat` with the predictions of `mix_squared` if members predicted each row of E in the coming round."""
    for t in range(len(E)):
        yhat[t] = _mix_predictions(log_weights, state, rule, _clamp_predictions(E[t]))


def _mix_log_odds(log_weights: Vector, e: Vector) -> float:
    """Return the log-odds whose loss is the mix loss under either label."""
    present = ~np.isnan(e)
    e, w = np.clip(e[present], -MIX_LIMIT, MIX_LIMIT), log_weights[present]
    return log_sum_exp(w - softplus(-e)) - log_sum_exp(w - softplus(e)) if present.any() else 0.0


def _clamp_predictions(e: Vector) -> Vector:
    """Bring predictions into the range the mixer computes with; NaN becomes 0."""
    return np.asarray(np.clip(np.where(np.isnan(e), 0.0, e), -MIX_LIMIT, MIX_LIMIT), dtype=np.float64)


def _mix_predictions(log_weights: Vector, state: Vector, rule: int, raw: Vector) -> float:
    """Return the rule's mixture of predictions, clipped to what is plausible."""
    e = _clip_members(log_weights, state, rule, raw)
    if rule == MixingRule.AGGREGATING:
        return _aggregating_prediction(log_weights, e, float(state[S.LABEL_MAX]))
    return _weighted_mean(log_weights, e)


def _clip_members(log_weights: Vector, state: Vector, rule: int, raw: Vector) -> Vector:
    """Clip predictions to the range of the labels and, where rates follow residuals, to a reach around the heaviest."""
    e = np.clip(raw, state[S.LABEL_MIN], state[S.LABEL_MAX])
    reach = FARTHEST_MEMBER * state[S.RECENT_RESIDUAL]
    if rule in (MixingRule.SELF_CONFIDENT, MixingRule.RESIDUAL_SCALE) and reach > 0.0:
        heaviest = e[log_weights == np.max(log_weights)]
        middle = 0.5 * (np.min(heaviest) + np.max(heaviest))
        e = np.clip(e, middle - reach, middle + reach)
    return np.asarray(e, dtype=np.float64)


def _inverse_rate(rule: int, scale: float, state: Vector, members: int, late: float) -> float:
    """Forget what is contradicted; return the inverse rate of the coming round, 0 to keep the prior."""
    if rule == MixingRule.RANGE:
        return float(4.0 * state[S.LABEL_MAX] ** 2)
    if rule == MixingRule.AGGREGATING:
        return float(state[S.LABEL_MAX] ** 2)
    slow = min(late, MOST_LATENESS)
    square = state[S.RECENT_RESIDUAL] ** 2  # what the last rounds contradict is forgotten
    state[S.MEAN_SQUARED_RESIDUAL] = min(state[S.MEAN_SQUARED_RESIDUAL], MOST_SQUARED_RESIDUAL * square)
    state[S.POSITIVE_GAPS] = min(state[S.POSITIVE_GAPS], MOST_GAPS * slow * square)
    if rule == MixingRule.SELF_CONFIDENT:
        return float(state[S.POSITIVE_GAPS] / max(1.0, math.log(members)))
    return float(slow * scale * state[S.MEAN_SQUARED_RESIDUAL])


def _weighted_mean(log_weights: Vector, e: Vector) -> float:
    """Return the weighted mean, inside the range of the members whatever the rounding of the weights."""
    w = np.exp(log_weights)
    return float(min(max(np.sum(w * e) / np.sum(w), np.min(e)), np.max(e)))


def _aggregating_prediction(log_weights: Vector, e: Vector, M: float) -> float:
    """Return Vovk's substitution (g(-M) - g(M)) / (2M), g(y) the mix loss of label y at the rate 1 / M^2."""
    if M == 0.0:
        return 0.0
    x = e / M
    up = log_sum_exp(log_weights - 0.5 * (1.0 - x) ** 2)
    down = log_sum_exp(log_weights - 0.5 * (1.0 + x) ** 2)
    return float(min(max(0.5 * M * (up - down), -M), M))


def _set_log_weights(log_weights: Vector, v: Vector) -> None:
    """Set the log-weights to v - max(v), which keeps digits where all of v is huge."""
    log_weights[...] = np.maximum(v - np.max(v), -MIX_LIMIT)


def _apply_fixed_share(log_weights: Vector, log_prior: Vector, share: float) -> None:
    """w_i <- (1 - share) w_i + share p_i."""
    if share > 0.0:
        _set_log_weights(
            log_weights, np.log((1.0 - share) * _normalized_weights(log_weights) + share * np.exp(log_prior))
        )


def _normalized_weights(log_weights: Vector) -> Vector:
    w = np.exp(log_weights)
    return np.asarray(w / np.sum(w))


def softplus(x: Vector) -> Vector:
    """ln(1 + e^x), to rounding for every x."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))), dtype=np.float64)


def log_sum_exp(x: Vector) -> float:
    """ln(sum e^x), without overflow or underflow of the sum."""
    top = float(np.max(x))
    return top + math.log(float(np.sum(np.exp(x - top))))
