"""Work for two ranks, run by test_distributed.py in processes of its own."""

import copy
import faulthandler
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import state_dict as dcp
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from undrift.torch import ClipFreeAdam, ClippedAdam

CASES = {
    "clipped-all": (ClippedAdam, {"norm": "all", "clip": 0.5}),
    "clipped-tensor": (ClippedAdam, {"norm": "tensor", "clip": 0.5}),
    "clipped-coord": (ClippedAdam, {"norm": "coord"}),
    "clip-free-all-exp": (ClipFreeAdam, {"norm": "all", "random_scaling": "exp", "seed": 3}),
}
STEPS, SAVED = 20, 12


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()  # 5 rows: uneven shards


def batch(k):
    rng = torch.Generator().manual_seed(500 + k)
    return torch.randn(8, 3, generator=rng, dtype=torch.float64)


def step(model, opt, z):
    opt.zero_grad()
    (model(z) - z.sum(1, keepdim=True).abs()).square().mean().backward()
    opt.step()


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()


def agree(model, opt, reference, other):
    """Parameters, averages and every scalar are those of the one-process run, to rounding."""
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(whole(p), q.detach(), rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(whole(opt.average_of(p)), other.average_of(q), rtol=1e-11, atol=1e-12)
    one, two = opt.param_groups[0], other.param_groups[0]
    for name in ("t", "v", "spread", "m_square", "gradient_sum", "spread_sum"):
        assert abs(one[name] - two[name]) <= 1e-9 * (abs(two[name]) + 1e-12), (name, one[name], two[name])


def single(make, options):
    model = model_of()
    opt = make(model.parameters(), lr=0.01, **options)
    for k in range(STEPS):
        step(model, opt, batch(k))
    return model, opt


def shard(make, options, rank):
    model = model_of()
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    fully_shard(model, mesh=mesh)
    return model, make(model.parameters(), lr=0.01, **options)


def main(rank, port, folder):
    faulthandler.dump_traceback_later(240, exit=True)  # say where it waits, rather than wait for ever
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    half = slice(4 * rank, 4 * rank + 4)
    for name, (make, options) in CASES.items():
        reference, other = single(make, options)

        model = model_of()
        wrapped = DistributedDataParallel(model)
        opt = make(model.parameters(), lr=0.01, **options)
        replicas = None
        for k in range(STEPS):
            if k == SAVED:
                replicas = copy.deepcopy(
                    dcp.get_state_dict(model, opt, options=dcp.StateDictOptions(full_state_dict=True))
                )
            step(wrapped, opt, batch(k)[half])
        agree(model, opt, reference, other)
        again, resumed = shard(make, options, rank)
        how = dcp.StateDictOptions(full_state_dict=True)
        dcp.set_state_dict(again, resumed, model_state_dict=replicas[0], optim_state_dict=replicas[1], options=how)
        for k in range(SAVED, STEPS):
            step(again, resumed, batch(k)[half])
        agree(again, resumed, reference, other)

        model, opt = shard(make, options, rank)
        saved = None
        for k in range(STEPS):
            if k == SAVED:  # sharded and whole checkpoints
                saved = dcp.get_state_dict(model, opt)
                full = dcp.get_state_dict(model, opt, options=dcp.StateDictOptions(full_state_dict=True))
                saved, full = copy.deepcopy(saved), copy.deepcopy(full)
                checkpoint.save(dict(zip(("model", "opt"), saved, strict=True)), checkpoint_id=folder / name)
            step(model, opt, batch(k)[half])
        agree(model, opt, reference, other)

        for kind, (weights, moments) in {"sharded": saved, "full": full, "files": (None, None)}.items():
            again, resumed = shard(make, {**options, "seed": 77} if "seed" in options else options, rank)
            if kind == "files":
                weights, moments = dcp.get_state_dict(again, resumed)
                checkpoint.load({"model": weights, "opt": moments}, checkpoint_id=folder / name)
            how = dcp.StateDictOptions(full_state_dict=kind == "full")
            dcp.set_state_dict(again, resumed, model_state_dict=weights, optim_state_dict=moments, options=how)
            for k in range(SAVED, STEPS):
                step(again, resumed, batch(k)[half])
            for p, q in zip(model.parameters(), again.parameters(), strict=True):
                assert torch.equal(p.to_local(), q.to_local()), kind  # exact
                assert torch.equal(opt.average_of(p).to_local(), resumed.average_of(q).to_local()), kind
            assert resumed.param_groups[0]["spread"] == opt.param_groups[0]["spread"]

        with opt.averaged():
            for p, q in zip(model.parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(whole(p), other.average_of(q), rtol=1e-11, atol=1e-12)

        # a gradient that is not finite on one rank stops the step on both
        before = [p.to_local().clone() for p in model.parameters()]
        if rank == 1:
            first = next(model.parameters())
            first.grad.to_local()[0, 0] = float("nan")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            opt.step()
        assert all(torch.equal(p.to_local(), x) for p, x in zip(model.parameters(), before, strict=True))
        assert opt.param_groups[0]["skipped"] == 1

        # flat shards that do not say so
        if options["norm"] != "tensor":
            flat = torch.cat([p.detach().reshape(-1) for p in model_of().parameters()])
            cut = 11
            piece = nn.Parameter(flat[:cut].clone() if rank == 0 else flat[cut:].clone())
            full_parameter = nn.Parameter(flat.clone())
            parts = make([piece], lr=0.01, process_group=dist.group.WORLD, **options)
            together = make([full_parameter], lr=0.01, **options)
            for k in range(5):
                g = torch.randn(flat.shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
                full_parameter.grad = g
                piece.grad = g[:cut].clone() if rank == 0 else g[cut:].clone()
                parts.step()
                together.step()
            expected = full_parameter.detach()
            torch.testing.assert_close(piece.detach(), expected[:cut] if rank == 0 else expected[cut:])
            assert abs(parts.certificate.gradient - together.certificate.gradient) < 1e-10
            assert abs(parts.certificate.noise - together.certificate.noise) < 1e-10
    dist.barrier()
    dist.destroy_process_group()
    print("done", flush=True)
    os._exit(0)  # torch's own threads can abort a process that ends in the ordinary way ("terminate called")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
