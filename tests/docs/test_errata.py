"""The page of errata covers every entry, and names tests that exist."""

import re

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "theory" / "errata.md").read_text(encoding="utf-8")
ENTRIES = [f"E{k}" for k in range(1, 12)]


def test_every_entry_is_explained_and_has_a_row():
    assert sorted(re.findall(r"^\*\*(E\d+)\.", PAGE, re.M), key=ENTRIES.index) == ENTRIES
    assert re.findall(r"^\| (E\d+) \|", PAGE, re.M) == ENTRIES


def test_every_row_names_tests_that_exist():
    for row in re.findall(r"^\| E\d+ \|.*$", PAGE, re.M):
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, name in named:
            assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), row
