"""The generated header says what `kernels/definitions.py` says."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "kernel_header.py"


@pytest.fixture(scope="module")
def level():
    """Nothing here depends on the kernel level."""


def test_the_header_of_the_kernels_is_up_to_date():
    run = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
