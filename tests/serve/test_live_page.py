"""The live page in Chromium: numbers and pictures appear, follow new labels without a reload, and fit small screens."""

import numpy as np
import pytest

import undrift as ud
from tests.serve.server_process import NAMES, running_server
from undrift.online import Table
from undrift.serve import Client


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(200, len(NAMES)))
    model = ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z), Z.sum(axis=1) + rng.normal(size=200))
    path = tmp_path_factory.mktemp("live") / "model.undrift"
    model.save(path)
    with running_server(path) as (_, url), Client(url) as client:
        yield url, client


@pytest.fixture
def keyed(tmp_path):
    """A service of two keys with 25 labels each."""
    model = ud.OnlineRegressor(speed="light")
    model.learn({"x": 1.0}, 1.0)
    model.save(tmp_path / "model.undrift")
    with running_server(tmp_path / "model.undrift", "--key", "shop") as (_, url), Client(url) as client:
        for x in np.random.default_rng(0).normal(size=25).tolist():
            answers = client.predict([{"shop": "north & co", "x": x}, {"shop": "south", "x": x}])
            client.learn({answers[0].id: 2.0 * x, answers[1].id: x - 4.0})
        yield url


def send(client, count):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(count, len(NAMES)))
    answers = client.predict([dict(zip(NAMES, map(float, z), strict=True)) for z in Z])
    client.learn({one.id: float(z.sum()) for one, z in zip(answers, Z, strict=True)})


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, False), (1200, True)])
def test_the_page_shows_and_follows_what_is_served(served, browser, width, dark):
    url, client = served
    send(client, 20)
    rounds = client.status()["rounds"]
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme="dark" if dark else "light")
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#rounds td")
    tiles = page.locator("#tiles .tile").all_inner_texts()
    assert tiles[0].split("\n")[0] == f"{rounds:,}"
    assert page.locator("#predictions circle").count() >= 20
    assert page.locator("#predictions path").count() == 2  # the band and the line
    assert page.locator("#state").inner_text() == "live"
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide == 0
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, background[4:-1].split(","))) < 60) == dark
    send(client, 5)
    page.wait_for_function(f"document.querySelector('#tiles b').textContent === '{rounds + 5:,}'", timeout=10_000)
    assert complaints == []
    page.close()


def test_the_page_says_why_there_are_no_intervals(served, browser):
    url, client = served
    learned = client.status()["rounds"]
    answers = client.predict([dict.fromkeys(NAMES, 0.5)] * (learned + 50))
    page = browser.new_page()
    page.goto(url)
    page.wait_for_function("document.querySelector('#state').textContent.startsWith('live; no intervals: ')")
    client.learn({one.id: 1.0 for one in answers})
    page.wait_for_function("document.querySelector('#state').textContent === 'live'", timeout=10_000)
    page.close()


def test_axes_have_round_numbers_and_rounds_that_fit(served, browser):
    url, client = served
    send(client, 300)
    for width, most in ((1200, 300), (390, 150)):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(url)
        page.wait_for_selector("#rounds td")
        for figure in ("#predictions", "#errors"):
            texts = page.locator(f"{figure} text").all_text_contents()
            values = [float(text.replace(",", "")) for text in texts if not text.startswith("row")]
            steps = np.diff(values)
            assert 2 <= len(values) <= 6
            np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
            digits = f"{steps[0]:e}"
            assert digits.startswith(("1.000000e", "2.000000e", "5.000000e")), texts
            np.testing.assert_allclose(values, steps[0] * np.round(values / steps[0]), atol=1e-9)
            assert texts[-1] == "row " + page.locator("#rounds td").first.inner_text()
        assert 60 <= page.locator("#predictions circle").count() <= most
        page.close()


def test_keys_are_listed_and_one_can_be_chosen(keyed, browser):
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(keyed)
    page.wait_for_selector("#worst td")
    assert page.locator("#tiles .tile").first.inner_text().split("\n") == ["2", "keys"]
    assert page.locator("#worst tr").count() == 3
    page.locator("#worst a").filter(has_text="north & co").click()
    page.wait_for_selector("#rounds td")
    assert page.locator("#target").inner_text() == "predicts y of north & co"
    assert page.locator("#tiles .tile").first.inner_text().split("\n") == ["25", "labels learned"]
    page.fill("#name", "nobody")
    page.click("#choose button")
    page.wait_for_function("document.querySelector('#state').textContent.includes(\"no key 'nobody'\")")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    page.close()


def test_the_interface_is_described_without_another_machine(served, browser):
    url, _ = served
    page = browser.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url + "docs")
    page.wait_for_selector("h2")
    assert {"POST /predict", "POST /learn"} <= set(page.locator("h2").all_inner_texts())
    assert all(one.startswith((url, "data:")) for one in asked)
    page.close()
