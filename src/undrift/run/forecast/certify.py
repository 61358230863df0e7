"""`certify_forecasts`: what is proven about the forecasts in a folder, for some steps of some series or keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from undrift._internal.folder import regular_file
from undrift.errors import ConditionError
from undrift.forecast import Forecaster
from undrift.forecast.step_certificates import StepCertificate, certify_steps
from undrift.regret import comparators
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.keys import read_shard
from undrift.run.forecast.recorder import EarlierTables, read_tables
from undrift.stream.settings import ForecastSettings

STEPS, SERIES = 5, 3
"""Steps, evenly spaced, and series that are certified; a certificate takes seconds."""
MOST_WORK = 2e8
"""Origins times the square of the columns, at most: of more, the first origins are certified."""


def certify_forecasts(out: str | Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return certificates against the best linear forecast that never changes, and what was left out.

    Parameters
    ----------
    out
        Folder of `undrift forecast`.
    """
    folder = ForecastFolder(out)
    state = folder.read_state()
    settings = ForecastSettings.from_dict(state["settings"])
    if settings.key is None:
        model, tables = folder.read_model(state), read_tables(folder, state, settings)
        return _certify(str(out), settings, model, tables, state["plan"]["names"])
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    if "forecasts" not in state["files"]:
        raise ConditionError(f"{out}: no key has a value yet; there is nothing to certify")
    keys = folder.read_table(state, "keys").sort("rows", descending=True, maintain_order=True)
    for row in keys.head(SERIES).iter_rows(named=True):
        shard = read_shard(regular_file(folder.path, state["shards"][row["shard"]]["name"]))
        model = next(one.model for one in shard if one.key == row["key"])
        tables = read_tables(folder, state, settings, row["key"])
        more, notes = _certify(f"{out}: key '{row['key']:.60}'", settings, model, tables, [row["key"]])
        found += more
    if len(keys) > SERIES:
        notes = [*notes, f"certified are {SERIES} of {len(keys):,} keys, those with most rows"]
    return found, notes


def _certify(
    where: str, settings: ForecastSettings, model: Forecaster, tables: EarlierTables, names: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return certificates of one forecaster, and what was left out."""
    notes, width = list[str](), model.design_width
    if not width:
        raise ConditionError(f"{where}: too few rows to certify; members begin after 8")
    values, served, times = tables.values, tables.trace.yhat, tables.times
    origins = max(1, int(MOST_WORK / width**2))
    if len(served) > origins:
        notes.append(f"certified are the first {origins:,} of {len(served):,} origins")
        rows = (origins - 1) * settings.every + settings.horizon + 1
        values, served, times = values[:rows], served[:origins], None if times is None else times[:rows]
    steps = sorted({int(h) for h in np.round(np.linspace(1, settings.horizon, STEPS))})
    if len(steps) < settings.horizon:
        notes.append(f"certified are steps {', '.join(str(h) for h in steps)}")
    if len(names) > SERIES:
        notes.append(f"certified are the first {SERIES} of {len(names)} series")
    if settings.known or settings.candidate:
        notes.append("comparators see past values and calendar; not columns known in advance, nor candidates")
    seconds = None if times is None else times.astype(np.float64)
    found = certify_steps(
        model, values, served, seconds, steps, comparators.fixed, settings.every, range(min(SERIES, len(names)))
    )
    return [_entry(one, names[one.series]) for one in found], notes


def _entry(one: StepCertificate, name: str) -> dict[str, Any]:
    """Return a certificate for tables and JSON."""
    promised, proven = one.promised, one.proven
    return {
        "series": name,
        "step": one.step,
        "origins": one.origins,
        "comparator_loss": promised.comparator_loss,
        "own_loss": promised.incurred,
        "regret": promised.regret,
        "proven": proven.bound,
        "promised": promised.bound,
        "ratio": promised.ratio,
        "leaf": promised.leaf,
        "holds": bool(promised.holds and proven.holds),
    }
