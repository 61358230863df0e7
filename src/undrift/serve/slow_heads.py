"""A time limit for the first lines of a request, for which uvicorn has none: slow clients must not keep connections."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class SlowHeadProtocol(H11Protocol):
    """Closes a connection whose next request has not begun in full within `seconds`.

    The time counts from the connection, and later from the first byte of a request; uvicorn itself ends connections
    on which nothing comes between two requests, and the application ends those whose body does not arrive.
    """

    seconds = 10.0
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes in; stop waiting once they say what is asked for."""
        if self._head_timer is None and not self._is_answering():
            self._wait_for_head()
        super().data_received(data)
        if self._is_answering():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if not self._is_answering():
            self.transport.close()


def limit_heads(seconds: float) -> type[SlowHeadProtocol]:
    """Return the protocol with this limit."""
    return type("LimitedHeadProtocol", (SlowHeadProtocol,), {"seconds": seconds})
