"""Verdicts: which theorem covers a (beta1, beta2, nu), at what epsilon, after how many steps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from undrift import _check
from undrift.errors import InputError
from undrift.optim import beta_arguments, exact
from undrift.optim.core import COVERED_NORM, NORMS, Tuning
from undrift.optim.nearest import Nearest, nearest
from undrift.optim.problem import Problem
from undrift.optim.theorems import THEOREMS, Clause, Setting, Theorem, at_least, at_most


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one theorem says about one choice of (beta1, beta2, nu)."""

    theorem: str
    """Key: clipped/nu, clipped/margin, clip-free/nu or clip-free/margin."""
    holds: bool
    """Every clause is satisfied, at an epsilon that means something."""
    clauses: tuple[Clause, ...]
    """All of its clauses, with both sides."""
    margin: float
    """Smallest clause margin: ln of how far inside; negative when a clause fails."""
    rho: float
    """Position of beta2 between beta1^2 and 1; 0 in the middle, 1 and more is outside."""
    amplification: float
    """1 / sqrt(1 - rho^2); infinite from rho = 1 on."""
    epsilon: float
    """Smallest epsilon the theorem can promise with this beta1 (and rho), in gradient units."""
    vacuous: bool
    """Whether even that exceeds G + sigma, the value every point has."""
    scale: float
    """G + sigma, or 1 when no problem was given: epsilon and nu are then in units of it."""
    target: float
    """The epsilon the clauses were checked at: the problem's, or else the smallest."""
    steps: int | None
    """Rounds T for the target; None when a clause fails or no problem was given."""
    nearest: Nearest | None
    """Closest covered (beta1, beta2, nu); the choice itself when it is covered; None if out of float range."""
    norm: str = COVERED_NORM
    """Norm scope of the second moment and the clip that the theorem is about."""

    @property
    def failing(self) -> Clause | None:
        """The clause that is furthest from being satisfied, or None."""
        failed = [clause for clause in self.clauses if not clause.holds]
        return min(failed, key=lambda clause: clause.margin) if failed else None

    @property
    def status(self) -> str:
        """Return "covered", "vacuous" (only the size of epsilon is wrong) or "not covered"."""
        if self.holds:
            return "covered"
        return "vacuous" if {c.name for c in self.clauses if not c.holds} <= {"epsilon"} else "not covered"

    def __str__(self) -> str:
        size = f"smallest epsilon {self.epsilon / self.scale:.3g} (G + sigma)"
        if self.vacuous:
            size += ", vacuous"
        if self.holds:
            return f"{self.theorem}: holds; {size}"
        worst = self.failing
        assert worst is not None  # a verdict that does not hold has a failing clause
        return f"{self.theorem}: {worst.text} fails ({worst.value:.3g} against {worst.limit:.3g}); {size}"


def conditions(
    beta1: float | None = None,
    beta2: float | None = None,
    nu: float = 1e-8,
    problem: Problem | None = None,
    *,
    gap1: float | None = None,
    gap2: float | None = None,
    rho: float | None = None,
    steps: int | None = None,
) -> list[Verdict]:
    """Return one verdict per theorem for a choice of (beta1, beta2, nu).

    Parameters
    ----------
    beta1, beta2
        Discounts of the first and second moment, in (0, 1).
    gap1, gap2
        1 - beta1 and 1 - beta2 in their place, exact where a float64 beta is not.
    nu
        Damping (torch's eps), > 0; in units of G + sigma when no problem is given.
    problem
        What is known: G, sigma, F*, c, and the target epsilon. Without a target the smallest one is used.
    rho
        Margin parameter in [0, 1) the margin theorems are read with; by default the smallest that admits beta2.
    steps
        Planned number of rounds; adds the clause on T. Needs a problem.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin`, `clip-free/nu`, `clip-free/margin`. Clauses are decided in exact arithmetic.
    The theorems need Exp(1) random scaling, the averaged iterate as output, and one norm over all parameters.

    Examples
    --------
    >>> for verdict in conditions(0.9, 0.999, nu=1e-3):
    ...     print(verdict)
    clipped/nu: epsilon <= G + sigma fails (5.06 against 1); smallest epsilon 5.06 (G + sigma), vacuous
    clipped/margin: epsilon <= G + sigma fails (140 against 1); smallest epsilon 140 (G + sigma), vacuous
    clip-free/nu: epsilon <= G + sigma fails (5.06 against 1); smallest epsilon 5.06 (G + sigma), vacuous
    clip-free/margin: epsilon <= G + sigma fails (140 against 1); smallest epsilon 140 (G + sigma), vacuous
    """
    at = beta_arguments.exact_setting("conditions", beta1, beta2, nu, gap1, gap2)
    if rho is not None:
        rho = _check.interval("conditions", "rho", rho, "[0, 1)")
    if steps is not None:
        steps = _check.integer("conditions", "steps", steps, 1)
        if problem is None:
            raise InputError("conditions: steps need a problem; give problem=Problem(...) or leave steps out")
    return [_verdict(theorem, at, problem, rho, steps) for theorem in THEOREMS.values()]


def judge(tuning: Tuning, problem: Problem) -> Verdict:
    """Return the verdict of a tuning's own theorem on that tuning, its steps included; what `tune` returns holds.

    Examples
    --------
    >>> from undrift.optim.plan import tune
    >>> problem = Problem(1.0, 0.5, 1.0, 1.0, epsilon=0.5)
    >>> judge(tune(problem, "clip-free/margin"), problem).holds
    True
    """
    key = _check.choice("judge", "tuning.theorem", tuning.theorem, tuple(THEOREMS))
    at = beta_arguments.exact_setting("judge", None, None, tuning.nu, tuning.gap1, tuning.gap2)
    return _verdict(THEOREMS[key], at, problem, tuning.rho, tuning.steps)


def covered_norm(norm: str) -> str:
    """Say whether the theorems cover a norm scope.

    >>> covered_norm("tensor")
    'one per tensor: not covered by a theorem'
    """
    return NORMS[_check.choice("covered_norm", "norm", norm, tuple(NORMS))]


def _verdict(
    theorem: Theorem, at: Setting, problem: Problem | None, given_rho: float | None, steps: int | None
) -> Verdict:
    S = Fraction(problem.scale) if problem else Fraction(1)
    rho = at.rho if given_rho is None else Fraction(given_rho)
    square = theorem.smallest_epsilon_squared(at, S, rho)
    smallest = float("inf") if square is None else exact.ceil_sqrt_float(square)
    wanted = problem.epsilon if problem else None
    clauses = theorem.structure(at, S, None if given_rho is None else rho)
    if wanted is not None:
        clauses.append(theorem.gap1_clause(at, Fraction(wanted), S, rho))
    elif square is not None:
        clauses.append(at_most("epsilon", Fraction(smallest), S, "epsilon <= G + sigma"))
    target = smallest if wanted is None else wanted
    holds = all(clause.holds for clause in clauses)
    needed = theorem.horizon(at, problem, Fraction(target), rho) if problem and holds else None
    if steps is not None and needed is not None:
        clauses.append(at_least("steps", Fraction(steps), Fraction(needed), "T >= the horizon of the theorem"))
        holds = clauses[-1].holds
    wide = 1 - rho * rho
    return Verdict(
        theorem=theorem.key,
        holds=holds,
        clauses=tuple(clauses),
        margin=min(clause.margin for clause in clauses),
        rho=exact.nearest_float(rho),
        amplification=float("inf") if wide <= 0 else exact.nearest_float(1 / exact.sqrt(wide)),
        epsilon=smallest,
        vacuous=smallest > S,
        scale=float(S),
        target=target,
        steps=needed,
        nearest=nearest(theorem, at, S, S if wanted is None else Fraction(wanted)),
    )
