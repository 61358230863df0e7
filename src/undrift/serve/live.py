"""The stream behind the live page: what a service is doing, once a second, for a bounded number of readers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from weakref import WeakSet

from fastapi import Response
from fastapi.responses import JSONResponse, StreamingResponse

from undrift.errors import InputError, UndriftError
from undrift.serve.keyed_models import KeyedModels
from undrift.serve.service import Service
from undrift.serve.service_thread import ServiceThread

MOST_READERS = 100
"""Readers of the stream at the same time; more are refused with 503."""
SECONDS_BETWEEN_LOOKS = 1.0
"""How often a reader is sent what is new; it is written once for all readers of the same key."""
SHOWN_ROUNDS = 300
"""Rounds on the live page."""
SHOWN_EVENTS = 8
"""Events on the live page."""
SHOWN_KEYS = 10
"""Worst keys on the live page."""


class LiveView:
    """What the live page shows of a service.

    Parameters
    ----------
    service
        What is shown.
    thread
        The thread that calls it.
    """

    def __init__(self, service: Service, thread: ServiceThread) -> None:
        self._service, self._thread = service, thread
        self._written: dict[str | None, tuple[float, tuple[object, ...], str]] = {}
        self.readers: WeakSet[StreamingResponse] = WeakSet()

    async def stream(self, key: str | None) -> Response:
        """Return the stream of the service, or of one key; an unknown key is refused before anything is sent."""
        if len(self.readers) >= MOST_READERS:
            sentence = f"the live page has {MOST_READERS} readers, and no more are taken; GET /status has its numbers"
            return JSONResponse({"detail": sentence}, 503)
        reader = _ReaderStream(self, key)
        self.readers.add(reader)
        await self._thread.call(self._write, key, oldest=time.monotonic())
        return reader

    async def events(self, key: str | None) -> AsyncIterator[str]:
        """Yield server-sent events until the reader goes away; one that does not read is cut off by the server."""
        version: tuple[object, ...] = ()
        while True:
            if version == (self._service.journal.last, self._service.failure):
                yield ": nothing new\n\n"
            else:
                try:
                    version, text = await self._thread.call(
                        self._write, key, oldest=time.monotonic() - SECONDS_BETWEEN_LOOKS
                    )
                except UndriftError:  # the state is not restored: the next request says why
                    return
                yield text
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)

    def _write(self, key: str | None, *, oldest: float) -> tuple[tuple[object, ...], str]:
        """Return the state as an event, written at `oldest` or later, and its version; for the service's thread."""
        self._written = {name: one for name, one in self._written.items() if one[0] > oldest}
        if key not in self._written:
            version = self._service.journal.last, self._service.failure
            shown = json.dumps(self._show(key), allow_nan=False)
            self._written[key] = time.monotonic(), version, f"data: {shown}\n\n"
        return self._written[key][1:]

    def _show(self, key: str | None) -> dict[str, Any]:
        models = self._service.models
        keyed: dict[str, Any] = {}
        if isinstance(models, KeyedModels):
            keyed["worst"] = models.worst_keys(SHOWN_KEYS)
            if key is not None:
                keyed["chosen"] = models.key_facts(key)
        elif key is not None:
            raise InputError("this service has one model and no keys; omit the key")
        events = [event.as_dict() for event in self._service.events if key is None or event.key == key]
        rounds = [one.page_values() for one in models.recent(key, SHOWN_ROUNDS)]
        facts = {**self._service.facts(), "failure": self._service.failure}
        return {**facts, **keyed, "recent": rounds, "events": events[-SHOWN_EVENTS:]}


class _ReaderStream(StreamingResponse):
    """The stream to one reader, which counts as long as it is read."""

    def __init__(self, view: LiveView, key: str | None) -> None:
        super().__init__(view.events(key), media_type="text/event-stream")
        self._view = view

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._view.readers.discard(self)
