"""What tests of several folders share: places of the project, and generators of streams."""

import os
from pathlib import Path

import pytest

from undrift.errors import InputError

ROOT = Path(__file__).parents[1]
"""The checkout."""
DATA = Path(os.environ.get("UNDRIFT_DATA", ROOT.parent / "shared" / "data"))
"""Public streams that are not part of the project; tests of them are skipped where they are missing."""


def refused(call, words: str) -> None:
    """Assert that a call ends in one short sentence with these words."""
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
