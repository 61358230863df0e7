"""`undrift forecast --key`: every series has a forecaster of its own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from ..outcome import Answers, PathDriver
from ..scenarios import Reference, Scenario
from .forecast import (
    FORECAST_ROWS,
    certificates_of,
    events_of,
    expect_signal_or,
    forecast_file,
    play_forecaster,
    read_certificates,
    read_events,
    table_columns,
)
from .keyed_rows import KEYS, keyed_columns, scenarios_by_key


class ForecastKeys(PathDriver):
    """Two keys in one file; the forecasts of both are read from the folder."""

    name = "forecast by key"
    rows: ClassVar = FORECAST_ROWS

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what a forecaster for each key says."""
        by_key = scenarios_by_key(scenario)
        if "certify" in scenario.options:
            each = [certificates_of(own) for own in by_key.values()]
            return Answers({name: np.concatenate([one[name] for one in each]) for name in each[0]}, single=True)
        if "alert" in scenario.options:
            found = [f"{key}: {event}" for key, own in by_key.items() for event in events_of(own)]
            return expect_signal_or(scenario, found)
        ignored = reference is scenario.others.get("ignored")
        return Answers(
            {
                f"{name} of {key}": column
                for key, own in by_key.items()
                for name, column in play_forecaster(own, timed=not ignored).items()
                if name in scenario.shows
            },
            single=True,
        )

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Forecast the file with both keys."""
        import polars as pl

        out = forecast_file(scenario, folder, keyed_columns(scenario), "--key", "key", rows_at_once=2)
        if "certify" in scenario.options:
            return Answers(read_certificates(out), single=True)
        if "alert" in scenario.options:
            return expect_signal_or(scenario, [f"{key}: {event}" for key in KEYS for event in read_events(out, key)])
        table = pl.read_parquet(out / "forecasts.parquet")
        return Answers(
            {
                f"{name} of {key}": column
                for key in KEYS
                for name, column in table_columns(table.filter(pl.col("series") == key), scenario).items()
            },
            single=True,
        )
