"""A server process of its own, on a free port of this machine."""

import contextlib
import os
import re
import subprocess
import sys

NAMES = [f"x{j}" for j in range(5)]


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
