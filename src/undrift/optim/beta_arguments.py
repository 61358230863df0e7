"""Read the arguments beta1, beta2 and nu, each beta as itself or, where a float64 beta is too coarse, as 1 - beta."""

from __future__ import annotations

import math
from fractions import Fraction

from undrift import _check
from undrift.errors import ConditionError, InputError
from undrift.optim.problem import POSITIVE
from undrift.optim.theorems import Setting


def one_minus_beta(who: str, name: str, beta: float | None, one_minus: float | None) -> float | None:
    """Return 1 - beta in (0, 1) from either form, or None if neither was given."""
    if beta is not None and one_minus is not None:
        raise InputError(f"{who}: give beta{name} or gap{name} (1 - beta{name}), not both")
    if beta is not None:
        return 1.0 - _check.interval(who, f"beta{name}", beta, "(0, 1)")
    if one_minus is not None:
        return check_below_one(who, name, _check.interval(who, f"gap{name}", one_minus, "(0, 1)"))
    return None


def check_below_one(who: str, name: str, one_minus: float) -> float:
    """Return 1 - beta, or refuse it if beta itself rounds to 1 in float64."""
    if 1.0 - one_minus == 1.0:
        raise ConditionError(
            f"{who}: beta{name} = 1 - {one_minus:.3g} rounds to 1 in float64; 1 - beta{name} must be at least 1.2e-16, "
            "which a larger epsilon allows"
        )
    return one_minus


def exact_setting(
    who: str, beta1: float | None, beta2: float | None, nu: float, gap1: float | None, gap2: float | None
) -> Setting:
    """Return the three numbers as exact fractions; each beta must be given in one of the two forms."""
    return Setting(
        Fraction(_require(who, "1", one_minus_beta(who, "1", beta1, gap1))),
        Fraction(_require(who, "2", one_minus_beta(who, "2", beta2, gap2))),
        Fraction(_check.interval(who, "nu", nu, POSITIVE)),
    )


def _require(who: str, name: str, value: float | None) -> float:
    if value is None:
        raise InputError(f"{who}: beta{name} is missing; give beta{name} or gap{name} (1 - beta{name})")
    return value


def rho(
    beta1: float | None = None, beta2: float | None = None, *, gap1: float | None = None, gap2: float | None = None
) -> float:
    r"""Return $\rho = \lvert 2\beta_2 - 1 - \beta_1^2\rvert / (1 - \beta_1^2)$.

    It says how far beta2 is from the middle of $[\beta_1^2, 1]$; below 1 exactly when beta2 lies strictly inside. The
    margin theorems pay $1/\sqrt{1-\rho^2}$. `gap1` and `gap2` give 1 - beta in place of beta, without rounding it.

    Examples
    --------
    >>> [round(rho(*betas), 5) for betas in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))]
    [0.98947, 0.47368, 0.02564]
    """
    return float(exact_setting("rho", beta1, beta2, 1.0, gap1, gap2).rho)


def amplification(
    beta1: float | None = None, beta2: float | None = None, *, gap1: float | None = None, gap2: float | None = None
) -> float:
    r"""Return $1/\sqrt{1-\rho^2}$, the factor of the margin theorems; infinite from $\rho = 1$ on.

    Examples
    --------
    >>> [round(amplification(*betas), 4) for betas in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))]
    [6.9102, 1.1355, 1.0003]
    """
    at = exact_setting("amplification", beta1, beta2, 1.0, gap1, gap2)
    wide = 1 - at.rho**2
    return math.inf if wide <= 0 else 1.0 / math.sqrt(wide)
