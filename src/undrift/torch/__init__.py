"""Clipped and clip-free Adam for PyTorch: drop-in optimizers with averaged weights and a live certificate.

>>> import torch, undrift.torch
>>> model = torch.nn.Linear(3, 1)
>>> opt = undrift.torch.ClippedAdam(model.parameters(), lr=1e-3)
>>> model(torch.ones(2, 3)).square().mean().backward()
>>> opt.step()
>>> with opt.averaged():  # the model holds the averaged weights in here
...     _ = model(torch.ones(2, 3))
"""

from __future__ import annotations

from undrift.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401  # only to say clearly that it is missing
except ModuleNotFoundError as missing:  # pragma: no cover  # the test environment has it
    raise MissingExtraError("undrift.torch needs PyTorch; install it with: pip install 'undrift[torch]'") from missing

from torch.optim.swa_utils import update_bn as update_bn

from undrift.torch.clip_free import ClipFreeAdam as ClipFreeAdam
from undrift.torch.clipped import ClippedAdam as ClippedAdam
