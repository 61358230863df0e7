"""undrift: learning on data that drifts.

Names are imported when they are first used, so that `import undrift` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from undrift._internal.discount import Discount as Discount
    from undrift.ensemble import ClassEnsemble as ClassEnsemble
    from undrift.ensemble import Ensemble as Ensemble
    from undrift.ensemble import MultiOutputRegressor as MultiOutputRegressor
    from undrift.ensemble import drift_ensemble as drift_ensemble
    from undrift.ensemble import linear_ensemble as linear_ensemble
    from undrift.ensemble import logistic_ensemble as logistic_ensemble
    from undrift.ensemble import newton_ensemble as newton_ensemble
    from undrift.ensemble import softmax_ensemble as softmax_ensemble
    from undrift.fleet import Fleet as Fleet
    from undrift.forecast import Forecaster as Forecaster
    from undrift.learners import *  # noqa: F403  # every learner that is exported there
    from undrift.online import OnlineClassifier as OnlineClassifier
    from undrift.online import OnlineRegressor as OnlineRegressor
    from undrift.report import run_frame as run_frame
    from undrift.stream import Stream as Stream
    from undrift.trees import BoostedTrees as BoostedTrees

__version__ = "0.2.0"

_HOME = {
    "BoostedTrees": "undrift.trees",
    "ClassEnsemble": "undrift.ensemble",
    "Ensemble": "undrift.ensemble",
    "MultiOutputRegressor": "undrift.ensemble",
    "drift_ensemble": "undrift.ensemble",
    "linear_ensemble": "undrift.ensemble",
    "logistic_ensemble": "undrift.ensemble",
    "newton_ensemble": "undrift.ensemble",
    "softmax_ensemble": "undrift.ensemble",
    "Discount": "undrift._internal.discount",
    "Fleet": "undrift.fleet",
    "Forecaster": "undrift.forecast",
    "OnlineClassifier": "undrift.online",
    "OnlineRegressor": "undrift.online",
    "Stream": "undrift.stream",
    "run_frame": "undrift.report",
}
"""Where public names live; besides them, everything that `undrift.learners` exports is one."""
_MODULES = (
    "baselines",
    "checks",
    "ensemble",
    "errors",
    "events",
    "fleet",
    "forecast",
    "kernels",
    "learners",
    "losses",
    "metrics",
    "online",
    "optax",
    "optim",
    "regret",
    "report",
    "river",
    "run",
    "serve",
    "sklearn",
    "sktime",
    "spark",
    "store",
    "stream",
    "streams",
    "template",
    "theory",
    "torch",
    "trace",
    "trees",
)
"""Submodules reachable as attributes without an import of their own."""
_OLD_NAMES = {"LinearEnsemble": "linear_ensemble", "LogisticEnsemble": "logistic_ensemble"}
"""Names that were public beside another one for the same thing."""


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = importlib.import_module(f"undrift.{name}")
    elif name == "__all__":
        value = _public_names()
    elif not name.startswith("_") and name in _public_names():
        value = getattr(importlib.import_module(_HOME.get(name, "undrift.learners")), name)
    elif name in _OLD_NAMES:
        raise AttributeError(
            f"undrift.{name} is made by undrift.{_OLD_NAMES[name]}(...); its class is undrift.ensemble.{name}"
        )
    else:
        raise AttributeError(f"module 'undrift' has no attribute {name!r}")
    globals()[name] = value
    return value


def _public_names() -> list[str]:
    """Return the names above and every class and function that `undrift.learners` exports."""
    learners = vars(importlib.import_module("undrift.learners"))
    own = [name for name, value in learners.items() if getattr(value, "__module__", "").startswith("undrift.learners.")]
    return sorted({*_HOME, *own})


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names(), *_MODULES})
