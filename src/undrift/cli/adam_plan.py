"""`undrift adam plan`: parameters and steps for a target epsilon, or the best epsilon for a number of steps."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from undrift.cli import adam_problem as options
from undrift.cli.exit_codes import ExitCode
from undrift.cli.output import format_beta, format_number, print_json, print_table
from undrift.errors import ConditionError, InputError
from undrift.optim import Problem, Tuning, best_epsilon, budget, goldstein, rho, tune
from undrift.optim.theorems import THEOREMS


def plan(
    lipschitz: options.Lipschitz = None,
    noise: options.Noise = 0.0,
    gap: options.Gap = None,
    c: options.Price = None,
    epsilon: options.Epsilon = None,
    steps: Annotated[int | None, typer.Option("--steps", "-T", help="Rounds available: find the best epsilon.")] = None,
    theorem: Annotated[str | None, typer.Option("--theorem", help="One of the four; all of them by default.")] = None,
    smoothness: Annotated[
        float | None, typer.Option("--smoothness", help="F is this smooth: epsilon then bounds |grad F|, c follows.")
    ] = None,
    hessian: Annotated[
        float | None, typer.Option("--hessian", help="The Hessian is this Lipschitz: as --smoothness, sharper.")
    ] = None,
    nu: options.Nu = None,
    width: Annotated[
        float | None, typer.Option("--rho", help="Margin theorems: width in [0, 1); 0 is cheapest.")
    ] = None,
    beta1: Annotated[float | None, typer.Option("--beta1", help="Fix beta1.")] = None,
    beta2: Annotated[float | None, typer.Option("--beta2", help="Fix beta2.")] = None,
    gap1: options.Gap1 = None,
    gap2: options.Gap2 = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Also say it in Goldstein's sense at this radius.")
    ] = None,
    json: options.Json = False,
) -> int:
    """Print all parameters of Adam and the number of steps with which a theorem promises epsilon.

    With --steps in place of --epsilon: the smallest epsilon that many steps allow. Exit code 5: no theorem allows it.
    """
    problem = _problem(lipschitz, noise, gap, c, epsilon, smoothness, hessian, steps)
    if theorem is not None and theorem not in THEOREMS:
        raise InputError(f"--theorem must be one of {', '.join(THEOREMS)}, got {theorem!r}")
    plans: list[Tuning] = []
    refused: dict[str, str] = {}
    for key in THEOREMS if theorem is None else [theorem]:
        if width is not None and not THEOREMS[key].by_margin and theorem is None:
            continue  # rho was asked for: the nu theorems have none
        try:
            if steps is None:
                plans.append(tune(problem, key, nu, width, beta1, beta2, gap1=gap1, gap2=gap2))
            else:
                plans.append(best_epsilon(problem, key, steps, nu, width, beta1, beta2, gap1=gap1, gap2=gap2))
        except ConditionError as error:
            refused[key] = str(error)
    if json:
        print_json({"plans": [_fields(t, problem, delta) for t in plans], "refused": refused})
    else:
        _show(plans, refused, problem, delta)
    return ExitCode.FINE if plans else ExitCode.CONDITION_NOT_MET


def _problem(
    lipschitz: float | None,
    noise: float,
    gap: float | None,
    c: float | None,
    epsilon: float | None,
    smoothness: float | None,
    hessian: float | None,
    steps: int | None,
) -> Problem:
    if (epsilon is None) == (steps is None):
        raise InputError("give --epsilon (how many steps?) or --steps (what epsilon?), one of the two")
    if smoothness is not None or hessian is not None:
        if (smoothness is not None and hessian is not None) or c is not None:
            raise InputError("--smoothness, --hessian and --c all choose c; give one of them")
        if lipschitz is None or gap is None:
            raise InputError("--lipschitz or --gap missing; a plan needs both")
        if epsilon is None:
            raise InputError("--smoothness and --hessian turn a bound on |grad F| into c; give it as --epsilon")
        if smoothness is not None:
            return Problem.smooth(lipschitz, noise, gap, smoothness, epsilon)
        assert hessian is not None  # the only one left
        return Problem.second_order_smooth(lipschitz, noise, gap, hessian, epsilon)
    problem = options.problem(lipschitz, noise, gap, c, epsilon)
    if problem is None:
        raise InputError("--lipschitz, --gap, --c missing; a plan needs all three")
    return problem


def _fields(tuning: Tuning, problem: Problem, delta: float | None) -> dict[str, object]:
    assert tuning.epsilon is not None  # a plan has one
    assert tuning.c is not None
    fields = asdict(tuning) | {"beta1": tuning.beta1, "beta2": tuning.beta2}
    fields["budget"] = budget(tuning, problem)._asdict()
    if delta is not None:
        fields["goldstein"] = {
            "delta": delta,
            "epsilon": goldstein(tuning.epsilon, tuning.c, delta, problem.lipschitz),
        }
    return fields


def _show(plans: list[Tuning], refused: dict[str, str], problem: Problem, delta: float | None) -> None:
    if plans:
        keys = [str(t.theorem) for t in plans]
        cheapest = min(plans, key=lambda t: (t.steps or 0, t.epsilon or 0.0))
        lines: list[tuple[str, list[str]]] = [
            ("steps T", [f"{t.steps:,}" for t in plans]),
            ("epsilon", [format_number(t.epsilon) for t in plans]),
            ("beta1", [format_beta(t.gap1) for t in plans]),
            ("beta2", [format_beta(t.gap2) for t in plans]),
            ("rho", [format_number(rho(gap1=t.gap1, gap2=t.gap2)) for t in plans]),
            ("gamma", [format_number(t.gamma) for t in plans]),
            ("nu", [format_number(t.nu) for t in plans]),
            ("D", [format_number(t.clip_norm) if t.clips else "not clipped" for t in plans]),
            ("mu", [format_number(t.mu) for t in plans]),
        ]
        if delta is not None:
            near = [_fields(t, problem, delta)["goldstein"] for t in plans]
            epsilons = [format_number(one["epsilon"]) for one in near]  # type: ignore[index]  # with delta it is a dictionary
            lines.append((f"Goldstein at {delta:g}", epsilons))
        print_table(("", *keys), [(name, *values) for name, values in lines])
        splits = [budget(t, problem) for t in plans]
        print_table(
            ("share", *keys),
            [
                (
                    name.replace("_", " "),
                    *(f"{getattr(s, name) / (t.epsilon or 1.0):.1%}" for s, t in zip(splits, plans, strict=True)),
                )
                for name in (*splits[0]._fields, "total")
            ],
        )
        print("gamma: step scale; nu: torch's eps; D: clip radius; mu: curvature of the composite loss.")
        print("share: of epsilon, the predicted split of the error, with the corrected constants.")
        if len(plans) > 1:
            print(f"fewest steps, then smallest epsilon: {cheapest.theorem}")
        print(options.NEEDS)
    for reason in refused.values():
        print(reason, file=sys.stderr)
