"""Options that say what to predict from a file and how; shared by `run`, `compare` and `fleet`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from undrift.errors import InputError

File = Annotated[
    str | None,
    typer.Argument(
        help="CSV or JSON (packed or not), Excel or Parquet file; - is the standard input.", show_default=False
    ),
]
Target = Annotated[str | None, typer.Option("--target", "-t", help="Column to predict.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run [default: FILE-run].")]
Time = Annotated[str | None, typer.Option("--time", help="Column with the time [default: found].")]
Features = Annotated[
    list[str] | None, typer.Option("--features", "-f", help="Columns to learn from, a,b,c [default: all others].")
]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Columns to leave out, a,b,c.")]
Candidate = Annotated[
    list[str] | None, typer.Option("--candidate", help="Columns with predictions made elsewhere, a,b,c.")
]
Task = Annotated[
    str | None, typer.Option("--task", help="regression, classification, or multiclass (new classes may come).")
]
Positive = Annotated[str | None, typer.Option("--positive", help="Label that counts as 1.")]
Speed = Annotated[str | None, typer.Option("--speed", help="best, max (more trees), fast, or light [default: best].")]
OldModel = Annotated[str | None, typer.Option("--model", hidden=True, help="What --speed was called.")]
HalfLife = Annotated[
    float | None, typer.Option("--half-life", help="One memory length in rounds, in place of learned ones.")
]
Nonnegative = Annotated[
    bool | None,
    typer.Option("--nonnegative", help="The target is never below 0: cut intervals there.", show_default=False),
]
Lag = Annotated[list[str] | None, typer.Option("--lag", help="Add the target's value 1,24,168 rows ago as features.")]
Delay = Annotated[int | None, typer.Option("--delay", help="Labels become known so many rows late [default: 0].")]
Weight = Annotated[str | None, typer.Option("--weight", help="Column that says how often each row counts.")]
Elapsed = Annotated[
    bool | None,
    typer.Option("--elapsed", help="Forget by the time between rows, not by rows.", show_default=False),
]
Calendar = Annotated[
    bool | None, typer.Option("--calendar", help="Add hour, weekday and time of year as features.", show_default=False)
]
Missing = Annotated[
    str | None,
    typer.Option("--missing", help="Missing values: auto, fill, indicators, skip or refuse [default: auto]."),
]
Na = Annotated[list[str] | None, typer.Option("--na", help="Texts that mean missing, besides the usual ones.")]
Categories = Annotated[
    int | None,
    typer.Option(
        "--categories", help="Most texts of a column with a feature each, else means [default: 20, 100 if frequent]."
    ),
]
TimeFormat = Annotated[str | None, typer.Option("--time-format", help="How times are written, as in %d.%m.%Y %H:%M.")]
Sort = Annotated[bool | None, typer.Option("--sort", help="Learn rows in order of their times.", show_default=False)]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns.", show_default=False),
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Of the file's text [default: utf-8].")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal sign, . or , [default: found].")]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help="What separates cells [default: found].")]
Format = Annotated[str | None, typer.Option("--format", help="csv, parquet, ndjson or excel [default: by the ending].")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="Stop after so many rows.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of the model's random features [default: 0].")]
Alert = Annotated[
    bool | None,
    typer.Option("--alert", help="Tell what changes on the way; exit code 6 if it did.", show_default=False),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", "-s", help="TOML file with the same settings; options win over it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")]

_LISTS = ("features", "drop", "candidate", "na", "lag")


def read_settings(
    context: typer.Context, settings_file: Path | None = None, **defaults: object
) -> tuple[str, dict[str, Any]]:
    """Return the file and the settings of a command: its options win over a settings file, and that over defaults.

    Parameters
    ----------
    context
        The command's context, which holds its options by name; those that are no settings are left out.
    settings_file
        A TOML file; it may name the file to learn from as `source`.
    defaults
        Settings that differ from those of `Settings`.
    """
    from undrift.stream.settings import Settings, read_toml

    values: dict[str, Any] = dict(defaults)
    file = context.params["file"]
    if settings_file is not None:
        values |= read_toml(settings_file)
        source = values.pop("source", None)
        if file is None and source is not None:
            file = str(settings_file.parent / str(source))
    if context.params.get("model") is not None:
        raise InputError(f"--model is called --speed now: --speed {context.params['model']}")
    for name in Settings.names():
        option = context.params.get(name)
        if option is not None and option != () and option != []:
            values[name] = _split(name, option) if name in _LISTS else option
    if file is None:
        raise InputError("name a file to learn from: undrift run FILE --target COLUMN")
    return file, values


def _split(name: str, texts: list[str]) -> list[Any]:
    """Return the parts of a list option, which may be given several times and with commas."""
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if name != "lag":
        return parts
    try:
        return [int(part) for part in parts]
    except ValueError:
        raise InputError(f"--lag must be whole numbers such as 1,24,168, got {', '.join(texts)}") from None
