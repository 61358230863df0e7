"""ARCHITECTURE.md names files and layers that exist, and leaves no layer out."""

import re
import tomllib

import pytest

from tests.docs.test_site import ROOT

PACKAGE = ROOT / "src" / "undrift"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def paths(text):
    """Return the files and folders that a text names: below the package, at the root, or beside the one before."""
    folder, found = PACKAGE, []
    for name in re.findall(r"`((?:[\w.-]+/)*(?:[\w.-]+\.(?:py|h|cpp|html|md|toml)|(?<=/)))`", text):
        places = [ROOT, PACKAGE] if "/" in name else [ROOT, folder, PACKAGE]
        path = next((place / name for place in places if (place / name).exists()), places[-1] / name)
        if "/" in name:
            folder = path if name.endswith("/") else path.parent
        found.append(path)
    return found


def test_short_names_are_found_beside_the_file_before_them():
    text = "`learners/vaw.py`, `mean.py` beside it, `tests/docs/` and `test_site.py`; `README.md`, `trace.py`, and `Z`"
    names = ["learners/vaw.py", "learners/mean.py", "tests/docs", "tests/docs/test_site.py", "README.md", "trace.py"]
    wanted = [ROOT / name if (ROOT / name).exists() else PACKAGE / name for name in names]
    assert paths(text) == wanted
    assert not paths("`learners/vaw.py` and `unheard_of.py`")[1].exists()


@pytest.mark.parametrize("path", sorted(set(paths(TEXT))), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_it_names_exists(path):
    assert path.exists(), "a renamed file must be renamed in ARCHITECTURE.md too"


def test_it_names_files_of_every_kind():
    named = {str(path) for path in paths(TEXT)}
    assert len(named) > 50
    for ending in (".py", ".h", ".cpp", ".html"):
        assert any(name.endswith(ending) for name in named)


def test_the_picture_shows_every_layer():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["name"] == "import downwards only")
    packages = set(re.findall(r"undrift\.(\w+)", " ".join(layers)))
    section = TEXT.partition("## The picture")[2].partition("## ")[0]
    assert len(packages) > 25
    assert not [name for name in packages if not re.search(rf"\b{name}\b", section)]
