"""Every Adam result has a page whose front matter names symbols that import and tests that exist."""

import importlib
import re

import pytest

from tests.helpers import ROOT
from undrift.optim.theorems import THEOREMS

SOURCES = sorted((ROOT / "src" / "undrift" / "optim").rglob("*.py"))
KEYS = sorted(
    {key for path in SOURCES for key in re.findall(r"[Kk]eys? `([a-z0-9/-]+)`", path.read_text(encoding="utf-8"))}
)


def resolve(symbol):
    """Import as much of a dotted name as is a module, then follow the attributes."""
    module, names = symbol, []
    while True:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, name = module.rpartition(".")
            names.insert(0, name)
        else:
            break
    for name in names:
        found = getattr(found, name)
    return found


def test_the_code_cites_its_results():
    assert {"certificate", "clipped/nu", "ftrl-decomposition", "ftrl-is-adam", "o2nc", "smooth"} <= set(KEYS)


@pytest.mark.parametrize("key", sorted({*KEYS, *THEOREMS}))
def test_a_cited_key_has_a_page_a_symbol_and_a_test(key):
    head = (ROOT / "docs" / "theory" / f"{key.replace('/', '-')}.md").read_text(encoding="utf-8").split("---")[1]
    fields = dict(line.split(": ", 1) for line in head.strip().splitlines())
    assert list(fields) == ["key", "items", "symbols", "tests"]
    assert fields["key"] == key.replace("/", "-")
    for symbol in fields["symbols"].split(", "):
        assert resolve(symbol) is not None
    for test in fields["tests"].split(", "):
        assert "def test_" in (ROOT / test).read_text(encoding="utf-8")
