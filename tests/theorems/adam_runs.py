"""Runs of Algorithm 2 to the T a theorem prescribes, for the tests of the four theorems and `tools/stress.py`.

The promise epsilon is a share of the true gradient at the start, so that an optimizer that never moves breaks it: every
run is accompanied by one with steps of length 0, which must fail.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from undrift.optim import Objective, judge, o2nc, tune

NOISE = 0.2
DISTANCE = 1.5
"""Gradient at the start, in units of epsilon."""
STANDING = 1e-140
"""A step scale with which nothing moves."""


class Outcome(NamedTuple):
    steps: int
    epsilon: float
    certificate: float
    realised: float
    frozen: float
    clip_rate: float


def outcome(key, name, x0, seeds, distance=DISTANCE, **choice):
    """Tune for epsilon = |grad F(x0)| / distance, run to T with several seeds, and hold the means against epsilon."""
    objective = Objective(name, len(x0), NOISE)
    steep = float(np.linalg.norm(objective.gradient(x0)))
    problem = objective.problem(x0, c=1.0, epsilon=steep / distance)
    tuning = tune(problem, key, **choice)
    assert judge(tuning, problem).holds
    runs = [o2nc(objective, x0, tuning, seed=seed) for seed in seeds]
    assert all(run.rounds == tuning.steps and run.diagnostics.assumption_holds for run in runs)
    frozen = o2nc(objective, x0, replace(tuning, gamma=STANDING), steps=1000)
    assert np.array_equal(frozen.x, x0)
    return Outcome(
        tuning.steps,
        tuning.epsilon,
        float(np.mean([run.certificate.bound for run in runs])),
        float(np.mean([run.realised for run in runs])),
        frozen.realised,
        float(np.mean([run.diagnostics.clip_rate for run in runs])),
    )


def held(key, name, x0, seeds, distance=DISTANCE, **choice):
    """Print the ratios and say whether the promise was kept, and would not have been by standing still."""
    found = outcome(key, name, x0, seeds, distance, **choice)
    text = ", ".join(f"{key} = {value:g}" for key, value in choice.items())
    print(
        f"{key:17} {name:10} epsilon {found.epsilon:5.3f} T {found.steps:>13,} seeds {len(seeds)}  realised / promised "
        f"{found.realised / found.epsilon:.4f}  certificate / promised {found.certificate / found.epsilon:.4f}  "
        f"standing still {found.frozen / found.epsilon:.2f}  clipped {found.clip_rate:.0%}  {text}",
        flush=True,
    )
    assert found.frozen > found.epsilon * 1.2
    return found.realised <= found.epsilon and found.certificate <= found.epsilon
