"""What an optimizer can tell about its run: theory units, the live certificate, diagnostics, and a logger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import torch
from torch.optim.optimizer import Optimizer, ParamsT

from undrift.errors import ConditionError, InputError
from undrift.optim import core
from undrift.optim.core import Tuning
from undrift.optim.stationarity import LiveCertificate, live_certificate
from undrift.torch.scalars import gaps

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

    def _read_pending(self) -> None:
        """Make plain numbers of all scalars."""
        raise NotImplementedError

    @classmethod
    def from_tuning(cls, params: ParamsT, tuning: Tuning, *, seed: int = 0, **options: Any) -> Self:
        """Return the optimizer of a theorem: norm "all", random scaling on, gamma, D, nu, mu as the theorem has them.

        No bias correction, and an average with the horizon of the momentum. `tuning` comes from
        `undrift.optim.tune` or `best_epsilon`. All parameters must get a gradient in every step.

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
        options = {"c": tuning.c, "noise": tuning.noise, **options}
        theorem: dict[str, Any] = {"norm": "all", "bias_correction": False, "average_horizon": None, "seed": seed}
        theorem |= {"betas": (tuning.beta1, tuning.beta2), "eps": tuning.nu}
        made = cls(given, lr=tuning.gamma / math.sqrt(_coordinates(given)), **theorem, **options)  # type: ignore[call-arg]
        for group in [made.defaults, *made.param_groups]:
            group["gaps"], group["random_scaling"] = (tuning.gap1, tuning.gap2), "exp"
        return made

    @property
    def theory(self) -> list[Tuning]:
        """The paper's letters, one `Tuning` per group: what `undrift.optim.judge` and `conditions` speak about.

        With norm "tensor" gamma is that of a tensor with one coordinate; times the root of its size for others.
        """
        every = [p for group in self.param_groups for p in group["params"]]
        size = _coordinates(every) if self.param_groups[0]["norm"] == "all" else 1
        found = []
        for group in self.param_groups:
            gamma, (gap1, gap2) = float(group["lr"]) * math.sqrt(size), gaps(group)
            radius = None if group["clip"] is None else group["clip"] * gamma
            letters = {"gap1": gap1, "gap2": gap2, "nu": float(group["eps"]), "mu": group["mu"]}
            found.append(Tuning(gamma=gamma, **letters, clip_norm=radius, clips=radius is not None))
        return found

    @property
    def certificate(self) -> LiveCertificate:
        """How stationary the averaged weights are, part by part: `print(opt.certificate)`.

        A bound only where the problem is given (`c` and `noise`) and the average has the horizon of the momentum, and
        then in expectation over the run's randomness. On an accelerator, reading waits for the device.
        """
        first, found = self.param_groups[0], self.diagnostics
        if any(gaps(group)[0] != gaps(first)[0] for group in self.param_groups):
            raise ConditionError(f"{self.NAME}: the certificate needs one beta1 for all groups")
        if not first["average"]:
            raise ConditionError(
                f"{self.NAME}: the certificate is about the averaged weights; average=False keeps none"
            )
        return live_certificate(
            rounds=first["t"],
            length=found.momentum,
            warmth=first["warmth"],
            slack=core.noise_slack(1.0, first["warmth"], gaps(first)[0]) if first["t"] else 1.0,
            spread=found.spread,
            g_mean=first["g_mean"],
            sums=(first["gradient_sum"], first["spread_sum"], first["noise_sum"]),
            same_points=all(group["average_horizon"] is None for group in self.param_groups),
            c=first["c"],
            noise=first["noise"],
        )

    @property
    def diagnostics(self) -> StepDiagnostics:
        """The run in a few numbers; on an accelerator, reading waits for the device."""
        self._read_pending()
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
        if not callable(getattr(writer, "add_scalar", None)):
            raise InputError(
                f"{self.NAME}: log_to needs a writer with add_scalar(tag, value, step), got a {type(writer).__name__}"
            )
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
            parts = {
                "mean_gradient": certificate.gradient,
                "distance": certificate.distance,
                "noise": certificate.noise,
            }
            parts["bound"] = None if certificate.theorem is None else certificate.bound
            for name, value in parts.items():
                if value is not None:
                    writer.add_scalar(prefix + name, value, found.rounds)

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
