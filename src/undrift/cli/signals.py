"""SIGINT, SIGTERM and SIGHUP as a request to stop, which is granted within a second."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import typer

from undrift._internal.stopping import Interrupted, StopRequest
from undrift.cli.output import print_interrupted

GRACE = 0.8
"""Seconds between a signal and the end of the process, if what it does cannot be interrupted."""
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""SIGHUP: the terminal was closed. Windows has SIGBREAK instead."""


class SignalStop(StopRequest):
    """A request to stop that came as a signal."""

    number = int(signal.SIGINT)
    """Which signal it was."""

    @property
    def code(self) -> int:
        """Exit code of a process that was stopped: 130 for Ctrl-C, 128 + the signal's number for the others."""
        return 128 + self.number


@contextlib.contextmanager
def stop_signals(what_is_left: Callable[[], str]) -> Iterator[SignalStop]:
    """Give a request to stop that signals set; the second signal raises KeyboardInterrupt at once.

    Work that grants the request by `Interrupted` ends the command with `code`, and with a sentence about what is left.

    Python can act on a signal only between two steps of its own. A long call into compiled code must not keep the user
    waiting, so a thread ends the process after a while. What is on the disk is whole at every moment, as it must be for
    a process that may be killed.

    Parameters
    ----------
    what_is_left
        Says what is left of the work, for that sentence; what `Interrupted` itself says comes first.
    """
    stop, over = SignalStop(), threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals reach the main thread only
        yield stop
        return
    numbers = [number for number in _available() if signal.getsignal(number) is not signal.SIG_IGN]  # nohup stays nohup
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def handle(number: int, frame: FrameType | None) -> None:
        if stop():
            raise KeyboardInterrupt
        stop.number = number
        stop.request()

    def watch() -> None:
        while (number := int.from_bytes(reader.recv(1), "big")) not in numbers:
            if not number:
                return
        if not over.wait(GRACE):
            stop.number = number
            _end(stop.code, what_is_left())

    before = {number: signal.signal(number, handle) for number in numbers}
    woken = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield stop
    except Interrupted as stopped:
        print_interrupted(str(stopped) or what_is_left())
        raise typer.Exit(stop.code) from None
    finally:
        over.set()
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        writer.close()
        watcher.join()
        reader.close()


def _available() -> list[int]:
    return [int(getattr(signal, name)) for name in NAMES if hasattr(signal, name)]


def _end(code: int, left: str) -> None:
    """End the process now, with its children."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\r\x1b[2K")  # a progress bar hides the cursor
    print_interrupted(left)
    sys.stderr.flush()
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(code)
