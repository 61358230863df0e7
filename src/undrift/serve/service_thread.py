"""The one thread that calls a service, so that the event loop can go on while the service works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


class ServiceThread:
    """Makes calls one after the other, in the order they were asked for: none sees half of what another one does."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="undrift-service")

    async def call(self, function: Callable[Given, Found], *arguments: Given.args, **options: Given.kwargs) -> Found:
        """Return what a function returns, called in the thread."""
        work = self._pool.submit(function, *arguments, **options)
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """Wait for the call that is being made; those that have not begun are given up."""
        self._pool.shutdown(cancel_futures=True)
