"""Runs of Algorithm 2 to the T a theorem prescribes, for the tests of the four theorems and `make stress-adam`."""

from typing import NamedTuple

import numpy as np

from undrift.optim import Objective, judge, o2nc, tune

NOISE = 0.2


class Outcome(NamedTuple):
    steps: int
    epsilon: float
    certificate: float
    realised: float
    clip_rate: float


def outcome(key, name, x0, share, seeds, **choice):
    """Tune for epsilon = share (G + sigma), run to T with several seeds, and hold the means against epsilon."""
    objective = Objective(name, len(x0), NOISE)
    problem = objective.problem(x0, c=1.0, epsilon=share * (objective.lipschitz + NOISE))
    tuning = tune(problem, key, **choice)
    assert judge(tuning, problem).holds
    runs = [o2nc(objective, x0, tuning, seed=seed) for seed in seeds]
    assert all(run.rounds == tuning.steps and run.diagnostics.assumption_holds for run in runs)
    return Outcome(
        tuning.steps,
        tuning.epsilon,
        float(np.mean([run.certificate.bound for run in runs])),
        float(np.mean([run.realised for run in runs])),
        float(np.mean([run.diagnostics.clip_rate for run in runs])),
    )


def held(key, name, x0, share, seeds, **choice):
    """Print the ratios and say whether the promise was kept."""
    found = outcome(key, name, x0, share, seeds, **choice)
    text = ", ".join(f"{key} = {value:g}" for key, value in choice.items())
    print(
        f"{key:17} {name:10} epsilon {found.epsilon:5.3f} T {found.steps:>13,} seeds {len(seeds)}  realised / promised "
        f"{found.realised / found.epsilon:.4f}  certificate / promised {found.certificate / found.epsilon:.4f}  "
        f"clipped {found.clip_rate:.0%}  {text}",
        flush=True,
    )
    return found.realised <= found.epsilon and found.certificate <= found.epsilon
