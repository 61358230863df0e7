"""What a driver returns or raises: columns of answers, or the reason why there are none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np


class Refused(Exception):
    """The path knows what was asked for and refuses it, with a sentence."""


class Absent(Exception):
    """The path has no way to ask: no such option, argument or method."""


@dataclass(frozen=True)
class Answers:
    """What came out of a path."""

    columns: dict[str, Any]
    """Arrays by name, with an entry for each row: "yhat", "lower", "upper", "q0.1", "p(red)", ..."""
    rows: slice = field(default_factory=lambda: slice(None))
    """The rows of the scenario that the arrays are about; all of them by default."""
    single: bool = False
    """Whether the arrays are compared as they are: about the whole stream (a score, events), or about other rows."""


class PathDriver(ABC):
    """One path through the package."""

    name: ClassVar[str]
    """Heading of the column."""
    rows: ClassVar[Mapping[str, int]] = {}
    """Rows of the scenarios of features that need more rows in this path than elsewhere."""
    tolerance: ClassVar[Mapping[str, float]] = {}
    """Features whose answers may have this relative error; all others must equal the library's bit for bit."""

    @abstractmethod
    def play(self, scenario: Any, folder: Path) -> Answers:
        """Do what the scenario asks for in an empty folder; raise Refused or Absent if the path cannot do it."""

    @abstractmethod
    def expect(self, scenario: Any, reference: Any) -> Answers:
        """Return what `play` must return according to the library, for the scenario's reference or another one."""

    def others(self, scenario: Any) -> dict[str, Answers]:
        """Return what the path does instead where it does not do what is expected, by name."""
        return {}

    def missing(self) -> str | None:
        """Return what keeps the path from running on this machine; None if nothing does."""
        return None


UNKNOWN = ("unexpected keyword argument", "No such option", "there is no setting")
"""Words of Python and of the command line about something that cannot be asked for."""


@contextmanager
def explain_errors() -> Iterator[None]:
    """Turn deliberate errors into Refused, and errors about unknown arguments into Absent."""
    from undrift.errors import UndriftError

    try:
        yield
    except TypeError as error:
        if not any(words in str(error) for words in UNKNOWN):
            raise
        raise Absent(str(error)) from error
    except UndriftError as error:
        raise (Absent if any(words in str(error) for words in UNKNOWN) else Refused)(str(error)) from error


def differing_columns(answers: Answers, expected: Answers, start: int, tolerance: float) -> list[str]:
    """Return the names of the expected columns that the found ones do not equal, from row `start` on."""
    return [
        name
        for name, column in expected.columns.items()
        if name not in answers.columns or not _equal(answers, answers.columns[name], expected, column, start, tolerance)
    ]


def _equal(answers: Answers, values: Any, expected: Answers, column: Any, start: int, tolerance: float) -> bool:
    mine, theirs = np.asarray(values), np.asarray(column)
    if answers.single or expected.single:
        return _same(mine, theirs, tolerance)
    length = len(theirs)
    first, stop, _ = answers.rows.indices(length)
    if len(mine) != stop - first:
        return False
    begin = max(start, first)
    assert stop - begin >= 10, "too few rows are compared"
    return _same(mine[begin - first :], theirs[begin:stop], tolerance)


def _same(mine: Any, theirs: Any, tolerance: float) -> bool:
    if mine.shape != theirs.shape or mine.dtype.kind != theirs.dtype.kind:
        return False
    if mine.dtype.kind not in "f":
        return bool(np.array_equal(mine, theirs))
    return bool(np.allclose(mine, theirs, rtol=tolerance, atol=tolerance, equal_nan=True))
