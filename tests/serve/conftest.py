"""A server process of its own, on a free port of this machine."""

import contextlib
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import undrift as ud
from undrift.online import Table

NAMES = [f"x{j}" for j in range(5)]


@pytest.fixture
def model_file(tmp_path):
    """A model that has learned 100 rows of five features."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(100, 5))
    model = ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z), Z.sum(axis=1) + 50.0)
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


@contextlib.contextmanager
def running_server(model, *options, token=""):
    """Give the process of `undrift serve` and its address; end it if it is still there."""
    command = [sys.executable, "-m", "undrift", "serve", str(model), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "UNDRIFT_TOKEN": token})
    try:
        first = process.stderr.readline()
        found = re.search(r"at (http://\S+/) ", first)
        assert found, first + process.stderr.read()
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.stderr.close()
        process.wait(30)
