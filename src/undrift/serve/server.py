"""The process that listens: one thread, one writer, a clean end on the first signal."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI

from undrift.errors import InputError
from undrift.serve.limits import RequestLimits
from undrift.serve.slow_clients import limit_clients

MOST_CONNECTIONS = 512
"""Connections at the same time; when one more arrives, the one that has waited longest for its client is closed."""
BACKLOG = 128
"""Connections that are accepted in one turn of the event loop."""
MOST_ANSWERED = MOST_CONNECTIONS + 3 * BACKLOG
"""Connections beyond which requests are refused with 503; files that a process may open by default are 1,024."""


def run_server(app: FastAPI, limits: RequestLimits, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until a signal comes; requests that are being answered then are finished."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named: asyncio then sends at once
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); choose another port") from None
    config = make_config(app, limits)
    with listener:
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        announce(f"http://{shown}:{listener.getsockname()[1]}/")
        server = uvicorn.Server(config)
        with _end_on_signals(server):
            server.run(sockets=[listener])


def make_config(app: FastAPI, limits: RequestLimits) -> uvicorn.Config:
    """Return how to serve an application."""
    return uvicorn.Config(
        app,
        http=limit_clients(limits.seconds_to_arrive, MOST_CONNECTIONS),
        ws="none",
        log_level="warning",
        access_log=False,
        limit_concurrency=MOST_ANSWERED,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
        lifespan="on",
    )


@contextlib.contextmanager
def _end_on_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let a signal end the server and nothing more: uvicorn raises it again afterwards, when a snapshot is due."""

    def end(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
