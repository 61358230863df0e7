"""Settings: what to predict, from what, and how; each declared once for Python, options and TOML files.

A field of a settings class carries its type, its allowed range and its help. From these follow the checks and their
sentences (`SettingsBase`), and the options of commands (`undrift.cli.run_options`).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

import msgspec
import numpy as np
from msgspec import Meta, inspect, structs

from undrift import _check
from undrift._internal.names import find_closest
from undrift.errors import InputError

if TYPE_CHECKING:
    from undrift.forecast import Forecaster

FEW_TEXTS = 20
"""Texts of a column that get a feature each, however few rows there are."""
LONGEST = 1 << 20
"""Bytes of a settings file."""
LONGEST_LAG = 1_000_000
"""Rows."""
UNNAMED = "?"
"""Stands for the target where a file is read to find it."""

Task = Literal["auto", "regression", "classification", "multiclass"]
Speed = Literal["best", "max", "fast", "light"]
Name = Annotated[str, Meta(min_length=1)]
Texts = tuple[str, ...]
Character = Annotated[str, Meta(min_length=1, max_length=1)]
Count = Annotated[int, Meta(ge=1, le=2**53)]
Lag = Annotated[int, Meta(ge=1, le=LONGEST_LAG)]
Delay = Annotated[int, Meta(ge=0, le=1_000_000)]
Origins = Annotated[int, Meta(ge=1, le=1_000_000)]
TextCount = Annotated[int, Meta(ge=1, le=10_000)]
Seed = Annotated[int, Meta(ge=0, le=2**53)]
HalfLife = Annotated[float, Meta(gt=0.0)]
Share = Annotated[float, Meta(gt=0.0, lt=1.0)]
Level = Annotated[float, Meta(ge=0.5, le=0.99)]  # of `undrift.learners.intervals.LEVELS`
QuantileLevel = Annotated[float, Meta(ge=0.005, le=0.995)]  # of `undrift.learners.intervals.QUANTILES`


class SettingsBase(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that are checked when they are made, from Python, options, or a TOML or JSON file."""

    def __post_init__(self) -> None:
        for field in structs.fields(self):
            value = _plain(getattr(self, field.name))
            try:
                if isinstance(value, (set, frozenset)):  # which have no order
                    raise msgspec.ValidationError
                structs.force_setattr(self, field.name, msgspec.convert(value, field.type))
            except msgspec.ValidationError as error:
                declared = describe_fields(type(self))[field.name].type
                sentence = _explain(field.name, declared, _words(field.type), value, str(error))
                raise InputError(f"settings: {sentence}") from None

    def replace(self, **changes: Any) -> Self:
        """Return the settings with some changed."""
        return structs.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a settings file would hold them; what is None is left out.

        JSON has no infinity, so a memory that never fades is the text "inf".
        """
        out = {}
        for name in self.names():
            value = getattr(self, name)
            if value is not None:
                out[name] = list(value) if isinstance(value, tuple) else "inf" if value == math.inf else value
        return out

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings, a class's own before those it shares with others."""
        base: Any = cls.__base__
        inherited = base.names() if base is not SettingsBase and cls is not SettingsBase else []
        return [name for name in cls.__struct_fields__ if name not in inherited] + inherited

    @classmethod
    def default_of(cls, name: str) -> Any:
        """Return the default of a setting."""
        return describe_fields(cls)[name].default

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "settings") -> Self:
        """Return settings by name, refusing unknown ones; `where` they come from begins the errors."""
        known, plain = describe_fields(cls), normalize_names(values)
        unknown = next((name for name in plain if name not in known), None)
        if unknown is not None:
            raise InputError(f"{where}: there is no setting '{unknown}'{did_you_mean(unknown, cls.names())}")
        missing = next((name for name in cls.names() if known[name].required and name not in plain), None)
        if missing is not None:
            column = help_of(known[missing]).removesuffix(".").removeprefix("Column")
            raise InputError(f"{where}: {missing} is missing; name the column{column}, with --{missing} COLUMN")
        for name, value in plain.items():
            kind = bare_type(known[name].type)
            if isinstance(kind, inspect.VarTupleType) and isinstance(value, (str, int, float)):
                plain[name] = (value,)
            elif isinstance(kind, inspect.FloatType) and value == "inf":
                plain[name] = math.inf
        return cls(**plain)


def option(description: str, *flags: str) -> Meta:
    """Return what a setting's annotation says about its option: the help, and flags besides its name."""
    return Meta(description=description, extra={"flags": flags})


class FileSettings(SettingsBase, frozen=True, kw_only=True):
    """How a file is read."""

    time: Annotated[str | None, option("Column with the time; it is no feature [default: found].")] = None
    time_format: Annotated[
        str | None, option("How times are written, as in %d.%m.%Y %H:%M [default: ISO 8601, or seconds since 1970].")
    ] = None
    na: Annotated[Texts, option("Texts that mean missing, besides the usual ones.")] = ()
    header: Annotated[bool, option("Whether the first line names the columns; if not, they are c1, c2, ...")] = True
    encoding: Annotated[str, option("Encoding of the file's text.")] = "utf-8"
    decimal: Annotated[Literal[".", ","] | None, option("Decimal sign, . or , [default: found].")] = None
    delimiter: Annotated[Character | None, option("Character between two cells [default: found].")] = None
    format: Annotated[
        Literal["auto", "csv", "parquet", "ndjson", "excel"],
        option("csv, parquet, ndjson, excel, or auto: by the file's ending."),
    ] = "auto"
    limit: Annotated[Count | None, option("Stop after so many rows.", "-n")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.time_format is not None:
            _require_time_format(self.time_format)

    def of_rows(self, target: str, **more: Any) -> Settings:
        """Return how the rows of a file are read that has this target."""
        return Settings(target=target, **{name: getattr(self, name) for name in FileSettings.names()}, **more)


class Settings(FileSettings, frozen=True, kw_only=True):
    """What to predict, from what, and how.

    The help of `undrift run` describes every setting; a setting named `half_life` is its option `--half-life`.
    """

    target: Annotated[Name, option("Column to predict.", "-t")]
    features: Annotated[Texts | None, option("Columns to learn from, a,b,c [default: all others].", "-f")] = None
    drop: Annotated[Texts, option("Columns to leave out, a,b,c.")] = ()
    candidate: Annotated[
        Texts, option("Columns with predictions made elsewhere, a,b,c, in units of the target; empty cells abstain.")
    ] = ()
    task: Annotated[
        Task,
        option("regression, classification, multiclass (new classes may come), or auto: found from the target."),
    ] = "auto"
    positive: Annotated[str | None, option("Label that counts as 1 [default: the later of the two in order].")] = None
    speed: Annotated[Speed, option("best, max (more trees), fast (no trees), or light (linear and small).")] = "best"
    half_life: Annotated[HalfLife | None, option("One memory length in rounds, in place of learned ones.")] = None
    nonnegative: Annotated[bool, option("The target is never below 0: cut intervals there.")] = False
    lag: Annotated[tuple[Lag, ...], option("Add the target's value 1,24,168 rows ago as features.")] = ()
    delay: Annotated[Delay, option("Labels become known so many rows late.")] = 0
    weight: Annotated[
        str | None, option("Column that says how often each row counts, 0 or more; it is no feature.")
    ] = None
    elapsed: Annotated[bool, option("Forget by the time between rows, not by rows.")] = False
    calendar: Annotated[bool, option("Add hour, weekday and time of year as features.")] = False
    missing: Annotated[
        Literal["auto", "fill", "indicators", "skip", "refuse"],
        option(
            "Missing values: fill (with the last value), indicators (fill, and a feature that marks them), auto "
            "(indicators where they are frequent in the first rows), skip (such rows), or refuse."
        ),
    ] = "auto"
    categories: Annotated[
        TextCount | None,
        option("Most texts of a column with a feature each, else means [default: 20, 100 if frequent]."),
    ] = None
    sort: Annotated[bool, option("Learn rows in order of their times.")] = False
    level: Annotated[Level, option("Level of the intervals.")] = 0.9
    quantiles: Annotated[
        tuple[QuantileLevel, ...], option("Predict these quantiles as well, such as 0.1,0.5,0.9.")
    ] = ()
    seed: Annotated[Seed, option("Seed of the model's random features.")] = 0
    alert: Annotated[bool, option("Report changes on the way; exit code 6 if there were any.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for lag in self.lag:
            if lag <= self.delay:
                raise InputError(
                    f"settings: lag {lag} is not known yet when labels are {self.delay} rows late; "
                    f"use a lag of at least {self.delay + 1}"
                )
        for name in ("lag", "quantiles", "candidate"):
            items = getattr(self, name)
            again = next((item for k, item in enumerate(items) if item in items[:k]), None)
            if again is not None:
                raise InputError(f"settings: {name} must not have {again!r:.60} twice")
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
        if self.target in {self.time, *self.drop, *(self.features or ())}:
            raise InputError(f"settings: the target '{self.target}' cannot be dropped, the time, or a feature as well")

    @property
    def may_have_lags(self) -> bool:
        """Whether lags and the calendar may be added where there is nothing else to learn from: none were named."""
        return not (self.lag or self.calendar or self.features is not None)

    @property
    def most_texts(self) -> int:
        """Texts of a column that get a feature each where nobody counts their rows."""
        return FEW_TEXTS if self.categories is None else self.categories


class FleetSettings(Settings, frozen=True, kw_only=True):
    """What a fleet predicts, with one model per key."""

    unsupported: ClassVar = ("half_life", "nonnegative", "level")
    """Settings of runs that fleets have no use for; the level of intervals is `interval`."""

    key: Annotated[Texts, option("Column that says which stream a row is of; a,b,c name it together.", "-k")]
    order: Annotated[str | None, option("Column of integers: a row's place in its stream [default: the file's].")] = (
        None
    )
    wait: Annotated[str, option("How late a row may come: orders (64), with --time a duration (90s, 15m, 2h, 1d).")] = (
        "0"
    )
    hold: Annotated[Delay, option("Rows of a key that wait for their label from a later file.")] = 256
    interval: Annotated[
        Level | None, option("Add intervals of this level, such as 0.9, to predictions of numbers.")
    ] = None
    time: Annotated[str | None, option("Column of times, in place of --order.")] = None
    delay: Annotated[Delay, option("Labels become known so many rows of their key late.")] = 0
    speed: Annotated[Speed, option("best, fast, or light.")] = "light"

    def __post_init__(self) -> None:
        key: object = self.key
        if isinstance(key, str):
            structs.force_setattr(self, "key", (key,))
        super().__post_init__()
        for name in self.unsupported:
            if getattr(self, name) != Settings.default_of(name):
                raise InputError(f"settings: fleets have no setting '{name}'; leave it out, or use undrift run")
        if not self.key or len({*self.key}) < len(self.key):
            raise InputError(f"settings: key must name one or more different columns, got {list(self.key)}")
        if self.order is not None and self.time is not None:
            raise InputError("undrift fleet: give --order or --time, not both")
        places = [name for name in (*self.key, self.order, self.time) if name is not None]
        wrong = next((name for name in places if places.count(name) > 1 or name in (self.target, self.weight)), None)
        if wrong is not None:
            raise InputError(
                f"settings: key, order, time, target and weight must be different columns, got '{wrong}' twice"
            )
        if self.speed == "max":
            raise InputError(
                "undrift fleet: speed max is for single streams, as its trees would take megabytes for each key; use "
                "best or less"
            )

    def of_stream(self) -> Settings:
        """Return the settings of each key's stream."""
        shared = {name: getattr(self, name) for name in Settings.names() if name not in ("level", "time")}
        return Settings(**shared, level=0.9 if self.interval is None else self.interval)


class ForecastSettings(FileSettings, frozen=True, kw_only=True):
    """What to forecast, how far, and from which columns."""

    target: Annotated[
        Texts, option("Column to forecast; a,b,c are forecast together [default: the only column of numbers].", "-t")
    ] = ()
    horizon: Annotated[Count, option("Steps ahead.", "-H")] = 24
    series: Annotated[Name | None, option("Column that says which series a row is of (long files).")] = None
    key: Annotated[Name | None, option("The same, but every series has a forecaster of its own.", "-k")] = None
    season: Annotated[
        tuple[int, ...] | None, option("Rows after which values repeat, 24,168; 0: none [default: found].")
    ] = None
    known: Annotated[
        Texts, option("Columns known in advance; rows without a target at the end hold those to come.")
    ] = ()
    candidate: Annotated[
        Texts,
        option(
            "Forecasts made elsewhere: a column beside the target, known a horizon before its row (COL:6: six rows), "
            "or COL for COL_1, COL_2, ..., made in their row."
        ),
    ] = ()
    missing: Annotated[
        Literal["fill", "indicators"],
        option(
            "Missing cells of known columns: fill (with the last one), or indicators (and features that mark them)."
        ),
    ] = "fill"
    level: Annotated[float, option("Level of the intervals.")] = 0.9
    quantiles: Annotated[tuple[float, ...], option("Forecast these quantiles as well, such as 0.1,0.5,0.9.")] = ()
    alert: Annotated[
        bool, option("Report changes of errors and coverage, one step ahead; exit code 6 if there were any.")
    ] = False
    nonnegative: Annotated[
        bool | None, option("Whether forecasts below 0 become 0 [default: while a series has had no value below 0].")
    ] = None
    every: Annotated[Origins, option("Keep the forecasts of every so many rows.")] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        again = next((one for k, one in enumerate(self.quantiles) if one in self.quantiles[:k]), None)
        if again is not None:
            raise InputError(f"settings: quantiles must not have {again!r:.60} twice")
        if self.series is not None and self.key is not None:
            raise InputError("undrift forecast: --series forecasts together, --key each by itself; give one of them")
        if (self.series or self.key) is not None and len(self.target) > 1:
            raise InputError("undrift forecast: with --series or --key there is one --target; got several")
        named = [*self.target, *self.known, *filter(None, (self.series, self.key, self.time))]
        if len({*named, *self.candidate}) < len(named) + len(self.candidate):
            raise InputError(
                "undrift forecast: target, series, key, known, candidate and time must be different columns"
            )
        if self.candidate and len(self.target) > 1:
            raise InputError(
                "undrift forecast: --candidate goes with one --target; give several series one below the other, with "
                "--series"
            )
        self.forecaster()

    def forecaster(self, every: int | None = None) -> Forecaster:
        """Return the model, before its first row; `every` are the seconds from row to row, None to find them."""
        from undrift.forecast import Forecaster
        from undrift.forecast.forecast_input import check_quantiles

        check_quantiles(Forecaster, self.quantiles)
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
        return self.of_rows(self.target[0] if self.target else UNNAMED)


class MixSettings(FileSettings, frozen=True, kw_only=True):
    """Which forecasts in the columns of a file are combined, and for which loss."""

    target: Annotated[Name, option("Column that is forecast.", "-t")]
    candidate: Annotated[
        Texts, option("Columns with the forecasts, a,b,c; empty cells abstain [default: all other columns of numbers].")
    ] = ()
    loss: Annotated[
        Literal["squared", "absolute", "quantile"], option("Loss to keep small: squared, absolute or quantile.")
    ] = "squared"
    quantile: Annotated[Share | None, option("Level of the quantile that is forecast; with --loss quantile.")] = None
    delay: Annotated[Delay, option("Labels become known so many rows late.")] = 0
    time: Annotated[str | None, option("Column with the time, copied to the output [default: found].")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.quantile is None) == (self.loss == "quantile"):
            raise InputError(
                "undrift mix: --loss quantile needs --quantile LEVEL in (0, 1), and no other loss takes it"
            )
        self.reading()

    def reading(self) -> Settings:
        """Return how the file is read."""
        return self.of_rows(self.target, candidate=self.candidate)


# What a declaration says, for checks, their sentences, and the options of commands.


@cache
def describe_fields(model: type[SettingsBase]) -> dict[str, inspect.Field]:
    """Return the fields of a settings class by name."""
    found = inspect.type_info(model)
    assert isinstance(found, inspect.StructType)
    return {field.name: field for field in found.fields}


def help_of(field: inspect.Field) -> str:
    """Return the help of a setting."""
    return str((_metadata_of(field).extra_json_schema or {})["description"])


def flags_of(field: inspect.Field) -> tuple[str, ...]:
    """Return the flags of a setting's option besides its name."""
    return tuple((_metadata_of(field).extra or {})["flags"])


def _metadata_of(field: inspect.Field) -> inspect.Metadata:
    """Return what `option` declared of a setting."""
    assert isinstance(field.type, inspect.Metadata)
    return field.type


def bare_type(kind: inspect.Type) -> inspect.Type:
    """Return the type of a value that is not None, without what else is declared of it."""
    while isinstance(kind, (inspect.Metadata, inspect.UnionType)):
        if isinstance(kind, inspect.Metadata):
            kind = kind.type
        else:
            kind = next(part for part in kind.types if not isinstance(part, inspect.NoneType))
    return kind


def normalize_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their names in Python, where a file may have hyphens."""
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def _explain(name: str, declared: inspect.Type, words: Sequence[str], value: Any, error: str) -> str:
    """Return the sentence about a wrong value: what is allowed (one of the `words` perhaps), and what was given."""
    kind, in_list, end = bare_type(declared), _IN_LIST.search(error), ""
    if isinstance(kind, inspect.VarTupleType) and in_list is not None:
        kind, value = bare_type(kind.item_type), value[int(in_list[1])]
        if isinstance(kind, inspect.StrType):
            return f"{name} must be a list of texts, got {_short(value)} in it"
    match kind:
        case inspect.VarTupleType():
            allowed = "a list"
        case inspect.BoolType():
            allowed = "true or false"
        case inspect.LiteralType():
            allowed = " or ".join(map(repr, words)) if len(words) == 2 else f"one of {', '.join(words)}"
        case inspect.StrType(max_length=1):
            allowed = "one character"
        case inspect.StrType(min_length=1) if value == "":
            allowed = "a text that is not empty"
        case inspect.IntType(ge=low, le=high):
            allowed = "an integer" if low is None else f"an integer in [{low}, {high}]"
        case inspect.FloatType(ge=low, gt=above, le=high, lt=below) if _is_number(value):
            first = f"({above:g}" if low is None else f"[{low:g}"
            last = f"{below:g})" if below is not None else "inf]" if high is None else f"{high:g}]"
            allowed, end = f"in {first}, {last}", "" if last == "inf]" else _check.percent_hint(value)
        case inspect.FloatType():
            allowed = "a number"
        case _:
            allowed = "a text"
    return f"{name} must be {allowed}, got {_short(value)}{end}"


def _words(hint: Any) -> tuple[str, ...]:
    """Return the words of the Literal in a type, in the order in which they were declared."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next((words for words in map(_words, get_args(hint)) if words), ())


_IN_LIST = re.compile(r"`\$\[(\d+)\]")
"""Where msgspec's error says which item of a list is wrong."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: object) -> object:
    """Return lists as tuples, and NumPy's numbers and texts as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_plain_item, value)) if isinstance(value, (list, tuple)) else value


def _plain_item(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _short(value: object) -> str:
    """Return a value for an error, on one short line; tables may be of any size and depth."""
    if isinstance(value, (dict, list, tuple)):
        return "a table" if isinstance(value, dict) else "a list"
    return _check.describe(value)


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
