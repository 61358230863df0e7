"""Clipped Adam for PyTorch."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from undrift.torch.optimizer import DiscountedAdam, Norm


class ClippedAdam(DiscountedAdam):
    r"""Adam whose update is clipped, with averaged weights: drop-in for `torch.optim.Adam`.

    $x_{t+1} = x_t - s\,\mathrm{clip}\big(\gamma\, m_t / (\nu + \sqrt{\hat v_t})\big)$. By default only the second
    moment is corrected for its bias, $\hat v_t = v_t/(1-\beta_2^t)$: a warm-up of about $1/(1-\beta_1)$ short steps.

    Parameters
    ----------
    params
        Parameters, or groups of them with options of their own, as everywhere in torch.
    lr
        Root mean square change of a coordinate per step, >= 0; a number or a one-element tensor. The paper's $\gamma$
        is `lr` times the root of the number of coordinates in the norm scope.
    betas
        $(\beta_1, \beta_2)$ in [0, 1).
    eps
        $\nu \ge 0$, added to the root of the second moment.
    weight_decay, decoupled_weight_decay
        Decoupled as in AdamW or, if False, part of the gradient as in Adam.
    clip
        Largest update in units of $\gamma$ (D = clip $\gamma$), > 0; smaller clips more often.
    norm
        "coord": every coordinate for itself, best quality. "all": one second moment and one clip over all groups, what
        the theorems cover, and Adam's memory although averaged weights are kept. "tensor": one per tensor.
    bias_correction
        Divide by $1-\beta^t$ the second moment alone ("v"), both moments as Adam does (True), or neither (False), as
        the theorems have it: with "v" or True no theorem covers the run.
    random_scaling
        "exp" multiplies each move by an Exp(1) draw, the same on every rank, from `seed` and the step number alone.
        The theorems need it; training is mostly better without (None).
    average
        Keep averaged weights: `with opt.averaged():`. Weights that you change between steps are averaged as changed.
    average_horizon
        Steps they remember: "growing" for about the last tenth of the run, or a number >= 1. None is the horizon of the
        momentum, $1/(1-\beta_1)$, as in the theory, the only one with which `certificate` has a bound.
    nonfinite
        "skip" a step with a non-finite gradient (nothing advances, a warning, `skipped` counts it) or "raise". To know
        in time, all gradients are read once before the step; "ignore" saves that with norm "coord", and a gradient
        that is not finite spoils its parameters for good, as in torch's own Adam.
    foreach, fused
        Force torch's multi-tensor operations (False: a plain loop) or our compiled CPU kernel (the default there).
    c, noise
        What the theory knows of the problem, for the bound in `certificate`: the price of the spread (> 0) and the
        gradient noise sigma (>= 0); no part of the step. None: no bound, and the noise is estimated.
    process_group
        Ranks among which parameters are split without saying so (ZeRO, FSDP1); DDP and FSDP2 need nothing.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin` (with norm "all" and random scaling; see `from_tuning`). State per parameter:
    `m`, `average`, and `v` with norm "coord"; single precision for half-precision parameters. A parameter without a
    gradient is left alone. `p.grad` is never written. `capturable` and `differentiable` are not supported.

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
        bias_correction: bool | str = "v",
        random_scaling: str | None = None,
        seed: int = 0,
        average: bool = True,
        average_horizon: float | str | None = "growing",
        decoupled_weight_decay: bool = True,
        maximize: bool = False,
        nonfinite: str = "skip",
        foreach: bool | None = None,
        fused: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        c: float | None = None,
        noise: float | None = None,
        process_group: Any = None,
    ) -> None:
        chosen = {name: value for name, value in locals().items() if name in _OPTIONS}
        super().__init__(params, {**chosen, "mu": 0.0}, process_group)


_OPTIONS = frozenset(ClippedAdam.__init__.__annotations__) - {"params", "process_group", "return"}
