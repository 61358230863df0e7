"""ForecastSettings: what to forecast, how far, and from which columns; ForecastSource: the file they are read from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from undrift import _check
from undrift.errors import InputError
from undrift.forecast import Forecaster
from undrift.run.read.source import Source
from undrift.stream.settings import Settings

READING = ("time", "na", "time_format", "header", "encoding", "delimiter", "format", "limit")
"""Settings that forecasts share with runs."""

UNNAMED = "?"
"""Stands for the target where a file is read to find it."""


@dataclass(frozen=True)
class ForecastSettings:
    """What to forecast, how far, and from which columns."""

    target: tuple[str, ...] = ()
    """Columns to forecast; several are forecast together, none stands for the only column of numbers."""
    horizon: int = 24
    """Steps ahead."""
    series: str | None = None
    """Column that says which series a row is of, in a file with one row for each series and time."""
    key: str | None = None
    """Column that says which series a row is of, where every series has a forecaster of its own."""
    known: tuple[str, ...] = ()
    """Columns whose values are known in advance; rows without a target at the end of the file hold those to come."""
    candidate: tuple[str, ...] = ()
    """Forecasts made elsewhere, which are weighed beside all others: COLUMN, COLUMN:STEPS, or COLUMN for COLUMN_1,
    COLUMN_2, ...; `undrift.run.forecast.columns` says what they mean."""
    season: tuple[int, ...] | None = None
    """Rows after which the series repeat; None: found from the data."""
    level: float = 0.9
    """Level of the intervals."""
    nonnegative: bool | None = None
    """Whether forecasts below 0 are served as 0; None: while a series has had no value below 0."""
    every: int = 1
    """Keep the forecasts of every so many origins."""
    time: str | None = None
    """Column with the time; None: found by its contents."""
    na: tuple[str, ...] = ()
    """Texts that mean missing, besides the usual ones."""
    time_format: str | None = None
    """How times are written, in the letters of strptime."""
    header: bool = True
    """Whether the first line of a CSV file names the columns; if not, they are c1, c2, ..."""
    encoding: str = "utf-8"
    """How the file's text is encoded."""
    delimiter: str | None = None
    """What separates cells; None: found from the header."""
    format: str = "auto"
    """"csv", "parquet", "ndjson", or "auto": by the file's ending."""
    limit: int | None = None
    """Stop after so many rows of the file."""

    def __post_init__(self) -> None:
        if self.series is not None and self.key is not None:
            raise InputError("undrift forecast: --series forecasts together, --key each by itself; give one of them")
        if (self.series or self.key) is not None and len(self.target) > 1:
            raise InputError("undrift forecast: with --series or --key there is one --target; got several")
        named = [
            *self.target,
            *self.known,
            *([self.series] if self.series else []),
            *([self.key] if self.key else []),
            *([self.time] if self.time else []),
        ]
        if len({*named, *self.candidate}) < len(named) + len(self.candidate):
            raise InputError(
                "undrift forecast: target, series, key, known, candidate and time must be different columns"
            )
        if self.candidate and len(self.target) > 1:
            raise InputError(
                "undrift forecast: --candidate goes with one --target; give several series one below the other, with "
                "--series"
            )
        _check.integer("undrift forecast", "every", self.every, 1, 1_000_000)
        self.forecaster()
        self.reading()

    def forecaster(self, every: int | None = None) -> Forecaster:
        """Return the model, before its first row; `every` are the seconds from row to row, None to find them."""
        return Forecaster(
            self.horizon,
            self.season,
            level=self.level,
            every=every,
            candidates=self.candidate,
            nonnegative=self.nonnegative,
        )

    def reading(self) -> Settings:
        """Return how the file is read."""
        return Settings(self.target[0] if self.target else UNNAMED, **{name: getattr(self, name) for name in READING})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the settings that `as_dict` gave."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**plain)


class ForecastSource(Source):
    """A file of series."""

    def __init__(self, path: str, settings: ForecastSettings) -> None:
        super().__init__(path, settings.reading())
        candidates = {name.rpartition(":")[0] or name for name in settings.candidate}
        self._options = dict.fromkeys(candidates, "--candidate") | dict.fromkeys(settings.known, "--known")

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        option = self._options.get(name) or self._options.get(name.rpartition("_")[0])
        return "take that column out of the file" if option is None else f"leave it out of {option}"
