"""Watch: looks at rows and rounds as they come, and says what changed; KeyedWatch: the same for many keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.events.change_test import Resumable, resume_all, states
from undrift.events.event import Event, EventKind
from undrift.events.features import FeatureWatch
from undrift.events.rounds import CoverageWatch, ErrorWatch, Found, MemoryWatch, ProbabilityWatch
from undrift.online import Spectrum

KINDS_OF_ALARMS = 4
"""Errors, coverage, memory, features: each may give a false alarm after so many times `rows_between_alarms`."""
MOST_FEATURES = 200
"""Features that are watched; of wider rows, the first ones."""
LONGEST_MEMORY = 1e5
"""Half-lives beyond count as this one."""


class Watch:
    """Looks at a stream and at the model that learns it, and tells when something changed.

    Parameters
    ----------
    rows_between_alarms
        Mean number of rows between two false alarms of all kinds together, at least, on a stream that does not change.
        For errors, coverage and features it is a theorem (`undrift.events.change_test`) as far as they are
        exchangeable; the memory's rule is rarer than that by measurement.
    level
        Of the intervals that are given.
    binary
        Whether labels are 0 and 1, and predictions the probability of 1.
    what
        What the label 1 stands for, in sentences.
    on_event
        Called with every event.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> watch = Watch()
    >>> found = [event for t in range(800) for event in watch.add_round(t + 1, rng.normal() + 2.0 * (t >= 600), 0.0)]
    >>> str(found[0].kind), 600 < found[0].row < 620
    ('error leans', True)
    """

    def __init__(
        self,
        rows_between_alarms: float = 5000.0,
        *,
        level: float = 0.9,
        binary: bool = False,
        what: str = "the positive label",
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self._each = KINDS_OF_ALARMS * _check.interval(self, "rows_between_alarms", rows_between_alarms, "[10, 1e12]")
        self._on_event = on_event
        self._errors = None if _check.flag(self, "binary", binary) else ErrorWatch(self._each)
        self._probabilities = ProbabilityWatch(self._each, what)
        self._coverage = CoverageWatch(self._each, _check.interval(self, "level", level, "(0, 1)"))
        self._memory = MemoryWatch()
        self._features: FeatureWatch | None = None

    def add_row(self, row: int, names: Sequence[str], values: Vector) -> list[Event]:
        """Look at the features of a row that has come, NaN where one is missing."""
        return self.add_rows([row], names, np.asarray(values, dtype=np.float64)[None])

    def add_rows(self, rows: Sequence[int], names: Sequence[str], Z: Matrix) -> list[Event]:
        """Look at the features of rows that have come, in order: as `add_row` one by one, but faster."""
        if self._features is None:
            self._features = FeatureWatch(list(names)[:MOST_FEATURES], self._each)
        watched = self._features.names
        if list(names[: len(watched)]) != watched:
            raise InputError(f"{_check.name_of(self)}: features must keep their order, {watched[0]!r} first, as before")
        found = self._features.add(np.asarray(Z, dtype=np.float64)[:, : len(watched)])
        return self._tell(Event(kind, rows[t], name, f"'{name}': {words}") for t, kind, name, words in found)

    def add_category(self, row: int, column: str, text: str) -> list[Event]:
        """Tell of a text that was never seen before."""
        return self._tell(
            [Event(EventKind.NEW_CATEGORY, row, column, f"'{column}' is {text!r:.60} for the first time")]
        )

    def add_round(
        self, row: int, y: float, yhat: float, lower: float | None = None, upper: float | None = None
    ) -> list[Event]:
        """Look at a row whose label has come: a number, or 0 or 1 beside the probability of 1."""
        if not (math.isfinite(y) and math.isfinite(yhat)):
            raise InputError(f"{_check.name_of(self)}: y and yhat must be finite numbers, got {y!r} and {yhat!r}")
        found = list(self._probabilities.add(y, yhat) if self._errors is None else self._errors.add(y - yhat))
        if lower is not None and upper is not None and math.isfinite(lower) and math.isfinite(upper):
            found += self._coverage.add(lower <= y <= upper)
        return self._tell([Event(kind, row, None, sentence) for kind, sentence in found])

    def add_memory(self, row: int, spectrum: Spectrum) -> list[Event]:
        """Look at the model's memory; call it every ten rounds or so."""
        if not len(spectrum.weights):
            return []
        logs = np.log(np.minimum(spectrum.half_lives, LONGEST_MEMORY))
        found = self._memory.add(float(np.exp(np.sum(spectrum.weights * logs))))
        return self._tell([Event(kind, row, None, sentence) for kind, sentence in found])

    def _tell(self, events: Iterable[Event]) -> list[Event]:
        found = list(events)
        if self._on_event is not None:
            for event in found:
                self._on_event(event)
        return found

    @property
    def _of_rounds(self) -> tuple[Resumable, ...]:
        return self._errors or self._probabilities, self._coverage, self._memory

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""
        features = None if self._features is None else self._features.state()
        return {"rounds": states(self._of_rounds), "features": features}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` left off."""
        resume_all(self._of_rounds, state["rounds"])
        self._features = None
        if state["features"] is not None:
            self._features = FeatureWatch(state["features"][0], self._each)
            self._features.resume(state["features"])


FIRST_ROUNDS = 30
"""Rounds of a key before it is judged: the first intervals rest on a handful of errors."""
LAST_MISSES = 5
"""Labels outside their interval from which the side is told."""
KEY_WINDOW = 200
"""Errors of a key among which a new one is ranked."""


class KeyWatch:
    """Looks at the rounds of one key: errors among the last ones and labels beside intervals, or beside probabilities.

    The mean number of rows between two false alarms is at least `rows_between_alarms`; of many keys see `KeyedWatch`.

    Parameters
    ----------
    rows_between_alarms
        Mean number of rows between two false alarms, at least.
    level
        Of the intervals that are given.
    binary
        Whether labels are 0 and 1, and predictions the probability of 1.
    what
        What the label 1 stands for, in sentences.
    """

    __slots__ = ("_coverage", "_rounds", "_side", "_test")

    def __init__(
        self,
        rows_between_alarms: float = 5000.0,
        *,
        level: float = 0.9,
        binary: bool = False,
        what: str = "the positive label",
    ) -> None:
        each = 2.0 * rows_between_alarms  # errors and coverage
        self._test: ErrorWatch | ProbabilityWatch = ErrorWatch(each, KEY_WINDOW)
        if binary:
            self._test = ProbabilityWatch(rows_between_alarms, what)
        self._coverage = CoverageWatch(each, level)
        self._rounds, self._side = 0, 0.0  # the side of the last labels outside: 1 above, -1 below

    def add(self, y: float, yhat: float, lower: float | None, upper: float | None) -> Found:
        """Take one label in, beside its prediction or probability and the ends of its interval."""
        self._rounds += 1
        if self._rounds <= FIRST_ROUNDS:
            return
        yield from self._test.add(y, yhat) if isinstance(self._test, ProbabilityWatch) else self._test.add(y - yhat)
        if lower is not None and upper is not None:
            inside = lower <= y <= upper
            if not inside:
                self._side += ((1.0 if y > upper else -1.0) - self._side) / LAST_MISSES
            for kind, sentence in self._coverage.add(inside):
                yield kind, sentence + self._name_side()

    def _name_side(self) -> str:
        """Return on which side labels lie, if it is nearly always the same one."""
        if abs(self._side) < 0.5:
            return ""
        return ", above them" if self._side > 0.0 else ", below them"

    def state(self) -> list[Any]:
        """Return what later rounds depend on."""
        return [self._rounds, self._side, *states((self._test, self._coverage))]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off."""
        self._rounds, self._side, *tests = state
        resume_all((self._test, self._coverage), tests)


class KeyedWatch:
    r"""Looks at the rounds of many keys, with one promise for all keys together.

    Each key is judged by itself, in a `KeyWatch`. While nothing changes, the mean number of rows of all keys together
    between two false alarms is at least `rows_between_alarms`, $A$, however many keys there are and in whatever order
    their rows come, although every key has the same limit $A$. A correction for the number of keys is not needed,
    because the promise counts rows: the sums of `undrift.events.change_test` add up. A row changes the sum $R^k$ of its
    own key $k$ alone, by at most 1 on average, so that $\sum_k R^k_t-t$ falls on average over the rows $t$ of all keys.
    At the first alarm some $R^k\ge A$, and by optional stopping the mean number of rows until then is at least $A$. An
    alarm takes at least $A$ away from the sum, so that in $n$ rows there are on average at most $n/A$ alarms. Several
    tests of a key share its limit in the same way.

    Parameters
    ----------
    rows_between_alarms
        Mean number of rows of all keys between two false alarms, at least.
    level, binary, what
        As for `KeyWatch`.

    Examples
    --------
    >>> rng, watch, found = np.random.default_rng(0), KeyedWatch(), []
    >>> for t in range(400):
    ...     for key, shift in [("a", 0.0), ("b", 3.0 * (t >= 300))]:
    ...         found += watch.add_round(key, t, rng.normal() + shift, 0.0)
    >>> found[0].key, str(found[0].kind)
    ('b', 'error leans')
    """

    def __init__(self, rows_between_alarms: float = 5000.0, **options: Any) -> None:
        self._limit = _check.interval(self, "rows_between_alarms", rows_between_alarms, "[10, 1e12]")
        self._options = options
        self._keys: dict[Any, KeyWatch] = {}

    def add_round(
        self, key: Any, row: int, y: float, yhat: float, lower: float | None = None, upper: float | None = None
    ) -> list[Event]:
        """Look at a row of a key whose label has come: a number, or 0 or 1 beside the probability of 1."""
        found = self._watch(key).add(y, yhat, lower, upper)
        return [Event(kind, row, None, f"{key!r:.60}: {sentence}", str(key)) for kind, sentence in found]

    def _watch(self, key: Any) -> KeyWatch:
        if key not in self._keys:
            self._keys[key] = KeyWatch(self._limit, **self._options)
        return self._keys[key]

    def state(self, key: Any) -> list[Any]:
        """Return what later rounds of a key depend on, as JSON values."""
        return self._watch(key).state()

    def resume(self, key: Any, state: Sequence[Any]) -> None:
        """Go on with a key where `state` left off."""
        self._watch(key).resume(state)

    def forget(self, key: Any) -> None:
        """Keep a key no longer, until it is resumed."""
        self._keys.pop(key, None)

    @property
    def keys(self) -> list[Any]:
        """Keys that are kept."""
        return list(self._keys)
