"""Certificates of a run: its regret against comparators in hindsight, and a bound on it, term by term."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, DataError, InputError
from undrift.losses import Loss, logistic, squared
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.base import OnlineLearner
from undrift.regret import Certificate, Leaf, certify, comparators
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_model import make_model
from undrift.run.play.runner import play_file
from undrift.run.play.state import RunState, settings_of
from undrift.run.prepare.load_rows import load_rows
from undrift.run.read.source import Source
from undrift.trace import Trace

LONGEST = 200_000
"""Rounds that are certified; of a longer run, the first ones."""
WORK, LEAST = 2e8, 1000
"""... and fewer where there are many features: rounds times their square, but so many at least."""
SMOOTH_NUMBERS = 1.4e7
"""The smooth comparator keeps some 45 bytes for each of so many numbers, rounds times columns squared: 0.6 GB."""
PIECES, ROUNDS_A_PIECE = 20, 50
PULL = 1.0
"""Rounds of the best fixed comparator in every piece: short ones would fit noise."""
SMOOTH = 1e4
"""Price of the smooth comparator's squared steps, in scaled features."""

MOVES = 400
"""Moves of the smooth comparator for two classes."""
LOGISTIC = 3
"""Leaves that are certified for two classes, the cheapest ones; each takes seconds."""

Words = dict[str, Any]


class _LinearLeaves:
    """The linear memories inside a model as leaves that were played once, for several comparators.

    Answers hinted by the last label, curvatures that cover fewer comparators, and memories of two classes that pay most
    for stability never gave the better bound where we tried, and every other memory is close to its neighbours; leaving
    them out saves time and can only make the bound looser.
    """

    def __init__(self, model: OnlineLearner, rows: Table, y: Vector) -> None:
        self.binary = model.binary
        every = model.leaves(rows, y, None)
        flattest = min(_number(leaf, "curvature") for leaf in every)
        some = [leaf for leaf in every if _number(leaf, "curvature") == flattest and _hint(leaf) != "last"]
        self._played = sorted(some, key=_price)[:LOGISTIC] if model.binary else [*some[:1], *some[1::2]]

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the leaves, for comparators `u`."""
        return [replace(leaf, comparator=u) for leaf in self._played]


def _price(leaf: Leaf) -> float:
    """Return what a leaf's certificate costs before any comparator is known: its stability, less what it lost."""
    stability = leaf.trace.stability
    loss = logistic.value(leaf.trace.yhat, leaf.y)
    return math.inf if stability is None else float(np.sum(stability) - np.sum(loss))


def _number(leaf: Leaf, name: str) -> float:
    return float(getattr(leaf.learner, name, 1.0))


def _hint(leaf: Leaf) -> str:
    return str(getattr(leaf.learner, "hint", ""))


def certificates(model: OnlineLearner, rows: Table, y: Vector, yhat: Vector) -> list[Words]:
    """Return one certificate for each comparator; one that is refused says why.

    Parameters
    ----------
    model
        The estimator that played, or one with the same parameters.
    rows, y
        Rows of the run from its first one; labels are NaN where they never came.
    yhat
        What it said about the labelled ones.
    """
    cls = OnlineClassifier if model.binary else OnlineRegressor
    linear = cls(**{**model.parameters, "speed": "fast"})  # type: ignore[arg-type]  # its own parameters
    loss: Loss = logistic if model.binary else squared
    design = linear.design(rows, y)
    own, rounds = float(np.sum(loss.value(yhat, design.labels))), len(yhat)
    limit = {"margin": design.margin} if math.isfinite(design.margin) else {}
    composite = _LinearLeaves(linear, rows, y)
    out = []
    for name, (every, find) in _opponents(rounds, loss, limit).items():
        words: Words = {"name": name, "rounds": rounds, "refit_every": every, "own_loss": own, "refused": None}
        try:
            u = find(design.rows, design.labels)
            found = certify(composite, design.rows, design.labels, Trace(yhat), u, loss)
            out.append(words | _terms(found))
        except (ConditionError, np.linalg.LinAlgError) as error:
            out.append(words | dict.fromkeys(_TERMS) | {"leaf": None, "holds": None, "refused": str(error)})
    return out


_TERMS = (
    "regret", "start", "stability", "variation", "potential_drift", "excess", "bound", "slack", "ratio",
    "comparator_loss",
)  # fmt: skip


def _terms(found: Certificate) -> Words:
    numbers = {name: float(getattr(found, name)) for name in _TERMS}
    plain = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return plain | {"leaf": found.leaf, "holds": bool(found.holds)}


def _opponents(rounds: int, loss: Loss, limit: dict[str, float]) -> dict[str, tuple[int | None, Callable[..., Any]]]:
    """Return the comparators by name, how often each is refitted, and how to find it."""
    pieces = max(2, min(PIECES, rounds // ROUNDS_A_PIECE))
    out: dict[str, tuple[int | None, Callable[..., Any]]] = {
        "best fixed": (None, partial(comparators.fixed, loss=loss, **limit)),
        f"{pieces} pieces": (
            -(-rounds // pieces),
            partial(comparators.piecewise, loss=loss, segments=pieces, pull=PULL, **limit),
        ),
    }
    return out | {"smooth": (None, partial(_smooth, loss=loss, margin=limit.get("margin", math.inf)))}


def _smooth(Z: Matrix, y: Vector, loss: Loss, margin: float = math.inf) -> Matrix:
    """Return the smooth comparator; with a margin, one that moves at most `MOVES` times, each shrunk to keep it.

    Shrinking T different comparators would take T^2 products.
    """
    numbers = Z.shape[0] * Z.shape[1] ** 2
    if numbers > SMOOTH_NUMBERS:
        raise ConditionError(
            f"the smooth comparator of {Z.shape[0]:,} rounds and {Z.shape[1]} columns would take about "
            f"{45 * numbers / 1e9:.1f} GB; certify a shorter run (--limit) to have it"
        )
    u = comparators.smooth(Z, y, loss, tau=SMOOTH)
    if math.isinf(margin):
        return u
    step = -(-len(u) // MOVES)
    held = u[step // 2 :: step] if len(u) > step // 2 else u[:1]
    held = held * np.minimum(1.0, margin / np.maximum([np.max(np.abs(Z @ one)) for one in held], 1e-300))[:, None]
    return np.asarray(held[np.minimum(np.arange(len(u)) // step, len(held) - 1)])


def _certificates_of_rows(folder: RunFolder, state: RunState) -> tuple[list[Words], list[str]]:
    """Return the certificates of a run and notes about them; the source is read again."""
    settings = settings_of(folder.path, state)
    source = _source(folder, state)
    table = folder.table(state)
    known = ~np.isnan(table["y"].fill_null(math.nan).to_numpy())
    width = 1 + len(state["features"])
    most = max(LEAST, min(LONGEST, int(WORK / width**2)))
    rounds = min(most, int(np.count_nonzero(known)))
    rows, y, _ = load_rows(source, rounds)
    yhat = table["yhat"].to_numpy()[known][:rounds]
    if not np.array_equal(y[~np.isnan(y)], table["y"].to_numpy()[known][:rounds]):
        raise ConditionError(f"{folder.path}: the labels in its predictions are not those of {source.name}")
    model = make_model(settings, state["task"])
    notes = []
    if rounds < np.count_nonzero(known):
        notes.append(f"The certificates cover the first {rounds:,} rounds of {np.count_nonzero(known):,}.")
    return certificates(model, rows, y, yhat), notes


def _source(folder: RunFolder, state: RunState, *, whole: bool = False) -> Source:
    """Return the rows of a run, if they are still the same; a file may have grown since, unless it must be `whole`."""
    where = state["provenance"]["source"]
    if where["sha256"] is None or where["absolute"] is None:
        raise ConditionError(f"{folder.path}: rows of the standard input are gone; certify runs of files")
    try:
        source = Source(where["absolute"], settings_of(folder.path, state), size=None if whole else where["size"])
    except (InputError, DataError) as error:
        raise ConditionError(f"{folder.path}: its rows cannot be read again: {error}") from None
    if source.digest() != where["sha256"]:
        raise ConditionError(f"{folder.path}: {where['path']} has changed since the run; certify needs the same rows")
    return source


def certify_run(out: str | Path) -> RunState:
    """Certify a finished run, and keep the certificates in its folder."""
    folder = RunFolder(out)
    folder.state()  # refuse what is no run before anything is made there
    with folder.hold_lock():
        state = folder.state()
        folder.take_over(state)
        folder.sweep(state)
        if state["status"] != "finished":
            raise InputError(f"{folder.path}: the run is not finished; continue it with --resume")
        try:
            found, notes = _certificates_of_rows(folder, state)
        except ConditionError as error:
            folder.write_state(state | {"notes": [*state["plan"]["notes"], f"Not certified: {error}."]})
            raise
        state["certificates"], state["notes"] = found, [*state["plan"]["notes"], *notes]
        folder.write_state(state)
    return state


def replay_run(out: str | Path) -> bool:
    """Play a finished run again; return whether it predicts the same bits."""
    folder = RunFolder(out)
    state = folder.state()
    with tempfile.TemporaryDirectory() as temporary:
        again = play_file(_source(folder, state, whole=True).name, temporary, settings_of(folder.path, state))
        mine, theirs = folder.table(state), RunFolder(temporary).table(again)
    return mine.columns == theirs.columns and all(
        mine[name].to_numpy().tobytes() == theirs[name].to_numpy().tobytes() for name in mine.columns
    )
