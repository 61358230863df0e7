"""Pages of other sites: a browser on this machine must not let them predict, learn or read."""

import functools
import http.client
import http.server
import json
import threading

import numpy as np
import pytest

import undrift as ud
from tests.serve.server_process import NAMES, fetch, running_server
from undrift.errors import InputError
from undrift.online import Table
from undrift.serve import Client
from undrift.serve.limits import RequestLimits

ROWS = json.dumps({"rows": [{"x0": 1.0}]})
LABELS = json.dumps({"labels": [{"id": 1, "y": 1e70}]})


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    Z = np.random.default_rng(1).normal(size=(50, len(NAMES)))
    model = ud.OnlineRegressor(speed="light")
    model.play(Table(NAMES, Z), Z.sum(axis=1))
    path = tmp_path_factory.mktemp("sites") / "model.undrift"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def url(model_file):
    allowed = ("--allow-host", "Model.example.com", "--allow-origin", "https://board.example.com")
    with running_server(model_file, *allowed) as (_, url):
        yield url


def ask(url, path, headers, body=None, method=None):
    """Return the status, headers and text of an answer to exactly these headers."""
    port = url.rstrip("/").rpartition(":")[2]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    try:
        connection.putrequest(method or ("GET" if body is None else "POST"), path, skip_host=True)
        for name, value in {**headers, **({} if body is None else {"Content-Length": len(body)})}.items():
            connection.putheader(name, str(value).replace("PORT", port))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
def test_a_body_must_be_declared_as_json(url, kind):
    headers = {"Host": "localhost:PORT", **({} if kind is None else {"Content-Type": kind})}
    status, _, text = ask(url, "/predict", headers, ROWS)
    assert status == 415
    assert "send the header 'Content-Type: application/json'" in text
    assert json.loads(fetch(url + "status")[1])["entries"] == 0
    assert ask(url, "/predict", {**headers, "Content-Type": "Application/JSON; charset=utf-8"}, "{}")[0] == 422


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/events", "/live", "/docs", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:PORT", "127.0.0.1.evil.example", "10.0.0.1", "a@localhost"]
)
def test_a_name_that_is_not_the_service_s_is_refused_everywhere(url, path, host):
    status, _, text = ask(url, path, {"Host": host})
    assert status == 403
    assert "start it with --allow-host and that name" in text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:PORT", "127.0.0.1:1", "127.8.9.10", "[::1]:PORT", "model.example.com:443"]
)
def test_names_of_this_machine_and_allowed_ones_are_answered(url, host):
    assert ask(url, "/status", {"Host": host})[0] == 200


def test_probes_answer_under_any_name(url):
    for path in ("/health", "/ready"):
        assert ask(url, path, {"Host": "10.1.2.3:8000"})[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://board.example.com.evil"]
)
def test_requests_of_other_sites_pages_are_refused(url, origin):
    headers = {"Host": "localhost:PORT", "Origin": origin, "Content-Type": "application/json"}
    for body, path in ((ROWS, "/predict"), (LABELS, "/learn"), (None, "/status"), (None, "/live")):
        status, shared, text = ask(url, path, headers, body)
        assert status == 403
        assert "may not call this service" in text
        assert "access-control-allow-origin" not in shared
    preflight = {**headers, "Access-Control-Request-Method": "POST"}
    assert ask(url, "/predict", preflight, method="OPTIONS")[0] == 403
    assert json.loads(fetch(url + "status")[1])["entries"] == 0


def test_the_service_s_own_pages_and_allowed_sites_may_call(url):
    assert ask(url, "/status", {"Host": "127.0.0.1:PORT", "Origin": "http://127.0.0.1:PORT"})[0] == 200
    headers = {"Host": "model.example.com", "Origin": "https://board.example.com"}
    status, shared, _ = ask(url, "/status", headers)
    assert (status, shared["access-control-allow-origin"]) == (200, "https://board.example.com")
    status, shared, _ = ask(url, "/predict", headers, method="OPTIONS")
    assert (status, shared["access-control-allow-headers"]) == (200, "authorization, content-type")


def test_a_service_on_every_address_is_called_by_address_or_by_an_allowed_name(model_file, tmp_path):
    file = tmp_path / "model.undrift"
    file.write_bytes(model_file.read_bytes())
    with running_server(file, "--host", "0.0.0.0", token="word") as (_, url):
        known = {"Authorization": "bEaReR  word"}
        assert ask(url, "/status", {"Host": "192.168.1.7:PORT", **known})[0] == 200
        assert ask(url, "/status", {"Host": "evil.example:PORT", **known})[0] == 403
        assert ask(url, "/status", {"Host": "192.168.1.7:PORT", "Authorization": "Basic word"})[0] == 401


def test_what_can_never_be_allowed_is_one_sentence():
    with pytest.raises(InputError, match="--allow-host must be a name or an address such as"):
        RequestLimits(hosts=("a/b",))
    for wrong in ("example.com", "https://example.com/", "ftp://example.com", "https://"):
        with pytest.raises(InputError, match="--allow-origin must be such as https://"):
            RequestLimits(origins=(wrong,))


PAGE = """<!doctype html><title>elsewhere</title><iframe name="hidden"></iframe><script>
async function attempt(url, options) {
  try { const a = await fetch(url, options); return a.type + " " + a.status; } catch (e) { return "blocked"; }
}
async function attack(url, rows, labels) {
  const said = [];
  for (const [path, body] of [["predict", rows], ["learn", labels]]) {
    for (const kind of ["text/plain", "application/x-www-form-urlencoded", "application/json"])
      for (const mode of ["cors", "no-cors"])
        said.push(await attempt(url + path, {method: "POST", mode, body, headers: {"Content-Type": kind}}));
    said.push(await attempt(url + path, {method: "POST", mode: "no-cors", body: new Blob([body])}));
    navigator.sendBeacon(url + path, new Blob([body], {type: "text/plain"}));
    const form = document.createElement("form"), field = document.createElement("input");
    form.method = "POST"; form.action = url + path; form.enctype = "text/plain"; form.target = "hidden";
    const cut = body.length - 2; field.name = body.slice(0, cut) + ', "a'; field.value = '": 1' + body.slice(cut);
    form.append(field); document.body.append(form); form.submit();
    await new Promise(done => setTimeout(done, 300));
  }
  for (const path of ["status", "live", "metrics"]) said.push(await attempt(url + path, {}));
  return said;
}
</script>"""


@pytest.fixture
def elsewhere(tmp_path):
    """A page of another origin: the same machine and another port."""
    (tmp_path / "index.html").write_text(PAGE)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.func.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_in_a_browser_a_page_of_another_origin_can_neither_predict_nor_learn_nor_read(
    model_file, tmp_path, elsewhere, browser
):
    file = tmp_path / "model.undrift"
    file.write_bytes(model_file.read_bytes())
    with running_server(file) as (_, url), Client(url) as client:
        (answer,) = client.predict([{"x0": 1.0}])
        before = client.status()
        page = browser.new_page()
        page.goto(elsewhere)
        said = page.evaluate("([url, rows, labels]) => attack(url, rows, labels)", [url, ROWS, LABELS])
        assert {one for one in said if not one.startswith("opaque")} == {"blocked"}
        after = client.status()
        assert (after["entries"], after["rounds"]) == (before["entries"], before["rounds"])
        assert client.learn({answer.id: 1.0}) == 1
        page.goto(url)  # the service's own page works
        page.wait_for_selector("#rounds td")
        own = "fetch('learn', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'})"
        assert page.evaluate(f"{own}.then(answer => answer.status)") == 422
        page.close()
