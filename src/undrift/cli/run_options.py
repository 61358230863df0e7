"""Options that commands share: those of settings, made from their declarations, and those of output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import typer
from msgspec.inspect import BoolType, Field, FloatType, IntType, VarTupleType

from undrift.errors import InputError
from undrift.stream.settings import (
    FileSettings,
    Settings,
    SettingsBase,
    bare_type,
    describe_fields,
    flags_of,
    help_of,
    normalize_names,
    read_toml,
)

File = Annotated[
    str,
    typer.Argument(
        help="CSV or JSON (packed or not), Excel or Parquet file; - is the standard input.", show_default=False
    ),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the run [default: FILE-run].")]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", "-s", help="TOML file with the same settings; options win over it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on stderr but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Versions = Annotated[
    int | None,
    typer.Option(
        "--versions",
        help="How many versions the folder keeps for undrift rollback [default: 5, or as many as before].",
        show_default=False,
    ),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html into the folder.")]

NO_REASONS: Mapping[str, str] = MappingProxyType({})
Command = Callable[..., int]
ANYWHERE = inspect.Parameter.POSITIONAL_OR_KEYWORD


def takes_settings(
    model: type[SettingsBase],
    *,
    leave_out: Iterable[str] = (),
    refuses: Mapping[str, str] = NO_REASONS,
    helps: Mapping[str, str] = NO_REASONS,
) -> Callable[[Command], Command]:
    """Give a command the options of a settings class, and `--settings` for a TOML file with the same names.

    The command has a parameter `settings`, in whose place the options stand, and gets an object of the class there:
    its options win over the file. Its parameter `file` may be named by the TOML file, as `source`.

    Parameters
    ----------
    model
        The class.
    leave_out
        Settings that the command does not know.
    refuses
        Reasons, by name, why settings or flags that other commands have are not supported. They are not in the help.
    helps
        Help in place of the declared one, by name.
    """
    known = {**describe_fields(Settings), **describe_fields(model)}  # what is refused may be a setting of runs alone
    fields = {name: field for name, field in describe_fields(model).items() if name not in leave_out}
    names = [name for name in model.names() if name in fields and name not in refuses]

    def decorate(command: Command) -> Command:
        who = f"undrift {command.__name__.replace('_', '-')}"
        hints, parameters = get_type_hints(command, include_extras=True), list[inspect.Parameter]()
        for name, parameter in inspect.signature(command).parameters.items():
            if name == "settings":
                parameters += [_parameter(name, fields[name], helps.get(name)) for name in names]
                parameters += [_refused_parameter(name, known.get(name)) for name in refuses]
                parameters.append(parameter.replace(annotation=SettingsFile, default=None))
            else:
                default = None if name == "file" else parameter.default
                parameters.append(parameter.replace(annotation=hints[name], default=default))

        @wraps(command)
        def read_and_run(**given: Any) -> int:
            options = {name: value for name in (*names, *refuses) if (value := given.pop(name)) not in (None, [])}
            path = given.pop("settings")
            values = {} if path is None else normalize_names(read_toml(path))
            if "source" in values and "file" in given:
                source = str(path.parent / str(values.pop("source")))
                given["file"] = source if given["file"] is None else given["file"]
            for name in [*values, *options]:
                if name in refuses:
                    raise InputError(f"{who}: {flag_of(name)} is not supported: {refuses[name]}")
                if name in leave_out:
                    raise InputError(f"{who}: {path}: there is no setting '{name}' for this command; leave it out")
            if given.get("file", "") is None:
                raise InputError(f"name a file to learn from: {who} FILE --target COLUMN")
            values |= {name: _read_option(name, fields[name], value) for name, value in options.items()}
            return command(settings=model.from_dict(values), **given)

        read_and_run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        read_and_run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return read_and_run

    return decorate


def _parameter(name: str, field: Field, description: str | None) -> inspect.Parameter:
    """Return the parameter of a setting, whose type is that of the option."""
    default = option_of(name, field, description)
    return inspect.Parameter(name, ANYWHERE, default=default, annotation=_option_type(field) | None)


def option_of(name: str, field: Field, description: str | None = None) -> Any:
    """Return the option of a setting, None if it is not given; its help ends with the default, if that is a value."""
    text, default, flag = help_of(field), field.default, flag_of(name)
    if isinstance(default, (str, int, float)) and not isinstance(default, bool):
        text = f"{text.removesuffix('.')} [default: {default}]."
    if _option_type(field) is bool and default is not False:
        flag += f"/--no-{flag[2:]}"
    return typer.Option(None, flag, *flags_of(field), help=description or text, show_default=False)


def _refused_parameter(name: str, field: Field | None) -> inspect.Parameter:
    """Return the hidden parameter of what a command does not support; it takes any text, or none if it is a flag."""
    is_flag = field is None or _option_type(field) is bool
    default = typer.Option(None, flag_of(name), hidden=True)
    return inspect.Parameter(name, ANYWHERE, default=default, annotation=bool | None if is_flag else str | None)


def _option_type(field: Field) -> Any:
    """Return the type of an option; lists are texts with commas."""
    match bare_type(field.type):
        case BoolType():
            return bool
        case IntType():
            return int
        case FloatType():
            return float
        case VarTupleType():
            return list[str]
    return str


def _read_option(name: str, field: Field, value: Any) -> Any:
    """Return the value of an option; a list may be given several times and with commas."""
    kind = bare_type(field.type)
    if not isinstance(kind, VarTupleType):
        return value
    words = {IntType: (int, "whole numbers such as 1,24,168"), FloatType: (float, "numbers such as 0.1,0.5,0.9")}
    number, meaning = words.get(type(bare_type(kind.item_type)), (str, ""))
    try:
        return [number(part) for part in split_words(value)]
    except ValueError:
        raise InputError(f"{flag_of(name)} must be {meaning}, got {', '.join(value)}") from None


def flag_of(name: str) -> str:
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def split_words(given: list[str] | None) -> list[str]:
    """Return the words of an option that may be given several times and with commas."""
    return [word.strip() for text in given or () for word in text.split(",") if word.strip()]


FORMAT = option_of("format", describe_fields(FileSettings)["format"])
