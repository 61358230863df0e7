"""Two ranks (gloo, loopback): DDP and FSDP2 walk the one-process trajectory, and checkpoints resume exactly."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch.distributed import checkpoint  # noqa: E402  # after the skip
from torch.distributed.checkpoint import state_dict  # noqa: E402  # after the skip

from tests.torch.ranks import CASES, SAVED, STEPS, agree, batch, model_of, single, step  # noqa: E402  # after the skip

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")


@pytest.mark.filterwarnings("ignore:ClipFreeAdam. norm='all' with random_scaling")
def test_two_ranks_walk_the_trajectory_of_one(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = Path(__file__).parent / "ranks.py"
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), str(port), str(tmp_path)],
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
    for name in CASES:
        go_on_alone(name, tmp_path / name)


def go_on_alone(name, folder):
    """One process reads what two ranks wrote, and goes on along the same trajectory."""
    make, options = CASES[name]
    model = model_of()
    opt = make(model.parameters(), lr=0.01, **options)
    weights, moments = state_dict.get_state_dict(model, opt)
    with pytest.warns(UserWarning, match="load in a single process"):
        checkpoint.load({"model": weights, "opt": moments}, checkpoint_id=folder, no_dist=True)
    state_dict.set_state_dict(model, opt, model_state_dict=weights, optim_state_dict=moments)
    assert opt.param_groups[0]["t"] == SAVED
    for k in range(SAVED, STEPS):
        step(model, opt, batch(k))
    agree(model, opt, *single(make, options))
