"""`undrift adam map`: the (beta1, beta2) plane with the theorems' regions, as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from undrift.cli import adam_figure
from undrift.cli import adam_problem as options
from undrift.cli.output import print_json, write_file
from undrift.errors import InputError
from undrift.optim import Problem, conditions
from undrift.optim.region import WELL_KNOWN, regions


def draw(
    path: Annotated[Path, typer.Argument(help="File to write: .html or .png.")],
    nu: Annotated[float, typer.Option("--nu", help="Damping in units of G + sigma.")] = 1e-3,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Target in units of G + sigma, at most 1.")] = 1.0,
    mark: Annotated[
        list[str] | None, typer.Option("--mark", help="Mark a setting too: beta1,beta2 or beta1,beta2,name.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Draw which (beta1, beta2) each theorem covers, the vacuous zone, contours of rho, and settings people use."""
    kind = path.suffix.lower()
    if kind not in (".html", ".png"):
        raise InputError(f"{path}: the map is written as .html or .png, got {kind or 'no ending'}; name the file so")
    marks = WELL_KNOWN | dict(_mark(text) for text in mark or ())
    unit = Problem(1.0, 0.0, 1.0, 1.0, epsilon)  # G + sigma is 1; gap and c play no part
    found = regions(np.geomspace(10.0**-adam_figure.RIGHT, 0.999, 2000), nu, epsilon)
    covered = {name: [v.theorem for v in conditions(*betas, nu, unit) if v.holds] for name, betas in marks.items()}
    picture = adam_figure.figure(found, marks, nu, epsilon)
    described = {name: {"betas": list(betas), "covered_by": covered[name]} for name, betas in marks.items()}
    facts: dict[str, object] = {"nu": nu, "epsilon": epsilon, "marks": described}
    write_file(path, adam_figure.png(picture) if kind == ".png" else adam_figure.page(picture, facts, covered))
    if json:
        print_json(facts | {"file": str(path)})
    else:
        print(f"wrote {path}")
    return 0


def _mark(text: str) -> tuple[str, tuple[float, float]]:
    parts = text.split(",", 2)
    try:
        one, two = float(parts[0]), float(parts[1])
    except (ValueError, IndexError):
        raise InputError(f"--mark must be beta1,beta2 or beta1,beta2,name, got {text!r}") from None
    conditions(one, two)  # refuses what is not a discount
    return (parts[2] if len(parts) > 2 else "marked"), (one, two)
