"""Fleets for the report's tests, without files: outputs as a fleet would give them, added up by the real code."""

import math

import numpy as np

import undrift as ud
from undrift.fleet import STATUSES, FleetRun, Outputs
from undrift.run import FleetResult
from undrift.run.fleet.key_reports import summarize_keys

PROVENANCE = {"undrift": "0", "kernels": "v3"}
LEARNED = [{"path": "pumps.csv", "absolute": "/data/pumps.csv", "size": 1, "sha256": "ab", "rows": 1, "skipped": 0}]


def fleet_run(keys=40, rounds=80, task="regression", seed=0, names=str, target="heat", spoiled=True) -> FleetResult:
    """Keys that drift faster and faster; the last one turns bad, a few records cannot be used."""
    rng = np.random.default_rng(seed)
    n = keys * rounds
    code, at = np.tile(np.arange(keys), rounds), np.repeat(np.arange(rounds), keys)
    noise = np.where((code == keys - 1) & (at > 0.75 * rounds), 6.0, 0.3) * rng.normal(size=n)
    level = np.cumsum(rng.normal(size=(rounds, keys)), axis=0).ravel()
    y, yhat = level + noise, level + 0.5 * rng.normal(size=n)
    if task == "classification":
        y, yhat = (y > 0.0).astype(np.float64), 2.0 * level
    status = np.zeros(n, np.uint8)
    reasons = {}
    if spoiled:
        for i in range(7, n, max(11, n // 100 | 1)):
            status[i] = STATUSES.index("poison" if i % 2 else "error")
            reasons[i] = f"feature {names(int(code[i]) % 5)!s} is inf" if i % 2 else "ZeroDivisionError: no"
            y[i] = yhat[i] = math.nan
    outputs = Outputs([names(k) for k in code.tolist()], at.astype(np.int64), yhat, y, status, reasons)
    found = summarize_keys(outputs, task)
    for one in found.keys[:1000]:
        one.half_life = float(rng.lognormal(4.0, 1.5)) if rng.random() > 0.1 else math.inf
    fleet = ud.Fleet(ud.DiscountedVAW(), key="pump", order="n", features=["load", "speed"], target=target)
    run = FleetRun(fleet, {}, lambda: outputs)
    parts = found.keys, found.problems, found.ages, 7000.0
    return FleetResult(run, PROVENANCE, LEARNED, task, ["site"], *parts, baselines=found.baselines)
