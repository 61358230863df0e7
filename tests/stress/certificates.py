"""Random and adversarial certificates: python -m tests.stress.certificates [COUNT] [SEED] [--only FAMILY ...].

COUNT (100000) runs of at most 50 rounds, or a few hundred where an online estimator has to leave its warm-up, shared
out among learners, ensembles and online estimators; twenty minutes of one core. Every SEED (0) gives other runs, and
--first K goes on with instance K of each family. Exit code 4 if a regret, computed independently, exceeds its
certificate.

--climb STEPS: search instead. The worst tenth of COUNT runs of the families that `adversarial.py` makes are changed
STEPS times each, keeping what raises (regret - bound) / scale.
--calibrate: point the same search at claims that are deliberately too small, which it must break: the certificate
without its price of rounding, or with one per mille less of a term. One that it cannot break is named, with exit code
4 unless it is the price of rounding, which few runs need.
"""

import argparse
import sys
import time

import numpy as np

from tests.regret import adversarial
from tests.regret.instances import FAMILIES, below
from undrift.errors import ConditionError

SHARES = {
    "VAW": 13,
    "AIOLI": 13,
    "DriftVAW": 8,
    "Newton": 6,
    "softmax": 9,
    "hindsight": 4.5,
    "linear ensemble": 5,
    "logistic ensemble": 4,
    "mixed ensemble": 9,
    "drift ensemble": 4.5,
    "OnlineRegressor": 5,
    "OnlineClassifier": 2,
    "collinear DriftVAW": 6,
    "collinear Newton": 5,
    "restarted": 6,
}
"""Percent of the runs: cheap families have more of them."""
ROUNDING = "without rounding"
TOLERANCE = 1e-12
"""What rounding may take from a certificate, as a share of its scale: `Certificate.holds` allows as much."""


def stress(family: str, first: int, count: int, seed: int) -> int:
    """Certify runs of one family, print what they were like, and return how many certificates were wrong."""
    floored, refused, wrong, worst = 0, 0, 0, 0.0
    begin = time.process_time()
    for k in range(first, first + count):
        try:
            cert, measured = FAMILIES[family](np.random.default_rng([seed, k]))
        except ConditionError:  # numbers beyond float64's range: refused, not certified
            refused += 1
            continue
        floored += cert.floors > 0
        worst = min(worst, cert.slack / max(cert.scale, 1e-300))
        if below(cert, measured):
            wrong += 1
            print(f"{family}, instance [{seed}, {k}]: slack {cert.slack:g} at scale {cert.scale:g} through {cert.leaf}")
    each = 1e3 * (time.process_time() - begin) / max(count, 1)
    counts = f"{count} runs, {refused} refused, {floored} with raised pivots"
    print(f"{family:18} {counts}, least slack / scale {worst:.1e}, {each:.1f} ms each", flush=True)
    return wrong


def search(family: str, count: int, steps: int, seed: int, claim: str | None) -> int:
    """Make the worst tenth of the runs worse; print and return how many end above the claim."""
    certified = None if claim is None else adversarial.WEAKER[claim]
    found = adversarial.search(family, count, max(1, count // 10), steps, seed, certified)
    broken = [one for one in found if one[0] > TOLERANCE]
    for value, k, run in broken if claim is None else []:
        print(f"{family}, instance [{seed}, {k}]: (regret - bound) / scale {value:g}: {run}")
    what = "" if claim is None else f", {claim}"
    print(f"{family}{what}: {len(broken)} of {len(found)} climbs above the claim, worst {found[0][0]:.1e}", flush=True)
    return len(broken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--climb", type=int, default=0, metavar="STEPS")
    parser.add_argument("--calibrate", action="store_true")
    given = parser.parse_args()
    begin = time.process_time()
    if given.calibrate or given.climb:
        steps, each = given.climb or 100, given.count // len(adversarial.FAMILIES)
        claims = list(adversarial.WEAKER) if given.calibrate else [None]
        broken = {(f, c): search(f, each, steps, given.seed, c) for f in adversarial.FAMILIES for c in claims}
        bad = [pair for pair, many in broken.items() if bool(many) is not given.calibrate]
        for family, claim in bad if given.calibrate else []:
            print(f"{family}: this search does not test the claim {claim!r}, which it could not break")
        print(f"{len(bad)} of {len(broken)} searches did not end as they should; {_minutes(begin)}")
        return 4 if any(claim != ROUNDING for _, claim in bad) else 0
    unit = given.count / sum(SHARES[family] for family in given.only)
    wrong = sum(stress(family, given.first, round(unit * SHARES[family]), given.seed) for family in given.only)
    print(f"{wrong} of about {given.count} certificates below the measured regret; {_minutes(begin)}")
    return 4 if wrong else 0


def _minutes(begin: float) -> str:
    return f"{(time.process_time() - begin) / 60.0:.1f} minutes of one core"


if __name__ == "__main__":
    sys.exit(main())
