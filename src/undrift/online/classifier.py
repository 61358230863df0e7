"""OnlineClassifier: probabilities of classes on a drifting stream, with nothing to tune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, store
from undrift._internal import thread_lock
from undrift._typing import Arrays, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import EstimatorNumber
from undrift.learners.base import Prediction
from undrift.learners.files import learner_from_snapshot
from undrift.learners.serializable import below_prefix, list_items, number_items, with_prefix
from undrift.learners.served import PREFIX, PendingRecords
from undrift.losses import sigmoid
from undrift.online.any_labels import AnyLabels
from undrift.online.class_level import CANDIDATES
from undrift.online.inspection import Groups
from undrift.online.label_kinds import MOST_CLASSES, Label, label_array, plain_number
from undrift.online.memories import Line, Spectrum
from undrift.online.rows import Rows
from undrift.online.several_classes import SeveralClasses


class ClassInspection(AnyLabels):
    """The read-only side of a classifier; of two classes called 0 and 1, -1 and 1, or False and True, as before."""

    @property
    def candidates(self) -> list[str]:
        """Names of what the last mixer chooses from."""
        return super().candidates if self._several is None else list(CANDIDATES)

    @property
    @thread_lock.hold_shared
    def weights(self) -> Vector:
        """The candidates' weights for the coming round; they sum to 1."""
        return super().weights if self._several is None else self._several.weights

    @property
    @thread_lock.hold_shared
    def losses(self) -> Vector:
        """Sum of each candidate's losses so far; of several classes, over the rounds that `cost` speaks of."""
        return super().losses if self._several is None else self._several.losses

    @thread_lock.hold_shared
    def cost(self) -> Vector:
        """Return a bound on the losses so far minus those of each candidate.

        Of several classes: over the rounds since the third class appeared whose class was known when they were served.
        What is kept for classes not seen yet, and what late labels changed, is known exactly, and added.
        """
        return super().cost() if self._several is None else self._several.cost()

    @thread_lock.hold_shared
    def spectrum(self) -> Spectrum:
        """Return how fast the data forget: the weight of each memory length in the linear families.

        Of several classes: the mean over their estimators.
        """
        if self._several is None:
            return super().spectrum()
        found = [one.spectrum() for one in self._several.estimators if one.dim is not None]
        if not found:
            return Spectrum(np.zeros(0), np.zeros(0))
        return Spectrum(found[0].half_lives, np.mean([one.weights for one in found], axis=0))

    @thread_lock.hold_shared
    def line(self) -> Line:
        """Return the coefficients of the linear memory that leads, in the units of the rows; of two classes alone."""
        if self._several is not None:
            raise InputError(
                f"{_check.name_of(self)}: line is of two classes called 0 and 1, -1 and 1, or False and True; "
                "look at the line of one of its estimators"
            )
        return super().line()

    @thread_lock.hold_shared
    def effects(self, z: Rows, groups: Groups | None = None) -> Vector:
        """Return how far each feature, or each group of them, moves the predictions: in log-odds, or in probability.

        Of several classes it is the probability that goes to other classes, on average, if the feature has its usual
        value, its mean in the first rows, and all else is the same. Groups are lists of features, by name or place.
        """
        several = self._several
        if several is None or self.dim is None or not several.classes:
            return super().effects(z, groups)
        Z, _ = self._rows_to_predict(z)
        first = several.estimators[0]
        usual = first.part("center")[:: first.plan.width // self.dim]
        return 0.5 * self._move_groups(Z, usual, groups, lambda rows: np.exp(several.predict(rows)))

    @thread_lock.hold_shared
    def combination(self) -> dict[str, float]:
        """Return how level 2 adds up the families and the last label now: the coefficients of its leading memory.

        Of three classes or more: the coefficient of each class's log-odds in that class's logit; of one or two, of the
        one estimator there is.
        """
        several = self._several
        if several is None:
            return super().combination()
        if several.classes < 3:
            return several.estimators[0].combination()
        names, found = [str(one) for one in self._labels_seen], several.combination()
        return {names[k]: float(found[k]) for k in self._order()}


class AnyLabelFiles(ClassInspection):
    """The part of a classifier that saves and loads the stages of several classes."""

    @thread_lock.hold_exclusive
    def snapshot(self) -> tuple[store.Header, Arrays]:
        """Return everything the estimator is: a JSON header and its arrays, copied."""
        several = self._several
        if several is None:
            return super().snapshot()
        snapshots = [one.snapshot() for one in several.estimators]
        header: store.Header = {
            "class": type(self).__name__,
            "parameters": dict(self.parameters),
            "rounds": self.rounds,
            "dim": self.dim,
            "labels": number_items(self._labels_seen),
            "classes": several.classes,
            "estimators": number_items(one[0] for one in snapshots),
        }
        if self.names is not None:
            header["names"] = number_items(self.names)
        arrays = {f"several.{part}/{k}": np.array(a) for part, one in several.arrays().items() for k, a in one.items()}
        for k, one in enumerate(snapshots):
            arrays |= with_prefix(f"estimator{k}/", one[1])
        return header, arrays | self._pending.arrays()

    def _load_snapshot(self, header: store.Header, arrays: Arrays) -> None:
        if "estimators" not in header:
            super()._load_snapshot(header, arrays)
            return
        who = f"{type(self).__name__}: the saved classes cannot be used"
        parts, labels, classes = header["estimators"], header.get("labels"), header.get("classes")
        dim, names = header.get("dim"), header.get("names")
        if not (isinstance(parts, dict) and isinstance(labels, dict) and isinstance(classes, int)) or not parts:
            raise ModelFileError(who)
        try:
            seen = list_items(labels)
            own: list[Any] = [
                learner_from_snapshot(one, below_prefix(f"estimator{k}/", arrays), type(self))
                for k, one in enumerate(list_items(parts))
            ]
            if not all(isinstance(one, (str, int)) for one in seen) or not 0 <= classes <= len(seen) <= MOST_CLASSES:
                raise KeyError("labels")
            if len(own) != (1 if classes <= 2 else classes) or any(one._several for one in own):
                raise KeyError("estimators")
            if any(one.dim != dim for one in own if one.rounds):
                raise KeyError("dim")
            saved: dict[str, Arrays] = {}
            for name, array in below_prefix("several.", arrays).items():
                part, _, key = name.rpartition("/")
                saved.setdefault(part, {})[key] = array
        except (KeyError, TypeError, AttributeError):
            raise ModelFileError(who) from None
        for one in own:
            one.two_classes_only = True
        self._several = SeveralClasses(self._make_estimator, own[0], classes, 1.0)  # type: ignore[arg-type]  # of this class
        self._several.estimators = own
        self._several._signs = [1.0] * len(own)
        self._several.load_arrays(saved)
        self._labels_seen, self.rounds = seen, self._several.rounds
        if dim is not None:
            self.dim = _check.integer(self, "dim", dim, 1)
            self._plan, self._state = self._plan_for(self.dim, self.dim), np.empty(0)
        if names is not None:
            if not isinstance(names, dict) or len(names) != self.dim:
                raise ModelFileError(f"{type(self).__name__}: the saved names do not fit the features")
            self.names = [str(name) for name in list_items(names)]
        records = {name: array for name, array in arrays.items() if name.startswith(PREFIX)}
        self._pending = PendingRecords.from_arrays(self, records, self.rounds, self._fits_record)


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
