"""Forecasts of practical series beside statsforecast and mlforecast, at the same origins.

    python -m benchmarks forecast_peers [CELL ...] [--origins 100] [--json FILE] [--write docs/forecast.md]

Peers have to be fitted again at every origin, so that only some are scored: `--origins`, spread evenly over all rows
after the first three weeks, which they need to begin (m4: a tenth as many, of each series). At each of them

- MSTL, AutoETS, Theta and the seasonal naive forecast (statsforecast) are fitted on the last eight weeks of rows. MSTL
  has the day and the week, AutoETS the day, which it takes up to 24 rows; Theta and the naive one are run with the day
  and with the week.
- LightGBM (mlforecast, recursive) is fitted on all rows so far, of m4 on those of all series together: lags of 1 to 3
  rows, a day less and more a row, two days and a week, means of a day, hour and day of the week; series scaled by
  their spread, as they are and once more as differences to the day before.
- undrift is played over all rows, once, with defaults, and scored at these very origins.

Seconds are CPU seconds: of all fits and forecasts for peers, of the pass over all rows for undrift.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud
from benchmarks import forecast_series as base
from benchmarks import pages

try:
    import pandas as pd
    from lightgbm import LGBMRegressor
    from mlforecast import MLForecast
    from mlforecast.lag_transforms import RollingMean
    from mlforecast.target_transforms import Differences, LocalStandardScaler
    from statsforecast.models import MSTL, AutoETS, SeasonalNaive, Theta
except ImportError as error:
    sys.exit(f"no {error.name} here; pip install statsforecast mlforecast lightgbm")

MARK = "<!-- made by python -m benchmarks forecast_peers -->"
WEEKS = 8
"""Rows that MSTL, AutoETS and Theta are fitted on."""
FIRST_WEEKS = 3
MOST_ETS = 24
"""AutoETS takes no longer season."""
Answers = np.ndarray
"""Forecasts, lower and upper ends (3, origins, 1, steps); NaN: no intervals."""


def spread_origins(series: base.Series, horizon: int, count: int) -> np.ndarray:
    """Return so many origins after the first weeks, the last one among them."""
    return np.unique(
        np.linspace(FIRST_WEEKS * series.seasons[-1], len(series.values) - horizon - 1, count).round().astype(int)
    )


def classical(day: int, week: int) -> dict[str, Any]:
    """Return the peers that are fitted to one series, by name."""
    found: dict[str, Any] = {
        "seasonal naive, day": SeasonalNaive(day),
        "seasonal naive, week": SeasonalNaive(week),
        "Theta, day": Theta(day),
        "Theta, week": Theta(week),
        "MSTL": MSTL([day, week]),
    }
    return found | ({"AutoETS": AutoETS(day)} if day <= MOST_ETS else {})


def run_classical(model: Any, series: base.Series, origins: np.ndarray, horizon: int) -> Answers:
    """Return the forecasts of a model that is fitted at every origin."""
    out = np.full((3, len(origins), 1, horizon), np.nan)
    for k, origin in enumerate(origins):
        y = series.values[max(0, origin + 1 - WEEKS * series.seasons[-1]) : origin + 1, 0]
        found = model.forecast(y=np.ascontiguousarray(y), h=horizon, level=[90])
        out[:, k, 0] = [found["mean"], found["lo-90"], found["hi-90"]]
    return out


def run_lightgbm(
    all_series: dict[str, base.Series], all_origins: list[np.ndarray], horizon: int, *, differences: bool
) -> list[Answers]:
    """Return the forecasts of LightGBM, fitted at every origin on the rows of all series so far."""
    day, week = next(iter(all_series.values())).seasons
    outs = [np.full((3, len(origins), 1, horizon), np.nan) for origins in all_origins]
    for k in range(len(all_origins[0])):
        frames = []
        for name, series, origins in zip(all_series, all_series.values(), all_origins, strict=True):
            rows = slice(0, origins[k] + 1)
            frames.append(
                pd.DataFrame(
                    {"unique_id": name, "ds": series.times[rows].astype("datetime64[ns]"), "y": series.values[rows, 0]}
                )
            )
        model = MLForecast(
            models=[LGBMRegressor(verbosity=-1, n_jobs=1)],
            freq="h" if day == 24 else "30min",
            lags=[1, 2, 3, day - 1, day, day + 1, 2 * day, week],
            lag_transforms={1: [RollingMean(day)], day: [RollingMean(day)]},
            date_features=["hour", "dayofweek"] if day == 24 else ["hour", "minute", "dayofweek"],
            target_transforms=[*([Differences([day])] if differences else []), LocalStandardScaler()],
            num_threads=1,
        )
        found = model.fit(pd.concat(frames)).predict(horizon)
        for out, name in zip(outs, all_series, strict=True):
            out[0, k, 0] = found.loc[found["unique_id"] == name, "LGBMRegressor"].to_numpy()
    return outs


def run_undrift(series: base.Series, origins: np.ndarray, horizon: int) -> Answers:
    """Return our forecasts at the origins, of one pass over all rows."""
    trace = ud.Forecaster(horizon).play(series.values, times=series.times)
    return np.stack([part[origins] for part in trace[:3]])


def run_cell(name: str, horizon: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the scores of each method on a cell."""
    found = base.load_practical(name)
    all_origins = [spread_origins(series, horizon, count) for series in found.values()]
    units = [base.mase_unit(series) for series in found.values()]

    def measure(method: Callable[[], list[Answers]]) -> dict[str, Any]:
        begin = time.process_time()
        answers = method()
        seconds = time.process_time() - begin
        errors = [
            base.score(series, *part, origins)
            for series, part, origins in zip(found.values(), answers, all_origins, strict=True)
        ]
        bounded = not np.isnan(np.array(answers)[:, 1]).any()
        return base.summarise(errors, units) | {"seconds": seconds, "bounded": bounded}

    pairs = list(zip(found.values(), all_origins, strict=True))
    yield "undrift", measure(lambda: [run_undrift(*pair, horizon) for pair in pairs])
    for differences in (False, True):
        title = "LightGBM, differences" if differences else "LightGBM"
        yield title, measure(lambda on=differences: run_lightgbm(found, all_origins, horizon, differences=on))
    for title, model in classical(*pairs[0][0].seasons).items():
        run_classical(model, pairs[0][0], pairs[0][1][:1], horizon)  # what is compiled at the first call is not counted
        yield title, measure(lambda by=model: [run_classical(by, *pair, horizon) for pair in pairs])


HEADER = (
    "| series | method | MSE | over the better naive one | MAE | MASE | covered, of 90% | interval score "
    "| CPU seconds |"
)


def line(name: str, method: str, cell: dict[str, Any]) -> str:
    """Return one line of the table."""
    intervals = f"{cell['covered']:.1%} | {cell['interval']:.4g}" if cell["bounded"] else " | "
    return (
        f"| {name} | {method} | {cell['mse']:.4g} | {cell['ratio']:.4f} | {cell['mae']:.4g} | {cell['mase']:.4f} "
        f"| {intervals} | {cell['seconds']:.1f} |"
    )


def main() -> None:
    """Print the table, and put it into a page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cell", nargs="*", choices=[*base.PRACTICAL, []], help="some of the cells")
    parser.add_argument(
        "--origins", type=int, default=100, help="origins that are scored; of m4 a tenth, of each series"
    )
    parser.add_argument("--json", type=Path, help="write the scores to this file")
    parser.add_argument("--write", type=Path, help="put the table between the marks of this file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    table, cells = base.Table(HEADER, {}), {}
    for name in options.cell or base.PRACTICAL:
        count = options.origins // 10 if name == "m4" else options.origins
        for method, cell in run_cell(name, base.HORIZONS[name][0], count):
            cells[f"{name} {method}"] = cell
            table.add("", line(name, method, cell), cell)
    if options.json:
        options.json.write_text(json.dumps(cells, indent=1))
    if options.write:
        pages.put(options.write, MARK, "\n".join(["", *table.lines, ""]))


if __name__ == "__main__":
    main()
