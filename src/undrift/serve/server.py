"""The process that listens: one thread, one writer, a clean end on the first signal, time limits for slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from undrift.errors import InputError
from undrift.serve.limits import RequestLimits

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
        proxy_headers=False,
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


LARGEST_HEAD = 1 << 16
"""Bytes before the body of a request; a client that sends more before its headers are complete is cut off."""
SEND_BUFFER = 1 << 17
"""Bytes of an answer that the system holds for a client: few, so that it soon shows who does not read."""


class SlowClientProtocol(HttpToolsProtocol):
    """Closes a connection whose client lets the service wait, after `seconds`, or at once where room is needed.

    The next request must have begun in full within `seconds`, counted from the connection and later from the first byte
    of a request; uvicorn itself ends connections on which nothing arrives between two requests, and the application
    those whose body does not. An answer must be read: its connection is cut when nothing of what waits in memory could
    be sent for `seconds`. Above `most` connections, the one that has waited longest for its client makes room.
    """

    seconds = 10.0
    most = 512
    waiting_since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _is_stuck = _in_head = False
    _unsent = _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if (connected := transport.get_extra_info("socket")) is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self.waiting_since = self.loop.time()
        self._wait()
        if len(self.connections) > self.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; stop waiting once they say what is asked for."""
        self.waiting_since = self.loop.time()
        if self._timer is None and not self._is_answering():
            self._wait()
        super().data_received(data)
        if self._in_head:  # the parser keeps whatever arrives, however much
            self._head += len(data)
            if self._head > LARGEST_HEAD:
                self.drop()
        elif self._is_answering() and not self._is_stuck:
            self._stop_waiting()

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a request's head; it may be sent while another request is answered."""
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._in_head = False
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Begin to wait for the client to read."""
        super().pause_writing()
        self._is_stuck, self.waiting_since = True, self.loop.time()
        self._unsent = self.transport.get_write_buffer_size()
        self._stop_waiting()
        self._wait()

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._is_stuck = False
        self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def waits_for_client(self) -> bool:
        """Whether the client's turn has come: to ask, to send the rest of a request, or to read."""
        return self._is_stuck or not self._is_answering() or self.cycle.more_body

    def _make_room(self) -> None:
        others = [one for one in self.connections if isinstance(one, SlowClientProtocol) and one is not self]
        idle = [one for one in others if one.waits_for_client()]
        if idle:
            min(idle, key=lambda one: one.waiting_since).drop()

    def drop(self) -> None:
        """Close the connection, whatever still waits to be sent."""
        self.connections.discard(self)
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self._is_stuck and (unsent := self.transport.get_write_buffer_size()) < self._unsent:
            self._unsent = unsent  # slow, but it reads
            self._wait()
        elif self._is_stuck or not self._is_answering():
            self.drop()


def limit_clients(seconds: float, most: int) -> type[SlowClientProtocol]:
    """Return the protocol with these limits."""
    return type("LimitedClientProtocol", (SlowClientProtocol,), {"seconds": seconds, "most": most})
