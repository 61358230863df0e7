"""The command tree, and how an error becomes one line on stderr and an exit code."""

from __future__ import annotations

import sys

import typer

from undrift import __version__
from undrift.cli import adam_check, adam_map, adam_plan
from undrift.errors import ConditionError, InputError, MissingExtraError, ModelFileError, UndriftError

USAGE, DATA, CONDITION, INTERRUPTED = 2, 3, 5, 130
"""Exit codes besides 0 (fine), 1 (unexpected) and 4 (certificate failed)."""

_CODES: dict[type[UndriftError], int] = {
    InputError: USAGE,
    ModelFileError: DATA,
    ConditionError: CONDITION,
    MissingExtraError: 1,
}
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # the parser's own error, which typer does not export

app = typer.Typer(
    help="Learning on data that drifts.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
adam = typer.Typer(
    help="Adam's convergence theorems: which settings they cover, and at what price.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(adam, name="adam")
adam.command("check")(adam_check.check)
adam.command("plan")(adam_plan.plan)
adam.command("map")(adam_map.draw)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """Learning on data that drifts."""
    if version:
        typer.echo(f"undrift {__version__}")
        raise typer.Exit


def run(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code; deliberate errors print one line on stderr."""
    try:
        outcome = app(arguments, standalone_mode=False, prog_name="undrift")
    except UndriftError as error:
        print(f"undrift: {error}", file=sys.stderr)
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), 1)
    except _UsageError as error:
        error.show()  # type: ignore[attr-defined]  # every error of the parser has it
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        print("undrift: interrupted", file=sys.stderr)
        return INTERRUPTED
    return outcome if isinstance(outcome, int) else 0
