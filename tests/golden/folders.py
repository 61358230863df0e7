"""Folders of the present format: how each is made, and what today's code must get from it.

Every case makes a folder and files of rows in a place of its own. `use_*` then gives that folder to the commands that
read it and returns what came of it as JSON: it is called once when the golden file is written, and in every test.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from undrift.run import (
    FleetSettings,
    ForecastSettings,
    Settings,
    forecast_file,
    forecast_keys,
    list_versions,
    play_file,
    play_fleet,
    predict_file,
    read_run,
    rollback_run,
    update_fleet,
    update_forecast,
    update_keys,
    update_run,
)
from undrift.run.service.service import Label, Service
from undrift.serve import open_service
from undrift.serve.open_service import open_forecasts

FOLDER = "folder"
"""Name of the folder in every golden file."""


class GoldenCase(NamedTuple):
    """A folder, and what reads it."""

    make: Callable[[Path], None]
    """Make the folder and the files of rows in an empty place."""
    use: Callable[[Path], dict[str, Any]]
    """Return what the folder in such a place gives; the place is spoiled."""


def write_rows(path: Path, begin: int, end: int, *, classes: int = 0, header: bool = True) -> str:
    """Write rows of one long stream: two numbers, a text, a weight, a time, a key, and a target."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200)).round(4)
    kind, weight = rng.integers(0, 3, size=200), rng.uniform(0.5, 2.0, size=200).round(3)
    y = (a + 0.5 * kind + np.sin(np.arange(200) / 4.0)).round(4)
    lines = ["time,key,a,b,kind,weight,y"] if header else []
    for t in range(begin, end):
        target = "pqrs"[int(np.digitize(y[t], [0.0, 1.0][: classes - 1]))] if classes else f"{y[t]}"
        hole = "" if t % 17 == 5 else f"{b[t]}"
        when = np.datetime64("2024-03-01T00:00:00") + np.timedelta64(t, "h")
        lines.append(f"{when},{'uv'[t % 2]},{a[t]},{hole},{'xyz'[kind[t]]},{weight[t]},{target}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def row_at(t: int) -> dict[str, Any]:
    """Return a row as a client sends it."""
    when = np.datetime64("2024-03-01T00:00:00") + np.timedelta64(t, "h")
    return {"time": str(when), "a": math.sin(t), "b": math.cos(t), "kind": "xyz"[t % 3]}


# ---- runs ----------------------------------------------------------------------------------------------------------

NUMBERS = {"target": "y", "drop": ("time", "key", "weight"), "speed": "light"}


def make_run(**options: Any) -> Callable[[Path], None]:
    """Return what makes a run of 60 rows."""
    classes = {"classification": 2, "multiclass": 3}.get(options.get("task", ""), 0)

    def make(place: Path) -> None:
        write_rows(place / "next.csv", 60, 75, classes=classes)
        play_file(write_rows(place / "rows.csv", 0, 60, classes=classes), place / FOLDER, Settings(**options))

    return make


def make_versions(place: Path) -> None:
    """Make a run that was updated and went back to the first of its two versions."""
    make_run(**NUMBERS)(place)
    update_run(place / FOLDER, write_rows(place / "more.csv", 60, 70))
    rollback_run(place / FOLDER, 1)


def use_run(place: Path) -> dict[str, Any]:
    """Predict, list the versions, learn more rows, and go back and forward."""
    folder, rows = place / FOLDER, str(place / "next.csv")
    run = read_run(folder)
    found: dict[str, Any] = {
        "run": {"y": run.y.tolist(), "yhat": run.yhat.tolist(), "events": len(run.events or ())},
        "versions": [describe_version(one) for one in list_versions(folder)],
        "predictions": predict_rows(folder, rows),
    }
    current = next(one.number for one in list_versions(folder) if one.current)
    for number in [one.number for one in list_versions(folder)]:
        rollback_run(folder, number)
        found[f"predictions of version {number}"] = predict_rows(folder, rows)
    rollback_run(folder, current)
    update_run(folder, rows)
    found["updated"] = pl.read_parquet(folder / "predictions.parquet").tail(10).to_dict(as_series=False)
    found["updated versions"] = [describe_version(one) for one in list_versions(folder)]
    return found


def predict_rows(folder: Path, rows: str) -> dict[str, Any]:
    """Return the predictions of the rows of a file."""
    return pl.concat(predict_file(folder, rows).frames()).to_dict(as_series=False)


def describe_version(version: Any) -> dict[str, Any]:
    """Return what a version is, but for when it was made and how large it is."""
    return {name: value for name, value in version._asdict().items() if name not in ("when", "size", "path")}


# ---- services ------------------------------------------------------------------------------------------------------


def make_served(place: Path) -> None:
    """Make a run that was served and killed: after a commit came rows and labels that only the journal has."""
    make_run(**NUMBERS | {"drop": ("key", "weight"), "lag": (1,)})(place)
    with open_service(place / FOLDER) as service:
        serve_rows(service, 80, 86)
        service.learn([Label("row 80", 0.5), Label("row 82", -0.25)])
        service.save()
        serve_rows(service, 86, 90)
        service.learn([Label("row 87", 1.5)])
        service.journal._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copytree(place / FOLDER, place / "killed")
    shutil.rmtree(place / FOLDER)
    (place / "killed").rename(place / FOLDER)


def serve_rows(service: Service, begin: int, end: int) -> list[Any]:
    """Serve rows under references; return the answers."""
    rows = [row_at(t) for t in range(begin, end)]
    return [list(one) for one in service.predict(rows, [f"row {t}" for t in range(begin, end)])]


def use_served(place: Path) -> dict[str, Any]:
    """Go on with a service: rows that wait, new rows, and what the folder holds when it has ended."""
    folder = place / FOLDER
    found: dict[str, Any] = {"versions": [describe_version(one) for one in list_versions(folder)]}
    with open_service(folder, hold=None) as service:
        found["waiting"] = service.waiting
        found["answers"] = serve_rows(service, 90, 92)
        found["learned"] = list(service.learn([Label("row 81", 0.75), Label("row 88", 0.0), Label("row 91", 1.0)]))
        found["rounds"] = [list(one)[:4] for one in service.models.recent(None, 10)]
    return found | {"run": use_run(place)}


# ---- fleets and forecasts ------------------------------------------------------------------------------------------


def make_fleet(place: Path) -> None:
    """Make a fleet of two keys with a time, a lag, and rows that wait."""
    settings = FleetSettings(target="y", key="key", time="time", drop=("weight",), lag=(1,))
    write_rows(place / "next.csv", 60, 75)
    play_fleet(write_rows(place / "rows.csv", 0, 60), place / FOLDER, settings)


def use_fleet(place: Path) -> dict[str, Any]:
    """Learn more rows, and serve one."""
    folder = place / FOLDER
    update_fleet(folder, str(place / "next.csv"))
    lines = (folder / "predictions.csv").read_text(encoding="utf-8").splitlines()
    return {"lines": [[as_number(cell) for cell in line.split(",")] for line in [lines[0], *lines[-12:]]]}


def as_number(cell: str) -> float | str:
    """Return a cell as a number if it is one."""
    try:
        return float(cell)
    except ValueError:
        return cell


def make_forecast(place: Path) -> None:
    """Make forecasts of one series."""
    write_rows(place / "next.csv", 100, 110)
    settings = ForecastSettings(target=("y",), time="time", horizon=2, season=(12,))
    forecast_file(write_rows(place / "rows.csv", 0, 100), place / FOLDER, settings)


def use_forecast(place: Path) -> dict[str, Any]:
    """Serve the next steps, then learn more rows."""
    folder = place / FOLDER
    with open_forecasts(folder) as service:
        found: dict[str, Any] = {"served": json.loads(json.dumps(service.forecast(), default=str))}
    found["next"] = pl.read_csv(folder / "next.csv").to_dict(as_series=False)
    update_forecast(folder, str(place / "next.csv"))
    return found | {"updated": pl.read_csv(folder / "next.csv").to_dict(as_series=False)}


def make_forecast_keys(place: Path) -> None:
    """Make forecasts of two keys."""
    write_rows(place / "next.csv", 100, 110)
    settings = ForecastSettings(target=("y",), time="time", horizon=2, season=(12,), key="key")
    forecast_keys(write_rows(place / "rows.csv", 0, 100), place / FOLDER, settings)


def use_forecast_keys(place: Path) -> dict[str, Any]:
    """Read the next steps, then learn more rows."""
    folder = place / FOLDER

    def read_next() -> dict[str, Any]:
        state = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return pl.read_parquet(folder / state["files"]["ahead"]).to_dict(as_series=False)

    before = read_next()
    update_keys(folder, str(place / "next.csv"))
    return {"next": before, "updated": read_next()}


COLUMNS = {
    "target": "y", "time": "time", "drop": ("key",), "lag": (1, 24), "calendar": True, "weight": "weight",
    "speed": "light", "quantiles": (0.1, 0.5), "alert": True, "missing": "indicators",
}  # fmt: skip

CASES = {
    "numbers": GoldenCase(make_run(**NUMBERS), use_run),
    "two_classes": GoldenCase(make_run(**NUMBERS, task="classification"), use_run),
    "several_classes": GoldenCase(make_run(**NUMBERS, task="multiclass"), use_run),
    "columns": GoldenCase(make_run(**COLUMNS), use_run),
    "fast": GoldenCase(make_run(**NUMBERS | {"speed": "fast"}), use_run),
    "versions": GoldenCase(make_versions, use_run),
    "served": GoldenCase(make_served, use_served),
    "fleet": GoldenCase(make_fleet, use_fleet),
    "forecast": GoldenCase(make_forecast, use_forecast),
    "forecast_keys": GoldenCase(make_forecast_keys, use_forecast_keys),
}
"""By the name of the golden file."""


def to_plain(value: Any) -> Any:
    """Return what `use` gave as it comes back from JSON; NaN is None, times are texts."""
    if isinstance(value, dict):
        return {str(name): to_plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
