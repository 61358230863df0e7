"""What happened, at which row, in one sentence."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, Self


class EventKind(enum.StrEnum):
    """What can happen."""

    ERROR_GREW = "error grew"
    """Predictions are farther off than they used to be."""
    ERROR_LEANS = "error leans"
    """Predictions are off to one side, as they did not use to be: the level of the labels has moved."""
    COVERAGE_FELL = "coverage fell"
    """Labels fall outside their intervals more often than the intervals say."""
    MEMORY_SHORTENED = "memory shortened"
    """The model trusts the far past no more: old rows contradict new ones."""
    FEATURE_FROZEN = "feature frozen"
    """A feature repeats its last value for longer than it ever did."""
    FEATURE_MISSING = "feature missing"
    """A feature stays missing for longer than it ever did."""
    FEATURE_SHIFTED = "feature shifted"
    """A feature has another level than it used to have."""
    NEW_CATEGORY = "new category"
    """A text that was never seen before."""


class Event(NamedTuple):
    """Something that happened."""

    kind: EventKind
    """What."""
    row: int
    """The row at which it was noticed, from 1 on."""
    feature: str | None
    """Which feature it is about, if it is about one."""
    sentence: str
    """The same for people."""
    key: str | None = None
    """Whose row it is, where every key has a model of its own."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values; a key only where there are keys."""
        values = {**self._asdict(), "kind": str(self.kind)}
        if self.key is None:
            del values["key"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what `as_dict` gave."""
        return cls(EventKind(values["kind"]), values["row"], values["feature"], values["sentence"], values.get("key"))
