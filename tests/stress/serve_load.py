"""Hostile and heavy clients at services of every kind: the longest time in which another client got no answer.

python -m tests.stress.serve_load [idle readers]

A client asks for /health every few milliseconds meanwhile. What a scenario adds to its longest wait is what the clients
below cost the others; the first line has the wait where nothing happens, which is the machine's own.
"""

import contextlib
import functools
import json
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import undrift as ud
from undrift.online import Table
from undrift.run.forecast.play import forecast_file
from undrift.stream.settings import ForecastSettings

NAMES = [f"x{j}" for j in range(5)]
ROW = dict.fromkeys(NAMES, 1.0)
PAUSE = 0.005
"""Seconds between two pings."""


def save_model(path, classes=0):
    Z = np.random.default_rng(0).normal(size=(max(100, 2 * classes), len(NAMES)))
    model = ud.OnlineClassifier(speed="fast") if classes else ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z), [f"class {k % classes}" for k in range(len(Z))] if classes else Z.sum(axis=1))
    model.save(path)
    return path


def save_forecasts(folder):
    t = np.arange(3000)
    times = np.datetime64("2024-01-01T00", "s") + 3600 * t
    lines = [f"{when},{10.0 + np.sin(k / 4.0):.4f}" for k, when in zip(t, times, strict=True)]
    (folder / "load.csv").write_text("\n".join(["when,load", *lines]) + "\n")
    forecast_file(str(folder / "load.csv"), folder / "out", ForecastSettings(target=("load",), time="when", horizon=24))
    return folder / "out", times[-1]


@contextlib.contextmanager
def serving(model):
    """Give the address of a service of its own process."""
    command = [sys.executable, "-m", "undrift", "serve", str(model), "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(server.stdout.readline())["url"]
        assert server.poll() is None, "the service ended"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def post(url, body):
    """Return the status of an answer and its text."""
    request = urllib.request.Request(url, body.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def longest_wait(url, work):
    """Return the longest wait of a client that pings while `work` is done, and how long that took."""
    waits, over = [], threading.Event()

    def ping():
        while not over.is_set():
            began = time.perf_counter()
            with urllib.request.urlopen(url + "health", timeout=300) as answer:
                assert json.load(answer) == {"status": "ok"}
            waits.append(time.perf_counter() - began)
            time.sleep(PAUSE)

    thread = threading.Thread(target=ping)
    thread.start()
    began = time.perf_counter()
    try:
        work()
        took = time.perf_counter() - began
    finally:
        over.set()
        thread.join()
    assert waits, "no ping was answered"
    return max(waits), took


def hold_connections(url, head, count):
    """Open connections, send the beginning of a request on each, and never read."""
    where = urlsplit(url)
    with contextlib.ExitStack() as held:
        for _ in range(count):
            client = held.enter_context(socket.create_connection((where.hostname, where.port), timeout=60))
            client.sendall(head)
        for _ in range(30):
            code, _ = post(url + "predict", json.dumps({"rows": [ROW]}))
            assert code == 200, f"another client got {code}"
            time.sleep(0.1)


def many_rows(url, count, expected, label=None):
    code, text = post(url + "predict", json.dumps({"rows": [ROW] * count}))
    assert code == expected, text[:200]
    if label is not None:
        labels = [{"id": one["id"], "y": label} for one in json.loads(text)["predictions"]]
        assert post(url + "learn", json.dumps({"labels": labels}))[0] == 200


def hostile_bodies(url):
    wide = ",".join(f'"{k}":[1]' for k in range(290_000))
    for body in (f'{{"rows":[{{{wide}}}]}}', f"{{{wide}}}", '{"rows":[' + "1," * 2_000_000 + "1]}", "[" * 4_000_000):
        assert post(url + "predict", body)[0] in (413, 422)
    assert post(url + "learn", '{"labels":[' + '{"z":1},' * 400_000 + "{}]}")[0] in (413, 422)


def main(readers=1000):
    """Go through all scenarios; return 0 if every service lived and every ping was answered."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * readers)), hard))
    worst = 0.0

    def measure(name, url, work):
        nonlocal worst
        wait, took = longest_wait(url, work)
        worst = max(worst, wait)
        print(f"{name}: {took:.2f} s of work, another client waited {1000.0 * wait:.0f} ms at most", flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(save_model(folder / "numbers.undrift")) as url:
            measure("nothing happens", url, lambda: time.sleep(3.0))
            live = b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            measure(f"{readers:,} readers of /live that do not read", url, lambda: hold_connections(url, live, readers))
            half = b"GET /status HTTP/1.1\r\nHost: local"
            measure(f"{readers:,} requests that never begin", url, lambda: hold_connections(url, half, readers))
            long_name = json.dumps({"rows": [{"x" * 3_800_000: 1.0}]})
            measure("a name of 3.8 MB", url, lambda: post(url + "predict", long_name))
            measure("bodies of a million mistakes", url, lambda: hostile_bodies(url))
            measure("10,000 rows and labels", url, lambda: many_rows(url, 10_000, 200, 1.0))
        for classes in (3, 20, 100):
            with serving(save_model(folder / f"{classes}.undrift", classes)) as url:
                measure(f"10,000 rows of {classes} classes", url, lambda: many_rows(url, 10_000, 413))
                most = 10_000 // classes
                label = functools.partial(many_rows, url, most, 200, "class 1")
                measure(f"{most:,} rows and labels of {classes} classes", url, label)
        forecasts, last = save_forecasts(folder)
        with serving(forecasts) as url:

            def learn(steps, expected):
                row = {"when": str(last + np.timedelta64(steps, "h")).replace("T", " "), "load": 1.0}
                assert post(url + "learn", json.dumps({"rows": [row]}))[0] == expected

            measure("a row 20,000 steps ahead", url, lambda: learn(20_000, 413))
            measure("a row 500 steps ahead", url, lambda: learn(500, 200))
        began = time.perf_counter()
        with serving(forecasts):
            print(f"the service of forecasts begins again in {time.perf_counter() - began:.2f} s")
    print(f"every service lived and answered; the longest wait of another client was {1000.0 * worst:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
