"""The column to forecast where none was named: the only one of numbers, if it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from undrift.errors import InputError
from undrift.run.forecast.candidate_columns import find_candidates
from undrift.run.forecast.forecast_source import ForecastSource
from undrift.run.forecast.settings import ForecastSettings
from undrift.run.prepare.columns import column_kind, counts_rows, find_time_column
from undrift.run.prepare.first_rows import read_first_rows

MOST_NAMED = 20
"""Columns named in an error."""


def settle_target(path: str, settings: ForecastSettings, log: Callable[[str], None]) -> ForecastSettings:
    """Return settings that name a target: the given one, or the only column of numbers, which is told."""
    if settings.target:
        return settings
    if path == "-":
        raise InputError(
            "undrift forecast: name the column to forecast with --target; it is not looked for in the standard input"
        )
    source = ForecastSource(path, settings)
    first, _ = read_first_rows(source)
    taken = {*settings.known, settings.series, settings.key, settings.time}
    for one in find_candidates(source.name, first.columns, settings.candidate, settings.horizon):
        taken |= set(one.columns)
    left = [name for name in first.columns if name not in taken]
    if settings.time is None:
        time, _ = find_time_column(first, left, [])
        left = [name for name in left if name != time]
    found = [
        name
        for name in left
        if first.known_cells(name) and column_kind(first, name) == "number" and not counts_rows(first, name)
    ]
    if len(found) != 1:
        names = found or list(first.columns)
        what = "columns of numbers are" if found else "there is no column of numbers, columns are"
        more = ", ..." if len(names) > MOST_NAMED else ""
        raise InputError(
            f"undrift forecast: name the column to forecast with --target; {what} {', '.join(names[:MOST_NAMED])}{more}"
        )
    log(f"'{found[0]}' is forecast, the only column of numbers; --target names another")
    return replace(settings, target=(found[0],))
