"""The glossary explains words that exist: every file it names is there, and every attribute is one of ours."""

import re

import numpy as np
import pytest

import undrift as ud
from tests.docs.test_site import DOCS, ROOT

FIRST_PAGES = [
    *(DOCS / name for name in ("index.md", "quickstart.md", "choosing.md", "examples.md")),
    *(DOCS / "tutorials").glob("*.md"),
]
SPECIAL = {
    "half-life": "half-li(fe|ves)", "level-2": "(second level|level 2)", "family": "famil(y|ies)", "mixer": "mixers?",
    "memory": "memor(y|ies)", "regret": "regret", "certificate": "certificates?", "hint": "hints?",
    "candidate": "candidates?", "discount": "discount(s|ed)?", "pinball-loss": "pinball", "coverage": "coverage",
    "leader": "leader", "hinge": "hinges?", "wave": "waves?", "context": "context",
    "comparator": "(comparators?|rivals?)",
}  # fmt: skip
"""Words that mean something particular here, by their place in the glossary, and how they are written."""
TEXT = (DOCS / "glossary.md").read_text(encoding="utf-8")


def test_it_explains_every_word_once():
    words = re.findall(r'^\| <a id="([\w-]+)"></a>\*\*([\w -]+)\*\* \|', TEXT, re.MULTILINE)
    assert len(words) >= 20
    assert len(set(words)) == len(words)
    assert all(anchor == word.replace(" ", "-") for anchor, word in words)


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: page.name)
def test_pages_for_newcomers_link_the_special_words_they_use(page):
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|^#.*$", " ", text, flags=re.DOTALL | re.MULTILINE)
    used = {word for word in SPECIAL if re.search(rf"\b{SPECIAL[word]}\b", prose, re.IGNORECASE)}
    linked = set(re.findall(r"glossary\.md#([\w-]+)", text))
    assert used <= linked


def test_the_page_on_forecasts_links_the_words_of_its_scores():
    linked = set(re.findall(r"glossary\.md#([\w-]+)", (DOCS / "forecast.md").read_text(encoding="utf-8")))
    assert {"season", "MASE"} <= linked & set(re.findall(r'<a id="([\w-]+)">', TEXT))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`((?:src|tests|docs|tools)/[\w./-]+)`", TEXT))))
def test_the_files_it_names_exist(name):
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`([A-Z]\w+\.\w+)`", TEXT))))
def test_the_attributes_it_names_exist(name):
    owner, attribute = name.split(".")
    special = {"Learner": ud.DiscountedVAW(), "Trace": ud.trace.Trace(np.zeros(1))}
    assert attribute in dir(special[owner] if owner in special else getattr(ud, owner)())
