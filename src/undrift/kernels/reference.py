"""NumPy twin of every compiled kernel: slow, plain, and the definition of correct."""

from __future__ import annotations

from undrift._typing import Vector


def mean_play(state: Vector, y: Vector, beta: float, yhat: Vector, stability: Vector) -> None:
    """Run the discounted mean over a block of labels, filling `yhat` and `stability`.

    state = (A, b), changed in place:
        A_t = beta A_{t-1} + 1         b_t = beta b_{t-1} + y_t
        yhat_t = beta b_{t-1} / A_t    stability_t = y_t^2 / (2 A_t)
    """
    for t in range(len(y)):
        A = beta * state[0] + 1.0
        yhat[t] = beta * state[1] / A
        stability[t] = 0.5 * (y[t] * y[t]) / A
        state[0], state[1] = A, beta * state[1] + y[t]
