"""Every tutorial runs as it stands, with its own claims at its end, and has a picture that a program draws."""

import re

import pytest

from tests.docs.test_site import DOCS, ROOT, module

PAGES = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index")
tutorials = module(ROOT / "tools" / "tutorials.py")


NETWORKS = {"network"}
"""Pages that need torch; tests/torch runs them."""


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PAGES if path.stem not in NETWORKS], ids=lambda path: path.stem)
def test_the_page_runs_and_keeps_its_claims(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "\nassert " in path.read_text(encoding="utf-8")
    names = tutorials.play_page(path)
    assert len(names) > 5


def test_every_page_has_its_picture_and_a_place_in_the_list():
    assert {path.stem for path in PAGES} == set(tutorials.PICTURES)
    listed = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    for path in PAGES:
        assert f"]({path.name})" in listed
        assert re.findall(r"\]\(([\w-]+\.png)\)", path.read_text(encoding="utf-8")) == [f"{path.stem}.png"]
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_command_that_fails_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```sh\nundrift run nowhere.csv --target y\n```\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"page\.md: undrift run nowhere\.csv --target y ended with 2"):
        tutorials.play_page(page)
