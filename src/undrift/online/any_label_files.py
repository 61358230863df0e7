"""AnyLabelFiles: what a classifier of any labels writes into a file, and how it comes back from one."""

from __future__ import annotations

from typing import Self

import numpy as np

from undrift import _check, _thread_lock, store
from undrift.errors import ModelFileError
from undrift.learners.base import Arrays
from undrift.learners.files import learner_from_snapshot
from undrift.learners.served import PREFIX, PendingRecords
from undrift.online.class_inspection import ClassInspection
from undrift.online.label_kinds import MOST_CLASSES
from undrift.online.several_classes import SeveralClasses


class AnyLabelFiles(ClassInspection):
    """The part of a classifier that saves and loads the stages of several classes."""

    @_thread_lock.hold_exclusive
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
            "labels": {str(k): label for k, label in enumerate(self._labels_seen)},
            "classes": several.classes,
            "estimators": {str(k): one[0] for k, one in enumerate(snapshots)},
        }
        if self.names is not None:
            header["names"] = {str(j): name for j, name in enumerate(self.names)}
        arrays = {f"several.{part}/{k}": np.array(a) for part, one in several.arrays().items() for k, a in one.items()}
        for k, one in enumerate(snapshots):
            arrays |= {f"estimator{k}/{name}": array for name, array in one[1].items()}
        return header, arrays | self._pending.arrays()

    @classmethod
    def _from_snapshot(cls, header: store.Header, arrays: Arrays) -> Self:
        if "estimators" not in header:
            return super()._from_snapshot(header, arrays)
        who = f"{cls.__name__}: the saved classes cannot be used"
        parts, labels, classes = header["estimators"], header.get("labels"), header.get("classes")
        dim, names = header.get("dim"), header.get("names")
        if not (isinstance(parts, dict) and isinstance(labels, dict) and isinstance(classes, int)) or not parts:
            raise ModelFileError(who)
        fresh = super()._from_snapshot({**header, "dim": None, "rounds": 0}, {})
        try:
            seen = [labels[str(k)] for k in range(len(labels))]
            own = [
                learner_from_snapshot(parts[str(k)], _under(arrays, f"estimator{k}/"), cls)  # type: ignore[arg-type]  # checked there
                for k in range(len(parts))
            ]
            if not all(isinstance(one, (str, int)) for one in seen) or not 0 <= classes <= len(seen) <= MOST_CLASSES:
                raise KeyError("labels")
            if len(own) != (1 if classes <= 2 else classes) or any(one._several for one in own):  # type: ignore[attr-defined]  # of this class
                raise KeyError("estimators")
            if any(one.dim != dim for one in own if one.rounds):
                raise KeyError("dim")
            saved: dict[str, Arrays] = {}
            for name, array in _under(arrays, "several.").items():
                part, _, key = name.rpartition("/")
                saved.setdefault(part, {})[key] = array
        except (KeyError, TypeError, AttributeError):
            raise ModelFileError(who) from None
        for one in own:
            one.two_classes_only = True  # type: ignore[attr-defined]  # of this class
        fresh._several = SeveralClasses(fresh._make_estimator, own[0], classes, 1.0)  # type: ignore[arg-type]  # of this class
        fresh._several.estimators = own  # type: ignore[assignment]  # likewise
        fresh._several._signs = [1.0] * len(own)
        fresh._several.load_arrays(saved)
        fresh._labels_seen, fresh.rounds = seen, fresh._several.rounds  # type: ignore[assignment]  # checked above
        if dim is not None:
            fresh.dim = _check.integer(cls.__name__, "dim", dim, 1)
            plan = fresh._plan_for(fresh.dim, fresh.dim)
            fresh._plan, fresh._state = plan, np.empty(0)
        if names is not None:
            if not isinstance(names, dict) or len(names) != fresh.dim:
                raise ModelFileError(f"{cls.__name__}: the saved names do not fit the features")
            fresh.names = [str(names[str(j)]) for j in range(fresh.dim or 0)]
        records = {name: array for name, array in arrays.items() if name.startswith(PREFIX)}
        fresh._pending = PendingRecords.from_arrays(fresh, records, fresh.rounds, fresh._fits_record)
        return fresh


def _under(arrays: Arrays, start: str) -> Arrays:
    """Return the arrays whose names begin so, without that beginning."""
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
