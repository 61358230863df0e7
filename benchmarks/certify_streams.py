"""Certify learners on every stream of the data folder against fixed, piecewise and smooth comparators.

python benchmarks/certify_streams.py [rows]; the data folder is UNDRIFT_DATA, by default ../shared/data.
"""

from __future__ import annotations

import sys
import time

from streams import folder, load, names

import undrift as ud
from undrift.losses import logistic, squared
from undrift.regret.comparators import fixed, piecewise, smooth

REACH = 8.0
"""B R of the logistic learners, and the margin of the comparators they are held against."""


def learners(binary):
    if binary:
        for beta in (0.99, 0.999, 1.0):
            yield f"AIOLI beta={beta}", ud.DiscountedAIOLI(beta=beta, bound=REACH)
    else:
        for hint in ("zero", "last", "ridge"):
            for beta in (0.99, 0.999, 1.0):
                yield f"VAW {hint} beta={beta}", ud.DiscountedVAW(beta=beta, hint=hint)


def comparators(stream, loss):
    limit = {"margin": REACH} if stream.binary else {}
    yield "fixed", fixed(stream.Z, stream.y, loss, **limit)
    yield "piecewise", piecewise(stream.Z, stream.y, loss, segments=20, **limit)
    yield "smooth", smooth(stream.Z, stream.y, loss, tau=1e4, **limit)


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else None
    if not names():
        print(f"no streams in {folder()}; set UNDRIFT_DATA to the folder that holds them")
        return 0
    failed = 0
    print(
        f"{'stream':17} {'learner':20} {'comparator':10} {'loss of u':>10} {'regret':>9} {'bound':>10} {'ratio':>7} "
        f"{'start':>8} {'stability':>10} {'variation':>10} {'drift':>8} {'floors':>6} {'s':>6}"
    )
    for name in names():
        stream = load(name, rows)
        loss = logistic if stream.binary else squared
        opponents = list(comparators(stream, loss))
        for label, learner in learners(stream.binary):
            trace = learner.clone().play(stream.Z, stream.y)
            for kind, u in opponents:
                begin = time.perf_counter()
                c = ud.regret.certify(learner, stream.Z, stream.y, trace, u, loss)
                failed += not c.holds
                print(
                    f"{name:17} {label:20} {kind:10} {c.comparator_loss:10.1f} {c.regret:9.1f} {c.bound:10.1f} "
                    f"{c.ratio:7.2f} {c.start:8.1f} {c.stability:10.1f} {c.variation:10.1f} {c.potential_drift:8.1g} "
                    f"{c.floors:6} {time.perf_counter() - begin:6.1f}{'' if c.holds else '  DOES NOT HOLD'}"
                )
    print(f"{failed} certificates below the measured regret")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
