"""Clip-free Adam for PyTorch."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import torch
from torch.optim.optimizer import ParamsT

from undrift.errors import UndriftWarning
from undrift.torch.optimizer import DiscountedAdam, Norm

ROUGH = 1e-3
"""Learning rate from which random scaling of unclipped steps is worth a warning."""


class ClipFreeAdam(DiscountedAdam):
    r"""Adam as the theory of the composite loss has it, with averaged weights: drop-in for `torch.optim.Adam`.

    $x_{t+1} = x_t - s\,\gamma\, m_t / (\nu + \gamma\mu(1-\beta_1^t) + \sqrt{v_t})$, by default without bias correction:
    the first steps are up to 6.6 times Adam's, so `lr` wants to be about a third of Adam's.

    Parameters
    ----------
    lr, betas, eps, weight_decay, norm, random_scaling, seed, average, average_horizon, nonfinite, c, noise
        As in `ClippedAdam`.
    mu
        Curvature of the composite loss in theory units, >= 0; adds $\gamma\mu(1-\beta_1^t)$ to the damping. 0 for
        training networks; `from_tuning` sets the theorem's value, beside which the second moment hardly counts.
    bias_correction
        True: divide the moments by $1-\beta^t$ as Adam does; with norm "coord" and mu = 0 this *is* `torch.optim.Adam`
        (or AdamW). "v": the second moment only. No theorem covers either.

    Notes
    -----
    Keys `clip-free/nu`, `clip-free/margin` (norm "all", random scaling on, no bias correction; see `from_tuning`).

    Examples
    --------
    >>> w = torch.nn.Parameter(torch.tensor([3.0, -4.0]))
    >>> opt = ClipFreeAdam([w], lr=0.05, norm="all")
    >>> for _ in range(200):
    ...     opt.zero_grad()
    ...     (w**2).sum().backward()
    ...     opt.step()
    >>> with opt.averaged():
    ...     bool(w.abs().max() < 0.1)
    True
    """

    NAME: ClassVar[str] = "ClipFreeAdam"

    def __init__(
        self,
        params: ParamsT,
        lr: float | torch.Tensor = 3e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        mu: float = 0.0,
        norm: Norm = "coord",
        bias_correction: bool | str = False,
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
        super().__init__(params, {**chosen, "clip": None}, process_group)
        if norm == "all" and random_scaling == "exp" and float(lr) >= ROUGH:
            warnings.warn(
                f"{self.NAME}: norm='all' with random_scaling='exp' mostly trained worse with lr >= {ROUGH}; "
                "leave random_scaling out, take ClippedAdam, or a smaller lr",
                UndriftWarning,
                stacklevel=2,
            )


_OPTIONS = frozenset(ClipFreeAdam.__init__.__annotations__) - {"params", "process_group", "return"}
