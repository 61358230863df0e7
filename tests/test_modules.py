"""Every module is reachable as an attribute, and says what to install where something is missing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import undrift as ud

PRIVATE = {"_internal", "cli"}
"""What only the command line and the folders of runs need."""
LOADED_BY_IMPORT = """
import sys, undrift
print(*sorted(name for name in ("polars", "torch", "jax", "river", "sklearn", "plotly") if name in sys.modules))
"""


def test_every_public_module_is_an_attribute():
    package = Path(ud.__file__).parent
    files = {path.stem for path in package.glob("[a-z]*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    assert set(ud._MODULES) == files - PRIVATE
    assert set(ud._MODULES) <= set(dir(ud))


@pytest.mark.parametrize("name", sorted({*ud._MODULES} - {"optax", "torch", "spark", "sktime"}))
def test_modules_come_when_they_are_asked_for(name):
    vars(ud).pop(name, None)
    assert getattr(ud, name).__name__ == f"undrift.{name}"


def test_importing_undrift_loads_none_of_their_libraries():
    done = subprocess.run([sys.executable, "-c", LOADED_BY_IMPORT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", ["LinearEnsemble", "LogisticEnsemble"])
def test_an_old_name_is_told_the_new_one(name):
    new = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    with pytest.raises(AttributeError, match=rf"undrift.{name} is made by undrift.{new}\("):
        getattr(ud, name)
    assert callable(getattr(ud, new))
