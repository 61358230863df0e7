"""ZeroRedundancyOptimizer on two ranks (gloo, loopback): with the process group given, they step as one rank."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


def test_two_ranks_walk_the_trajectory_of_one():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = str(Path(__file__).parent / "zero_ranks.py")
    both = subprocess.STDOUT
    ranks = [
        subprocess.Popen(
            [sys.executable, program, str(rank), str(port)], stdout=subprocess.PIPE, stderr=both, text=True
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, output in zip(ranks, outputs, strict=True):
        assert rank.returncode == 0, output
        assert output.strip().endswith("done")
