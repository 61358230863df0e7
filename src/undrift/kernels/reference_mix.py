r"""NumPy twin of the mixing kernels: how N members' predictions become one, round by round.

Weights live in the log domain, up to a constant: the largest logarithm is 0 after every round, except that they stay
the prior's while no inverse rate has been positive. Between rounds a
posterior v, reached at the rate $1/\iota$ ("inverse rate" $\iota$, in units of loss), becomes the next round's
weights w at the inverse rate $\iota'$:

    v_i ~ w_i exp(-loss_i / iota)
    w_i ~ v_i^r p_i^(1 - r)   if r = iota / iota' <= 1,   v_i^r otherwise
    w_i <- (1 - share) w_i + share p_i

With p the prior, both branches normalise by a sum of at most 1 (Hoelder; r >= 1), so that
iota' ln(1/w_i) <= iota ln(1/v_i) + max(0, iota' - iota) ln(1/p_i) + iota' ln(1/(1 - share)): lowering the rate is paid
once, raising it again is free. Summed over rounds this bounds the mix loss by member i's, for any rates whatever.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector

FAR = 1e150
"""Predictions are brought into +-FAR and no log-weight falls below -FAR: nothing overflows, no member is lost."""

RANGE, AGGREGATING, CONFIDENT, RESIDUAL = range(4)
"""Rules of `mix_squared`: where the rate comes from."""

LOW, HIGH, INVERSE, EXCESS, GAPS, PAID, SHARED, SQUARE, COUNT = range(9)
"""Places in the state of `mix_squared`."""

MEMORY = 1000.0
"""Rounds over which RESIDUAL averages squared residuals, once it has seen as many."""


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
    member that says NaN is left out of the round and charged FAR.
    """
    for t in range(len(y)):
        if len(weights):
            weights[t] = _distribution(log_weights)
        said = ~np.isnan(E[t])
        yhat[t] = _mixed_odds(log_weights, E[t])
        loss = np.full(E.shape[1], FAR)
        loss[said] = softplus(-y[t] * np.clip(E[t][said], -FAR, FAR))
        losses += loss
        _settle(log_weights, log_weights - (loss - np.min(loss)))
        _share(log_weights, log_prior, share)


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
    charged: Vector,
    weights: Matrix,
) -> None:
    """Mix predictions E (rounds, members) of real labels under (yhat - y)^2 / 2, changing weights and state in place.

    Members are clipped to the labels' range so far, a NaN counting as 0: to [-M, M], M = max |y|, under RANGE and
    AGGREGATING, to [min y, max y] otherwise (0 before the first label). The inverse rate is

    | rule | inverse rate of the next round | prediction |
    |---|---|---|
    | RANGE | 4 M^2 | weighted mean |
    | AGGREGATING | M^2 | Vovk's substitution for labels in [-M, M] |
    | CONFIDENT | (sum of positive mixability gaps) / max(1, ln N) | weighted mean |
    | RESIDUAL | `scale` times the running mean of (yhat - y)^2 | weighted mean |

    State: LOW and HIGH the labels' range; INVERSE the inverse rate; EXCESS the sum of positive mixability gaps (loss
    of yhat minus mix loss) and GAPS the sum of all of them, under the last two rules; PAID the sum of the rises of the
    inverse rate; SHARED what the fixed share may have cost; SQUARE the running mean of squared residuals; COUNT the
    rounds.
    Adds each member's loss to `losses` as it predicted, to `charged` as it was clipped; `weights` as in
    `mix_logistic`. Whatever the rates, under the last two rules
    sum of losses of yhat - charged_i <= GAPS + ln(1/p_i) PAID + SHARED.
    """
    symmetric = rule in (RANGE, AGGREGATING)
    for t in range(len(y)):
        if len(weights):
            weights[t] = _distribution(log_weights)
        label = float(y[t])
        low, high, inverse = float(state[LOW]), float(state[HIGH]), float(state[INVERSE])
        raw = _cleaned(E[t])
        e = np.clip(raw, low, high)
        yhat[t] = _mixed(log_weights, state, rule, raw)
        losses += 0.5 * (raw - label) ** 2
        charged += 0.5 * (e - label) ** 2

        # The proofs of RANGE and AGGREGATING charge the label as the range so far allowed it.
        seen = min(max(label, low), high) if symmetric else label
        loss = 0.5 * (e - seen) ** 2
        best = float(np.min(loss))
        mixed = best
        if inverse > 0.0:
            v = log_weights - (loss - best) / inverse
            mixed -= inverse * (log_sum_exp(v) - log_sum_exp(log_weights))
            _settle(log_weights, v)
        if not symmetric:
            gap = 0.5 * (yhat[t] - seen) ** 2 - mixed
            state[GAPS] += gap
            state[EXCESS] += max(gap, 0.0)
        state[COUNT] += 1.0
        residual = (yhat[t] - label) ** 2
        state[SQUARE] += (residual - state[SQUARE]) / min(state[COUNT], MEMORY)
        if symmetric:
            state[HIGH] = max(high, abs(label))
            state[LOW] = -state[HIGH]
        elif state[COUNT] == 1.0:
            state[LOW] = state[HIGH] = label
        else:
            state[LOW], state[HIGH] = min(low, label), max(high, label)

        following = _inverse_rate(rule, scale, state, len(e))
        state[PAID] += max(following - inverse, 0.0)
        if following > 0.0:
            state[SHARED] -= following * math.log1p(-share)
            if following != inverse:
                r = inverse / following
                _settle(log_weights, r * log_weights + max(1.0 - r, 0.0) * log_prior)
            _share(log_weights, log_prior, share)
        state[INVERSE] = following


def mix_logistic_predict(log_weights: Vector, E: Matrix, yhat: Vector) -> None:
    """Fill `yhat` with what `mix_logistic` would say to each row of E in the coming round."""
    for t in range(len(E)):
        yhat[t] = _mixed_odds(log_weights, E[t])


def mix_squared_predict(log_weights: Vector, state: Vector, rule: int, E: Matrix, yhat: Vector) -> None:
    """Fill `yhat` with what `mix_squared` would say to each row of E in the coming round."""
    for t in range(len(E)):
        yhat[t] = _mixed(log_weights, state, rule, _cleaned(E[t]))


def _mixed_odds(log_weights: Vector, e: Vector) -> float:
    """Log-odds whose loss is the mix loss under either label."""
    said = ~np.isnan(e)
    e, w = np.clip(e[said], -FAR, FAR), log_weights[said]
    return log_sum_exp(w - softplus(-e)) - log_sum_exp(w - softplus(e)) if said.any() else 0.0


def _cleaned(e: Vector) -> Vector:
    return np.asarray(np.clip(np.where(np.isnan(e), 0.0, e), -FAR, FAR), dtype=np.float64)


def _mixed(log_weights: Vector, state: Vector, rule: int, raw: Vector) -> float:
    """What the rule makes of predictions, clipped to the labels so far."""
    e = np.clip(raw, state[LOW], state[HIGH])
    return _substitution(log_weights, e, float(state[HIGH])) if rule == AGGREGATING else _mean(log_weights, e)


def _inverse_rate(rule: int, scale: float, state: Vector, members: int) -> float:
    """Return the inverse rate of the coming round; 0 keeps the prior until members differ."""
    if rule == RANGE:
        return float(4.0 * state[HIGH] ** 2)
    if rule == AGGREGATING:
        return float(state[HIGH] ** 2)
    if rule == CONFIDENT:
        return float(state[EXCESS] / max(1.0, math.log(members)))
    return float(scale * state[SQUARE])


def _mean(log_weights: Vector, e: Vector) -> float:
    """Weighted mean, inside the members' range whatever the weights' rounding."""
    w = np.exp(log_weights)
    return float(min(max(np.sum(w * e) / np.sum(w), np.min(e)), np.max(e)))


def _substitution(log_weights: Vector, e: Vector, M: float) -> float:
    """Vovk's prediction (g(-M) - g(M)) / (2M), g(y) the mix loss of label y at the rate 1 / M^2."""
    if M == 0.0:
        return 0.0
    x = e / M
    up = log_sum_exp(log_weights - 0.5 * (1.0 - x) ** 2)
    down = log_sum_exp(log_weights - 0.5 * (1.0 + x) ** 2)
    return float(min(max(0.5 * M * (up - down), -M), M))


def _settle(log_weights: Vector, v: Vector) -> None:
    """Take v for log-weights, less its largest, which keeps digits where all of them are huge."""
    log_weights[...] = np.maximum(v - np.max(v), -FAR)


def _share(log_weights: Vector, log_prior: Vector, share: float) -> None:
    """Give `share` of the weights back to the prior."""
    if share > 0.0:
        _settle(log_weights, np.log((1.0 - share) * _distribution(log_weights) + share * np.exp(log_prior)))


def _distribution(log_weights: Vector) -> Vector:
    w = np.exp(log_weights)
    return np.asarray(w / np.sum(w))


def softplus(x: Vector) -> Vector:
    """ln(1 + e^x), to rounding for every x."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))), dtype=np.float64)


def log_sum_exp(x: Vector) -> float:
    """ln(sum e^x), without overflow or underflow of the sum."""
    top = float(np.max(x))
    return top + math.log(float(np.sum(np.exp(x - top))))
