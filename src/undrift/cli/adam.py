"""`undrift adam`: the commands about Adam's convergence theorems."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from undrift.cli import adam_figure
from undrift.cli.output import ExitCode, format_beta, format_number, print_json, print_table, write_file
from undrift.cli.run_options import Json
from undrift.errors import ConditionError, InputError
from undrift.optim import Problem, Tuning, Verdict, best_epsilon, budget, conditions, goldstein, rho, tune
from undrift.optim.conditions import WELL_KNOWN, regions
from undrift.optim.theorems import THEOREMS

adam = typer.Typer(
    help="Adam's convergence theorems: which settings they cover, and at what price.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


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


def _read_problem(
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


@adam.command("check")
def check(
    beta1: Annotated[float | None, typer.Argument(help="First-moment discount, for example 0.9.")] = None,
    beta2: Annotated[float | None, typer.Argument(help="Second-moment discount, for example 0.999.")] = None,
    nu: Nu = None,
    gap1: Gap1 = None,
    gap2: Gap2 = None,
    lipschitz: Lipschitz = None,
    noise: Noise = 0.0,
    gap: Gap = None,
    c: Price = None,
    epsilon: Epsilon = None,
    steps: Annotated[
        int | None, typer.Option("--steps", "-T", help="Planned rounds, held against the theorem.")
    ] = None,
    json: Json = False,
) -> int:
    """Say which of Adam's convergence theorems covers (beta1, beta2), at what epsilon and after how many steps.

    Without a problem everything is in units of G + sigma (nu too; 1e-8 by default). Exit code 5: nothing covers it.
    """
    problem = _read_problem(lipschitz, noise, gap, c, epsilon)
    damping = 1e-8 if nu is None else nu
    verdicts = conditions(beta1, beta2, damping, problem, gap1=gap1, gap2=gap2, steps=steps)
    covered = any(verdict.holds for verdict in verdicts)
    if json:
        print_json({"covered": covered, "norm": verdicts[0].norm, "verdicts": [_verdict_fields(v) for v in verdicts]})
    else:
        _show_verdicts(verdicts, problem is not None)
    return ExitCode.FINE if covered else ExitCode.CONDITION_NOT_MET


def _verdict_fields(verdict: Verdict) -> dict[str, object]:
    fields = asdict(verdict)
    fields["status"] = verdict.status
    fields["failing"] = None if verdict.failing is None else verdict.failing.name
    fields["clauses"] = [clause._asdict() for clause in verdict.clauses]
    fields["nearest"] = None if verdict.nearest is None else verdict.nearest._asdict()
    return fields


def _show_verdicts(verdicts: list[Verdict], has_problem: bool) -> None:
    first = verdicts[0]
    print(f"rho = {format_number(first.rho, 5)}, 1/sqrt(1 - rho^2) = {format_number(first.amplification, 5)}")
    print()
    size = "smallest epsilon" if has_problem else "smallest epsilon / (G + sigma)"
    print_table(
        ("theorem", "verdict", size, "steps T"),
        [(v.theorem, v.status, _smallest_epsilon(v), "-" if v.steps is None else f"{v.steps:,}") for v in verdicts],
    )
    for verdict in verdicts:
        if verdict.failing is not None:
            print(f"{verdict.theorem}: {_why_not(verdict)}")
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
    print(NEEDS)


def _smallest_epsilon(verdict: Verdict) -> str:
    if math.isinf(verdict.epsilon):
        return "none"
    text = format_number(verdict.epsilon, 3)
    return f"{text} vacuous" if verdict.vacuous else text


def _why_not(verdict: Verdict) -> str:
    clause = verdict.failing
    assert clause is not None  # asked only then
    if clause.name == "steps":
        return f"T must be at least {verdict.steps:,}, got {clause.value:,.0f}"
    factor = math.exp(min(-clause.margin, 700.0))
    by = f"{format_number(factor, 3)} times too much" if clause.margin > -700.0 else "no value would do"
    if clause.name == "margin high":
        by = by.replace("much", "little")
    return f"needs {clause.text}, got {format_number(clause.value, 3)} against {format_number(clause.limit, 3)}: {by}"


@adam.command("plan")
def plan(
    lipschitz: Lipschitz = None,
    noise: Noise = 0.0,
    gap: Gap = None,
    c: Price = None,
    epsilon: Epsilon = None,
    steps: Annotated[int | None, typer.Option("--steps", "-T", help="Rounds available: find the best epsilon.")] = None,
    theorem: Annotated[str | None, typer.Option("--theorem", help="One of the four; all of them by default.")] = None,
    smoothness: Annotated[
        float | None, typer.Option("--smoothness", help="F is this smooth: epsilon then bounds |grad F|, c follows.")
    ] = None,
    hessian: Annotated[
        float | None, typer.Option("--hessian", help="The Hessian is this Lipschitz: as --smoothness, sharper.")
    ] = None,
    nu: Nu = None,
    width: Annotated[
        float | None, typer.Option("--rho", help="Margin theorems: width in [0, 1); 0 is cheapest.")
    ] = None,
    beta1: Annotated[float | None, typer.Option("--beta1", help="Fix beta1.")] = None,
    beta2: Annotated[float | None, typer.Option("--beta2", help="Fix beta2.")] = None,
    gap1: Gap1 = None,
    gap2: Gap2 = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Also say it in Goldstein's sense at this radius.")
    ] = None,
    json: Json = False,
) -> int:
    """Print all parameters of Adam and the number of steps with which a theorem promises epsilon.

    With --steps in place of --epsilon: the smallest epsilon that many steps allow. Exit code 5: no theorem allows it.
    """
    problem = _problem_of_plan(lipschitz, noise, gap, c, epsilon, smoothness, hessian, steps)
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
        print_json({"plans": [_plan_fields(t, problem, delta) for t in plans], "refused": refused})
    else:
        _show_plans(plans, refused, problem, delta)
    return ExitCode.FINE if plans else ExitCode.CONDITION_NOT_MET


def _problem_of_plan(
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
    problem = _read_problem(lipschitz, noise, gap, c, epsilon)
    if problem is None:
        raise InputError("--lipschitz, --gap, --c missing; a plan needs all three")
    return problem


def _plan_fields(tuning: Tuning, problem: Problem, delta: float | None) -> dict[str, object]:
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


def _show_plans(plans: list[Tuning], refused: dict[str, str], problem: Problem, delta: float | None) -> None:
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
            near = [_plan_fields(t, problem, delta)["goldstein"] for t in plans]
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
        print(NEEDS)
    for reason in refused.values():
        print(reason, file=sys.stderr)


@adam.command("map")
def draw(
    path: Annotated[Path, typer.Argument(help="File to write: .html or .png.")],
    nu: Annotated[float, typer.Option("--nu", help="Damping in units of G + sigma.")] = 1e-3,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Target in units of G + sigma, at most 1.")] = 1.0,
    mark: Annotated[
        list[str] | None, typer.Option("--mark", help="Mark a setting too: beta1,beta2 or beta1,beta2,name.")
    ] = None,
    json: Json = False,
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
