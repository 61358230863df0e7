"""A hundred thousand random and adversarial certificates: python tests/stress/certificates.py [N].

N (10000) runs of each of the ten families of learners, ensembles and online estimators, mostly with T <= 50; twenty
minutes or more of one core. Exit code 4 if a regret, computed independently, exceeds its certificate.
"""

import sys
from pathlib import Path

import numpy as np

from undrift.errors import ConditionError

sys.path.insert(0, str(Path(__file__).parents[1] / "regret"))

from instances import FAMILIES, below  # the folder of the quick tests, put on the path just above


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    broken = 0
    for family, instance in FAMILIES.items():
        floored, refused, worst = 0, 0, 0.0
        for seed in range(10_000, 10_000 + count):
            try:
                cert, measured = instance(np.random.default_rng(seed))
            except ConditionError:  # numbers beyond float64's range: refused, not certified
                refused += 1
                continue
            floored += cert.floors > 0
            worst = min(worst, cert.slack / max(cert.scale, 1e-300))
            if below(cert, measured):
                broken += 1
                print(f"{family}, instance {seed}: slack {cert.slack:g} at scale {cert.scale:g} through {cert.leaf}")
        counts = f"{count} runs, {refused} refused, {floored} with raised pivots"
        print(f"{family:18} {counts}, least slack / scale {worst:.1e}", flush=True)
    print(f"{broken} certificates below the measured regret")
    return 4 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
