"""Two ranks (gloo, loopback): DDP and FSDP2 walk the one-process trajectory, and checkpoints resume exactly."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")


def test_two_ranks_walk_the_trajectory_of_one():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(__file__).parent / "ranks.py"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for rank, output in zip(ranks, outputs, strict=True):
        assert rank.returncode == 0, output
        assert output.rstrip().endswith("done"), output
