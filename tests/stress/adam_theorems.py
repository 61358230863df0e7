"""The four Adam theorems run to their own T at small epsilon: python -m tests.stress.adam_theorems.

Several minutes of one core. Prints realised / promised for every cell; exit code 4 if a promise is broken.
"""

import sys

from tests.theorems.adam_runs import held

STARTS = {"saturated": [0.8, -0.5], "kinks": [1.3, 0.4], "well": [0.6, -0.4], "basins": [0.1, -0.3, 0.2]}
DISTANCES = {"clipped/nu": 3.0, "clip-free/nu": 3.0, "clipped/margin": 2.0, "clip-free/margin": 1.5}
"""Gradient at the start, in units of epsilon."""
EXTREMES = {
    "clipped/nu": [{"nu": 1.9}, {"nu": 1.9e-3}, {"nu": 1.9e-6}],
    "clip-free/nu": [{"nu": 1.9}, {"nu": 1.9e-3}, {"nu": 1.9e-6}],
    "clipped/margin": [{"nu": 1.9}, {"nu": 1.9e-6}, {"rho": 0.9}, {"rho": 0.99}],
    "clip-free/margin": [{"nu": 1.9}, {"nu": 1.9e-6}, {"rho": 0.9}],
}


def main() -> int:
    kept = []
    for key, distance in DISTANCES.items():
        kept += [held(key, name, x0, range(3), distance) for name, x0 in STARTS.items()]
        kept += [held(key, "well", [0.2, -0.1], range(2), **choice) for choice in EXTREMES[key]]
    print(f"{sum(kept)} of {len(kept)} promises kept")
    return 0 if all(kept) else 4


if __name__ == "__main__":
    sys.exit(main())
