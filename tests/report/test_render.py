"""One HTML file: whole, the same every time, honest about what is missing, and nothing in it but what we put there."""

import dataclasses
import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.report.report_runs import jumping_rows, play_run
from undrift.errors import InputError
from undrift.report import render

EVIL = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "\"><img src=x onerror='window.pwned=1'>",
    "<!--<script>",
    "{{ 7*7 }}{% raw %}",
    "__proto__",
    "%{x} $x^2$ & \u2028 \x00",
)


class Elements(HTMLParser):
    """What a page consists of, as a parser sees it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.blocks, self._open = [], [], {}, None
        self.text = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._open = dict(attrs).get("id", tag) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.blocks[self._open] = self.blocks.get(self._open, "") + data
        else:
            self.text.append(data)


@pytest.fixture(scope="module")
def run():
    return {task: play_run(task, *jumping_rows(task, 600)) for task in ("regression", "classification")}


def page(data, tmp_path):
    return Elements(render(data, tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_the_numbers_are_inside_as_json(run, task, tmp_path):
    data = run[task]
    found = page(data, tmp_path)
    numbers = json.loads(found.blocks["numbers"])
    assert numbers["rounds"] == 600
    assert numbers["scores"][0]["name"] == "undrift"
    assert [one["name"] for one in numbers["certificates"]] == ["best fixed", "20 pieces", "smooth"]
    assert numbers["certificates"][0]["bound"] == data.certificates[0]["bound"]
    figures = {one["key"] for one in json.loads(found.blocks["figures"])}
    own = {"calibration", "confusion", "ranking"} if task == "classification" else {"intervals"}
    assert figures == own | {
        "predictions",
        "rolling",
        "cumulative",
        "spectrum",
        "candidates",
        "certificate",
        "contributions",
        "drift",
        "effects",
    }


def test_every_figure_points_to_numbers_that_exist(run, tmp_path):
    found = page(run["regression"], tmp_path)
    numbers = json.loads(found.blocks["numbers"])

    def follow(value):
        if isinstance(value, list):
            return sum(map(follow, value))
        if not isinstance(value, dict):
            return 0
        for key in ("$", "$x", "along"):
            if key in value:
                at = numbers
                for step in value[key]:
                    at = at[step]
                return len(at)
        return sum(map(follow, value.values()))

    assert all(follow(figure) for figure in json.loads(found.blocks["figures"]) if figure["key"] != "certificate")


def test_the_same_run_gives_the_same_bytes(run, tmp_path):
    first = render(run["regression"], tmp_path / "a.html").read_bytes()
    assert render(run["regression"], tmp_path / "b.html").read_bytes() == first
    assert len(first) < 6_000_000


def test_nothing_is_fetched(run, tmp_path):
    found = page(run["classification"], tmp_path)
    assert not {"link", "iframe", "img", "object", "embed", "base", "form"} & set(found.tags)
    links = [value for name, value in found.attributes if name in ("src", "href", "action", "srcset")]
    assert links
    assert all(value.startswith("#") for value in links)
    policy = next(value for _, value in found.attributes if value and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_figures_and_tables_are_accessible(run, tmp_path):
    text = render(run["regression"], tmp_path / "r.html").read_text(encoding="utf-8")
    assert '<html lang="en">' in text
    plots = re.findall(r'<div class="(?:plot|panels)"[^>]*role="img"[^>]*>', text)
    assert len(plots) == 10
    assert all(re.search(r'aria-label="[^"]{40,}"', plot) for plot in plots)
    found = Elements(text)
    assert found.tags.count("h1") == 1
    assert found.tags.count("th") == sum(name == "scope" for name, _ in found.attributes)


def test_user_text_cannot_inject_anything(tmp_path):
    names = list(EVIL)
    Z, y = jumping_rows("classification", 120, dim=len(names))
    clean = play_run("classification", Z, y, certify=False)
    dirty = dataclasses.replace(
        clean,
        target=EVIL[1],
        features=names,
        coef_names=[*names, "(intercept)"],
        classes=[EVIL[0], EVIL[2]],
        candidates=[EVIL[1], *clean.candidates[1:]],
        settings={EVIL[0]: EVIL[1], "nested": {EVIL[2]: [EVIL[1]]}},
        provenance={"command": EVIL[1]},
        learned=[{"path": f"/data/{EVIL[2]}\udc80.csv", "sha256": EVIL[0]}],
        problems=[{"kind": EVIL[0], "column": EVIL[1], "count": 1, "lines": [1], "note": EVIL[2]}],
        notes=list(EVIL),
        certificates=[{"name": EVIL[1], "leaf": EVIL[0], "refused": EVIL[2], "refit_every": None}],
    )
    before, after = page(clean, tmp_path), page(dirty, tmp_path)
    assert after.tags.count("script") == before.tags.count("script") == 5
    assert "img" not in after.tags
    assert not any(name.startswith("on") for name, _ in after.attributes)
    assert after.blocks["script"] == before.blocks["script"]  # not a byte of a script depends on the data
    text = " ".join(after.text)
    assert all(evil.replace("\x00", "\ufffd") in text or evil in text for evil in EVIL)
    assert json.loads(after.blocks["numbers"])["features"] == names


def test_certificates_are_put_into_words(run, tmp_path):
    base = {"leaf": "VAW", "start": 1.0, "stability": 8.0, "variation": 3.0, "potential_drift": 0.0, "excess": 0.0}
    one = {"name": "20 pieces", **base, "regret": 4.0, "bound": 12.0, "comparator_loss": 100.0, "own_loss": 104.0}
    one |= {"words": "a line refitted every 30 rows", "kind": "any line that changes at the same rows"}
    one |= {"rounds": 400, "refit_every": 30, "refused": None, "hindsight": {"bound": 10.0}}
    data = dataclasses.replace(run["regression"], certificates=[one])

    def shown(*certificates):
        return " ".join(page(dataclasses.replace(data, certificates=certificates), tmp_path).text)

    text = shown(one)
    assert "The total loss was 4% above that of a line refitted every 30 rows, which knew every label." in text
    kind = "that of any line that changes at the same rows, with coefficients no larger; its method promised"
    assert f"Proven: at most 10.6% above {kind}" in text  # 10 / (104 - 10): the others lost 94 at least, not 100
    assert "its method promised at most 12% above." in text
    assert "This covers 400 rows of 600." in text
    better = {**one, "excess": -20.0, "bound": -8.0, "regret": -16.0, "own_loss": 84.0, "hindsight": {"bound": -15.0}}
    text = shown(better)
    assert "The total loss was 16% below that of a line refitted every 30 rows" in text
    assert f"Proven: at least 15.2% below {kind}" in text  # 15 / (84 + 15)
    assert "its method promised at least 8% below." in text
    weak = {**one, "stability": 400.0, "bound": 404.0, "hindsight": None}
    fixed = {**one, "name": "best fixed", "words": "a line that stands still", "refit_every": None}
    text = shown(weak, fixed)
    assert "The total loss was 4% above that of a line that stands still, which knew every label." in text
    assert "which knew every label. Proven: the a-priori bound is vacuous here." in text
    for broken in ({**one, "regret": 13.0}, {**one, "hindsight": {"bound": 3.0}}):
        assert "a certificate does not hold" in shown(broken)
    text = shown({**one, "comparator_loss": 1e-30, "own_loss": 4.0})
    assert "The total loss was 4; a line refitted every 30 rows, which knew every label, lost nothing." in text
    text = shown({**one, "words": None, "kind": None, "name": "of my own"})
    assert "above that of the comparator “of my own”" in text
    assert "above that of any of its kind" in text
    refused = {"name": "best fixed", "refit_every": None, "refused": "a column is all zero"}
    text = " ".join(page(dataclasses.replace(data, certificates=[refused]), tmp_path).text)
    assert "No certificate covers this run:" in text
    assert "a column is all zero" in text


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_one_row_is_enough(task, tmp_path):
    Z, y = jumping_rows(task, 1)
    found = page(play_run(task, Z, y, certify=False), tmp_path)
    assert json.loads(found.blocks["numbers"])["rounds"] == 1


def test_a_constant_target_and_no_snapshots_are_fine(tmp_path):
    Z, _ = jumping_rows("regression", 40)
    data = play_run("regression", Z, np.full(40, 3.0), certify=False)
    empty = np.empty((0, 8))
    data = dataclasses.replace(
        data,
        spectrum=empty,
        spectrum_round=np.empty(0),
        candidate_weights=empty,
        coef=empty,
        coef_round=np.empty(0),
        lower=None,
        upper=None,
        effects={},
        problems=[],
    )
    found = page(data, tmp_path)
    shown = {one["key"] for one in json.loads(found.blocks["figures"])}
    assert shown == {"predictions", "rolling", "cumulative", "drift"}
    text = " ".join(found.text)
    assert "Nothing beyond the scores above" in text
    assert "None found" in text
    assert math.nan not in json.loads(found.blocks["numbers"])["scores"][0]["measures"].values()


def test_a_run_without_rows_and_a_folder_that_is_not_there_are_refused(run, tmp_path):
    none = dataclasses.replace(run["regression"], y=np.empty(0))
    with pytest.raises(InputError, match="report: the run has no finished rows"):
        render(none, tmp_path / "r.html")
    with pytest.raises(InputError, match=r"cannot be written \(there is no such folder to write into\)"):
        render(run["regression"], tmp_path / "nowhere" / "r.html")
    assert not list(tmp_path.iterdir())
