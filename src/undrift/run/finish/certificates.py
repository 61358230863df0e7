"""Certificates of a run: its regret against comparators in hindsight, and a bound on it, term by term.

The comparators (`run_comparators`) are chosen in hindsight: fixed, in pieces, and smooth.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift._internal.state_file import explain_damage
from undrift._internal.stopping import StopRequest
from undrift._typing import Matrix, Vector
from undrift.errors import ConditionError, InputError
from undrift.losses import Loss, logistic, squared
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.design import centre_comparators
from undrift.online.estimator import OnlineEstimator
from undrift.regret import Certifiable, Certificate, HindsightLeaves, Leaf, certify, comparators
from undrift.run.finish.run_data import read_numbers
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import RunLoop
from undrift.run.play.state import NOT_CERTIFIED, RunState, settings_of
from undrift.run.play.update import learn_more, learned_batches, list_learned
from undrift.run.read.rows_in_order import encode_rows
from undrift.stream.extras import polars
from undrift.stream.features import Features
from undrift.stream.model import make_model
from undrift.stream.schema import Schema
from undrift.trace import Trace

MAX_ROUNDS = 200_000
"""Rounds that are certified; of a longer run, the first ones."""
MAX_WORK, MIN_ROUNDS = 2e8, 1000
"""Rounds times the square of the features, at most, but so many rounds at least: wide runs are certified in part."""
REFUSED_WORK = 1.5e9
"""Runs that are so wide that even these few rounds would be more work are not certified."""
CLASSIFIER_LEAVES = 3
"""Leaves that are certified for two classes, the cheapest ones; each takes seconds."""

CertificateEntry = dict[str, Any]
"""A certificate as `run.json` holds it."""
CertifyProgress = Callable[[str, float], object]
"""Called with what is being done, and with the share of all that is done."""


def ignore_progress(*report: object) -> None:
    """Do nothing."""


class _LinearLeaves:
    """Some of the linear learners inside a model as leaves, played once and certified against several comparators.

    Left out are learners hinted by the last label, those with a larger curvature (which cover fewer comparators), for
    two classes all but the cheapest, and for numbers every other memory length, which is close to its neighbours. None
    of them gave the better bound where we tried; leaving them out saves time and can only make the bound looser.
    """

    def __init__(self, model: OnlineEstimator, rows: Table, y: Vector) -> None:
        self.binary, self._model = model.binary, model
        every = model.leaves(rows, y, None)
        flattest = min(_curvature(leaf) for leaf in every)
        some = [leaf for leaf in every if _curvature(leaf) == flattest and getattr(leaf.learner, "hint", "") != "last"]
        kept = sorted(some, key=_price)[:CLASSIFIER_LEAVES] if model.binary else [*some[:1], *some[1::2]]
        self._leaves = [replace(leaf, learner=_promise(leaf)) for leaf in kept]

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the leaves, for comparators `u`."""
        path = None if u is None else centre_comparators(u, self._model.label_center(y))
        return [replace(leaf, comparator=path) for leaf in self._leaves]


def _promise(leaf: Leaf) -> object:
    """Return a leaf's promise, which needs the run to be played again, once for all comparators."""
    return leaf.learner.template(leaf.Z, leaf.y) if isinstance(leaf.learner, Certifiable) else leaf.learner


def _price(leaf: Leaf) -> float:
    """Return what a leaf's certificate costs whatever the comparator: its stability, less its own loss."""
    stability = leaf.trace.stability
    loss = logistic.value(leaf.trace.yhat, leaf.y)
    return math.inf if stability is None else float(np.sum(stability) - np.sum(loss))


def _curvature(leaf: Leaf) -> float:
    return float(getattr(leaf.learner, "curvature", 1.0))


def certificates(
    model: OnlineEstimator, rows: Table, y: Vector, yhat: Vector, progress: CertifyProgress = ignore_progress
) -> list[CertificateEntry]:
    """Return one certificate for each comparator; one that is refused says why.

    Parameters
    ----------
    model
        The estimator that played, or one with the same parameters.
    rows, y
        Rows of the run from its first one; labels are NaN where they never came.
    yhat
        Its predictions of the labelled ones, NaN for those served before any label was known. These are left out:
        neither the run nor a comparator is charged for them.
    progress
        Called with what is being done, and with the share of all that is done.
    """
    progress("certifying: what its learners promise", 0.0)
    cls = OnlineClassifier if model.binary else OnlineRegressor
    linear = cls(**{**model.parameters, "speed": "fast"})  # type: ignore[arg-type]  # its own parameters
    loss: Loss = logistic if model.binary else squared
    design = linear.design(rows, y)
    known = ~np.isnan(yhat)
    own, rounds = float(np.sum(loss.value(yhat[known], design.labels[known]))), len(yhat)
    margin = design.margin if math.isfinite(design.margin) else None
    promised, after = _LinearLeaves(linear, rows, y), HindsightLeaves(binary=model.binary)
    out: list[CertificateEntry] = []
    opponents = run_comparators(rounds, design.rows.shape[1], loss, margin)
    for k, one in enumerate(opponents):
        progress(f"certifying against {one.words}", (k + 1) / (len(opponents) + 1))
        entry = {name: getattr(one, name) for name in ("name", "words", "kind", "refit_every")}
        entry |= {"rounds": rounds, "own_loss": own, "refused": None}
        try:
            u = one.find(design.rows, design.labels)
            rival = np.sum(u * design.rows, axis=1)
            # Where nothing was predicted the run is given the comparator's answer, so that no regret arises.
            trace = Trace(np.where(known, yhat, rival))
            left_out = float(np.sum(loss.value(rival[~known], design.labels[~known])))
            found, proven = (
                certify(leaves, design.rows, design.labels, trace=trace, u=u, loss=loss) for leaves in (promised, after)
            )
            theirs = found.comparator_loss - left_out
            out.append(entry | _terms(found, theirs) | {"hindsight": _hindsight(proven, own)})
        except (ConditionError, np.linalg.LinAlgError) as error:
            nothing = dict.fromkeys((*_TERMS, "leaf", "holds", "vacuous", "hindsight"))
            out.append(entry | nothing | {"refused": str(error)})
    return out


_TERMS = (
    "regret", "start", "stability", "variation", "potential_drift", "excess", "bound", "slack", "ratio",
    "comparator_loss",
)  # fmt: skip


def _terms(found: Certificate, comparator_loss: float) -> CertificateEntry:
    """Return the numbers of a certificate, those that depend on the comparator's loss for this one."""
    numbers = {name: float(getattr(found, name)) for name in _TERMS} | {"comparator_loss": comparator_loss}
    certified = comparator_loss + found.bound  # the loss, as a multiple of the comparator's
    numbers["ratio"] = certified / comparator_loss if comparator_loss > 0.0 else math.inf
    plain = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return plain | {"leaf": found.leaf, "holds": bool(found.holds), "vacuous": bool(found.vacuous)}


def _hindsight(found: Certificate, own_loss: float) -> CertificateEntry:
    """Return what is proven against all comparators of a kind, once the run is over."""
    share = proven_share(own_loss, found.bound)
    finite = 1.0 + share if math.isfinite(share) else None
    return {"bound": float(found.bound), "ratio": finite, "holds": bool(found.holds), "leaf": found.leaf}


def proven_share(own_loss: float, bound: float) -> float:
    """Return how far a loss is at most above that of any comparator of a kind, as a share of the latter's loss.

    Each of them lost at least the own loss less the bound, which may be less than the comparator lost that was found;
    infinite where it may have lost nothing.

    >>> round(proven_share(103.0, 10.0), 4)
    0.1075
    """
    least = own_loss - bound
    return bound / least if least > 1e-12 * abs(own_loss) else math.inf


def _certify_rows(
    folder: RunFolder, state: RunState, progress: CertifyProgress
) -> tuple[list[CertificateEntry], list[str]]:
    """Return the certificates of a run and notes about them; its files are read again."""
    if state["task"] == "multiclass":
        raise ConditionError(
            f"{folder.path}: proofs cover runs that predict a number or one of two classes, and this one predicts one "
            "of several; its scores were measured and stand without a proof"
        )
    settings = settings_of(folder.path, state)
    if settings.weight is not None or settings.elapsed:
        raise ConditionError(
            f"{folder.path}: proofs cover runs in which every row counts once and memories forget by rows, and this "
            "one has --weight or --elapsed; its scores were measured and stand without a proof"
        )
    progress("certifying: reading the rows again", 0.0)
    table = read_numbers(folder, state)
    known = ~np.isnan(table["y"].fill_null(math.nan).to_numpy())
    width = 1 + len(state["features"])
    most = max(MIN_ROUNDS, min(MAX_ROUNDS, int(MAX_WORK / width**2)))
    rounds = min(most, int(np.count_nonzero(known)))
    if rounds * width**2 > REFUSED_WORK:
        raise ConditionError(
            f"{folder.path}: certifying {rounds:,} rounds of {width:,} columns would take many minutes; leave columns "
            "out (--drop, --features)"
        )
    files = list_learned(folder, state)
    with explain_damage(folder.path):
        features = Features(settings, Schema.from_dict(state["plan"], state["plan"]["time"]))
    loaded = encode_rows(features, learned_batches(files, features), rounds)
    rows, y = Table(features.names, loaded.Z), loaded.y
    yhat = table["yhat"].fill_null(math.nan).to_numpy()[known][:rounds]
    if not np.array_equal(y[~np.isnan(y)], table["y"].to_numpy()[known][:rounds]):
        raise ConditionError(f"{folder.path}: the labels in its predictions are not those of {files[0].path}")
    model = make_model(settings, state["task"])
    notes = []
    if rounds < np.count_nonzero(known):
        notes.append(
            f"The certificates cover the first {rounds:,} rounds of {np.count_nonzero(known):,}: with {width} columns, "
            "more would take minutes."
        )
    return certificates(model, rows, y, yhat, progress), notes


def certify_run(out: str | Path, progress: CertifyProgress = ignore_progress) -> RunState:
    """Certify a finished run, and keep the certificates in its folder; an update makes them anew.

    `progress` is called with what is being done, and with the share of all that is done.
    """
    folder = RunFolder(out)
    folder.state()  # refuse other folders before anything is written
    with folder.hold_lock():
        state = folder.state()
        folder.adopt_files(state)
        folder.sweep(state)
        if state["status"] != "finished":
            raise InputError(f"{folder.path}: the run is not finished; continue it with --resume")
        try:
            found, notes = _certify_rows(folder, state, progress)
        except ConditionError as error:
            why = str(error).removeprefix(f"{folder.path}: ")
            notes = [f"{NOT_CERTIFIED}: {why}."]
            folder.write_state(state | {"certify": True, "notes": [*state["plan"]["notes"], *notes]})
            raise
        state |= {"certify": True, "certificates": found, "notes": [*state["plan"]["notes"], *notes]}
        folder.write_state(state)
    return state


def replay_run(out: str | Path) -> bool:
    """Play a finished run again, with its updates; return whether it predicts the same bits."""
    folder = RunFolder(out)
    state = folder.state()
    first, *later = list_learned(folder, state)
    with tempfile.TemporaryDirectory() as temporary:
        twin = RunFolder(temporary)
        with twin.hold_lock():
            loop = RunLoop(first.open(), twin, "", ignore_progress, versions=1)
            loop.start(None)
            again = loop.play_all(ignore_progress, StopRequest(None))
            for file in later:
                again = learn_more(twin, again, file.open(), log=ignore_progress).state
        mine, theirs = folder.table(state), twin.table(again)
    return mine.columns == theirs.columns and all(
        mine[name].equals(theirs[name], null_equal=True)
        if mine[name].dtype == polars("a replay").String
        else mine[name].to_numpy().tobytes() == theirs[name].to_numpy().tobytes()
        for name in mine.columns
    )


PIECES, ROUNDS_PER_PIECE, ROUNDS_PER_COLUMN = 20, 50, 2
"""Pieces at most, and rounds of a piece at least, also for each column: one with fewer rows than columns fits all."""
PULL = 1.0
"""Weight in rounds of the best fixed comparator in every piece; without it short pieces would fit noise."""
SMOOTH_PRICE = 1e4
"""Price of the smooth comparator's squared steps, in scaled features."""
SMOOTH_KNOTS = 400
"""Points through which the smooth comparator goes in straight lines where its margin is limited."""
SMOOTH_NUMBERS = 1.4e7
"""The smooth comparator keeps some 45 bytes for each of so many numbers, rounds times columns squared: 0.6 GB."""


class RunComparator(NamedTuple):
    """One comparator, and the words that the command line and the report have for it."""

    name: str
    """Short, for tables."""
    words: str
    """Who it is, to follow "than" or "that of"."""
    kind: str
    """All comparators of its kind, likewise: what is proven in hindsight is proven against those of them whose
    coefficients are no larger than its own."""
    refit_every: int | None
    """Rounds of a piece; None where there are no pieces."""
    find: Callable[[Matrix, Vector], Matrix]
    """Returns the comparator of rows and labels."""


def run_comparators(rounds: int, width: int, loss: Loss, margin: float | None) -> list[RunComparator]:
    """Return the comparators of so many rounds and columns; `margin` is their largest prediction, None: any."""
    pieces = max(2, min(PIECES, rounds // max(ROUNDS_PER_PIECE, ROUNDS_PER_COLUMN * width)))
    every = -(-rounds // pieces)
    within = "" if margin is None else " and predicts no further from 0"
    return [
        RunComparator(
            "best fixed",
            "the best linear predictor that never changes",
            f"any linear predictor that never changes{within}",
            None,
            partial(comparators.fixed, loss=loss, margin=margin),
        ),
        RunComparator(
            f"{pieces} pieces",
            f"a linear predictor refitted every {every:,} rows on average",
            f"any linear predictor that changes at the same rows, by no more{within}",
            every,
            partial(_piecewise, loss=loss, pieces=pieces, margin=margin),
        ),
        RunComparator(
            "smooth",
            "a linear predictor that drifts smoothly",
            f"any linear predictor that drifts as slowly{within}",
            None,
            partial(_smooth, loss=loss, margin=margin),
        ),
    ]


def _piecewise(Z: Matrix, y: Vector, loss: Loss, pieces: int, margin: float | None) -> Matrix:
    """Return the comparator in pieces, unless they would have fewer rows than columns."""
    if len(Z) < pieces * ROUNDS_PER_COLUMN * Z.shape[1]:
        raise ConditionError(
            f"{pieces} pieces of {len(Z):,} rounds with {Z.shape[1]:,} columns would fit almost anything, and take "
            "long to find; leave columns out (--drop, --features) to have them"
        )
    return comparators.piecewise(Z, y, loss, segments=pieces, pull=PULL, margin=margin)


def _smooth(Z: Matrix, y: Vector, loss: Loss, margin: float | None) -> Matrix:
    """Return the smooth comparator; with a margin, `SMOOTH_KNOTS` points of it, shrunk to keep it, and lines between.

    Shrinking T different comparators would take T^2 products; what lies between two that keep a margin keeps it too.
    """
    numbers = Z.shape[0] * Z.shape[1] ** 2
    if numbers > SMOOTH_NUMBERS:
        raise ConditionError(
            f"the smooth comparator of {Z.shape[0]:,} rounds and {Z.shape[1]} columns would take about "
            f"{45 * numbers / 1e9:.1f} GB; certify a shorter run (--limit) to have it"
        )
    u = comparators.smooth(Z, y, loss, tau=SMOOTH_PRICE)
    if margin is None:
        return u
    knots = np.unique(np.round(np.linspace(0, len(u) - 1, SMOOTH_KNOTS)).astype(np.int64))
    widest = np.maximum([np.max(np.abs(Z @ u[k])) for k in knots], 1e-300)
    inside = u[knots] * np.minimum(1.0, margin * (1.0 - 1e-12) / widest)[:, None]
    return np.column_stack([np.interp(np.arange(len(u)), knots, column) for column in inside.T])
