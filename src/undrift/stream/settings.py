"""Settings: what to predict, from what, and how; from options or from a TOML file."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from undrift import _check
from undrift._internal.names import find_closest
from undrift.errors import InputError

MISSING = ("auto", "fill", "indicators", "skip", "refuse")
TASKS = ("auto", "regression", "classification", "multiclass")
FORMATS = ("auto", "csv", "parquet", "ndjson", "excel")
SPEEDS = ("best", "max", "fast", "light")
FEW_TEXTS = 20
"""Texts of a column that get a feature each, however few rows there are."""
LONGEST = 1 << 20
"""Bytes of a settings file."""
LONGEST_LAG = 1_000_000
"""Rows."""
_LISTS = ("features", "drop", "candidate", "na", "lag", "quantiles")
OLD_NAMES = {"model": "speed"}
"""Settings that had another name: folders made before keep their meaning, whoever writes it is told the new one."""
OLD_VALUES = {("missing", "indicate"): "indicators"}
"""Values that had another name."""


@dataclass(frozen=True)
class Settings:
    """What to predict, from what, and how."""

    target: str
    """Column to predict."""
    time: str | None = None
    """Column with the time; None: found by its contents. It is not a feature."""
    features: tuple[str, ...] | None = None
    """Columns to learn from; None: all others."""
    drop: tuple[str, ...] = ()
    """Columns to leave out."""
    candidate: tuple[str, ...] = ()
    """Columns with predictions made elsewhere, in units of the target; a missing one abstains."""
    task: str = "auto"
    """"regression", "classification", "multiclass" (more classes may come), or "auto": found from the target."""
    positive: str | None = None
    """Label that counts as 1; None: the later of the two in order."""
    speed: str = "best"
    """"best", "max" (more trees, several times slower), "fast" (linear and in context, several times faster), or
    "light" (linear, the smallest)."""
    half_life: float | None = None
    """One memory length in rounds in place of learned ones."""
    nonnegative: bool = False
    """The target is never below 0: intervals are cut there."""
    lag: tuple[int, ...] = ()
    """Add the target's value so many rows ago as a feature, for each of these numbers."""
    delay: int = 0
    """Labels become known so many rows late."""
    weight: str | None = None
    """Column that says how often each row counts, 0 or more; it is not a feature. None: once."""
    elapsed: bool = False
    """Let memories forget by the time between rows, in units of the median spacing of the first rows, not by rows."""
    calendar: bool = False
    """Add the hour of the day, the day of the week and the day of the year as features."""
    missing: str = "auto"
    """"fill" with the last value seen, "indicators" (fill, and a feature that tells), "auto" (that for numbers that are
    often missing in the first rows), "skip" such rows, or "refuse"."""
    na: tuple[str, ...] = ()
    """Texts that mean missing, besides the usual ones."""
    categories: int | None = None
    """Most different texts of a column that get a feature each; with more, it is learned by the mean of each text.
    None: 20, and 100 where each has 20 of the first rows or more."""
    time_format: str | None = None
    """How times are written, in the letters of strptime; None: ISO 8601, or seconds since 1970."""
    sort: bool = False
    """Learn the rows in order of their times, whatever their order in the file."""
    header: bool = True
    """Whether the first line of a CSV file names the columns; else they are called c1, c2, ..."""
    encoding: str = "utf-8"
    """How the file's text is encoded."""
    decimal: str | None = None
    """Decimal sign of a CSV file, "." or ","; None: found from its first rows."""
    delimiter: str | None = None
    """What separates cells; None: found from the header."""
    format: str = "auto"
    """"csv", "parquet", "ndjson", "excel", or "auto": by the file's ending."""
    limit: int | None = None
    """Stop after so many rows."""
    level: float = 0.9
    """Part of the labels that intervals are made to hold."""
    quantiles: tuple[float, ...] = ()
    """Levels of the quantiles that are predicted beside intervals."""
    seed: int = 0
    """Of the model's random features."""
    alert: bool = False
    """Watch the stream on the way, and tell what changed."""

    def __post_init__(self) -> None:
        who = "settings"
        if not isinstance(self.target, str) or not self.target:
            raise InputError("settings: target must name the column to predict; pass --target")
        for name in _LISTS:
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, name, tuple(value))
            elif value is not None or name != "features":
                raise InputError(f"{who}: {name} must be a list, got {_short(value)}")
        for name in ("features", "drop", "candidate", "na"):
            for text in getattr(self, name) or ():
                if not isinstance(text, str):
                    raise InputError(f"{who}: {name} must be a list of texts, got {_short(text)} in it")
        for name in ("time", "positive", "time_format", "encoding", "weight"):
            value = getattr(self, name)
            if not isinstance(value, str) and (value is not None or name == "encoding"):
                raise InputError(f"{who}: {name} must be a text, got {_short(value)}")
        if self.time_format is not None:
            _require_time_format(self.time_format)
        for name in ("calendar", "alert", "sort", "header", "nonnegative", "elapsed"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{who}: {name} must be true or false, got {_short(getattr(self, name))}")
        _check.choice(who, "task", self.task, TASKS)
        _check.choice(who, "speed", self.speed, SPEEDS)
        if isinstance(self.missing, str) and ("missing", self.missing) in OLD_VALUES:
            raise InputError(f"{who}: missing = '{self.missing}' is called '{OLD_VALUES['missing', self.missing]}' now")
        _check.choice(who, "missing", self.missing, MISSING)
        _check.choice(who, "format", self.format, FORMATS)
        if self.half_life is not None:
            _check.interval(who, "half_life", self.half_life, "(0, inf]")
        _check.integer(who, "delay", self.delay, 0, 1_000_000)
        if self.categories is not None:
            _check.integer(who, "categories", self.categories, 1, 10_000)
        _check.integer(who, "seed", self.seed, 0, 2**53)
        if self.limit is not None:
            _check.integer(who, "limit", self.limit, 1, 2**53)
        _check.interval(who, "level", self.level, "(0, 1)")
        for level in self.quantiles:
            _check.interval(who, "quantiles", level, "(0, 1)")
        for lag in self.lag:
            _check.integer(who, "lag", lag, 1, LONGEST_LAG)
            if lag <= self.delay:
                raise InputError(
                    f"settings: lag {lag} is not known yet when labels are {self.delay} rows late; "
                    f"use a lag of at least {self.delay + 1}"
                )
        if len(set(self.lag)) < len(self.lag):
            raise InputError("settings: lag must not name a number twice")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"settings: decimal must be '.' or ',', got {_short(self.decimal)}")
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter) != 1):
            raise InputError(f"settings: delimiter must be one character, got {_short(self.delimiter)}")
        taken = {self.target, self.time, *self.drop, *(self.features or ())}
        wrong = next((name for name in self.candidate if name in taken), None)
        if wrong is not None:
            raise InputError(
                f"settings: the candidate '{wrong}' cannot be the target, the time, a feature, or dropped as well"
            )
        if self.weight is not None and self.weight in {*taken, *self.candidate}:
            raise InputError(
                f"settings: the weight '{self.weight}' cannot be the target, the time, a feature, a candidate, or "
                "dropped as well"
            )
        if len(set(self.candidate)) < len(self.candidate):
            raise InputError("settings: candidate must not name a column twice")
        if self.target in self.drop or self.target == self.time or self.target in (self.features or ()):
            raise InputError(f"settings: the target '{self.target}' cannot be dropped, the time, or a feature as well")

    def replace(self, **changes: Any) -> Self:
        """Return the settings with some changed."""
        return dataclasses.replace(self, **changes)

    @property
    def most_texts(self) -> int:
        """Texts of a column that get a feature each where nobody counts their rows."""
        return FEW_TEXTS if self.categories is None else self.categories

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a settings file would hold them; what is None is left out.

        JSON has no infinity, so a memory that never fades is the text "inf".
        """
        out = {}
        for name, value in dataclasses.asdict(self).items():
            if value is not None:
                out[name] = list(value) if isinstance(value, tuple) else "inf" if value == math.inf else value
        return out

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [field.name for field in dataclasses.fields(cls)]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "settings", *, saved: bool = False) -> Self:
        """Return settings by name, refusing unknown ones; `where` they come from begins the errors.

        What a folder saved may have names of earlier versions.
        """
        known = cls.names()
        plain = {str(name).replace("-", "_"): value for name, value in values.items()}
        plain = _translate_old(plain) if saved else plain
        old = next((name for name in plain if name in OLD_NAMES), None)
        if old is not None:
            raise InputError(f"{where}: the setting '{old}' is called '{OLD_NAMES[old]}' now")
        unknown = next((name for name in plain if name not in known), None)
        if unknown is not None:
            raise InputError(f"{where}: there is no setting '{unknown}'{did_you_mean(unknown, known)}")
        if "target" not in plain:
            raise InputError(f"{where}: target is missing; name the column to predict, with --target COLUMN")
        for name in _LISTS:
            if isinstance(plain.get(name), (str, int, float)):
                plain[name] = (plain[name],)
        if plain.get("half_life") == "inf":
            plain["half_life"] = math.inf
        return cls(**plain)


def _translate_old(values: dict[str, Any]) -> dict[str, Any]:
    """Return saved settings with the names and values of today."""
    named = {OLD_NAMES.get(name, name): value for name, value in values.items()}
    return {
        name: OLD_VALUES.get((name, value), value) if isinstance(value, str) else value for name, value in named.items()
    }


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a settings file holds."""
    try:
        with path.open("rb") as file:
            text = file.read(LONGEST + 1)
        if len(text) > LONGEST:
            raise InputError(f"{path}: longer than {LONGEST >> 20} MiB; settings are a few plain names and values")
        return tomllib.loads(text.decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({(error.strerror or '').lower()})") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise InputError(f"{path}: not a settings file in TOML ({error})") from None
    except RecursionError:
        raise InputError(f"{path}: lists or tables too deep in one another; write plain names and values") from None


def _require_time_format(form: str) -> None:
    """Refuse what is no way to write times."""
    try:
        dt.datetime.strptime("", form)
    except re.error:  # a letter twice, as in %d.%d
        raise InputError(f"settings: time_format {form!r:.60} has a letter twice; name each part once") from None
    except ValueError as error:
        if "does not match" not in str(error) and "unconverted" not in str(error):
            raise InputError(f"settings: time_format {form!r:.60} is not understood ({error!s:.80})") from None


def _short(value: object) -> str:
    """Return a value for an error, on one short line; tables may be of any size and depth."""
    if isinstance(value, (dict, list, tuple)):
        return "a table" if isinstance(value, dict) else "a list"
    return f"{value!r:.60}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a word that is unknown.

    >>> did_you_mean("tmp", ["date", "temp", "load"])
    "; there are date, temp, load. Did you mean 'temp'?"
    """
    names = list(known)
    near = find_closest(word, names)
    shown = ", ".join(name if len(name) <= 40 else f"{name[:40]}..." for name in names[:12]) + (
        f" and {len(names) - 12} more" if len(names) > 12 else ""
    )
    return f"; there are {shown}." + (f" Did you mean '{near}'?" if near else "")
