"""A server process of its own, on a free port of this machine."""

import contextlib
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

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


def fetch(url, body=None, headers=()):
    """Return the status and the text of an answer; a body is JSON unless the headers say otherwise."""
    kind = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(url, None if body is None else body.encode(), {**kind, **dict(headers)})
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
