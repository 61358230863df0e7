"""`undrift doctor`: what is installed, and whether it works."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from undrift import __version__
from undrift.cli.output import ExitCode, print_json, print_table
from undrift.cli.run_options import Json

if TYPE_CHECKING:
    from undrift._typing import Matrix, Vector

EXTRAS = {
    "cli": ("jinja2", "matplotlib", "plotly", "polars", "rich", "typer")
    + (() if sys.version_info >= (3, 14) else ("backports.zstd",)),
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


def _check_kernels() -> None:
    import numpy as np

    from undrift import _check, kernels
    from undrift.kernels import layout
    from undrift.streams import synthetic

    stream = synthetic("gradual", rounds=200, dim=4)
    beta = np.array([0.9, 0.99, 1.0])
    state, m, h = layout.fresh(4, np.ones(3)), np.empty((200, 3)), np.empty((200, 3))
    _check.raise_on_status("self check", kernels.vaw_play(state, beta, 0, stream.Z, stream.y, m, h), 4)
    for i in range(len(beta)):
        if not np.allclose(m[:, i], _ridge_predictions(stream.Z, stream.y, float(beta[i])), rtol=1e-9, atol=1e-9):
            raise ArithmeticError("the compiled kernel and the equations it solves disagree")


def _ridge_predictions(Z: Matrix, y: Vector, beta: float) -> Vector:
    """Return the predictions of discounted ridge regression, from its normal equations in every round."""
    import numpy as np

    A, r, yhat = np.eye(Z.shape[1]), np.zeros(Z.shape[1]), np.empty(len(y))
    for t, z in enumerate(Z):
        A, r = beta * A, beta * r
        yhat[t] = z @ np.linalg.solve(A, r)
        A, r = A + np.outer(z, z), r + y[t] * z
    return yhat


def _check_learning() -> None:
    import numpy as np

    import undrift
    from undrift.streams import synthetic

    stream = synthetic("abrupt", rounds=1500, dim=3, noise=0.1)
    trace = undrift.OnlineRegressor(speed="fast").play(stream.Z, stream.y)
    if not np.mean((trace.yhat - stream.y) ** 2) < 0.5 * np.var(stream.y):
        raise ArithmeticError("predictions on a synthetic stream are too far off")


def _check_files() -> None:
    import undrift
    from undrift.streams import synthetic

    stream = synthetic("recurring", task="classification", rounds=600, dim=3)
    model = undrift.OnlineClassifier(speed="fast")
    model.play(stream.Z[:300], stream.y[:300])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.undrift")
        again = undrift.load(Path(folder) / "model.undrift")
    a, b = (estimator.play(stream.Z[300:], stream.y[300:]).yhat for estimator in (model, again))
    if a.tobytes() != b.tobytes():
        raise ArithmeticError("a saved model continues with other bits")


CHECKS: dict[str, Callable[[], None]] = {
    "the kernels solve their equations": _check_kernels,
    "a drifting stream is learned": _check_learning,
    "a saved model continues bit for bit": _check_files,
}
"""What is checked, and how; a check raises when it fails."""
