"""The command `undrift`. Nothing here is imported by the library; starting up imports no optional library."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the entry point of the package."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is imported
        from undrift import __version__

        print(f"undrift {__version__}")
        raise SystemExit(0)
    try:
        import rich  # noqa: F401  # only asked whether it is there
        import typer  # noqa: F401  # only asked whether it is there
    except ImportError as missing:
        print(
            f"undrift: the command line needs {missing.name}; install it with: pip install 'undrift[cli]'",
            file=sys.stderr,
        )
        raise SystemExit(1) from None
    from undrift.cli.app import run

    raise SystemExit(run())
