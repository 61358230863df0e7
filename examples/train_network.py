"""A small network trained with both optimizers, evaluated at its averaged weights, and its certificate read."""

import torch
from torch import nn

import undrift.torch as ut


def moons(seed=0, count=600):
    """Two interleaved half-moons."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.pi * torch.rand(count, generator=generator)
    upper = torch.rand(count, generator=generator) < 0.5
    x = torch.stack([torch.cos(angle), torch.sin(angle)], dim=1)
    x = torch.where(upper[:, None], x, torch.tensor([1.0, 0.5]) - x)
    return x + 0.1 * torch.randn(count, 2, generator=generator), upper.float()


def right(net, x, y):
    """Return the share of points on the right side."""
    return ((net(x)[:, 0] > 0) == (y > 0.5)).float().mean().item()


def trained(optimizer, lr, steps=300):
    """Return the last loss, what is right at the last and at the averaged weights, and the certificate."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = optimizer(net.parameters(), lr=lr)
    loss_of = nn.BCEWithLogitsLoss()
    x, y = moons()
    for step in range(steps):
        rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(step))[:64]
        opt.zero_grad()
        loss = loss_of(net(x[rows])[:, 0], y[rows])
        loss.backward()
        opt.step()
    test_x, test_y = moons(seed=1)
    last = right(net, test_x, test_y)
    with opt.averaged():  # the averaged weights are in place inside the block only
        averaged = right(net, test_x, test_y)
    return loss.item(), last, averaged, opt.certificate


runs = {
    "ClippedAdam": trained(ut.ClippedAdam, lr=1e-2),
    "ClipFreeAdam": trained(ut.ClipFreeAdam, lr=3e-3),
}

if __name__ == "__main__":
    for name, (loss, last, averaged, certificate) in runs.items():
        print(
            f"{name:13} training loss {loss:.3f}, right on new points {last:.1%}, with averaged weights {averaged:.1%}"
        )
        print(f"              {certificate}")
