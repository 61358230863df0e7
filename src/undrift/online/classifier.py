"""OnlineClassifier: probabilities of classes on a drifting stream, with nothing to tune."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, store
from undrift._internal import thread_lock
from undrift._internal.rows import Rows
from undrift._typing import Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import EstimatorNumber
from undrift.learners.base import Prediction
from undrift.learners.row_context import RowContext
from undrift.learners.save_point import SavePoint
from undrift.learners.serializable import Construction
from undrift.learners.served import ServedPrediction
from undrift.losses import sigmoid
from undrift.online.classes import ClassCore
from undrift.online.columns import ArrivingRows, Candidates
from undrift.online.core import Core
from undrift.online.estimator import OneCall, OnlineEstimator
from undrift.online.inspection import ClassInspection, Inspection
from undrift.online.labels import ClassLabels, Label, check_labels, fit_two_classes
from undrift.trace import Trace


class OnlineClassifier(OnlineEstimator):
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
        A missing one counts as the own prediction in that row. Of other labels, or more than two, each candidate has a
        column for every label: `candidates={"mine": {"red": "p_red", "green": "p_green", "blue": "p_blue"}}`.
    trees
        Whether "best" and "max" grow boosted trees beside all else, whose predictions are one more candidate: over the
        row and the last label, refitted at 256, 384, 576, ... labelled rows, each time on the last 32,768 rows at
        most (2^19 numbers). At "best" they are not grown for rows of more than 40 features, nor at any speed before 256
        labelled rows. False saves up to 5 MB of memory and model file, and half the time. Fleets never grow trees.
    two_classes_only
        Take 0 and 1, -1 and +1, False and True alone, as fleets do; 0 and -1 are one class then. Files do not keep it.

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
    any_labels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        candidates: Candidates | None = None,
        trees: bool = True,
        two_classes_only: bool = False,
    ) -> None:
        super().__init__(
            speed=speed,
            indicators=indicators,
            seed=seed,
            half_life=half_life,
            candidates=candidates,
            trees=trees,
        )
        self.two_classes_only = _check.flag(self, "two_classes_only", two_classes_only)
        self._code = ClassLabels()
        if self._columns.by_label:
            self._code.seen = []  # labels are names from the first row on

    def _construction(self) -> Construction:
        made_with = super()._construction()  # what a model takes is no part of what it has learned
        return made_with._replace(named={**made_with.named, "two_classes_only": self.two_classes_only})

    # ---- predictions -------------------------------------------------------------------------------------------

    def predict(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the more probable label of the coming round, as it was given; an array for several rows.

        Rows are arrays (d,) or (n, d), mappings of names to numbers, lists of those, or data frames. NaN is missing.
        `elapsed` is the time since the row before, 1 by default.
        """
        score = self._score(z, elapsed)
        if isinstance(score, float):  # of one row
            return self._code.names[score > 0.0]
        if not self.several_classes:
            return np.where(np.asarray(score) > 0.0, *self._code.names[::-1])
        names = self.classes
        if not names:
            raise InputError(f"{_check.name_of(self)}: no label was learned yet, so there is none to predict")
        logs = np.asarray(score)[..., self._code.order(len(names))]
        best = np.argmax(logs, axis=-1)
        return names[int(best)] if logs.ndim == 1 else np.array(names)[best]

    def predict_proba(self, z: Rows, *, elapsed: float | None = None) -> Vector:
        """Return the probabilities of the labels in the order of `classes`, (K,) for one row, (n, K) for several.

        Of two classes called 0 and 1, -1 and 1, or False and True: of the negative and the positive one, seen or not.
        """
        if not self.several_classes:
            score = np.asarray(self._score(z, elapsed))
            return np.stack([sigmoid(-score), sigmoid(score)], axis=-1)
        p = self.predict_shares(z, elapsed=elapsed)
        return np.asarray(p / np.sum(p, axis=-1, keepdims=True))

    def predict_shares(self, z: Rows, *, elapsed: float | None = None) -> Matrix:
        """Return probabilities of `classes` (n, K) for rows (n, d); what they leave is for a class not seen yet."""
        score = np.asarray(self._score(z, elapsed))
        return np.asarray(np.exp(score[..., self._code.order(score.shape[-1])]))

    def log_odds(self, z: Rows, *, elapsed: float | None = None) -> Prediction:
        """Return the log-odds of the label +1 (1, True) for the coming round; nothing changes."""
        if self.several_classes:
            raise InputError(
                f"{_check.name_of(self)}: log_odds are of two classes called 0 and 1, -1 and 1, or False and True, got "
                f"{self.classes}; use predict_proba"
            )
        return self._score(z, elapsed)

    # ---- labels ------------------------------------------------------------------------------------------------

    @property
    @thread_lock.hold_shared
    def classes(self) -> list[Label]:
        """The labels learned so far, as they were given, in order: numbers by size, texts by alphabet."""
        if self.dim is None:
            return []
        core, code = self._core, self._code
        if isinstance(core, ClassCore):
            assert code.seen is not None
            return [code.seen[k] for k in code.order(core.classes)]
        seen = EstimatorNumber.NEGATIVE, EstimatorNumber.POSITIVE
        return [name for name, count in zip(code.names, seen, strict=True) if core.number(count)]

    @property
    def several_classes(self) -> bool:
        """Whether labels are others than 0 and 1, -1 and +1, False and True, or of more than two classes."""
        return self._code.seen is not None

    @property
    def columns(self) -> list[Label]:
        """Labels of the columns of `predict_proba`: `classes`, or both of two that the compiled round learns."""
        return self.classes if self.several_classes else list(self._code.names)

    def served_probabilities(self, served: ServedPrediction) -> dict[Label, float]:
        """Return what was given to each label known when a row was served; what they leave is for one not seen yet."""
        if isinstance(served.yhat, float):
            both = sigmoid(np.array([-served.yhat, served.yhat])).tolist()
            return dict(zip(self._code.names, both, strict=True)) if served.known else {}
        seen = self._code.seen or []
        names = [seen[k] for k in self._code.order(len(served.yhat))]
        return dict(zip(names, np.exp(served.yhat).tolist(), strict=True))

    @property
    @thread_lock.hold_shared
    def estimators(self) -> list[OnlineClassifier]:
        """Copies of the estimators of each class against the rest, in the order of `classes`; none for two classes."""
        core = self._core if self.dim is not None else None
        if not isinstance(core, ClassCore) or core.classes < 3:
            return []
        return [self._estimator_around(core.cores[k].copy()) for k in self._code.order(core.classes)]

    def _estimator_around(self, core: Core) -> OnlineClassifier:
        kept = {name: value for name, value in self.parameters.items() if name != "candidates"}
        offered: Any = None if not core.settings.offered else list(core.settings.offered)
        found = type(self)(**{**kept, "two_classes_only": True}, candidates=offered)  # type: ignore[arg-type]  # its own parameters
        found._core, found.dim, found._columns.names = core, core.dim, self.names
        found._code.names = (-1, 1)
        found._count()
        found._bind()
        return found

    def _plain_label(self, y: object) -> float | None:
        code = self._code
        if code.seen is None:
            return code.quick(y)
        core = None if self.dim is None else self._core
        if not isinstance(core, ClassCore) or core.single is None or (number := code.find(y)) is None or number > 1:
            return None
        return core.label_for(float(number))

    def _score(self, z: Rows, elapsed: float | None) -> Prediction:
        score = super()._score(z, elapsed)
        if isinstance(score, float) and self.dim is not None and isinstance(self._core, ClassCore):
            return self._core.read_score(score)
        return score

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        labels = _check.column(self, "y", y, count, nan=True)
        known = ~np.isnan(labels)
        if (different := len(np.unique(labels[known]))) > 2:
            raise InputError(f"{_check.name_of(self)}: y must have two classes here, got {different} different labels")
        out = labels.copy()
        out[known] = _check.signs(self, labels[known])
        return out

    def _note_labels(self, y: object) -> None:
        self._code.note(y)
        if self.dim is not None:
            self._store_names()

    def _store_names(self) -> None:
        """Keep in the state of two classes how labels are called."""
        if isinstance(self._core, Core):
            at, (negative, _) = self._core.plan.layout.starts["numbers"], self._code.names
            self._core.state[at + EstimatorNumber.NEGATIVE_LABEL] = float(negative)
            self._core.state[at + EstimatorNumber.BOOLEAN_LABELS] = float(negative is False)

    def _is_plain(self, y: object) -> bool:
        """Whether the core of two classes learns these labels, with those before, or refuses them."""
        if self.several_classes or self._columns.by_label:
            return False
        return self.two_classes_only or fit_two_classes(y, self.classes)

    def _check_any(self, y: Any, count: int) -> list[Any]:
        """Return checked labels of any kind."""
        labels = check_labels(self, y, count, self._code.seen or self.classes)
        if self._columns.given and not self._columns.by_label:
            raise InputError(
                f"{_check.name_of(self)}: candidates are for two classes called 0 and 1, -1 and 1, or False and True; "
                "for others name a column for every label: candidates={'mine': {'red': 'p_red', 'blue': 'p_blue'}}"
            )
        return labels

    def _refuse_labels(self, y: Sequence[Any]) -> None:
        if self._is_plain(y):
            self._labels(y, len(y))
        else:
            self._check_any(y, len(y))

    def _changes_core(self, y: object) -> bool:
        return not self.several_classes and not self._is_plain(y)

    def _encode(self, y: Any, arriving: ArrivingRows | None = None) -> float:
        known = self._code.find(y)
        if known is not None and arriving is None:
            return float(known)
        if self._is_plain(y):
            return super()._encode(y, arriving)
        labels = self._check_any(y, 1)
        self._become_several()
        if arriving is not None:
            self._admit(arriving)
        return float(self._code.number(labels)[0])

    # ---- several classes ---------------------------------------------------------------------------------------

    def _close_rounds(self, arriving: ArrivingRows, y: Any, context: RowContext) -> Trace:
        """Close rounds; of any other labels than two plain ones the trace holds log-probabilities, by `classes`."""
        if self._is_plain(y):
            return super()._close_rounds(arriving, y, context)
        rows, first, waits, logs = arriving.values, self.rounds, self._waits(context), np.empty((0, 0))
        labels = self._check_any(y, len(rows))
        with SavePoint(self) if waits or not self.several_classes or len(labels) > 1 else OneCall(self):
            self._become_several(labels)
            if len(rows):
                self._admit(arriving)
                play, numbers = self._play_late_rows if waits else self._core.play, self._code.number(labels)
                logs = play(np.ascontiguousarray(rows), numbers, context).yhat
                self._count()
        known = np.ones(len(rows), bool)
        known[:1] = first > 0
        who, order = (type(self).__name__, dict(self.parameters)), self._code.order(logs.shape[1])
        return Trace(logs[:, order], None, None, *who, first, known=known, delay=context.longest_delay)

    def _become_several(self, labels: Sequence[Any] = ()) -> None:
        """Go on with a core of several classes, which takes over what was learned.

        Labels at the beginning that the core of two classes can learn keep their signs, as if they came row by row.
        """
        if self.several_classes:
            return
        low, high = 0, len(labels)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._is_plain(np.array(labels[:middle])) else (low, middle - 1)
        if low:
            self._code.note(np.array(labels[:low]))
        seen = [*self.classes, *labels[:low]]
        self._code.seen = [name for name in self._code.names if name in seen]
        if self.dim is not None:
            assert isinstance(self._core, Core)
            self._core = ClassCore(self._settings, self._columns, self._code, self._core)
            self._pending.relabel(lambda y: float(self._code.number([self._code.names[y > 0.0]])[0]))
            self._bind()

    def _begin(self, dim: int) -> None:
        super()._begin(dim)
        if self.several_classes:
            assert isinstance(self._core, Core)
            self._core = ClassCore(self._settings, self._columns, self._code, self._core)
            self._bind()

    @property
    def inspect(self) -> Inspection:
        """A view of what was learned: candidates, weights, bounds, memories, coefficients, counts."""
        if self.dim is None or not isinstance(self._core, ClassCore):
            return super().inspect
        return ClassInspection(self._core, self._columns, self._shared_lock, self._code)

    # ---- files -------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        super()._count()
        self._store_names()

    def _core_of(self, header: store.Header, dim: int) -> Core | ClassCore:
        labels = header.get("labels")
        if labels is None:
            return super()._core_of(header, dim)
        seen: list[Any] = [labels.get(str(k)) for k in range(len(labels))] if isinstance(labels, dict) else [None]
        if not all(isinstance(label, (str, int)) for label in seen) or len(set(seen)) < len(seen):
            raise ModelFileError(f"{type(self).__name__}: the saved classes cannot be used")
        self._code.seen = seen
        return ClassCore.from_facts(self._settings, self._columns, self._code, header, dim)

    def _adopt_state(self) -> None:
        if isinstance(self._core, Core):
            which = EstimatorNumber.BOOLEAN_LABELS, EstimatorNumber.NEGATIVE_LABEL
            boolean, negative = (self._core.number(number) for number in which)
            if negative not in (0.0, -1.0) or boolean not in (0.0, 1.0):
                raise ModelFileError(f"{_check.name_of(self)}: the saved names of the labels cannot be used")
            self._code.names = (False, True) if boolean else (int(negative), 1)
        super()._adopt_state()
