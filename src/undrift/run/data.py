"""RunData: everything a run left behind, as plain arrays and words; what the report and `certify` read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector

Words = Mapping[str, Any]
"""A JSON object: words, numbers, lists, and objects again."""
Times = NDArray[np.datetime64]
"""Instants in microseconds, UTC where the source said so."""
Lines = NDArray[np.int64]
"""Line numbers of a text file, row numbers of a Parquet file; from 1."""


@dataclass(frozen=True, eq=False)
class RunData:
    """A finished (or interrupted) run over T rounds, with K snapshots of what the model believed.

    A round is a labelled row; rows whose label is missing are predicted and stored, but are not here.
    """

    settings: Words
    """What was asked for, as in a settings file."""
    provenance: Words
    """Versions, kernel level, source (path, size, sha256), started, finished, seconds, command."""
    task: str
    """"regression" or "classification"."""
    target: str
    """Name of the column that was predicted."""
    features: Sequence[str]
    """What the model saw: columns, and features made of columns ("city=Oslo", "hour sin", "load 24 rows ago")."""
    classes: Sequence[str] | None
    """The two labels as they stand in the source, the negative one first; None for regression."""
    line: Lines
    """Where each round's row stands in the source (T,)."""
    time: Times | None
    """When each round was (T,), NaT where that is missing; None without a time column."""
    y: Vector
    """Labels (T,), 0 and 1 for classification."""
    yhat: Vector
    """Predictions made before the label was seen (T,); log-odds of label 1 for classification."""
    lower: Vector | None
    """Lower end of the 90% interval, made before the label was seen (T,); None for classification."""
    upper: Vector | None
    """Its upper end."""
    baselines: Mapping[str, Vector]
    """Naive predictions on the scale of `yhat` (T,), by name."""
    spectrum_round: Vector
    """Rounds after which snapshots were taken (K,)."""
    half_lives: Vector
    """Memory lengths in rounds (N,), ascending; infinity never forgets."""
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
    certificates: Sequence[Words] = ()
    """One for each comparator: name, leaf, regret, start, stability, variation, potential_drift, excess, bound, slack,
    ratio, comparator_loss, own_loss, rounds, refit_every (or None), refused (a sentence, or None)."""
    problems: Sequence[Words] = ()
    """What was wrong with the data: kind, column (or None), count, lines (the first few), note."""
    notes: Sequence[str] = field(default_factory=tuple)
    """What the reader must know: assumptions that failed, things left out."""

    @property
    def rounds(self) -> int:
        """Finished rounds, T."""
        return len(self.y)
