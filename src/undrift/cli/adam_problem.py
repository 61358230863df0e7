"""Options that describe an optimisation problem, shared by `adam check` and `adam plan`."""

from __future__ import annotations

from typing import Annotated

import typer

from undrift.cli.run_options import Json as Json
from undrift.errors import InputError
from undrift.optim import Problem

Lipschitz = Annotated[float | None, typer.Option("--lipschitz", "-G", help="G: bounds every gradient, noisy ones too.")]
Noise = Annotated[float, typer.Option("--noise", "-s", help="sigma: root of the gradient's variance.")]
Gap = Annotated[float | None, typer.Option("--gap", "-F", help="F*: at least F(x0) - inf F.")]
Price = Annotated[float | None, typer.Option("--c", "-c", help="Price of the spread in the stationarity measure.")]
Epsilon = Annotated[float | None, typer.Option("--epsilon", "-e", help="Target: E|grad F|_c <= epsilon.")]
Nu = Annotated[float | None, typer.Option("--nu", help="Damping nu (torch's eps), in gradient units.")]
Gap1 = Annotated[float | None, typer.Option("--gap1", help="1 - beta1 in place of beta1, exact.")]
Gap2 = Annotated[float | None, typer.Option("--gap2", help="1 - beta2 in place of beta2, exact.")]

NEEDS = (
    "The theorems are about Exp(1) random scaling of the steps, the averaged iterate as output, and one norm over all "
    "parameters; they hold in expectation."
)


def problem(
    lipschitz: float | None, noise: float, gap: float | None, c: float | None, epsilon: float | None
) -> Problem | None:
    """Return the problem the options describe; None when none of them was given."""
    given = {"--lipschitz": lipschitz, "--gap": gap, "--c": c}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) == len(given) and epsilon is None and noise == 0.0:
        return None
    if lipschitz is None or gap is None or c is None:
        raise InputError(
            f"{', '.join(missing)} missing; give --lipschitz, --gap and --c together, or no problem at all"
        )
    return Problem(lipschitz, noise, gap, c, epsilon)
