"""What a report costs: seconds, bytes and peak memory, as a run grows to ten million rounds, a fleet to 100,000 keys.

python -m benchmarks report [rounds ...]; the arrays are synthetic, the longest run needs about 1 GB.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.baselines import BASELINES, Baselines
from undrift.fleet import FleetRun, Outputs
from undrift.report import render, render_fleet
from undrift.run import FleetResult, RunData
from undrift.run.fleet.key_reports import summarize_keys

LIMIT = 10_000_000
"""A report must stay below this many bytes, whatever the run."""


def arrays(rounds: int, features: int = 50, snapshots: int = 2000) -> RunData:
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=rounds))
    K = min(rounds, snapshots)
    at = np.linspace(1, rounds, K).round()
    names = [f"feature {j}" for j in range(features)]
    return RunData(
        settings={"target": "y"},
        provenance={"source": {"path": "synthetic"}},
        task="regression",
        target="y",
        features=names,
        classes=None,
        line=np.arange(2, rounds + 2),
        time=np.datetime64("2000-01-01", "us") + np.arange(rounds) * np.timedelta64(60, "s"),
        y=y,
        yhat=y + rng.normal(size=rounds),
        lower=y - 2.0,
        upper=y + 1.5,
        baselines=dict(zip(BASELINES["regression"], Baselines(binary=False).play(y).T, strict=True)),
        spectrum_round=at,
        half_lives=np.append(10.0 * 3.0 ** np.arange(19), np.inf),
        spectrum=rng.dirichlet(np.ones(20), size=K),
        candidates=["level 2", "linear", "waves", "last value", "running mean"],
        candidate_weights=rng.dirichlet(np.ones(5), size=K),
        coef_round=at,
        coef_names=[*names, "(intercept)"],
        coef=rng.normal(size=(K, features + 1)),
    )


def fleet(keys: int, rounds: int = 10) -> FleetResult:
    rng = np.random.default_rng(0)
    n = keys * rounds
    y = rng.normal(size=n)
    names = [f"device {k}" for k in range(keys)] * rounds
    said = Outputs(names, np.repeat(np.arange(rounds), keys), 0.5 * y + rng.normal(size=n), y, np.zeros(n, np.uint8))
    found = summarize_keys(said, "regression")
    for one in found.keys[:5000]:
        one.half_life = float(rng.lognormal(4.0, 1.5))
    made = ud.Fleet(ud.DiscountedVAW(), key="device", features=["load"], target="heat")
    where = {"source": {"path": "synthetic"}}
    run = FleetRun(made, {}, lambda: said)
    parts = (found.keys, found.problems, found.ages, 7000.0)
    return FleetResult(run, where, "regression", [], *parts, baselines=found.baselines)


def fleets() -> int:
    largest = 0
    print(f"{'keys':>12}{'seconds':>10}{'bytes':>12}")
    for keys in (100, 10_000, 100_000):
        data = fleet(keys)
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            size = render_fleet(data, Path(folder) / "report.html").stat().st_size
            print(f"{keys:>12,}{time.process_time() - start:>10.2f}{size:>12,}")
        largest = max(largest, size)
    return largest


def main() -> int:
    sizes = [int(float(text)) for text in sys.argv[1:]] or [10_000, 100_000, 1_000_000, 10_000_000]
    largest = fleets()
    print(f"{'rounds':>12}{'seconds':>10}{'bytes':>12}{'peak MB':>10}")
    for rounds in sizes:
        data = arrays(rounds)
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            page = render(data, Path(folder) / "report.html")
            took, size = time.process_time() - start, page.stat().st_size
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{rounds:>12,}{took:>10.2f}{size:>12,}{peak:>10,.0f}")
        largest = max(largest, size)
    return 0 if largest < LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
