"""What an optimizer can tell about its run: theory units, the live certificate, diagnostics, and a logger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch.optim.optimizer import Optimizer, ParamsT

from undrift.errors import ConditionError, InputError
from undrift.optim import core
from undrift.optim.core import Tuning
from undrift.optim.stationarity import StationarityCertificate
from undrift.torch.rounds import gaps

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    _Base = Optimizer
else:
    _Base = object


class Writer(Protocol):
    """Anything with TensorBoard's `add_scalar`."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Record one number."""


class StepDiagnostics(NamedTuple):
    """The run so far, from scalars a step has anyway."""

    rounds: int
    """Finished rounds."""
    skipped: int
    """Steps skipped because a gradient could not be used."""
    gradient: float
    """Length of the last gradient, over all parameters."""
    largest_gradient: float
    """Length of the largest gradient met: the theorems assume it is at most G."""
    momentum: float
    """Length of m."""
    spread: float
    """Weighted variance of x around the average."""
    clip_rate: float | None
    """Share of norms that were clipped, over all rounds; None with norm "coord", where nobody counts."""


class Reading(_Base):
    """Read-only views, and construction from a theorem's numbers."""

    NAME: ClassVar[str]

    @classmethod
    def from_tuning(cls, params: ParamsT, tuning: Tuning, *, seed: int = 0, **options: Any) -> Self:
        """Return the optimizer of a theorem: norm "all", random scaling on, gamma, D, nu, mu as the theorem has them.

        `tuning` comes from `undrift.optim.tune` or `best_epsilon`. All parameters must get a gradient in every step.

        >>> from undrift import optim
        >>> from undrift.torch import ClippedAdam
        >>> problem = optim.Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=1.0, epsilon=0.25)
        >>> w = torch.nn.Parameter(torch.zeros(9))
        >>> opt = ClippedAdam.from_tuning([w], optim.tune(problem, "clipped/nu"))
        >>> f"{opt.param_groups[0]['lr']:.4g} {opt.theory[0].clip_norm:.4g}"
        '0.0002685 8.989e-06'
        """
        given: list[Any] = list(params)
        clips = cls.NAME == "ClippedAdam"
        if tuning.clips is not clips:
            raise InputError(f"{cls.NAME}: this tuning is for {'clip-free' if clips else 'clipped'} Adam")
        if clips and tuning.clip_norm is None:
            raise InputError(f"{cls.NAME}: the tuning has no clip_norm, the radius D to clip to")
        if clips:
            options["clip"] = tuning.clip_norm / tuning.gamma  # type: ignore[operator]  # not None, just checked
        else:
            options["mu"] = tuning.mu
        for name in ("c", "noise"):
            if getattr(tuning, name) is not None:
                options.setdefault(name, getattr(tuning, name))
        numel = _coordinates(given)
        made = cls(
            given,
            lr=tuning.gamma / math.sqrt(numel),
            betas=(tuning.beta1, tuning.beta2),
            eps=tuning.nu,
            norm="all",
            seed=seed,
            **options,
        )  # type: ignore[call-arg]  # the subclasses' signature, not torch's
        for group in [made.defaults, *made.param_groups]:
            group["gaps"], group["random_scaling"] = (tuning.gap1, tuning.gap2), "exp"
        return made

    @property
    def theory(self) -> list[Tuning]:
        """The paper's letters, one `Tuning` per group: what `undrift.optim.judge` and `conditions` speak about.

        With norm "tensor" gamma is that of a tensor with one coordinate; times the root of its size for others.
        """
        every = [p for group in self.param_groups for p in group["params"]]
        size = _coordinates(every) if self.defaults["norm"] == "all" else 1
        found = []
        for group in self.param_groups:
            gamma, (gap1, gap2) = float(group["lr"]) * math.sqrt(size), gaps(group)
            radius = None if group["clip"] is None else group["clip"] * gamma
            found.append(
                Tuning(
                    gamma=gamma,
                    gap1=gap1,
                    gap2=gap2,
                    nu=float(group["eps"]),
                    clip_norm=radius,
                    clips=radius is not None,
                    mu=group["mu"],
                )
            )
        return found

    @property
    def certificate(self) -> StationarityCertificate:
        """The live stationarity certificate at the averaged weights, with the optimizer's `c` and `noise`.

        A bound in expectation over the run's randomness, whatever the step size and norm scope; its first term is
        |m| over all parameters. On an accelerator, reading it waits for the device; stepping does not.
        """
        first = self.param_groups[0]
        if any(gaps(group)[0] != gaps(first)[0] or group["ema_beta"] is not None for group in self.param_groups):
            raise ConditionError(
                f"{self.NAME}: the certificate needs one beta1 for all groups and ema_beta=None: the weights of the "
                "average and of m must be the same"
            )
        if not first["average"]:
            raise ConditionError(
                f"{self.NAME}: the certificate is about the averaged weights; average=False keeps none"
            )
        c, noise, rounds = first["c"], first["noise"], first["t"]
        if rounds == 0:
            return StationarityCertificate(0.0, 0.0, 0.0, 0, c)
        value = core.stationarity(self.diagnostics.momentum, first["warmth"], self.diagnostics.spread, c)
        mean = (float(first["gradient_sum"]) + c * float(first["spread_sum"])) / rounds
        return StationarityCertificate(float(value), mean, noise * first["noise_sum"] / rounds, rounds, c)

    @property
    def diagnostics(self) -> StepDiagnostics:
        """The run in a few numbers; on an accelerator, reading waits for the device."""
        first = self.param_groups[0]
        counted = first["norm"] != "coord"
        return StepDiagnostics(
            first["t"],
            first["skipped"],
            math.sqrt(first["g_square"]),
            math.sqrt(first["g_largest"]),
            math.sqrt(sum(float(group["m_square"]) for group in self.param_groups)),
            sum(float(group["spread"]) for group in self.param_groups),
            first["clipped"] / max(first["t"], 1) if counted else None,
        )

    def log_to(self, writer: Writer, every: int = 100, prefix: str = "optimizer/") -> RemovableHandle:
        """Send certificate and diagnostics to a TensorBoard-like writer every so many steps; `remove()` stops it."""
        if every < 1:
            raise InputError(f"{self.NAME}: every must be >= 1, got {every}")

        def log(_: Optimizer, args: Any, kwargs: Any) -> None:
            found = self.diagnostics
            if found.rounds % every:
                return
            for name, value in found._asdict().items():
                if value is not None and name != "rounds":
                    writer.add_scalar(prefix + name, float(value), found.rounds)
            try:
                certificate = self.certificate
            except ConditionError:
                return
            writer.add_scalar(prefix + "certificate", certificate.value, found.rounds)
            writer.add_scalar(prefix + "certificate_mean", certificate.bound, found.rounds)

        return self.register_step_post_hook(log)


def _coordinates(params: list[Any]) -> int:
    """Return the number of real coordinates of parameters, named parameters or groups."""
    total = 0
    for entry in params:
        if isinstance(entry, dict):
            entry["params"] = [entry["params"]] if isinstance(entry["params"], torch.Tensor) else list(entry["params"])
            total += _coordinates(entry["params"])
        else:
            p = entry[1] if isinstance(entry, tuple) else entry
            total += p.numel() * (2 if p.is_complex() else 1)
    return total
