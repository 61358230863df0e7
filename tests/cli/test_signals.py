"""Signals end long work within a second, whatever it is doing, with the exit code that is documented."""

import os
import signal
import subprocess
import sys
import time

import pytest

from undrift._internal.stopping import Interrupted, StopRequest
from undrift.cli.signals import stop_signals

if os.name != "posix":
    pytest.skip("sends signals as POSIX has them", allow_module_level=True)

SCRIPT = """
import hashlib, signal, sys, time
from undrift.cli.signals import stop_signals
from undrift._internal.stopping import Interrupted

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what runs the tests may have told it to ignore them
    signal.signal(number, signal.SIG_DFL)
if sys.argv[1] == "nohup":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with stop_signals(lambda: "last words") as stop:
    print("ready", flush=True)
    try:
        if sys.argv[1] in ("asking", "nohup"):
            while not stop():
                time.sleep(0.01)
            print("stopped")
        elif sys.argv[1] == "waiting":
            with stop.interruptible():
                sys.stdin.read()
        else:  # one long call into compiled code, which no signal handler can enter
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
    except Interrupted:
        print("interrupted")
sys.exit(stop.code)
"""


def start(how):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("how", "out", "error"),
    [
        ("asking", "stopped\n", ""),
        ("waiting", "interrupted\n", ""),
        ("compiled", "", "undrift: interrupted; last words\n"),
    ],
)
def test_each_signal_ends_each_kind_of_work(number, how, out, error):
    process = start(how)
    time.sleep(0.05)
    process.send_signal(number)
    assert process.communicate(timeout=20) == (out, error)
    assert process.returncode == 128 + number


def test_a_process_under_nohup_does_not_hear_that_the_terminal_closed():
    process = start("nohup")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20) == ("stopped\n", "")


def test_the_second_signal_does_not_wait_and_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals(str) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_wish_from_before_ends_a_wait_at_its_beginning():
    stop = StopRequest()
    stop.request()
    with pytest.raises(Interrupted), stop.interruptible():
        pytest.fail("must not be entered")
    assert StopRequest(lambda: True)()
    assert not StopRequest()()
