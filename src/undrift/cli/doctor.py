"""`undrift doctor`: what is installed, and whether it works."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable

from undrift import __version__
from undrift.cli.output import ExitCode, print_json, print_table
from undrift.cli.run_options import Json

EXTRAS = {
    "cli": ("jinja2", "matplotlib", "plotly", "polars", "rich", "typer", "zstandard"),
    "serve": ("fastapi", "prometheus-client", "uvicorn"),
    "torch": ("torch",),
    "optax": ("jax", "optax"),
    "river": ("river", "pandas"),
    "sklearn": ("scikit-learn",),
}


def doctor(json: Json = False) -> int:
    """Say which versions and extras are here, which kernels are used, and check that they compute what they should.

    Exit code 1: a check failed; the install is broken.
    """
    from undrift import kernels
    from undrift.self_check import CHECKS

    needed = {name: _version(name) for name in ("numpy", "narwhals", "safetensors")}
    extras = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    outcome = {name: _run_check(check) for name, check in CHECKS.items()}
    broken = [name for name, error in outcome.items() if error is not None]
    facts = {
        "undrift": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "kernels": kernels.level(),
        "levels": kernels.levels(),
        "needed": needed,
        "extras": extras,
        "checks": outcome,
        "fine": not broken,
    }
    if json:
        print_json(facts)
    else:
        print(f"undrift {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}")
        print(f"kernels: level {kernels.level()} of {', '.join(kernels.levels())}")
        print(", ".join(f"{name} {version}" for name, version in needed.items()))
        print_table(("extra", "installed", "install with"), [_row(extra, found) for extra, found in extras.items()])
        for name, error in outcome.items():
            print(f"{'fine ' if error is None else 'BROKEN'} {name}{'' if error is None else f': {error}'}")
    return ExitCode.UNEXPECTED if broken else ExitCode.FINE


def _row(extra: str, found: dict[str, str | None]) -> tuple[str, str, str]:
    here = ", ".join(f"{name} {version}" for name, version in found.items() if version is not None)
    missing = [name for name, version in found.items() if version is None]
    return extra, here or "-", f"pip install 'undrift[{extra}]'" if missing else ""


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _run_check(check: Callable[[], None]) -> str | None:
    try:
        check()
    except Exception as error:  # whatever it is, it is what the user must see
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return None
