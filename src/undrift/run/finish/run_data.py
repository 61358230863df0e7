"""RunData: everything a run left behind, as plain arrays and JSON values; what the report and `certify` read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from undrift import metrics, store
from undrift._internal.folder import regular_file
from undrift._internal.state_file import explain_damage, read_consistently
from undrift._typing import JsonObject, Matrix, Vector
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.online.inspection import GateUse
from undrift.run.play.recorder import LOG_ODDS
from undrift.run.play.run_folder import REPORT, RunFolder
from undrift.run.play.state import NOT_CERTIFIED, RunState
from undrift.stream.answers import probability_column
from undrift.stream.cells import Lines, Times
from undrift.stream.extras import polars

if TYPE_CHECKING:
    from polars import DataFrame


OWN = "undrift"
"""What the run's own predictions are called beside the baselines."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A finished (or interrupted) run over T rounds, with K snapshots of what the model believed.

    A round is a labelled row; rows whose label is missing are predicted and stored, but are not here.
    """

    settings: JsonObject
    """What was asked for, as in a settings file."""
    provenance: JsonObject
    """Versions, kernel level, started, finished, seconds, command."""
    learned: Sequence[JsonObject]
    """The ledger: what was learned, in order (path, absolute, sha256, size, rows, skipped, when, by)."""
    task: str
    """"regression", "classification" (two classes) or "multiclass"."""
    target: str
    """Name of the column that was predicted."""
    features: Sequence[str]
    """What the model saw: columns, and features made of columns ("city=Oslo", "hour sin", "load 24 rows ago")."""
    classes: Sequence[str] | None
    """Labels as they stand in the source: of two the negative one first, several in order of appearance; None for
    regression."""
    line: Lines
    """Where each round's row stands in the source (T,)."""
    time: Times | None
    """When each round was (T,), NaT where that is missing; None without a time column."""
    y: Vector
    """Labels (T,), 0 and 1 for two classes, the numbers of several ones."""
    yhat: Vector
    """Predictions made before the label was seen (T,): log-odds of label 1 for two classes, the number of the most
    likely one of several; NaN before any label."""
    lower: Vector | None
    """Lower end of the interval, made before the label was seen (T,); None for classification."""
    upper: Vector | None
    """Its upper end."""
    baselines: Mapping[str, Vector]
    """Naive predictions on the scale of `yhat` (T,), by name; NaN where it is."""
    spectrum_round: Vector
    """Rounds after which snapshots were taken (K,)."""
    half_lives: Vector
    """Memory lengths in rounds, or in `memory_unit` (N,), ascending; infinity never forgets."""
    spectrum: Matrix
    """Weight of each memory length (K, N); rows sum to 1."""
    candidates: Sequence[str]
    """Names of what the last mixer chooses from (C)."""
    candidate_weights: Matrix
    """Their weights (K, C); rows sum to 1."""
    coef_round: Vector
    """Rounds after which coefficients were read (K,)."""
    coef_names: Sequence[str]
    """Features, and "(intercept)" last."""
    coef: Matrix
    """Coefficients of the linear family's leading memory, per unit of the feature (K, d); NaN before it existed."""
    effects: Mapping[str, float] = field(default_factory=dict)
    """How far each column, cycle of the calendar or earlier label moves the predictions of the last rows, all features
    made of it at once; empty while the run goes on."""
    memory_unit: float | None = None
    """Seconds in a unit of `half_lives`, where memories forget by time (`--elapsed`); None where they count rounds."""
    families: Sequence[str] = ()
    """Kinds of models that level 2 adds up, and the last label (F); none of several classes."""
    combination: Matrix | None = None
    """Their coefficients in level 2 (K, F), NaN where none were kept; None where there are no families."""
    arms: Sequence[GateUse] = ()
    """How the raw and the robust arm of a regressor were used, by how far they disagreed; empty for classes."""
    then: Matrix | None = None
    """The first rows as the model saw them (n, features), missing values as NaN; None for runs that kept none."""
    now: Matrix | None = None
    """The last rows (n, features)."""
    probabilities: Matrix | None = None
    """Of several classes, by number (T, K), NaN where a class was not known yet; None otherwise."""
    class_losses: Mapping[str, Vector] = field(default_factory=dict)
    """Of several classes, the log-loss of the run ("undrift") and of every baseline (T,), NaN where nothing was
    predicted; empty otherwise."""
    certificates: Sequence[JsonObject] = ()
    """One for each comparator: name, words, kind, leaf, regret, start, stability, variation, potential_drift, excess,
    bound, slack, ratio, holds, vacuous, comparator_loss, own_loss, rounds, refit_every (or None), refused (a sentence,
    or None), and `hindsight` (or None): bound, ratio, holds and leaf of what is proven once the run is over."""
    problems: Sequence[JsonObject] = ()
    """What was wrong with the data: kind, column (or None), count, lines (the first few), note."""
    events: Sequence[JsonObject] | None = None
    """What changed on the way (kind, row: its line, feature or None, sentence), oldest first; None: nobody looked."""
    notes: Sequence[str] = field(default_factory=tuple)
    """What the reader must know: assumptions that failed, things left out."""

    @property
    def level(self) -> float:
        """Part of the labels that the intervals were made to hold."""
        return float(self.settings.get("level", 0.9))

    @property
    def rounds(self) -> int:
        """Finished rounds, T."""
        return len(self.y)

    @property
    def predicted(self) -> NDArray[np.bool_]:
        """Whether a label was known before each round, so that its prediction counts (T,)."""
        return ~np.isnan(self.yhat)

    def losses(self, name: str) -> Vector:
        """Return the losses, in certificates' units, of the rounds that the run (`OWN`) or a baseline predicted."""
        some = self.predicted
        if self.class_losses:
            return self.class_losses[name][some]
        yhat = self.yhat if name == OWN else self.baselines[name]
        return metrics.round_losses(yhat[some], self.y[some], binary=self.task == "classification")


def read_run(path: str | os.PathLike[str]) -> RunData:
    """Return what a run left behind, finished or not."""
    folder = RunFolder(path)

    def read() -> RunData:
        state = folder.state()
        with explain_damage(folder.path):
            return _read(folder, state)

    return read_consistently(folder.path, read)


def write_report(path: str | os.PathLike[str], render: Callable[[RunData, Path], object]) -> Path:
    """Write the report of the run that is in a folder, whole or not at all, and return where it is."""
    folder = RunFolder(path)
    with folder.hold_lock():
        data = read_run(folder.path)
        with folder.files.new_file(REPORT) as temporary:
            render(data, temporary)
    return folder.path / REPORT


def _notes(state: RunState) -> list[str]:
    notes = list(state["notes"])
    if state["status"] != "finished":
        notes.append(f"The run was interrupted after {state['rows']:,} rows; what follows is about those.")
    elif not state["certificates"] and not any(note.startswith(NOT_CERTIFIED) for note in notes):
        notes.append(f"{NOT_CERTIFIED} yet: undrift certify does that.")
    return notes


def _plain_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return numbers by name; anything else was not written by a run."""
    return {str(name): float(value) for name, value in values.items()}


def _kept_rows(arrays: Mapping[str, Vector], name: str) -> Matrix:
    """Return the first or the last rows."""
    if arrays[name].ndim != 2:
        raise ValueError(f"'{name}' holds no rows")
    return arrays[name]


def _read(folder: RunFolder, state: RunState) -> RunData:
    table = read_numbers(folder, state)
    names = baseline_names(state["task"], _naive_lags(state))
    more = _class_losses(table, state, names) if state["task"] == "multiclass" else {}
    table = table.filter(table["y"].is_not_null())
    _, arrays = store.read(regular_file(folder.path, state["trace"]))
    columns: dict[str, np.ndarray[Any, Any]] = {
        name: table[name].to_numpy() for name in table.columns if table[name].dtype.is_float()
    }
    used = arrays["combination"]
    families = [*state.get("combination", {})] if used.size else []
    if families and used.shape != (len(arrays["round"]), len(families)):
        raise ValueError("'combination' does not fit its families")
    return RunData(
        settings=state["settings"],
        provenance=state["provenance"],
        learned=state["learned"],
        task=state["task"],
        target=state["settings"]["target"],
        features=state["features"],
        classes=state["classes"],
        line=table["line"].to_numpy().astype(np.int64),
        time=table["time"].to_numpy().astype("datetime64[us]") if "time" in table.columns else None,
        y=columns["y"],
        yhat=columns["yhat"],
        lower=columns.get("lower"),
        upper=columns.get("upper"),
        baselines={name: columns[name] for name in names},
        spectrum_round=arrays["round"],
        half_lives=arrays["half_lives"],
        spectrum=arrays["spectrum"],
        candidates=state["candidates"],
        candidate_weights=arrays["weights"],
        coef_round=arrays["round"],
        coef_names=[*state["coefficients"], "(intercept)"] if arrays["coef"].shape[1] else [],
        coef=arrays["coef"],
        effects=_plain_numbers(state.get("effects", {})),
        memory_unit=state["plan"].get("spacing"),
        families=families,
        combination=arrays["combination"] if families else None,
        arms=[GateUse(float(beyond), int(rounds), float(raw)) for beyond, rounds, raw in state.get("arms", [])],
        then=_kept_rows(arrays, "then"),
        now=_kept_rows(arrays, "now"),
        certificates=state["certificates"],
        problems=state["problems"],
        events=state.get("events", []) if state["settings"].get("alert") else None,
        notes=_notes(state),
        **more,
    )


BASELINE_ROWS = 10_000
"""Rows for which the baselines' probabilities of several classes are worked out at a time."""


def read_numbers(folder: RunFolder, state: RunState) -> DataFrame:
    """Return the predictions of all rows on the scale of `RunData`: class numbers for labels, log-odds of two classes.

    What the baselines give each of two classes follows from the labels, so that no file holds it.
    """
    table, classes = folder.table(state), state["classes"]
    if not classes:
        return table
    pl = polars("a report")
    several, lags = state["task"] == "multiclass", _naive_lags(state)
    names = baseline_names(state["task"], lags)
    labels = ("y", "yhat", *names) if several else ("y",)
    numbered = [pl.col(name).replace_strict(classes, range(len(classes)), return_dtype=pl.Float64) for name in labels]
    table = table.with_columns(numbered)
    if several:
        return table
    y, known = table["y"].fill_null(math.nan).to_numpy(), table[LOG_ODDS].is_not_null().to_numpy()
    naive = Baselines(binary=True, delay=state["settings"].get("delay", 0), lags=lags).play(y)
    guesses = {name: np.where(known, odds, np.nan) for name, odds in zip(names, naive.T, strict=True)}
    return table.with_columns(pl.col(LOG_ODDS).alias("yhat"), **{k: pl.Series(v) for k, v in guesses.items()})


def _naive_lags(state: RunState) -> list[int]:
    """Return how many rows ago the labels are that naive guesses repeat, those the run had at least once."""
    return [lag for lag in state.get("naive_lags", []) if lag < state["rows"]]


def _class_losses(table: DataFrame, state: RunState, names: Sequence[str]) -> dict[str, Any]:
    """Return the probabilities and losses of the rounds of several classes, those of the baselines from the labels."""
    classes = state["classes"]
    y, yhat = (table[name].fill_null(math.nan).to_numpy() for name in ("y", "yhat"))
    labelled = ~np.isnan(y)
    p = np.column_stack([table[probability_column(one)].fill_null(math.nan).to_numpy() for one in classes])
    losses = {OWN: np.full(len(y), np.nan)} | {name: np.full(len(y), np.nan) for name in names}
    baselines = ClassBaselines(delay=state["settings"].get("delay", 0), lags=_naive_lags(state))
    judged = labelled & ~np.isnan(yhat)
    for a in range(0, len(y), BASELINE_ROWS):
        some = np.flatnonzero(judged[a : a + BASELINE_ROWS])
        naive = baselines.play(y[a : a + BASELINE_ROWS], len(classes))
        for name, given in zip(losses, (p[a : a + BASELINE_ROWS], *naive), strict=True):
            losses[name][a + some] = metrics.class_losses(given[some], y[a + some])
    found = {name: loss[labelled] for name, loss in losses.items()}
    return {"probabilities": p[labelled], "class_losses": found}
