"""The command tree, and how an error becomes one line on stderr and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import typer

from undrift import __version__
from undrift.cli.output import ExitCode, print_error
from undrift.errors import (
    ConditionError,
    DataError,
    InputError,
    MissingExtraError,
    ModelFileError,
    UndriftError,
    UndriftWarning,
)

_CODES: dict[type[UndriftError], ExitCode] = {
    InputError: ExitCode.USAGE,
    DataError: ExitCode.BAD_DATA,
    ModelFileError: ExitCode.BAD_DATA,
    ConditionError: ExitCode.CONDITION_NOT_MET,
    MissingExtraError: ExitCode.UNEXPECTED,
}
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # the parser's own error, which typer does not export

COMMANDS = {
    "demo": "run.demo",
    "run": "run.run",
    "forecast": "forecast.forecast",
    "mix": "mix.mix",
    "update": "update.update",
    "versions": "versions.versions",
    "rollback": "versions.rollback",
    "predict": "predict.predict",
    "certify": "certify.certify",
    "report": "report.report",
    "compare": "compare.compare",
    "compare-runs": "compare.compare_runs",
    "synth": "synth.synth",
    "fleet": "fleet.fleet",
    "serve": "serve.serve",
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
    """Run one command and return its exit code; deliberate errors and warnings print one line on stderr."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        with _plain_warnings():
            outcome = app_for(given)(given, standalone_mode=False, prog_name="undrift")
    except UndriftError as error:
        print_error(error)
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), ExitCode.UNEXPECTED)
    except ImportError as error:
        if error.name != "undrift.kernels":  # which refuses a level this machine lacks, before it knows our errors
            raise
        print_error(error)
        return ExitCode.USAGE
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]  # every error of the parser has it
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        print_error("interrupted")
        return ExitCode.INTERRUPTED
    except MemoryError:
        print_error("not enough memory; use fewer columns (--features), or fewer rows (--limit)")
        return ExitCode.UNEXPECTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output left; nothing to say to anyone
        return ExitCode.UNEXPECTED
    return outcome if isinstance(outcome, int) else 0


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show undrift's own warnings as one line each, without the place in the code."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UndriftWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, UndriftWarning):
                print_error(message)
            else:
                others(message, category, *where, **more)

        warnings.showwarning = show
        yield
