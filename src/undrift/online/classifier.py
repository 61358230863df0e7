"""OnlineClassifier: probabilities of classes on a drifting stream, with nothing to tune."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import EstimatorNumber
from undrift.learners.base import Prediction
from undrift.losses import sigmoid
from undrift.online.any_label_files import AnyLabelFiles
from undrift.online.label_kinds import Label, label_array, plain_number
from undrift.online.rows import Rows


class OnlineClassifier(AnyLabelFiles):
    r"""Classes on a drifting stream without parameters: scaling, holes, memory, curvature and bends are learned.

    Families of memories look at a row in several ways: linear in its features, at three curvatures; in context, beside
    the last labels and each feature's distance from its running means; and, unless `speed="fast"`, through random
    waves, hinges and products of pairs. Each family mixes its memories; a second level of discounted AIOLI follows the
    best drifting combination of their log-odds; the last, mixable mixer chooses among level 2, the families and the
    naive baselines.

    Parameters
    ----------
    speed
        "best"; "max": a second boosted forest, and both refitted more often, 3 to 5 times slower, not for fleets;
        "fast": linear and in context alone, 5 to 8 times faster; or "light": linear and the last labels alone, by far
        the smallest, for many keys.
    indicators
        Add for every feature another one that is 1 where its value was missing.
    seed
        Of the random waves and of the pairs that are multiplied.
    half_life
        One memory length in rounds for every stage, in place of learned ones.
    candidates
        Columns that hold probabilities of the second class made elsewhere (a foundation model, yesterday's batch
        model): names, or column numbers for arrays. They are never features: level 2 and the last mixer use them, and
        in the end they, their mean and their median are combined with the own prediction; `cost()` covers all of these.
        A missing one counts as the own prediction in that row.
    trees
        Whether "best" and "max" grow boosted trees beside all else, whose predictions are one more candidate: over the
        row and the last label, refitted at 256, 384, 576, ... labelled rows, each time on the last 32,768 rows at
        most (2^19 numbers). At "best" they are not grown for rows of more than 40 features, nor at any speed before 256
        labelled rows. False saves up to 5 MB of memory and model file, and half the time. Fleets never grow trees.

    Notes
    -----
    Labels are 0 and 1, -1 and +1, False and True; or texts or whole numbers of any kind, of two classes or more, and a
    class may appear at any time. From the third class on there is an estimator for each class against the rest, K times
    the cost of one; level 2 is softmax regression over their log-odds, and the last mixer mixes probabilities. A share
    1/(t + 1) is kept for a class not seen yet, which scores its first appearance.

    `predict` gives a label as it was given, `predict_proba` the probabilities of the labels `columns`. Of two classes,
    `log_odds` are those of the label +1 (1, True), and what a `Trace` holds; of any other labels it holds
    log-probabilities (T, K) in the order of `classes`, a class's share before it appeared. Log-loss exceeds that of
    every candidate, base rate and "same as last time" among them, by at most `cost()`, whatever happens.

    With labels D rows late the first D rows are predicted without any label. Until the first prediction is judged, D
    rows later, predictions are halfway (in log-odds) between the base rate and what the labels known so far favour.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> y = rng.random(500) < 1 / (1 + np.exp(-4 * Z[:, 0]))
    >>> model = OnlineClassifier(speed="fast")
    >>> trace = model.play(Z, y)
    >>> model.predict([1.0, 0.0]), bool(model.log_odds([1.0, 0.0]) > 2.0)
    (True, True)
    >>> bool(model.predict_proba([1.0, 0.0])[1] > 0.9)
    True
    """

    binary = True

    def __init__(
        self,
        *,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        candidates: Sequence[str] | Sequence[int] | None = None,
        trees: bool = True,
    ) -> None:
        super().__init__(
            speed=speed,
            indicators=indicators,
            seed=seed,
            half_life=half_life,
            candidates=candidates,
            trees=trees,
        )
        self._label_names: tuple[Label, Label] = (0, 1)

    def predict(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the more probable label of the coming round, as it was given; an array for several rows.

        Rows are arrays (d,) or (n, d), mappings of names to numbers, lists of those, or data frames. NaN is missing.
        `elapsed` is the time since the row before, 1 by default.
        """
        if self._several is not None:
            return self._predict_label(z, elapsed)
        score = self._score(z, elapsed)
        negative, positive = self._label_names
        if isinstance(score, float):  # of one row
            return positive if score > 0.0 else negative
        return np.where(np.asarray(score) > 0.0, positive, negative)

    def predict_proba(self, z: Rows, *, elapsed: float | None = None) -> Vector:
        """Return the probabilities of the labels in the order of `classes`, (K,) for one row, (n, K) for several.

        Of two classes called 0 and 1, -1 and 1, or False and True: of the negative and the positive one, seen or not.
        """
        if self._several is not None:
            return self._predict_probabilities(z, elapsed)
        score = np.asarray(self._score(z, elapsed))
        return np.stack([sigmoid(-score), sigmoid(score)], axis=-1)

    def log_odds(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the log-odds of the label +1 (1, True) for the coming round; nothing changes."""
        if self._several is not None:
            raise InputError(
                f"{_check.name_of(self)}: log_odds are of two classes called 0 and 1, -1 and 1, or False and True, got "
                f"{self.classes}; use predict_proba"
            )
        return self._score(z, elapsed)

    def _plain_label(self, y: object) -> float | None:
        if self._several is not None:
            return None
        negative = self._label_names[0]
        if isinstance(y, (bool, np.bool_)):
            return (1.0 if y else -1.0) if negative is False else None
        number = plain_number(y)
        return None if number is None else 1.0 if number == 1 else -1.0 if number == negative else None

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count, nan=True)
        known = labels[~np.isnan(labels)]
        if len(np.unique(known)) > 2:
            raise InputError(
                f"{_check.name_of(self)}: y must have two classes here, got {len(np.unique(known))} different labels"
            )
        return super()._labels(y, count)

    def _name_labels(self, y: object) -> None:
        given = label_array(y)
        if given.dtype.kind == "b" or getattr(getattr(y, "dtype", None), "kind", "") == "b":
            self._label_names = (False, True)
        elif np.any(given == -1):
            self._label_names = (-1, 1)

    def _count(self) -> None:
        """Take the counts from the state, and keep in it how labels are called."""
        super()._count()
        if self._several is not None:
            return
        at, (negative, _) = self._plan.layout.starts["numbers"], self._label_names
        self._state[at + EstimatorNumber.NEGATIVE_LABEL] = float(negative)
        self._state[at + EstimatorNumber.BOOLEAN_LABELS] = float(negative is False)

    def _adopt_state(self) -> None:
        boolean, negative = (self._number(EstimatorNumber[name]) for name in ("BOOLEAN_LABELS", "NEGATIVE_LABEL"))
        if negative not in (0.0, -1.0) or boolean not in (0.0, 1.0):
            raise ModelFileError(f"{_check.name_of(self)}: the saved names of the labels cannot be used")
        self._label_names = (False, True) if boolean else (int(negative), 1)
        super()._adopt_state()
