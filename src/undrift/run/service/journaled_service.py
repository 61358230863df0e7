"""JournaledService: a service that is what its journal says, or refuses every request."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from undrift import _check
from undrift.errors import ModelFileError, UnavailableError, UndriftError
from undrift.run.service.journal import Journal

LEAST_SECONDS_BETWEEN_TRIES = 1.0
"""A restore that failed is tried again after so many seconds, or ten times as long as it took if that is more."""


class JournaledService:
    """The part of a service that keeps its state in step with its journal.

    What a request changes is undone by restoring the state from the journal. A restore that fails leaves half a state;
    requests are refused from then on, until `tend` has restored the state or the process is started again.
    """

    def __init__(self, journal: Journal) -> None:
        self.journal, self.started = journal, time.time()
        self.failure: str | None = None
        """The last failure of care or of a restore, in one sentence; None when all is well."""
        self.is_restored = False
        """Whether the state is what the journal says."""
        self._next_try = 0.0

    def require_restored(self) -> None:
        """Refuse a request while the state is not what the journal says."""
        if not self.is_restored:
            raise UnavailableError(f"{self.failure}; requests are refused until the state is restored")

    def tend(self) -> None:
        """Do what is due; call it now and then. Nothing is raised: `failure` says what went wrong."""
        try:
            if not self.is_restored:
                if time.monotonic() < self._next_try:
                    return
                self._restore()
            self._tend()
        except Exception as error:  # whatever it is, the next call tries again
            if self.is_restored:  # otherwise the restore has said why
                self.failure = describe_failure(error)
        else:
            self.failure = None

    @contextlib.contextmanager
    def _undo_if_refused(self) -> Iterator[None]:
        """If something inside fails, become what the journal says again."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):  # requests are refused then, and `failure` says why
                self._restore()
            raise

    def _restore(self) -> None:
        """Become what the journal says, or refuse requests from now on."""
        began, self.is_restored = time.monotonic(), False
        try:
            self.journal.refresh()
            self._read_journal()
        except Exception as error:
            self.failure = f"the state could not be restored from the journal ({describe_failure(error)})"
            self._next_try = time.monotonic() + max(LEAST_SECONDS_BETWEEN_TRIES, 10.0 * (time.monotonic() - began))
            if isinstance(error, UndriftError):
                raise
            what = f"{self.journal.path}: damaged, or cannot be read ({describe_failure(error)})"
            raise ModelFileError(f"{what}; restore it from a copy, or move it away to begin anew") from None
        self.is_restored, self.failure = True, None

    def _read_journal(self) -> None:
        """Become what the journal says: its snapshot, and every entry after it."""
        raise NotImplementedError

    def _tend(self) -> None:
        """Do what is due."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return how the service is doing, as JSON values."""
        raise NotImplementedError


def describe_failure(error: BaseException) -> str:
    """Return what went wrong in one line."""
    text = _check.one_line(str(error), 300)
    return text if isinstance(error, UndriftError) else f"{type(error).__name__}: {text}"


def to_json(value: object) -> str:
    """Return JSON values as text; NaN as NaN, as Python reads it."""
    return _find_encoder()(value)


@functools.cache
def _find_encoder() -> Callable[[object], str]:
    """Return pydantic's encoder, which takes a tenth of the time for rows of numbers, where it is installed."""
    try:
        from pydantic_core import to_json as encode
    except ImportError:  # the service can be used from Python without the extra that serves over HTTP
        return lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return lambda value: encode(value, inf_nan_mode="constants").decode()
