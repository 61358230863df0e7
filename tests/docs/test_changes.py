"""Fragments of the release notes have a kind, and are gathered into a changelog that names this version."""

import re
import subprocess
import sys
import tomllib

import pytest

import undrift as ud
from tests.helpers import ROOT

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in CONFIG["type"]]


def test_every_fragment_has_a_kind_and_says_something():
    for path in (ROOT / CONFIG["directory"]).iterdir():
        if path.name != "README.md":
            assert re.fullmatch(rf"\+[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name), path.name
            assert path.read_text(encoding="utf-8").strip(), path.name


def test_the_changelog_has_a_place_for_them_and_a_page_for_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count(CONFIG["start_string"]) == 1
    assert text.count(f"\n## {ud.__version__}\n") == 1
    page = text.partition(f"\n## {ud.__version__}\n")[2].partition("\n## ")[0]
    assert page.strip().startswith("### Breaking changes")


@pytest.mark.slow
def test_fragments_are_gathered_by_kind(tmp_path):
    pytest.importorskip("towncrier", reason="towncrier is not installed: make test-all")
    (tmp_path / "changes").mkdir()
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    for kind in reversed(KINDS):
        (tmp_path / "changes" / f"+one.{kind}.md").write_text(f"About {kind}.\n", encoding="utf-8")
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.findall(r"^- About (\w+)\.$", done.stdout, re.MULTILINE) == KINDS
