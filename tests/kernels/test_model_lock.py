"""The lock of a model: readers together, writers alone, everybody in turn, and free again whatever happens."""

import contextlib
import copy
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from undrift.kernels import Lock


class Holder:
    """A thread that holds a lock until told to let go."""

    def __init__(self, side) -> None:
        self.side, self.has, self.let_go = side, threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._hold)
        self.thread.start()

    def _hold(self) -> None:
        with self.side:
            self.has.set()
            self.let_go.wait(30)

    def waits(self) -> bool:
        return not self.has.wait(0.05)

    def end(self) -> None:
        assert self.has.wait(30)
        self.let_go.set()
        self.thread.join()


def test_readers_share_and_writers_wait_for_all_of_them() -> None:
    lock = Lock()
    first, second = Holder(lock.shared), Holder(lock.shared)
    assert first.has.wait(30)
    assert second.has.wait(30)
    writer = Holder(lock)
    assert writer.waits()
    first.end()
    assert writer.waits()
    second.end()
    assert writer.has.wait(30)
    reader, other = Holder(lock.shared), Holder(lock)
    assert reader.waits()
    assert other.waits()
    writer.end()
    reader.end()
    other.end()


def test_the_lock_is_given_in_order_of_arrival() -> None:
    lock = Lock()
    reader = Holder(lock.shared)
    assert reader.has.wait(30)
    writer = Holder(lock)
    assert writer.waits()
    late = Holder(lock.shared)
    assert late.waits(), "readers that keep coming would starve the writer"
    reader.end()
    assert writer.has.wait(30)
    assert late.waits()
    last = Holder(lock)
    assert last.waits()
    writer.end()
    assert late.has.wait(30), "writers that keep coming would starve the reader"
    assert last.waits()
    late.end()
    last.end()


def test_a_thread_may_enter_again() -> None:
    lock = Lock()
    with lock, lock.shared, lock, lock.shared:
        pass
    with lock.shared:
        writer = Holder(lock)
        assert writer.waits()
        with lock.shared:  # although a writer waits
            assert writer.waits()
        assert writer.waits()
    writer.end()


def test_a_reader_cannot_become_the_writer() -> None:
    lock = Lock()
    with lock.shared:
        with (
            pytest.raises(RuntimeError, match="cannot learn, be saved or be copied by the thread that is reading it"),
            lock,
        ):
            pass
        other = Holder(lock.shared)
        assert other.has.wait(30)
        other.end()
    with lock:
        pass


def test_an_error_inside_frees_the_lock() -> None:
    lock = Lock()
    for side in (lock, lock.shared):
        with pytest.raises(KeyError), side:
            raise KeyError
    writer = Holder(lock)
    writer.end()


def test_a_copy_is_a_lock_of_its_own_and_free() -> None:
    lock = Lock()
    with lock:
        for other in (copy.copy(lock), copy.deepcopy(lock), pickle.loads(pickle.dumps(lock))):
            assert type(other) is Lock
            writer = Holder(other)
            writer.end()


@contextlib.contextmanager
def started(timer: threading.Timer) -> Iterator[None]:
    timer.start()
    yield


def test_waiting_can_be_interrupted() -> None:
    """Only the main thread gets signals, and it waits here for a lock that another thread holds."""
    lock = Lock()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    for side in (lock, lock.shared):
        holder = Holder(lock)
        assert holder.has.wait(30)
        killer = threading.Timer(0.1, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt), started(killer), side:
            raise AssertionError("it should not have got the lock")
        killer.join()
        holder.end()
        Holder(lock).end()  # nobody is left in the queue
    signal.signal(signal.SIGINT, before)


INTERRUPTED = """
import signal, threading, time
import undrift as ud

model = ud.DiscountedVAW()
model.learn([1.0, 2.0], 3.0)
done, armed, hits = threading.Event(), False, 0

def interrupt(number, frame):
    global armed
    if armed:
        armed = False
        raise KeyboardInterrupt

def shoot():
    for _ in range(300):
        time.sleep(0.0005)
        signal.raise_signal(signal.SIGINT)
    done.set()

signal.signal(signal.SIGINT, interrupt)
threading.Thread(target=shoot).start()
while not done.is_set():
    try:
        armed = True
        model.predict([1.0, 2.0])
        model.learn([[1.0, 2.0]], 3.0)
        model.coef
        armed = False
    except KeyboardInterrupt:
        hits += 1
assert hits > 50, hits
rounds = model.rounds
other = threading.Thread(target=lambda: model.learn([1.0, 2.0], 3.0), daemon=True)
other.start()
other.join(30)
assert model.rounds == rounds + 1
"""


def test_a_lock_is_held_or_not_when_an_interrupt_strikes_anywhere() -> None:
    """Interrupts at random moments of a loop of reading and learning leave the lock free."""
    subprocess.run([sys.executable, "-c", INTERRUPTED], check=True, timeout=120)  # pytest itself must not be hit
