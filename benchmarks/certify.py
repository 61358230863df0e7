"""What a certificate costs as T grows: seconds and peak memory, d = 10, against 20 pieces and a drifting path."""

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
    print(f"{'T':>8} {'learner':14} {'comparator':12} {'play s':>8} {'certify s':>10} {'bound':>10} {'peak MB':>8}")
    for T in lengths:
        Z, pieces, y, signs = problem(T)
        drifting = np.cumsum(np.random.default_rng(1).normal(scale=1e-3, size=Z.shape), axis=0)
        for learner, labels, loss in (
            (ud.DiscountedVAW(beta=0.99), y, squared),
            (ud.DiscountedVAW(beta=1.0), y, squared),
            (ud.DiscountedAIOLI(beta=0.99, bound=20.0), signs, logistic),
            (ud.DiscountedAIOLI(beta=1.0, bound=20.0), signs, logistic),
        ):
            begin = time.perf_counter()
            trace = learner.clone().play(Z, labels)
            played = time.perf_counter() - begin
            for kind, u in (("20 pieces", pieces), ("drifting", drifting)):
                if kind == "drifting" and loss is logistic and learner.beta == 1.0 and T > 20_000:
                    continue  # T^2 / 2 evaluations: nothing is forgotten and every round moves
                begin = time.perf_counter()
                c = ud.regret.certify(learner, Z, labels, trace, u, loss)
                spent = time.perf_counter() - begin
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                name = f"{type(learner).__name__[10:]} {learner.beta}"
                print(f"{T:8} {name:14} {kind:12} {played:8.2f} {spent:10.2f} {c.bound:10.1f} {peak:8.0f}")


if __name__ == "__main__":
    main()
