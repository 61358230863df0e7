"""A run that is killed at any moment goes on where it stopped, to the same bits."""

import signal
import subprocess
import sys
import time

import pytest

import undrift as ud
from tests.fleet.dirty import FEATURES, WAIT, arrivals, clean, spoil
from tests.helpers import ROOT

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.fleet.test_kill import fleet, rows
fleet(sys.argv[3]).run(rows(), folder=sys.argv[1], batch=40)
"""


MODELS = {"ensemble": lambda: ud.linear_ensemble(1000), "online": lambda: ud.OnlineRegressor(speed="fast")}


def fleet(name):
    return ud.Fleet(MODELS[name], key="key", order="n", features=FEATURES, target="y", label_of="of", wait=WAIT)


def rows():
    return arrivals(spoil(clean(20, 100, seed=1), seed=2), seed=3)


@pytest.mark.parametrize("name", MODELS)
def test_kill_minus_9_and_again(tmp_path, name):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "f"), str(ROOT), name]
    killed = 0
    for delay in (0.02, 0.1, 0.3):
        process = subprocess.Popen(command)
        file = tmp_path / "f" / "fleet.db"
        deadline = time.monotonic() + 60
        while not file.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed
    resumed, whole = fleet(name).run(rows(), folder=tmp_path / "f", batch=40), fleet(name).run(rows())
    assert resumed.outputs.canonical() == whole.outputs.canonical()
    assert dict(resumed.states) == dict(whole.states)
