"""`undrift adam check`: is my (beta1, beta2) covered by a theorem, and at what price."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated

import typer

from undrift.cli import adam_problem as options
from undrift.cli.exit_codes import ExitCode
from undrift.cli.output import format_beta, format_number, print_json, print_table
from undrift.optim import Verdict, conditions


def check(
    beta1: Annotated[float | None, typer.Argument(help="First-moment discount, for example 0.9.")] = None,
    beta2: Annotated[float | None, typer.Argument(help="Second-moment discount, for example 0.999.")] = None,
    nu: options.Nu = None,
    gap1: options.Gap1 = None,
    gap2: options.Gap2 = None,
    lipschitz: options.Lipschitz = None,
    noise: options.Noise = 0.0,
    gap: options.Gap = None,
    c: options.Price = None,
    epsilon: options.Epsilon = None,
    steps: Annotated[
        int | None, typer.Option("--steps", "-T", help="Planned rounds, held against the theorem.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Say which of Adam's convergence theorems covers (beta1, beta2), at what epsilon and after how many steps.

    Without a problem everything is in units of G + sigma (nu too; 1e-8 by default). Exit code 5: nothing covers it.
    """
    problem = options.problem(lipschitz, noise, gap, c, epsilon)
    damping = 1e-8 if nu is None else nu
    verdicts = conditions(beta1, beta2, damping, problem, gap1=gap1, gap2=gap2, steps=steps)
    covered = any(verdict.holds for verdict in verdicts)
    if json:
        print_json({"covered": covered, "norm": verdicts[0].norm, "verdicts": [_fields(v) for v in verdicts]})
    else:
        _show(verdicts, problem is not None)
    return ExitCode.FINE if covered else ExitCode.CONDITION_NOT_MET


def _fields(verdict: Verdict) -> dict[str, object]:
    fields = asdict(verdict)
    fields["status"] = verdict.status
    fields["failing"] = None if verdict.failing is None else verdict.failing.name
    fields["clauses"] = [clause._asdict() for clause in verdict.clauses]
    fields["nearest"] = None if verdict.nearest is None else verdict.nearest._asdict()
    return fields


def _show(verdicts: list[Verdict], has_problem: bool) -> None:
    first = verdicts[0]
    print(f"rho = {format_number(first.rho, 5)}, 1/sqrt(1 - rho^2) = {format_number(first.amplification, 5)}")
    print()
    size = "smallest epsilon" if has_problem else "smallest epsilon / (G + sigma)"
    print_table(
        ("theorem", "verdict", size, "steps T"),
        [(v.theorem, v.status, _size(v), "-" if v.steps is None else f"{v.steps:,}") for v in verdicts],
    )
    for verdict in verdicts:
        if verdict.failing is not None:
            print(f"{verdict.theorem}: {_why(verdict)}")
    print()
    print_table(
        ("closest covered setting", "beta1", "beta2", "nu", "distance"),
        [
            (v.theorem, "-", "-", "out of float64's range", "-")
            if v.nearest is None
            else (
                v.theorem,
                format_beta(v.nearest.gap1),
                format_beta(v.nearest.gap2),
                format_number(v.nearest.nu),
                f"{v.nearest.distance:.2f}",
            )
            for v in verdicts
        ],
    )
    unit = "" if has_problem else " Epsilon and nu are in units of G + sigma."
    print(f"vacuous: the promised epsilon exceeds G + sigma, which every point satisfies.{unit}")
    print(
        "distance: change of (ln(1 - beta1), ln(1 - beta2), ln nu). The numbers are rounded; --json has them exactly."
    )
    print(options.NEEDS)


def _size(verdict: Verdict) -> str:
    if math.isinf(verdict.epsilon):
        return "none"
    text = format_number(verdict.epsilon, 3)
    return f"{text} vacuous" if verdict.vacuous else text


def _why(verdict: Verdict) -> str:
    clause = verdict.failing
    assert clause is not None  # asked only then
    if clause.name == "steps":
        return f"T must be at least {verdict.steps:,}, got {clause.value:,.0f}"
    factor = math.exp(min(-clause.margin, 700.0))
    by = f"{format_number(factor, 3)} times too much" if clause.margin > -700.0 else "no value would do"
    if clause.name == "margin high":
        by = by.replace("much", "little")
    return f"needs {clause.text}, got {format_number(clause.value, 3)} against {format_number(clause.limit, 3)}: {by}"
