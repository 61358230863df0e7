"""Random and adversarial certificates: python tests/stress/certificates.py [COUNT] [SEED].

COUNT (100000) runs of at most 50 rounds, or a few hundred where an online estimator has to leave its warm-up, shared
out among learners, ensembles and online estimators; twenty minutes of one core. Every SEED (0) gives other runs. Exit
code 4 if a regret, computed independently, exceeds its certificate.
"""

import sys
import time
from pathlib import Path

import numpy as np

from undrift.errors import ConditionError

sys.path.insert(0, str(Path(__file__).parents[1] / "regret"))

from instances import FAMILIES, below  # the folder of the quick tests, put on the path just above

SHARES = {
    "VAW": 16,
    "AIOLI": 16,
    "DriftVAW": 14,
    "Newton": 10,
    "softmax": 10,
    "hindsight": 4.5,
    "linear ensemble": 5,
    "logistic ensemble": 4,
    "mixed ensemble": 9,
    "drift ensemble": 4.5,
    "OnlineRegressor": 5,
    "OnlineClassifier": 2,
}
"""Percent of the runs: cheap families have more of them."""


def stress(family: str, count: int, seed: int) -> int:
    """Certify runs of one family, print what they were like, and return how many certificates were wrong."""
    floored, refused, wrong, worst = 0, 0, 0, 0.0
    begin = time.process_time()
    for k in range(count):
        try:
            cert, measured = FAMILIES[family](np.random.default_rng([seed, k]))
        except ConditionError:  # numbers beyond float64's range: refused, not certified
            refused += 1
            continue
        floored += cert.floors > 0
        worst = min(worst, cert.slack / max(cert.scale, 1e-300), (cert.bound - measured) / max(cert.scale, 1e-300))
        if below(cert, measured):
            wrong += 1
            print(f"{family}, instance [{seed}, {k}]: slack {cert.slack:g} at scale {cert.scale:g} through {cert.leaf}")
    each = 1e3 * (time.process_time() - begin) / max(count, 1)
    counts = f"{count} runs, {refused} refused, {floored} with raised pivots"
    print(f"{family:18} {counts}, least slack / scale {worst:.1e}, {each:.1f} ms each", flush=True)
    return wrong


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    begin = time.process_time()
    wrong = sum(stress(family, round(0.01 * share * count), seed) for family, share in SHARES.items())
    minutes = (time.process_time() - begin) / 60.0
    print(f"{wrong} of about {count} certificates below the measured regret; {minutes:.1f} minutes of one core")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
