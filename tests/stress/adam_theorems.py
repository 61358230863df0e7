"""The four Adam theorems run to their own T at small epsilon: python tests/stress/adam_theorems.py.

Several minutes of one core. Prints realised / promised for every cell; exit code 4 if a promise is broken.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "theorems"))

from adam_runs import held  # the folder of the quick tests, put on the path just above

STARTS = {"saturated": [0.8, -0.5], "kinks": [1.3, 0.4], "well": [0.6, -0.4], "basins": [0.1, -0.3, 0.2]}
SHARES = {"clipped/nu": 0.15, "clip-free/nu": 0.15, "clipped/margin": 0.4, "clip-free/margin": 0.7}
EXTREMES = {
    "clipped/nu": [{"nu": 1.9}, {"nu": 1.9e-3}, {"nu": 1.9e-6}],
    "clip-free/nu": [{"nu": 1.9}, {"nu": 1.9e-3}, {"nu": 1.9e-6}],
    "clipped/margin": [{"nu": 1.9}, {"nu": 1.9e-6}, {"rho": 0.9}, {"rho": 0.99}],
    "clip-free/margin": [{"nu": 1.9}, {"nu": 1.9e-6}, {"rho": 0.9}],
}


def main() -> int:
    kept = []
    for key, share in SHARES.items():
        kept += [held(key, name, x0, share, seeds=range(3)) for name, x0 in STARTS.items()]
        kept += [held(key, "well", [0.2, -0.1], 1.0, seeds=range(2), **choice) for choice in EXTREMES[key]]
    print(f"{sum(kept)} of {len(kept)} promises kept")
    return 0 if all(kept) else 4


if __name__ == "__main__":
    sys.exit(main())
