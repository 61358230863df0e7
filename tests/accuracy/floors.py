"""Where the pivot floor and the test for faint features come from: the NumPy twin under other constants.

`python tests/accuracy/floors.py` prints, for streams the constants were not chosen on, the largest error of the
prediction (hint zero) and of the leader (hint ridge, over sqrt(1 + h)), at rounds where any two settings disagree most.
"""

from __future__ import annotations

import math

import numpy as np

from tests.accuracy.exact import Past, exact
from tests.accuracy.streams import Case, make
from tests.accuracy.wide import Floats
from tests.twins import reference
from undrift.kernels import layout

SETTINGS = [(1e-16, math.inf), (1e-18, math.inf), (1e-20, math.inf), (1e-18, 1e17), (1e-24, 1e17), (1e-30, 1e17)]
"""(FLOOR, FAINT); without end: the floor alone."""


def cases() -> list[tuple[Case, float]]:
    """Streams and discounts."""
    return [
        (_frozen(20, 2400), 0.5),
        (_frozen(6, 5000), 0.99),
        (make("combination", 6, 6000, seed=11), 0.5),
        (make("near 1e-6", 20, 6000, seed=11), 0.5),
        (make("near 1e-8", 6, 6000, seed=11), 0.5),
        (make("near 1e-8", 6, 6000, seed=11), 0.99),
    ]


def _frozen(dim: int, length: int) -> Case:
    case = make("full", dim, length + 600, seed=11)
    case.U[400 : 400 + length] = case.U[400]
    return case._replace(name=f"frozen {length}")


def played(case: Case, beta: float, floor: float, faint: float) -> tuple[Floats, Floats]:
    """Return m and h of the twin with these constants."""
    kept = reference.PIVOT_FLOOR, reference.COLLINEAR
    reference.PIVOT_FLOOR, reference.COLLINEAR = floor, faint
    try:
        state = layout.fresh(len(case.M), np.ones(1))
        m, h = np.empty((len(case.y), 1)), np.empty((len(case.y), 1))
        reference.vaw_play(state, np.array([beta]), 0, case.Z, case.y, m, h)
    finally:
        reference.PIVOT_FLOOR, reference.COLLINEAR = kept
    return m[:, 0], h[:, 0]


def errors(case: Case, beta: float) -> list[str]:
    """Return a cell per setting."""
    runs = [played(case, beta, *setting) for setting in SETTINGS]
    answers = [m / (1.0 + h) for m, h in runs]
    asked = {len(case.y) - 1}
    for a in answers:
        for b in answers:
            asked |= set(np.argsort(np.abs(a - b))[-2:].tolist())
    truth = exact(Past(case.U, np.ones(len(case.y)), case.y, beta, case.prior()), sorted(asked))
    scale, out = float(np.sqrt(np.mean(case.y**2))), []
    for (m, _), a in zip(runs, answers, strict=True):
        plain = leader = 0.0
        for t, (m0, h0) in truth.items():
            value, lead, wide = float(m0 / (1 + h0)), float(m0), float((1 + h0).sqrt())
            plain = max(plain, abs(a[t] - value) / max(abs(value), scale))
            leader = max(leader, abs(m[t] - lead) / max(abs(lead), scale) / wide)
        out.append(f"{plain:.0e}, {leader:.0e}")
    return out


def main() -> None:
    """Print the table."""
    heads = [f"{floor:.0e}" + ("" if math.isinf(faint) else f", faint {1 / faint:.0e}") for floor, faint in SETTINGS]
    print("| stream | d | beta | " + " | ".join(heads) + " |")
    print("|---|---|---|" + "---|" * len(heads))
    for case, beta in cases():
        print(f"| {case.name} | {len(case.M)} | {beta} | " + " | ".join(errors(case, beta)) + " |", flush=True)


if __name__ == "__main__":
    main()
