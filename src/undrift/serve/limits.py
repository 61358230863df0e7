"""What a request may be: who may send it, its size, its rate, its token, and how long it may take to arrive.

Any page that a browser of this machine shows can send requests to a service on loopback. Three checks keep such pages
out. A body must be declared as JSON, which a browser sends to another origin only after asking (and it is told no). A
request that names the page it comes from must come from the service's own pages. And the service must be called by a
name that it has, so that a page cannot point a name of its own at this machine (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI

from undrift.errors import InputError

PROBES = ("/health", "/ready")
"""What orchestrators look at, under whatever name or address: neither the host nor a token is checked."""
OPEN_PATHS = ("/", "/docs", "/openapi.json", *PROBES)
"""What needs no token: pages without data, and probes."""


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
    hosts: tuple[str, ...] = ()
    """Names and addresses of the service besides loopback's; 0.0.0.0 or :: stands for every address in digits."""
    origins: tuple[str, ...] = ()
    """Origins such as https://board.example.com whose pages may call the service besides its own."""

    def __post_init__(self) -> None:
        """Refuse what can never match."""
        for host in self.hosts:
            if _host_name(host) is None:
                raise InputError(f"--allow-host must be a name or an address such as example.com, got {host!r:.60}")
        for origin in self.origins:
            scheme, _, host = origin.partition("://")
            if scheme not in ("http", "https") or _host_name(host) is None:
                raise InputError(f"--allow-origin must be such as https://example.com:8080, got {origin!r:.60}")


@lru_cache(maxsize=64)
def _host_name(host: str) -> str | None:
    """Return the name or address in a Host header, without its port and in one spelling; None if there is none."""
    try:
        parts = urlsplit(f"//{host}")
        if parts.netloc != host or "@" in host or not parts.hostname or parts.port == 0:
            return None
    except ValueError:
        return None
    address = _address(parts.hostname)
    return parts.hostname if address is None else str(address)


@lru_cache(maxsize=64)
def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class _Refused(Exception):
    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class _RequestGate:
    """An ASGI layer that reads requests whole, within limits, before the application sees them."""

    def __init__(self, app: Any, limits: RequestLimits) -> None:
        self._app, self._limits = app, limits
        self._tokens, self._at = limits.requests_per_second or 0.0, time.monotonic()
        self._hosts = {"localhost", *map(_host_name, limits.hosts)}
        self._any_address = not self._hosts.isdisjoint(("0.0.0.0", "::"))
        self._origins = {origin.lower() for origin in limits.origins}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        origin = headers.get("origin", "")
        if origin.lower() in self._origins:
            send = _share(send, origin)
        try:
            if scope["path"] not in PROBES:
                self._check_caller(headers)
            if scope["method"] == "OPTIONS" and origin:
                await _answer(send, 200, "")
                return
            self._check_rate()
            self._check_token(scope["path"], headers)
            self._check_kind(scope["method"], headers)
            async with asyncio.timeout(self._limits.seconds_to_arrive):
                body = await self._read(headers, receive)
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

    def _check_caller(self, headers: Mapping[str, str]) -> None:
        """Refuse requests under a name that is not the service's, and those of other sites' pages."""
        host, origin = headers.get("host", ""), headers.get("origin")
        name = _host_name(host)
        address = None if name is None else _address(name)
        if name not in self._hosts and (address is None or not (address.is_loopback or self._any_address)):
            raise _Refused(403, f"this service is not {host!r:.80}; if it is, start it with --allow-host and that name")
        if origin is None or origin.lower() in self._origins or origin.lower().partition("://")[2] == host.lower():
            return
        raise _Refused(403, f"pages of {origin!r:.80} may not call this service; --allow-origin would allow them")

    @staticmethod
    def _check_kind(method: str, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in ("GET", "HEAD", "OPTIONS") and kind != "application/json":
            raise _Refused(415, "the body must be JSON: send the header 'Content-Type: application/json'")

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

    def _check_token(self, path: str, headers: Mapping[str, str]) -> None:
        token = self._limits.token
        if token is None or path in OPEN_PATHS:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), token.encode()):
            raise _Refused(401, "an access token is needed: send the header 'Authorization: Bearer TOKEN'")

    async def _read(self, headers: Mapping[str, str], receive: Any) -> bytes:
        """Return the body of a request, at most as large as allowed."""
        most = self._limits.largest_body
        too_large = _Refused(413, f"a request may have {most:,} bytes; split it")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > most:
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
    body = json.dumps({"detail": sentence}).encode() if sentence else b""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _share(send: Any, origin: str) -> Any:
    """Return `send` with the headers by which a browser lets pages of an allowed origin call the service."""
    shared = {
        "access-control-allow-origin": origin,
        "access-control-allow-headers": "authorization, content-type",
        "vary": "origin",
    }

    async def send_shared(message: Any) -> None:
        if message["type"] == "http.response.start":
            more = [(name.encode(), value.encode("latin-1")) for name, value in shared.items()]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_shared


def limit_requests(app: FastAPI, limits: RequestLimits) -> None:
    """Put the limits before everything else of an application."""
    app.add_middleware(_RequestGate, limits=limits)
