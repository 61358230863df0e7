"""Clients that ask too much, do not read or do not ask at all: the service lives, and others are served meanwhile."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest

import undrift as ud
from tests.serve.server_process import NAMES, fetch, running_server
from undrift._internal.names import find_closest, find_similar
from undrift.errors import InputError, RequestSizeError, UndriftError
from undrift.online import Table
from undrift.run.service.service import Label
from undrift.serve import Client, open_service
from undrift.serve.app import MOST_READERS
from undrift.serve.schema import LearnRequest, PredictRequest, read_request
from undrift.stream.settings import did_you_mean

LONGEST_STALL = 0.5
"""Seconds in which /health must answer on a machine that is shared; seconds to minutes before."""


def save_model(path, classes=0):
    """Write a model of five features; of several classes if there are any."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(max(60, 3 * classes), len(NAMES)))
    model = ud.OnlineClassifier(speed="light") if classes else ud.OnlineRegressor(speed="light")
    labels = [f"class {k % classes}" for k in range(len(Z))] if classes else Z.sum(axis=1)
    model.play(Table(NAMES, Z), labels)
    model.save(path)
    return path


@contextlib.contextmanager
def longest_answer(url):
    """Give a list that holds, at the end, how long the slowest of many requests of /health took."""
    found, over = [0.0], threading.Event()

    def ping():
        while not over.is_set():
            began = time.perf_counter()
            assert fetch(url + "health")[0] == 200
            found[0] = max(found[0], time.perf_counter() - began)
            time.sleep(0.005)

    thread = threading.Thread(target=ping)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def test_rows_of_many_classes_neither_stop_the_others_nor_take_for_ever(tmp_path):
    file = save_model(tmp_path / "model.undrift", classes=20)
    rows = [dict.fromkeys(NAMES, 1.0)] * 10_000
    with running_server(file) as (_, url), Client(url, timeout=60.0) as client, longest_answer(url) as longest:
        code, text = fetch(url + "predict", json.dumps({"rows": rows}))
        assert code == 413
        assert "a request holds 1 to 500 rows where there are 20 classes, got 10,000; split it" in text
        began = time.perf_counter()
        answers = client.predict(rows[:500])
        assert client.learn({one.id: "class 3" for one in answers}) == 500
        took = time.perf_counter() - began
    assert longest[0] < took / 4.0  # in the event loop it was all of the longer request: more than half


def test_requests_are_whole_whoever_asks_at_the_same_time(tmp_path):
    file = save_model(tmp_path / "model.undrift", classes=5)
    with running_server(file) as (_, url):

        def work(seen):
            with Client(url, timeout=60.0) as client:
                for _ in range(5):
                    ids = [one.id for one in client.predict([{"x0": 1.0}] * 40)]
                    seen.append(ids)
                    assert client.learn(dict.fromkeys(ids, "class 1")) == 40
                    assert json.loads(fetch(url + "status")[1])["waiting"] % 40 == 0

        seen = [[] for _ in range(3)]
        threads = [threading.Thread(target=work, args=(one,)) for one in seen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        every = sorted(ids for one in seen for ids in one)
        assert every == [list(range(k, k + 40)) for k in range(1, 600, 40)]
        assert json.loads(fetch(url + "status")[1])["rounds"] == 660


def test_a_limit_of_classes_counts_rows_of_labels_too(tmp_path):
    with open_service(save_model(tmp_path / "model.undrift", classes=4)) as service:
        with pytest.raises(RequestSizeError, match="1 to 2,500 labels where there are 4 classes, got 2,501"):
            service.learn([Label(1, "class 1")] * 2501)
        assert service.journal.last == 0


def test_new_classes_of_one_request_are_counted_together(tmp_path):
    with open_service(save_model(tmp_path / "model.undrift", classes=4)) as service:
        answers = service.predict([{"x0": 1.0}] * 1500)
        before = service.facts()
        for count, words in ((97, "one class more than the 100 allowed"), (5, "9 then, holds 1 to 1,111 labels")):
            labels = [Label(one.id, f"new {k % count}") for k, one in enumerate(answers)]
            with pytest.raises(UndriftError, match=words):
                service.learn(labels)
        after = service.facts()
        assert (after["classes"], after["waiting"]) == (before["classes"], before["waiting"])
        assert service.learn(labels[:20]).learned == 20
        assert len(service.facts()["classes"]) == 9


def open_live(url, path=b"/live", buffer=4096):
    """Open a connection that asks for the stream and reads nothing."""
    where = urlsplit(url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(20)
    client.connect((where.hostname, where.port))
    client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return client


def first_line(client):
    return client.recv(15).decode()


def test_idle_readers_leave_room_for_others(tmp_path):
    with running_server(save_model(tmp_path / "model.undrift")) as (_, url), contextlib.ExitStack() as held:
        readers = [held.enter_context(contextlib.closing(open_live(url))) for _ in range(MOST_READERS)]
        assert {first_line(one) for one in readers} == {"HTTP/1.1 200 OK"}
        with contextlib.closing(open_live(url)) as late:
            text = ""
            while "}" not in text:  # it arrives in parts
                text += late.recv(4096).decode()
            assert text.startswith("HTTP/1.1 503")
            assert "the live page has 100 readers" in text
        more = [held.enter_context(contextlib.closing(open_live(url))) for _ in range(600)]  # beyond every connection
        assert more
        for _ in range(20):
            assert fetch(url + "health") == (200, '{"status":"ok"}')
        with Client(url) as client:
            (answer,) = client.predict([{"x0": 1.0}])
            assert client.learn({answer.id: 1.0}) == 1
        readers[0].close()
        until = time.monotonic() + 20.0
        while time.monotonic() < until:  # a reader that goes away makes room for another one
            with contextlib.closing(open_live(url)) as late:
                if first_line(late) == "HTTP/1.1 200 OK":
                    break
            time.sleep(0.2)
        else:
            pytest.fail("no reader was let in after another one went away")


@pytest.fixture
def small_server():
    """An application whose clients must be quick, at most five at a time."""
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import Response

    from undrift.serve import server as own
    from undrift.serve.limits import RequestLimits

    app = FastAPI()
    app.get("/large")(lambda: Response(bytes(20 << 20)))
    app.get("/small")(lambda: "done")

    @app.get("/slow")
    async def slow() -> str:
        await asyncio.sleep(30.0)
        return "done"

    before, own.MOST_CONNECTIONS = own.MOST_CONNECTIONS, 5
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(own.make_config(app, RequestLimits(seconds_to_arrive=0.4)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", server
    finally:
        own.MOST_CONNECTIONS = before
        server.should_exit = True
        thread.join(20)
        listener.close()


def test_a_client_that_does_not_read_its_answer_is_cut_off(small_server):
    url, server = small_server
    with contextlib.closing(open_live(url, b"/large")) as client:
        assert first_line(client) == "HTTP/1.1 200 OK"
        until = time.monotonic() + 20.0
        while server.server_state.connections and time.monotonic() < until:
            time.sleep(0.05)
        assert not server.server_state.connections
    with contextlib.closing(open_live(url, b"/large", buffer=1 << 17)) as client:  # one that reads slowly is not
        received = 0
        while received < 20 << 20 and (part := client.recv(1 << 17)):
            received += len(part)
            time.sleep(0.06 if received < 1 << 20 else 0.0)
        assert received >= 20 << 20


@pytest.mark.parametrize("before", [b"", b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_request_whose_head_never_ends_is_cut_off(small_server, before):
    """Also behind a request that is still being answered: the parser would keep all of it."""
    url, _ = small_server
    with socket.create_connection(urlsplit(url).netloc.split(":"), timeout=5) as client:
        client.sendall(before + b"GET /small HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        assert send_until_closed(client, 1 << 23) < 1 << 20
    assert fetch(url + "small") == (200, '"done"')


def send_until_closed(client, most):
    """Return how many bytes a connection took until it was closed, `most` if it was not."""
    sent = 0
    while sent < most:
        try:
            client.sendall(b"x" * 10_000)
        except ConnectionError:
            return sent
        sent += 10_000
        time.sleep(0.001)
    return sent


def test_an_idle_connection_makes_room_for_another(small_server):
    url, _ = small_server
    with contextlib.ExitStack() as held:
        for _ in range(30):
            held.enter_context(socket.create_connection(urlsplit(url).netloc.split(":"), timeout=20))
            assert fetch(url + "small") == (200, '"done"')


@pytest.mark.parametrize("key", [(), ("--key", "shop")])
def test_a_huge_name_is_refused_at_once_and_in_short(tmp_path, key):
    name = "x" * 3_800_000
    with running_server(save_model(tmp_path / "model.undrift"), *key) as (_, url), longest_answer(url) as longest:
        code, text = fetch(url + "predict", json.dumps({"rows": [{"shop": "a", name: 1.0}]}))
    assert code == 422
    assert len(text) < 300
    assert longest[0] < LONGEST_STALL


def test_long_names_are_not_compared():
    began = time.perf_counter()
    assert find_closest("y" * 1_000_000, ["temp"]) is None
    assert find_closest("temp", ["t" * 1_000_000]) is None
    assert find_similar("y" * 100_000, ["y" * 99_999]) is None
    assert did_you_mean("y" * 1_000_000, ["x" * 1_000_000]).startswith("; there are xxxx")
    assert time.perf_counter() - began < 1.0


WIDE = "{" + ",".join(f'"{k}":[1]' for k in range(290_000)) + "}"


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        (PredictRequest, f'{{"rows": [{WIDE}]}}', "rows 0 0: must be a number"),
        (PredictRequest, WIDE, "rows: Field required"),
        (PredictRequest, WIDE[:-1] + ',"rows": [{}]}', "there is no field '0'"),
        (PredictRequest, '{"rows": [' + "1," * 2_000_000 + "1]}", "rows 0: Input should be a valid dictionary"),
        (PredictRequest, '{"rows": [{}], "references": [' + "1," * 9_999 + "1]}", "references must be texts or null"),
        (LearnRequest, '{"labels": [' + '{"z":1},' * 400_000 + "{}]}", "labels 0 y: Field required"),
        (LearnRequest, '{"labels": [' + '{"id":1,"y":1},' * 270_000 + "{}]}", "a request holds 1 to 10,000 labels"),
    ],
    ids=["cells", "fields", "more fields", "rows", "references", "labels", "many labels"],
)
def test_a_body_of_a_million_mistakes_costs_one(kind, body, words):
    began = time.thread_time()
    with pytest.raises(InputError, match=words) as refused:
        read_request(kind, body.encode())
    assert time.thread_time() - began < 2.0  # 7 seconds where all of them were found
    assert len(str(refused.value)) < 300


def test_care_that_fails_is_told_and_goes_on(tmp_path, capsys):
    from undrift.serve.app import make_app

    async def watch(service):
        app = make_app(service)
        save, failing = service.save, True

        def fail(**options):
            if failing:
                raise OSError(28, "No space left on device")
            save(**options)

        service.save = fail
        service.models.is_due = lambda last: True
        async with app.router.lifespan_context(app):
            first = await until(app, lambda answer: answer[1]["status"] == "degraded")
            ready = await ask(app, "/ready")
            failing = False
            last = await until(app, lambda answer: answer[1]["status"] == "ok")
        return first, ready, last

    async def until(app, holds):
        for _ in range(100):
            answer = await ask(app, "/health")
            if holds(answer):
                return answer
            await asyncio.sleep(0.05)
        return pytest.fail(f"it stays {answer}")

    with open_service(save_model(tmp_path / "model.undrift")) as service:
        first, ready, last = run(watch(service))
        assert first == ready == (200, {"status": "degraded", "detail": "OSError: [Errno 28] No space left on device"})
        assert last == (200, {"status": "ok"})
        assert capsys.readouterr().err.count("No space left on device") == 1
        service.is_restored, service.failure = False, "the state could not be restored"

        async def probe():
            app = make_app(service)
            return [await ask(app, path) for path in ("/health", "/ready", "/status")]

        said = {"status": "stopped", "detail": "the state could not be restored"}
        health, ready, status = run(probe())
        assert health == (200, said)
        assert ready == (503, said)
        assert status[0] == 503
        service.is_restored = True


def test_keys_are_not_shown_while_the_state_is_not_restored(tmp_path):
    from undrift.serve.app import make_app

    async def probe(app):
        return [(await ask(app, path))[0] for path in ("/keys", "/keys/s1")]

    with open_service(save_model(tmp_path / "model.undrift"), key="shop") as service:
        row = {"shop": "s1", **dict.fromkeys(NAMES, 1.0)}
        service.predict([row])
        app = make_app(service)
        assert run(probe(app)) == [200, 200]
        service.is_restored, service.failure = False, "the state could not be restored"
        assert run(probe(app)) == [503, 503]
        service.is_restored = True


def run(coroutine):
    """Return what a coroutine returns, in a thread of its own: a browser may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


async def ask(app, path):
    """Return the status and the JSON of an answer, without a server."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": [(b"host", b"localhost")]}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])
