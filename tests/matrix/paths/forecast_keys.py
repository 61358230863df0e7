"""`undrift forecast --key`: every series has a forecaster of its own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from ..outcome import Answers, PathDriver
from ..scenarios import Reference, Scenario
from .commands import parse_json
from .forecast import FORECAST_ROWS, forecast_file, play_forecaster, read_certificates, table_columns
from .keyed_rows import KEYS, keyed_columns, scenarios_by_key


class ForecastKeys(PathDriver):
    """Two keys in one file; the forecasts of both are read from the folder."""

    name = "forecast by key"
    rows: ClassVar = FORECAST_ROWS

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what a forecaster for each key says."""
        ignored = reference is scenario.others.get("ignored")
        return Answers(
            {
                f"{name} of {key}": column
                for key, own in scenarios_by_key(scenario).items()
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
        state = parse_json((out / "run.json").read_text(encoding="utf-8"))
        table = pl.concat([pl.read_parquet(out / name) for name in state["parts"]])
        return Answers(
            {
                f"{name} of {key}": column
                for key in KEYS
                for name, column in table_columns(table.filter(pl.col("key") == key)).items()
            },
            single=True,
        )
