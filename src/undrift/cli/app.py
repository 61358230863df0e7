"""The command tree, and how an error becomes one line on stderr and an exit code."""

from __future__ import annotations

import importlib
import sys

import typer

from undrift import __version__
from undrift.cli.output import plain
from undrift.errors import ConditionError, DataError, InputError, MissingExtraError, ModelFileError, UndriftError

USAGE, DATA, CONDITION, INTERRUPTED = 2, 3, 5, 130
"""Exit codes besides 0 (fine), 1 (unexpected) and 4 (certificate failed)."""

_CODES: dict[type[UndriftError], int] = {
    InputError: USAGE,
    DataError: DATA,
    ModelFileError: DATA,
    ConditionError: CONDITION,
    MissingExtraError: 1,
}
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # the parser's own error, which typer does not export

COMMANDS = {
    "demo": "demo.demo",
    "run": "run.run",
    "predict": "predict.predict",
    "certify": "certify.certify",
    "compare": "compare.compare",
    "synth": "synth.synth",
    "fleet": "fleet.fleet",
    "doctor": "doctor.doctor",
    "adam": "adam.adam",
}
"""Commands in the order of the help, and where they live in this package; groups are Typer objects."""


def app_for(arguments: list[str]) -> typer.Typer:
    """Return the command tree; when the first word is a command, that one alone, so that the others cost nothing."""
    app = typer.Typer(
        help="Learning on data that drifts.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback(invoke_without_command=True)(root)
    wanted = [arguments[0]] if arguments and arguments[0] in COMMANDS else list(COMMANDS)
    for name in wanted:
        module, found = COMMANDS[name].split(".")
        what = getattr(importlib.import_module(f"undrift.cli.{module}"), found)
        if isinstance(what, typer.Typer):
            app.add_typer(what, name=name)
        else:
            app.command(name)(what)
    return app


def root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Learning on data that drifts."""
    if version:
        typer.echo(f"undrift {__version__}")
        raise typer.Exit


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; deliberate errors print one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        outcome = app_for(given)(given, standalone_mode=False, prog_name="undrift")
    except UndriftError as error:
        print(f"undrift: {plain(str(error))}", file=sys.stderr)
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), 1)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]  # every error of the parser has it
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        print("undrift: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; nothing to say to anyone
        return 1
    return outcome if isinstance(outcome, int) else 0
