"""What short pieces do to a certificate, and what one average round of pull does about it, on prefixes of the streams.

python -m benchmarks pull; the data folder is UNDRIFT_DATA, by default ../shared/data.
"""

from __future__ import annotations

import numpy as np

import undrift as ud
from benchmarks.streams import load, names
from undrift.losses import logistic, squared
from undrift.regret.comparators import piecewise

PREFIXES = {
    "metro_traffic": 8000,
    "bike_hourly": 8000,
    "air_quality_co": 2000,
    "elec2": 8000,
    "weather_nebraska": 8000,
    "flights_late": 8000,
}


def main() -> None:
    print(f"{'stream':17} {'rows':>5} {'pull':>5} {'loss of u':>9} {'max |u|':>8}  ratio at beta = 0.99, 0.999, 1")
    for name in (one for one in PREFIXES if one in names()):
        stream = load(name, PREFIXES[name])
        loss, limit = (logistic, {"margin": 8.0}) if stream.binary else (squared, {})
        for pull in (0.0, 1.0, 10.0):
            u = piecewise(stream.Z, stream.y, loss, segments=20, pull=pull, **limit)
            ratios, size = [], float(np.linalg.norm(u, axis=1).max())
            for beta in (0.99, 0.999, 1.0):
                vaw, aioli = ud.DiscountedVAW(beta=beta, hint="ridge"), ud.DiscountedAIOLI(beta=beta, bound=8.0)
                learner = aioli if stream.binary else vaw
                c = ud.regret.certify(learner, stream.Z, stream.y, u=u)
                ratios.append(f"{c.ratio:8.2f}")
            print(f"{name:17} {len(stream.y):5} {pull:5g} {c.comparator_loss:9.1f} {size:8.1f} {' '.join(ratios)}")


if __name__ == "__main__":
    main()
