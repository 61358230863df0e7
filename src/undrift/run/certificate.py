"""Certificates of a run: its regret against comparators in hindsight, and a bound on it, term by term."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, DataError, InputError
from undrift.losses import Loss, logistic, squared
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.base import OnlineLearner
from undrift.regret import Certificate, Leaf, certify, comparators
from undrift.run.directory import RunDirectory, State
from undrift.run.encode import Encoder
from undrift.run.plan import PREFIX, make_plan
from undrift.run.player import fresh_model
from undrift.run.settings import Settings
from undrift.run.source import Source
from undrift.trace import Trace

LONGEST = 200_000
"""Rounds that are certified; of a longer run, the first ones."""
WORK = 2e8
"""... and fewer where there are many features: rounds times their square."""
PIECES, ROUNDS_A_PIECE = 20, 50
SMOOTH = 1e4
"""Price of the smooth comparator's squared steps, in scaled features."""
MOVES = 400
"""Moves of the smooth comparator for two classes, where each one costs a pass over the rounds."""
SHORTEST = 100.0
"""Memories below so many rounds, and answers hinted by the last label, give no useful bound; leaving them out saves
time and can only make the bound looser."""

Words = dict[str, Any]


class _Leaves:
    """The linear memories inside a model as leaves that were played once, for several comparators."""

    def __init__(self, model: OnlineLearner, rows: Table, y: Vector) -> None:
        self.binary = model.binary
        every = model.leaves(rows, y, None)
        quiet = [leaf for leaf in every if getattr(leaf.learner, "hint", "ridge") == "ridge"] or every
        self._played = [leaf for leaf in quiet if _gap(leaf) <= 1.0 / SHORTEST] or quiet

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the leaves, for comparators `u`."""
        return [replace(leaf, comparator=u) for leaf in self._played]


def _gap(leaf: Leaf) -> float:
    """Return 1 - beta."""
    return 1.0 - float(getattr(leaf.learner, "beta", 1.0))


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
    composite = _Leaves(linear, rows, y)
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
            partial(comparators.piecewise, loss=loss, segments=pieces, **limit),
        ),
    }
    smooth = partial(comparators.smooth, loss=loss, tau=SMOOTH, **limit)
    return out | {"smooth": (None, partial(_held, smooth) if loss is logistic else smooth)}


def _held(smooth: Callable[..., Matrix], Z: Matrix, y: Vector) -> Matrix:
    """Return a smooth comparator that moves at most `MOVES` times."""
    u = smooth(Z, y)
    step = -(-len(u) // MOVES)
    return np.asarray(u[np.minimum(np.arange(len(u)) // step * step + step // 2, len(u) - 1)])


def certify_run(directory: RunDirectory, state: State) -> tuple[list[Words], list[str]]:
    """Return the certificates of a run and notes about them; the source is read again."""
    settings = Settings.of(state["settings"])
    where = state["provenance"]["source"]
    if where["sha256"] is None:
        raise ConditionError(f"{directory.path}: rows of the standard input are gone; certify runs of files")
    try:
        source = Source(where["absolute"], settings)
        same = source.digest() == where["sha256"]
    except (InputError, DataError) as error:
        raise ConditionError(f"{directory.path}: its rows cannot be read again: {error}") from None
    if not same:
        raise ConditionError(
            f"{directory.path}: {where['path']} has changed since the run; certify needs the same rows"
        )
    table = directory.table(state)
    known = ~np.isnan(table["y"].fill_null(math.nan).to_numpy())
    width = 1 + len(state["features"])
    most = max(1000, min(LONGEST, int(WORK / width**2)))
    rounds = min(most, int(np.count_nonzero(known)))
    rows, y = rows_again(source, rounds, list(state["features"]))
    yhat = table["yhat"].to_numpy()[known][:rounds]
    if not np.array_equal(y[~np.isnan(y)], table["y"].to_numpy()[known][:rounds]):
        raise ConditionError(f"{directory.path}: the labels in its predictions are not those of {where['path']}")
    model = fresh_model(settings, state["task"])
    notes = []
    if rounds < np.count_nonzero(known):
        notes.append(f"The certificates cover the first {rounds:,} rounds of {np.count_nonzero(known):,}.")
    return certificates(model, rows, y, yhat), notes


def certified(out: str | Path) -> State:
    """Certify a finished run, and keep the certificates in its folder."""
    directory = RunDirectory(out)
    state = directory.state()
    if state["status"] != "finished":
        raise InputError(f"{directory.path}: the run is not finished; continue it with --resume")
    with directory.locked():
        found, notes = certify_run(directory, state)
        state["certificates"], state["notes"] = found, [*state["plan"]["notes"], *notes]
        directory.write_state(state)
    return state


def rows_again(source: Source, rounds: int, features: list[str]) -> tuple[Table, Vector]:
    """Return the rows of a source up to so many labelled ones, as the model saw them.

    A text that came later was 0 before; labels are NaN where missing.
    """
    batches = source.batches()
    head = list(islice(batches, PREFIX + 1))
    encoder = Encoder(source, make_plan(source, head[:PREFIX], whole=len(head) <= PREFIX))
    Z, y, left = [], [], rounds
    for batch in chain(head, batches):
        rows = encoder.encode(batch)
        reached = np.flatnonzero(np.cumsum(~np.isnan(rows.y)) == left)
        count = int(reached[0]) + 1 if len(reached) and left else len(rows.y)
        wide = np.zeros((count, len(features)))
        wide[:, : rows.Z.shape[1]] = rows.Z[:count]
        Z.append(wide)
        y.append(rows.y[:count])
        left -= int(np.count_nonzero(~np.isnan(y[-1])))
        if left <= 0:
            break
    return Table(features, np.concatenate(Z)), np.concatenate(y)
