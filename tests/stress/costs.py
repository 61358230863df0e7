"""Costs of online estimators on hostile streams: python -m tests.stress.costs [COUNT] [SEED] [--climb STEPS].

COUNT (10000) streams of 60 to 150 rows, half of them for squared loss, the others for pinball and logistic loss; every
SEED (0) gives other streams. Exit code 4 if losses exceed those of a candidate, or of a convex combination of given
predictions, by more than the bound of theory page `gate`.

--climb STEPS: search as well. Every tenth stream is changed STEPS times, keeping what raises
(excess - cost) / losses.
"""

import argparse
import sys
import time

import numpy as np

from tests.theorems import gate_runs as runs

LOSSES = [runs.SQUARED, runs.SQUARED, runs.PINBALL, runs.LOGISTIC]
ROUNDING = 1e-9


def main() -> int:
    """Play the streams, print the largest ratios, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--climb", type=int, default=0, metavar="STEPS")
    options = parser.parse_args()
    begin, played, wrong = time.process_time(), 0, 0
    worst = dict.fromkeys((*LOSSES, "combinations", "search"), -np.inf)

    def note(name: str, ratio: float, k: int) -> int:
        worst[name] = max(worst[name], ratio)
        if ratio <= ROUNDING:
            return 0
        print(f"stream {k}, {name}: excess above the bound by {ratio:.2g} of the losses")
        return 1

    for k in range(options.count):
        rng = np.random.default_rng([options.seed, k])
        loss = LOSSES[k % len(LOSSES)]
        stream = runs.draw_stream(rng, loss)
        outcome = runs.play(stream)
        played += 1
        wrong += note(loss, outcome.ratio(), k)
        members = outcome.members.shape[1]
        for _ in range(3 if members > 1 else 0):
            u = rng.dirichlet(np.full(members, 0.5))
            wrong += note("combinations", outcome.combination_ratio(u, loss), k)
        if options.climb and k // len(LOSSES) % 10 == 0:
            ratio, _ = runs.climb(rng, stream, options.climb)
            played += options.climb + 1
            wrong += note("search", ratio, k)
    for name, ratio in worst.items():
        print(f"{name}: largest (excess - bound) / losses {ratio:.3g}")
    print(f"{played} streams, {wrong} above the bound, {time.process_time() - begin:.0f} s")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
