"""Read models back: the class is looked up by name among the exported ones, nothing in a file is executed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

import undrift
from undrift import _check, store
from undrift._internal.folder import regular_file
from undrift._internal.state_file import explain_damage, find_kind, read_consistently, read_state
from undrift._typing import Arrays
from undrift.errors import ModelFileError
from undrift.learners.base import Learner
from undrift.learners.serializable import warn_if_level_differs

Found = TypeVar("Found", bound=Learner)


@overload
def load(path: str | os.PathLike[str], *, cls: type[Found], model: object = None) -> Found: ...
@overload
def load(path: str | os.PathLike[str], *, cls: None = None, model: object = None) -> Any: ...  # the file says what
def load(path: str | os.PathLike[str], *, cls: type[Learner] | None = None, model: object = None) -> Any:
    """Return what `save` wrote to `path`: a learner, an online estimator, a stream, a forecaster or boosted trees.

    Parameters
    ----------
    path
        A file written by `save`, or the folder of a run, whose stream is returned.
    cls
        The class of a learner of your own; undrift's are found by name.
    model
        The model of a `PeriodicRefit`, fresh and with the parameters it had, which is no part of the file; a list where
        an ensemble has several.

    Examples
    --------
    >>> import tempfile, undrift as ud
    >>> model = ud.DiscountedVAW(half_life=50)
    >>> model.learn([1.0, 2.0], 3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.undrift")
    ...     ud.load(f"{folder}/model.undrift") == model
    True
    """
    given = Path(_check.path("load", path))

    def read() -> Any:
        file = find_model_file(given)
        header, arrays = store.read(file)
        if cls is None and (other := _find_other(header)) is not None:
            return other.load(file)
        if model is not None:
            header = _hand_over(header, tuple(model) if isinstance(model, (list, tuple)) else (model,))
        level = header.pop("level", None)
        learner = _make_learner(file, header, arrays, cls)
        warn_if_level_differs(f"{file} was saved", level, stacklevel=5)
        return learner

    return read_consistently(given, read)


def find_model_file(path: Path) -> Path:
    """Return the file of the model that the folder of a run names; any other path as it is."""
    if not path.is_dir() or find_kind(path) is None:
        return path
    state = read_state(path, "run")
    with explain_damage(path):
        if state["model"] is None:
            raise ModelFileError(f"{path}: this run has learned no row yet; continue it with --resume")
        return regular_file(path, state["model"])


def _make_learner(
    path: str | os.PathLike[str], header: store.Header, arrays: Arrays, cls: type[Learner] | None
) -> Learner:
    """Return the learner that a file describes, whatever the file holds."""
    try:
        learner = learner_from_snapshot(header, arrays, cls)
        _try(learner)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())  # a header made to mislead: whatever it broke
        raise ModelFileError(f"{path}: the header does not describe a learner ({why:.200})") from None
    return learner


def _find_other(header: store.Header) -> Any:
    """Return the class of a file that holds no learner, but something else of undrift's with a `load` of its own."""
    found = getattr(undrift, str(header.get("class")), None)
    return found if isinstance(found, type) and not issubclass(found, Learner) and hasattr(found, "load") else None


def _hand_over(header: store.Header, models: tuple[object, ...]) -> store.Header:
    """Return a header whose learners, members of ensembles too, are given the models that files do not hold."""
    parts = {name: _hand_over(one, models) if isinstance(one, dict) else one for name, one in header.items()}
    return {**parts, "given_models": models} if "model" in header else parts  # type: ignore[dict-item]  # no file sees it


def _try(learner: Learner) -> None:
    """Refuse arrays that no learner writes: every number is finite, but together they predict none."""
    if learner.dim is None:
        return
    with np.errstate(all="ignore"):
        yhat = learner._predict(np.ones((1, learner.dim)))
    if not np.isfinite(yhat).all():
        raise ModelFileError(f"{_check.name_of(learner)}: the saved arrays do not fit together, it predicts no number")


def learner_from_snapshot(header: store.Header, arrays: Arrays, cls: type[Learner] | None = None) -> Learner:
    """Return the learner that a snapshot describes."""
    if not isinstance(header, dict):
        raise ModelFileError(f"{header!r:.60} describes no learner")
    name = header.get("class")
    found = cls if cls is not None else getattr(undrift, str(name), getattr(undrift.ensemble, str(name), None))
    if cls is None and _find_other(header) is not None:
        raise ModelFileError(f"holds a {name}, which is no learner")
    if not (isinstance(found, type) and issubclass(found, Learner)) or found is Learner:
        raise ModelFileError(
            f"{name!r} is not a learner of this undrift; upgrade, or pass cls= for a class of your own"
        )
    if found.__name__ != name:
        raise ModelFileError(f"holds a {name}, not a {found.__name__}")
    return found._from_snapshot(header, arrays)
