"""Lags nobody named: those of a file with nothing but a time and a target, and those that naive guesses repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from undrift.run.prepare.columns import counts_rows, find_time_column
from undrift.run.prepare.first_rows import FirstRows
from undrift.run.read.source import Source
from undrift.run.settings import Settings

LAGS = (1, 2, 3, 4, 5, 6, 12, 24)
"""Rows ago; with late labels, so many rows before the last one known."""


def add_default_lags(path: str, settings: Settings) -> Settings:
    """Return settings with lags, and the calendar where there are times, if the file has no other column to learn from.

    Whoever names features, lags or the calendar gets these and nothing else; the standard input is read only once, and
    left alone.
    """
    if path == "-" or settings.lag or settings.calendar or settings.features is not None:
        return settings
    source = Source(path, settings)
    batch = next(iter(source.batches()), None)
    if batch is None or settings.target not in batch.columns:
        return settings  # whoever reads the file says what is wrong with it
    first = FirstRows(source, [batch], whole=False)
    others = [name for name in first.columns if name != settings.target and name not in settings.drop]
    if len(others) > 1 or (settings.time is not None and settings.time not in others):
        return settings
    time, _ = find_time_column(first, others, [])
    if others and time is None and not counts_rows(first, others[0]):
        return settings  # a feature
    return replace(settings, lag=tuple(settings.delay + lag for lag in LAGS), calendar=time is not None)


def naive_lags(settings: Settings, seasons: Sequence[int]) -> list[int]:
    """Return how many rows ago the labels are that naive guesses repeat: lags that are features, and whole seasons.

    The last label that is known is a naive guess in any case; with late labels, the last season that is known counts.
    """
    first = settings.delay + 1
    whole = (season * -(-first // season) for season in seasons)
    return sorted({lag for lag in (*settings.lag, *whole) if lag > first})
