"""What a request may be: its size, its rate, its token, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health")
"""What needs no token: pages without data, and what an orchestrator looks at."""


@dataclass(frozen=True)
class RequestLimits:
    """What a request may be."""

    token: str | None = None
    """Access token that requests must bring; None: none is needed."""
    largest_body: int = 4 << 20
    """Bytes of a request."""
    requests_per_second: float | None = None
    """Of all clients together; None: no limit."""
    seconds_to_arrive: float = 10.0
    """Within which a request must be whole."""


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class _RequestGate:
    """An ASGI layer that reads requests whole, within limits, before the application sees them."""

    def __init__(self, app: Any, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits
        self._tokens, self._at = limits.requests_per_second or 0.0, time.monotonic()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_rate()
            self._check_token(scope)
            body = await asyncio.wait_for(self._read(scope, receive), self._limits.seconds_to_arrive)
        except TimeoutError:
            await _answer(send, 408, f"the request took longer than {self._limits.seconds_to_arrive:g} s to arrive")
            return
        except _Refused as refused:
            await _answer(send, refused.status, refused.sentence)
            return
        sent = False

        async def whole() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, whole, send)

    def _check_rate(self) -> None:
        """Take a token out of the bucket that fills at the allowed rate and holds one second's worth."""
        allowed = self._limits.requests_per_second
        if allowed is None:
            return
        now = time.monotonic()
        self._tokens = min(max(allowed, 1.0), self._tokens + (now - self._at) * allowed)
        self._at = now
        if self._tokens < 1.0:
            raise _Refused(429, f"more than {allowed:g} requests a second; wait a little, or send larger batches")
        self._tokens -= 1.0

    def _check_token(self, scope: Any) -> None:
        token = self._limits.token
        if token is None or scope["path"] in OPEN_PATHS:
            return
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            raise _Refused(401, "an access token is needed: send the header 'Authorization: Bearer TOKEN'")

    async def _read(self, scope: Any, receive: Any) -> bytes:
        """Return the body of a request, at most as large as allowed."""
        most = self._limits.largest_body
        too_large = _Refused(413, f"a request may have {most:,} bytes; split it")
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            raise too_large
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Refused(400, "the client went away")
            body += message.get("body", b"")
            if len(body) > most:
                raise too_large
            if not message.get("more_body", False):
                return bytes(body)


async def _answer(send: Any, status: int, sentence: str) -> None:
    body = json.dumps({"detail": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def limit_requests(app: FastAPI, limits: RequestLimits) -> None:
    """Put the limits before everything else of an application."""
    app.add_middleware(_RequestGate, limits=limits)
