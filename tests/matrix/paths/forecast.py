"""`undrift forecast` on a file, held against `Forecaster.play`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..outcome import Answers, PathDriver, Refused
from ..references import LEVEL, name_event
from ..scenarios import CUT, FEATURES, Reference, Scenario, earlier_means
from .commands import json_row, parse_json, require, write_csv

HORIZON = 3
FORECAST_ROWS = dict.fromkeys(FEATURES, 85) | {"certificates": 200, "alerts": 300}
"""Rows of a scenario, fewer than elsewhere as each costs more."""
FORECAST_SERVED = 75
"""Rows up to which a service learns where an update follows it."""
BY_ITSELF = ("elapsed", "delay", "lag", "calendar", "resume", "certify", "update")
"""Features that forecasts have without an option; `--elapsed` is refused, as rows are evenly spaced."""


class Forecast(PathDriver):
    """Forecasts of the next three rows after every row."""

    name = "forecast"
    rows: ClassVar = FORECAST_ROWS

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library's forecaster says about the same series."""
        if "certify" in scenario.options:
            return Answers(certificates_of(scenario), single=True)
        if "alert" in scenario.options:
            return expect_signal_or(scenario, events_of(scenario))
        ignored = reference is scenario.others.get("ignored")
        columns = play_forecaster(scenario, timed=not ignored)
        return Answers({name: columns[name] for name in scenario.shows if name in columns})

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Forecast the file, or its first rows and the others by an update."""
        out = forecast_file(scenario, folder, scenario.columns)
        if "certify" in scenario.options:
            return Answers(read_certificates(out), single=True)
        if "alert" in scenario.options:
            return expect_signal_or(scenario, read_events(out))
        import polars as pl

        return Answers(table_columns(pl.read_parquet(out / "forecasts.parquet"), scenario))


def forecast_file(
    scenario: Scenario, folder: Path, columns: dict[str, list[Any]], *arguments: str, rows_at_once: int = 1
) -> Path:
    """Forecast a file with the options that ask for the feature, in parts where it is about going on."""
    out, words = folder / "forecasts", [*forecast_options(scenario), *arguments]
    asked, first = scenario.options, slice(0, CUT * rows_at_once)
    cuts = [first, slice(None)] if {"resume", "delay", "update"} & asked.keys() else [slice(None)]
    for k, part in enumerate(cuts):
        late = asked.get("delay", 0) * rows_at_once if part is first else 0
        file = write_csv(folder / f"rows {k}.csv", hide_labels(columns, first.stop - late if late else None), part)
        if k and "update" in asked:
            _serve_rows(scenario, out)
            file = write_csv(folder / "later.csv", columns, slice(FORECAST_SERVED, None))
        if k:
            require("update", out, file, "--no-report", "--quiet")
        else:
            codes = (6,) if "alert" in asked else (0,)
            require("forecast", file, *words, "--out", out, "--no-report", "--quiet", codes=codes)
    return out


def _serve_rows(scenario: Scenario, out: Path) -> None:
    """Serve the rows after the first file, one by one."""
    from undrift.serve.open_service import open_forecasts

    with open_forecasts(out) as service:
        for k in range(CUT, FORECAST_SERVED):
            row = json_row(scenario.columns, k)
            service.learn([{"time": row["time"], "y": row["y"]}])


def hide_labels(columns: dict[str, list[Any]], begin: int | None) -> dict[str, list[Any]]:
    """Return the columns with empty labels from a row on, which are not known yet."""
    if begin is None:
        return columns
    return {**columns, "y": [*columns["y"][:begin], *[None] * (len(columns["y"]) - begin)]}


def forecast_options(scenario: Scenario) -> list[str]:
    """Return the options of `undrift forecast` that ask for the feature; those that it lacks are refused by it."""
    words = ["--target", "y", "--time", "time", "--horizon", str(HORIZON)]
    if scenario.part == "cells":
        words += ["--known", "a"]
    for name, value in scenario.options.items():
        if name == "texts":
            words += ["--known", str(value)]
        elif name == "alert":
            words.append("--alert")
        elif name == "quantiles":
            words += ["--quantiles", ",".join(map(str, value))]
        elif name not in BY_ITSELF:
            words += [f"--{name}", str(value)]
    return [*words, "--known", "a"] if "missing" in scenario.options else words


def play_forecaster(scenario: Scenario, *, timed: bool = True) -> dict[str, Any]:
    """Return the forecasts of the library after each row, the rows that are missing between two times filled in."""
    from undrift.forecast import align_candidate

    times = np.array(scenario.columns["time"], dtype="datetime64[s]")
    values = np.array([math.nan if cell is None else cell for cell in scenario.columns["y"]])
    hours = (times - times[0]).astype(np.int64) // 3600 if timed else np.arange(scenario.rows)
    series = np.full(hours[-1] + 1, math.nan)
    series[hours] = values
    arguments: dict[str, Any] = (
        {"times": times[0] + np.arange(len(series)) * np.timedelta64(3600, "s")} if timed else {}
    )
    if "texts" in scenario.options:
        arguments["known"] = known_texts(scenario, values)
    if scenario.part in ("cells", "indicators"):
        arguments["known"] = fill_forward(scenario.columns["a"])[:, None]
    if scenario.part == "indicators":
        holes = np.array([cell is None for cell in scenario.columns["a"]], dtype=float)
        arguments["known"] = np.column_stack([arguments["known"], holes])
    if "candidate" in scenario.options:
        given = np.array(scenario.columns[scenario.options["candidate"]])
        arguments["candidates"] = align_candidate(given, len(series), HORIZON, ahead=HORIZON)
    levels = scenario.options.get("quantiles", ())
    trace = _forecaster(scenario).play(series, quantiles=levels, **arguments)
    quantiles = {f"q{level}": trace.quantiles[:, k] for k, level in enumerate(levels)}
    return {name: getattr(trace, name) for name in ("yhat", "lower", "upper")} | quantiles


def known_texts(scenario: Scenario, values: Any) -> Any:
    """Return what is known of texts at each row, of itself and the next ones (rows, HORIZON + 1, features).

    There is room for twenty texts in order of arrival, the first of which is 0, and from the text too many on the means
    of earlier labels, here of a file in which the rows before taught nothing.
    """
    texts, rows = scenario.columns[scenario.options["texts"]], scenario.rows
    order = list(dict.fromkeys(texts))[:20]
    known = np.zeros((rows, HORIZON + 1, 22))
    many = next((t for t, text in enumerate(texts) if text not in order), rows)
    cells = [f"{text}" if t >= many else "" for t, text in enumerate(texts)]
    for t in range(rows):
        for h in range(HORIZON + 1):
            at = min(t + h, rows - 1)
            if texts[at] in order[1:]:
                known[t, h, order.index(texts[at])] = 1.0
            if many <= t:
                known[t, h, 20:] = _mean_at(cells, values, many, t if h == 0 else t + 1, cells[at])
    return known


def _mean_at(cells: list[str], values: Any, begin: int, rows: int, text: str) -> Any:
    """Return both means of a text after so many rows, of which those from `begin` on were learned."""
    means = earlier_means([*cells[begin:rows], text], np.append(values[begin:rows], math.nan))
    return np.array([means[0][-1], means[1][-1]])


def fill_forward(cells: list[Any]) -> Any:
    """Return numbers with the last one in place of those that are missing."""
    out: list[float] = []
    for cell in cells:
        out.append(out[-1] if cell is None else cell)
    return np.array(out)


def _forecaster(scenario: Scenario) -> Any:
    import undrift as ud

    asked = scenario.options
    own = ["given"] if "candidate" in asked else None
    return ud.Forecaster(HORIZON, level=asked.get("level", 0.9), candidates=own)


def table_columns(table: Any, scenario: Scenario) -> dict[str, Any]:
    """Return the forecasts of a folder by origin and step (rows, steps)."""
    ordered = table.sort("origin", "step")
    names = ("yhat", "lower", "upper", *(f"q{level}" for level in scenario.options.get("quantiles", ())))
    return {name: ordered[name].to_numpy().reshape(-1, HORIZON) for name in names}


def events_of(scenario: Scenario) -> list[str]:
    """Return the events that a watch finds beside the library's forecasts, one step ahead."""
    from undrift.events import Watch

    said, y, watch = play_forecaster(scenario), scenario.columns["y"], Watch(level=LEVEL)
    return [
        name_event(event.kind, event.row)
        for t in range(1, scenario.rows)
        for event in watch.add_round(t + 1, y[t], *(said[name][t - 1, 0] for name in ("yhat", "lower", "upper")))
    ]


def read_events(out: Path, key: str | None = None) -> list[str]:
    """Return the events of a folder of forecasts, of one key."""
    found = parse_json((out / "run.json").read_text(encoding="utf-8"))["events"]
    return [name_event(event["kind"], event["row"]) for event in found if event.get("key") == key]


def expect_signal_or(scenario: Scenario, events: list[str]) -> Answers:
    """Return events, or that somebody is told: `forecast_file` requires exit code 6."""
    assert events
    if scenario.shows == ("signal",):
        return Answers({"signal": np.array([True])}, single=True)
    return Answers({"events": np.array(events)}, single=True)


def certificates_of(scenario: Scenario) -> dict[str, Any]:
    times = np.array(scenario.columns["time"], dtype="datetime64[s]")
    y = np.array(scenario.columns["y"])
    model = _forecaster(scenario)
    certificates = model.certify(y, model.play(y, times=times), times=times)
    return {
        "regret": np.array([certificate.promised.regret for certificate in certificates]),
        "bound": np.array([certificate.promised.bound for certificate in certificates]),
    }


def read_certificates(out: Path) -> dict[str, Any]:
    """Certify a folder of forecasts, and return the certificates of its steps."""
    certificates = parse_json(require("certify", out, "--json"))["certificates"]
    if not certificates:
        raise Refused("there is no certificate")
    names = {"regret": "regret", "bound": "promised"}
    return {name: np.array([certificate[key] for certificate in certificates]) for name, key in names.items()}
