"""What a certificate costs as T grows: CPU seconds, peak memory; d = 10, against 20 pieces and a drifting path.

`open` is the part of the bound that a shortcut left open (`variation_error`).
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

import undrift as ud
from undrift.losses import logistic, squared


def problem(T: int, d: int = 10):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(T, d))
    pieces = np.repeat(0.3 * rng.normal(size=(20, d)), -(-T // 20), axis=0)[:T]
    margin = np.sum(Z * pieces, axis=1)
    return Z, pieces, margin + rng.normal(size=T), np.where(margin + rng.logistic(size=T) > 0, 1.0, -1.0)


def main() -> None:
    lengths = [int(float(word)) for word in sys.argv[1:]] or [1000, 10_000, 100_000]
    print(
        f"{'T':>8} {'learner':14} {'comparator':10} {'play s':>7} {'certify s':>9} {'bound':>8} {'open':>6} {'MB':>5}"
    )
    for T in lengths:
        Z, pieces, y, signs = problem(T)
        drifting = np.cumsum(np.random.default_rng(1).normal(scale=1e-3, size=Z.shape), axis=0)
        for learner, labels, loss in (
            (ud.DiscountedVAW(beta=0.99), y, squared),
            (ud.DiscountedVAW(beta=1.0), y, squared),
            (ud.DiscountedAIOLI(beta=0.99, bound=20.0), signs, logistic),
            (ud.DiscountedAIOLI(beta=0.9999, bound=20.0), signs, logistic),
            (ud.DiscountedAIOLI(beta=1.0, bound=20.0), signs, logistic),
        ):
            begin = time.process_time()
            trace = learner.clone().play(Z, labels)
            played = time.process_time() - begin
            for kind, u in (("20 pieces", pieces), ("drifting", drifting)):
                begin = time.process_time()
                c = ud.regret.certify(learner, Z, labels, trace=trace, u=u, loss=loss)
                spent = time.process_time() - begin
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                name = f"{type(learner).__name__[10:]} {learner.beta}"
                figures = f"{played:7.2f} {spent:9.2f} {c.bound:8.0f} {c.variation_error:6.1f} {peak:5.0f}"
                print(f"{T:8} {name:14} {kind:10} {figures}")


if __name__ == "__main__":
    main()
