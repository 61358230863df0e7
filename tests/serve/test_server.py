"""`undrift serve` as a process: what clients see, hostile ones too, and what a kill leaves."""

import json
import signal
import socket
import urllib.request
from urllib.parse import urlsplit

import numpy as np
import pytest

import undrift as ud
from tests.serve.server_process import NAMES, fetch, running_server
from undrift.errors import InputError
from undrift.online import Table
from undrift.serve import Client


@pytest.fixture
def model_file(tmp_path):
    """A model that has learned 100 rows of five features."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(100, 5))
    model = ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z), Z.sum(axis=1) + 50.0)
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


def rows(count, seed=0):
    Z = np.random.default_rng(seed).normal(size=(count, len(NAMES)))
    return [dict(zip(NAMES, map(float, z), strict=True)) for z in Z]


def test_clients_predict_and_learn_and_others_look_on(model_file):
    with running_server(model_file) as (process, url), Client(url) as client:
        answers = client.predict(rows(10), ["first", *[None] * 9])
        assert [one.id for one in answers] == list(range(1, 11))
        assert all(one.lower < one.prediction < one.upper and one.known for one in answers)
        assert client.learn({"first": 50.0, 2: 51.0}) == 2
        assert client.learn({2: 51.0}) == 0
        status = client.status()
        assert (status["rounds"], status["waiting"], status["judged"]) == (102, 8, 2)
        assert fetch(url + "health") == (200, '{"status":"ok"}')
        code, text = fetch(url + "metrics")
        assert code == 200
        assert "undrift_rounds 102.0" in text
        assert 'undrift_request_seconds_count{what="predict"} 1.0' in text
        assert "<title>undrift, live</title>" in fetch(url)[1]
        assert "Give it back with the label." in fetch(url + "openapi.json")[1]
        with urllib.request.urlopen(url + "live", timeout=20) as stream:
            event = json.loads(stream.readline().removeprefix(b"data: "))
        assert event["rounds"] == 102
        assert len(event["recent"]) == 2
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert process.returncode == 0
    assert ud.load(model_file.with_name("model-service") / "model.undrift").rounds == 102


def test_a_kill_loses_nothing_that_was_answered(model_file):
    sent = rows(60)
    with running_server(model_file) as (process, url), Client(url) as client:
        answers = client.predict(sent)
        assert client.learn({one.id: 50.0 for one in answers[:30]}) == 30
        process.kill()
    with running_server(model_file) as (process, url), Client(url) as client:
        assert client.status()["rounds"] == 130
        assert client.learn({one.id: 50.0 for one in answers}) == 30
        again = client.predict(sent[:3])
    model = ud.load(model_file)
    served = [model.ask(row) for row in sent]
    for one in served:
        model.tell(one, 50.0)
    assert [one.prediction for one in again] == [model.ask(row).yhat for row in sent[:3]]


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("predict", "{", 422, "the request is not valid JSON: EOF"),
        ("predict", "[]", 422, "the request must be an object with rows and references"),
        ("predict", '{"rows": []}', 422, "1 to 10,000 rows"),
        ("predict", '{"rows": [{"x0": [1]}]}', 422, "rows 0 x0: must be a number, a text, true, false or null"),
        ("predict", '{"rows": [{"x0": 1e999}]}', 422, "must be at most 1e+75 in size"),
        ("predict", '{"rows": [{"nothing": 1}]}', 422, "a row needs columns of the run, such as 'x0'"),
        ("predict", '{"rows": [{}], "more": 1}', 422, "there is no field 'more'"),
        ("learn", '{"labels": [{"id": 7, "y": 1}]}', 422, "no row has the id 7"),
        ("learn", '{"labels": [{"id": -1, "y": 1}]}', 422, "no row has the id -1"),
        ("learn", '{"labels": [{"y": 1}]}', 422, "needs the id of its row"),
        ("learn", '{"labels": [{"id": 1e40, "y": 1}]}', 422, "valid integer"),
        ("learn", '{"labels": [{"id": true, "y": 1}]}', 422, "valid integer"),
        ("learn", '{"labels": [{"id": 1, "y": [1]}]}', 422, "labels 0: y: must be a number, a text"),
        ("predict", '{"rows": [{}], "references": [1]}', 422, "references must be texts or null"),
        ("predict", '{"rows": [' + "{}," * 10_000 + "{}]}", 413, "a request holds 1 to 10,000 rows; split it"),
        ("learn", " " * 200_000, 413, "100,000 bytes"),
        ("elsewhere", "{}", 404, "Not Found"),
    ],
)
def test_hostile_requests_are_refused_and_the_service_lives(shared_server, path, body, status, words):
    code, text = fetch(shared_server + path, body, {"Content-Type": "application/json"})
    assert code == status
    assert words in text
    assert fetch(shared_server + "health")[0] == 200


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    model = ud.OnlineRegressor(speed="fast")
    for row in rows(20, seed=3):
        model.learn(row, 1.0)
    model.save(folder / "model.undrift")
    with running_server(folder / "model.undrift", "--largest", "100000") as (_, url):
        yield url


def test_lies_about_length_and_half_requests_do_not_stop_it(shared_server):
    where = urlsplit(shared_server)
    for head in (b"POST /learn HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n", b"GARBAGE\r\n\r\n", b"POST"):
        with socket.create_connection((where.hostname, where.port), timeout=20) as half:
            half.sendall(head)
    assert fetch(shared_server + "learn", "x" * 1000, {"Content-Length": "1000"})[0] == 422
    assert fetch(shared_server + "health")[0] == 200


def test_a_token_is_asked_for(model_file):
    with running_server(model_file, token="secret word") as (_, url):
        assert fetch(url + "status")[0] == 401
        assert fetch(url + "predict", '{"rows": [{}]}', {"Authorization": "Bearer wrong"})[0] == 401
        assert fetch(url + "health")[0] == 200
        with Client(url, token="secret word") as client:
            assert client.status()["waiting"] == 0
        with Client(url) as client, pytest.raises(InputError, match="refused \\(401\\): an access token is needed"):
            client.status()


def test_the_rate_is_limited(model_file):
    with running_server(model_file, "--rate", "5") as (_, url):
        codes = [fetch(url + "health")[0] for _ in range(30)]
    assert codes[:5] == [200] * 5
    assert 429 in codes


def test_no_one_else_may_write_without_a_token(model_file, undrift):
    assert "put an access token into UNDRIFT_TOKEN" in undrift("serve", model_file, "--host", "0.0.0.0")


@pytest.fixture
def undrift(capsys):
    from undrift.cli.app import run

    def call(*arguments):
        assert run([str(one) for one in arguments]) == 2
        return capsys.readouterr().err

    return call


def test_wrong_options_are_one_sentence(model_file, undrift):
    assert "--hold must be a number of hours, or 0 for no limit" in undrift("serve", model_file, "--hold", "-1")
    assert "--rate must be above 0" in undrift("serve", model_file, "--rate", "-1")
    assert "cannot listen there" in undrift("serve", model_file, "--port", "99999")


def test_a_client_without_a_service_is_one_sentence():
    with pytest.raises(InputError, match="no service answers at"):
        Client("http://127.0.0.1:9").status()
    with pytest.raises(InputError, match="url must be"):
        Client("127.0.0.1:80")


def test_a_request_that_does_not_begin_in_time_is_cut_off(tmp_path):
    import threading
    import time

    import uvicorn
    from fastapi import FastAPI

    from undrift.serve.limits import RequestLimits
    from undrift.serve.server import make_config

    app = FastAPI()
    app.get("/slow")(lambda: time.sleep(0.6) or "done")
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(make_config(app, RequestLimits(seconds_to_arrive=0.3)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    address = listener.getsockname()
    try:
        for begin in (b"", b"GET /slow HTTP/1.1\r\nHost: x\r\nX-More: "):
            with socket.create_connection(address, timeout=20) as slow:
                slow.sendall(begin)
                assert slow.recv(100) == b""
        with socket.create_connection(address, timeout=20) as good:
            for _ in range(2):  # an answer may take longer than a request, and a connection may wait between two
                good.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                answer = b""
                while b"done" not in answer:  # it comes in parts
                    answer += good.recv(1000)
                time.sleep(0.5)
            good.sendall(b"GET /slow HTTP/1.1\r\n")
            assert good.recv(1000) == b""
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()
