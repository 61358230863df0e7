"""Every theory page names a symbol that imports and a test that exists, and the table lists them all."""

import importlib
import runpy

import pytest

from tests.helpers import ROOT

THEORY = ROOT / "docs" / "theory"
TABLE = runpy.run_path(str(THEORY / "table.py"))
PAGES = TABLE["pages"]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_names_exists(page):
    fields = TABLE["front_matter"](page)
    for symbol in fields["symbols"]:
        module, parts = symbol, []
        while True:
            try:
                found = importlib.import_module(module)
                break
            except ModuleNotFoundError:
                module, _, name = module.rpartition(".")
                parts.insert(0, name)
        for name in parts:
            found = getattr(found, name)
        assert found is not None
    for test in fields["tests"]:
        assert "def test_" in (ROOT / test).read_text(encoding="utf-8")


def test_the_table_lists_every_page():
    written = (THEORY / "index.md").read_text(encoding="utf-8")
    assert written == TABLE["index"](), "run: python docs/theory/table.py"


def test_links_between_pages_lead_somewhere():
    for page in THEORY.glob("*.md"):
        for part in page.read_text(encoding="utf-8").split("](")[1:]:
            target = part.split(")")[0].partition("#")[0]
            assert (THEORY / target).exists(), f"{page.name} links to {target}"


def test_a_comma_within_brackets_does_not_end_an_item(tmp_path):
    page = tmp_path / "some.md"
    page.write_text("---\nkey: some\nitems: a (ours, after b, c), Lemma 2\nsymbols: d\ntests: e, f\n---\n")
    fields = TABLE["front_matter"](page)
    assert fields["items"] == ["a (ours, after b, c)", "Lemma 2"]
    assert fields["tests"] == ["e", "f"]


def test_a_page_without_front_matter_is_found_out(tmp_path):
    page = tmp_path / "bare.md"
    page.write_text("# Bare\n")
    with pytest.raises(ValueError, match="must begin with front matter"):
        TABLE["front_matter"](page)
    page.write_text("---\nkey: other\nitems: a\nsymbols: b\ntests: c\n---\n")
    with pytest.raises(ValueError, match="key the page's name"):
        TABLE["front_matter"](page)
