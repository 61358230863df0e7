"""undrift: learning on data that drifts.

Names are imported when they are first used, so that `import undrift` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from undrift.ensemble import Ensemble as Ensemble
    from undrift.ensemble import LinearEnsemble as LinearEnsemble
    from undrift.ensemble import LogisticEnsemble as LogisticEnsemble
    from undrift.ensemble import linear_ensemble as linear_ensemble
    from undrift.ensemble import logistic_ensemble as logistic_ensemble
    from undrift.fleet import Fleet as Fleet
    from undrift.learners import BaseRate as BaseRate
    from undrift.learners import DiscountedAIOLI as DiscountedAIOLI
    from undrift.learners import DiscountedMean as DiscountedMean
    from undrift.learners import DiscountedVAW as DiscountedVAW
    from undrift.learners import Learner as Learner
    from undrift.learners import Persistence as Persistence
    from undrift.learners import Zero as Zero
    from undrift.learners import load as load
    from undrift.online import OnlineClassifier as OnlineClassifier
    from undrift.online import OnlineRegressor as OnlineRegressor

__version__ = "0.1.0"

_HOME = {
    "BaseRate": "undrift.learners",
    "DiscountedAIOLI": "undrift.learners",
    "DiscountedMean": "undrift.learners",
    "DiscountedVAW": "undrift.learners",
    "Learner": "undrift.learners",
    "Persistence": "undrift.learners",
    "Zero": "undrift.learners",
    "Ensemble": "undrift.ensemble",
    "LinearEnsemble": "undrift.ensemble",
    "LogisticEnsemble": "undrift.ensemble",
    "linear_ensemble": "undrift.ensemble",
    "logistic_ensemble": "undrift.ensemble",
    "Fleet": "undrift.fleet",
    "OnlineClassifier": "undrift.online",
    "OnlineRegressor": "undrift.online",
    "load": "undrift.learners",
}
"""Where each public name lives. Files name learners by these names alone."""
_MODULES = (
    "checks",
    "ensemble",
    "errors",
    "fleet",
    "learners",
    "losses",
    "online",
    "optax",
    "optim",
    "regret",
    "store",
    "sweep",
    "torch",
    "trace",
)
"""Submodules reachable as attributes without an import of their own."""

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"undrift.{name}")
    else:
        raise AttributeError(f"module 'undrift' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
