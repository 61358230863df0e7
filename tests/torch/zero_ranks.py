"""Work for two ranks, run by test_zero.py: ZeRO shares parameters out without saying so to the optimizer."""

import functools
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from undrift.torch import ClippedAdam


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()


def steps(model, opt, rows):
    for k in range(6):
        z = torch.randn(8, 3, generator=torch.Generator().manual_seed(k), dtype=torch.float64)[rows]
        opt.zero_grad()
        (model(z) - z.sum(1, keepdim=True)).square().mean().backward()
        opt.step()


def main(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    whole = model_of()
    steps(whole, ClippedAdam(whole.parameters(), lr=0.05, norm="all"), slice(None))
    half = slice(4 * rank, 4 * rank + 4)
    far = []
    for make in (functools.partial(ClippedAdam, process_group=dist.group.WORLD), ClippedAdam):
        model = model_of()
        opt = ZeroRedundancyOptimizer(model.parameters(), make, lr=0.05, norm="all")
        steps(DistributedDataParallel(model), opt, half)
        pairs = zip(model.parameters(), whole.parameters(), strict=True)
        far.append(max(float((p - q).abs().max()) for p, q in pairs))
    assert far[0] < 1e-12, far
    assert far[1] > 1e-3, far  # each rank has a norm of its own: what the documentation warns of
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)
    os._exit(0)  # torch's own threads can abort a process that ends in the ordinary way ("terminate called")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
