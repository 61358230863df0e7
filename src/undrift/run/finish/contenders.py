"""Who takes part in a comparison, and in which order: those that cost least first."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.run.settings import did_you_mean

PlayFunction = Callable[[Matrix, Vector], Vector | Matrix]
"""Takes rows and labels, NaN where missing; returns a prediction for each row: a number, log-odds, or probabilities."""

MICROSECONDS = {
    "fast": 15.0, "best, no trees": 30.0, "best": 90.0, "max": 400.0,
    "LinearRegression": 50.0, "LogisticRegression": 50.0, "SoftmaxRegression": 150.0, "BayesianLinearRegression": 110.0,
    "SGDRegressor": 2000.0, "SGDClassifier": 2000.0, "KNNRegressor": 4000.0, "ridge": 30.0,
    "HoeffdingAdaptiveTreeRegressor": 800.0, "HoeffdingAdaptiveTreeClassifier": 800.0,
    "ARFRegressor": 10_000.0, "ARFClassifier": 5_000.0, "AMFClassifier": 5_000.0,
    "LGBMRegressor": 200.0, "LGBMClassifier": 200.0,
    "HistGradientBoostingRegressor": 350.0, "HistGradientBoostingClassifier": 350.0,
}  # fmt: skip
"""What a row costs, measured on 4,000 rows of 16 columns; of trees that are refitted, every 1,000 rows."""


OUR_OPTIONS: dict[str, dict[str, Any]] = {
    "max": {"speed": "max"},
    "best": {},
    "best, no trees": {"trees": False},
    "fast": {"speed": "fast"},
}
"""Our estimators that take part, and their parameters."""


class Contender(NamedTuple):
    """A learner in a comparison."""

    library: str
    name: str
    play: PlayFunction
    microseconds: float
    """A row costs about so much; who costs least plays first."""


def choose_contenders(
    found: Iterable[Contender], only: Sequence[str] = (), without: Sequence[str] = ()
) -> list[Contender]:
    """Return those that are asked for, the cheap ones first.

    A word names every contender whose library it is or in whose name it stands, whatever the case: "river", "forest".
    """
    every = list(found)
    for option, words in (("--only", only), ("--without", without)):
        for word in words:
            if not any(_is_named(one, [word]) for one in every):
                names = dict.fromkeys(name for one in every for name in (one.library, one.name))
                raise InputError(f"{option} '{word}': no learner is called that{did_you_mean(word, names)}")
    chosen = [one for one in every if (not only or _is_named(one, only)) and not _is_named(one, without)]
    return sorted(chosen, key=lambda one: one.microseconds)


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Keep compiled code of other libraries on one thread; nothing of what they predict depends on it.

    Threads that wait for each other on a busy machine take many times as long as one alone.
    """
    if importlib.util.find_spec("threadpoolctl") is None:  # which scikit-learn brings along
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):
        yield


def _is_named(one: Contender, words: Iterable[str]) -> bool:
    return any(word.lower() == one.library.lower() or word.lower() in one.name.lower() for word in words)
