"""Thousands of random and adversarial runs of ensembles and online estimators: python tests/stress/certificates.py [N].

N of each family (2000), minutes of one core. Exit code 4 if a regret exceeds its certificate.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "regret"))

from instances import FAMILIES  # the folder of the quick tests, put on the path just above


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    broken = 0
    for family, instance in FAMILIES.items():
        floored, worst = 0, 0.0
        for seed in range(10_000, 10_000 + count):
            cert = instance(np.random.default_rng(seed))
            floored += cert.floors > 0
            worst = min(worst, cert.slack / max(cert.scale, 1e-300))
            if not cert.holds:
                broken += 1
                print(f"{family}, instance {seed}: slack {cert.slack:g} at scale {cert.scale:g} through {cert.leaf}")
        print(f"{family:18} {count} runs, {floored} with raised pivots, least slack / scale {worst:.1e}", flush=True)
    print(f"{broken} certificates below the measured regret")
    return 4 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
