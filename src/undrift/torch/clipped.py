"""Clipped Adam for PyTorch."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from undrift.torch.base import DiscountedAdam, Norm


class ClippedAdam(DiscountedAdam):
    r"""Adam whose update is clipped, with averaged weights: drop-in for `torch.optim.Adam`.

    $x_{t+1} = x_t - s\,\mathrm{clip}\big(\gamma\, m_t / (\nu + \sqrt{v_t})\big)$, no bias correction: the clip is what
    tames the first steps.

    Parameters
    ----------
    params
        Parameters, or groups of them with options of their own, as everywhere in torch.
    lr
        Root mean square change of a coordinate per step, > 0; a number or a one-element tensor. The paper's $\gamma$ is
        `lr` times the root of the number of coordinates in the norm scope.
    betas
        $(\beta_1, \beta_2)$ in [0, 1).
    eps
        $\nu \ge 0$, added to the root of the second moment.
    weight_decay, decoupled_weight_decay
        As in Adam (part of the gradient) or, decoupled, as in AdamW.
    clip
        Largest update in units of $\gamma$ (D = clip $\gamma$), > 0; smaller clips more often.
    norm
        "coord": every coordinate for itself, best quality. "all": one second moment and one clip over all groups, what
        the theorems cover, and Adam's memory although averaged weights are kept. "tensor": one per tensor.
    random_scaling
        "exp" multiplies each move by an Exp(1) draw, the same on every rank, from `seed` and the step number alone.
        The theorems need it; training is mostly better without (None).
    ema_beta
        Discount of the averaged weights in [0, 1); $\beta_1$ by default, as in the theory.
    average
        Keep averaged weights: `with opt.averaged():`. Weights that you change between steps are averaged as changed; do
        it in place under `torch.no_grad()`, since torch does not tell of changes through `p.data`.
    nonfinite
        "skip" a step with a non-finite gradient (nothing advances, a warning, `skipped` counts it) or "raise". To know
        in time, all gradients are read once before the step; "ignore" saves that with norm "coord", and a gradient
        that is not finite spoils its parameters for good, as in torch's own Adam.
    foreach, fused
        Force torch's multi-tensor operations (False: a plain loop) or our compiled CPU kernel (the default there).
    c, noise
        For `certificate`: the price of the spread (> 0) and the gradient noise sigma (>= 0); no part of the step.
    process_group
        Ranks among which parameters are split as flat shards (ZeRO, FSDP1); DDP and FSDP2 need nothing.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin` (with norm "all" and random scaling; see `from_tuning`). State per parameter:
    `m`, `average` (in large models it can be a round ahead: ask `average_of`), and `v` with norm "coord"; single
    precision for half-precision parameters. A parameter without a gradient is left alone. `p.grad` is never written.
    `capturable` and `differentiable` are not supported.

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    >>> opt = ClippedAdam([w], lr=0.1)
    >>> for _ in range(100):
    ...     opt.zero_grad()
    ...     (w**2).sum().backward()
    ...     opt.step()
    >>> with opt.averaged():
    ...     bool(w.abs().max() < 0.1)
    True
    """

    NAME: ClassVar[str] = "ClippedAdam"

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        clip: float = 1.0,
        norm: Norm = "coord",
        random_scaling: str | None = None,
        seed: int = 0,
        ema_beta: float | None = None,
        average: bool = True,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
        nonfinite: str = "skip",
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        c: float = 1.0,
        noise: float = 0.0,
        process_group: Any = None,
    ) -> None:
        chosen = {name: value for name, value in locals().items() if name in _OPTIONS}
        super().__init__(params, {**chosen, "mu": 0.0, "bias_correction": False}, process_group)


_OPTIONS = frozenset(ClippedAdam.__init__.__annotations__) - {"params", "process_group", "return"}
