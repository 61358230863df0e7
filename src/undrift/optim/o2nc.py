r"""Algorithm 2, exponentiated online-to-nonconvex conversion, run by clipped or clip-free Adam; where its regret went.

The terms of the key decomposition are measured on a run with O(1) state. With $A_t = \nu + \sqrt{V_t}$,
$A'_t = A_t + \gamma\mu(1-\beta_1^t)$ and comparators of length $D$, the discounted FTRL behind Adam satisfies, on every
run (the corrected form; key `ftrl-decomposition`),

    regret <= stability + regularizer + comparator + last,
    stability   = gamma (1 - b1) / (2 b1) sum |g_t|^2 / A'_{t-1}
            or    gamma (1 - b1) sum |g_t|^2 / A'_t + sum of deviations       (scale-free)
    regularizer = sum (b1 A_{t-1} - A_t) |Delta_{t+1}|^2 / (2 gamma (1 - b1))
    comparator  = D^2 (A_T + (1 - b1) sum_{t<T} A_t) / (2 gamma (1 - b1))
    last        = -mu |Delta_{T+1}|^2 / 2.

Divided by D T, it is the part of the O2NC bound that the choice of (beta1, beta2, nu) controls.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check, kernels
from undrift._typing import Vector
from undrift.errors import InputError, UndriftWarning
from undrift.optim import core
from undrift.optim.core import NORMS, Tuning
from undrift.optim.objectives import Objective
from undrift.optim.problem import POSITIVE
from undrift.optim.stationarity import StationarityCertificate, StationarityMeter


class RegretTerms(NamedTuple):
    """The four terms, each divided by D T, in gradient units."""

    stability: float
    """Price of moving, in the form that pairs |g_t| with the previous step size."""
    scale_free: float
    """The same price in the form of the margin theorems; the smaller of the two counts."""
    regularizer: float
    """Price of step sizes that grow; negative when they shrink."""
    comparator: float
    """Price of following a comparator of length D."""
    last: float
    """What the composite loss gives back; 0 for clipped Adam."""

    @property
    def total(self) -> float:
        """Upper bound on the regret per D T."""
        return min(self.stability, self.scale_free) + self.regularizer + self.comparator + self.last


class Diagnostics(NamedTuple):
    """What a run says about the assumptions and the analysis."""

    rounds: int
    """Finished rounds."""
    clip_rate: float
    """Share of updates that were clipped."""
    largest_gradient: float
    """Largest |g_t| met."""
    lipschitz: float | None
    """The G it is held against, if known."""
    terms: RegretTerms | None
    """Regret terms; None unless the norm scope is `all` and D is known."""

    @property
    def assumption_holds(self) -> bool | None:
        """Whether every gradient met was at most G; None when G is unknown."""
        return None if self.lipschitz is None else self.largest_gradient <= self.lipschitz * (1.0 + 1e-12)


@dataclass(slots=True)
class RegretMeter:
    """The sums behind `RegretTerms`; feed it once a round, read it any time. The tuning must have nu > 0."""

    tuning: Tuning
    rounds: int = 0
    lagged: float = 0.0
    current: float = 0.0
    deviation: float = 0.0
    growth: float = 0.0
    earlier: float = 0.0
    A: float = 0.0
    moved: float = 0.0

    def observe(
        self,
        *,
        square: float,
        old_v: float,
        v: float,
        old_warmth: float,
        warmth: float,
        old_length: float,
        moved: float,
    ) -> None:
        """Close a round: |g|^2, V and 1 - beta1^t before and after it, |m| before it, |Delta|^2 after it."""
        c = self.tuning
        old_A, A = c.nu + math.sqrt(old_v), c.nu + math.sqrt(v)
        old_damping, damping = old_A + c.gamma * c.mu * old_warmth, A + c.gamma * c.mu * warmth
        change = c.gamma * old_length * abs(1.0 / old_damping - (1.0 - c.gap1) / damping)
        if c.ball is not None:
            change = min(2.0 * c.ball, change)
        self.earlier += old_A if self.rounds else 0.0
        self.lagged += square / old_damping
        self.current += square / damping
        self.deviation += min(
            0.5 * c.gamma * c.gap1 / (1.0 - c.gap1) * square / old_damping, change * math.sqrt(square)
        )
        self.growth += (old_A - A - c.gap1 * old_A) * moved
        self.A, self.moved = A, moved
        self.rounds += 1

    @property
    def terms(self) -> RegretTerms | None:
        """The terms so far; None before the first round or when D is unknown."""
        c = self.tuning
        if self.rounds == 0 or c.clip_norm is None:
            return None
        D, unit = c.clip_norm, c.clip_norm * self.rounds
        scale = 2.0 * c.gamma * c.gap1
        return RegretTerms(
            stability=0.5 * c.gamma * c.gap1 / (1.0 - c.gap1) * self.lagged / unit,
            scale_free=(c.gamma * c.gap1 * self.current + self.deviation) / unit,
            regularizer=self.growth / scale / unit,
            comparator=D * D * (self.A + c.gap1 * self.earlier) / scale / unit,
            last=-0.5 * c.mu * self.moved / unit,
        )


Gradient = Callable[[Vector], ArrayLike]
"""A stochastic gradient at a point, drawn anew at each call."""
Progress = Callable[[int, StationarityCertificate], None]
"""Called now and then with the rounds done and the certificate so far."""

_BLOCK = 1 << 18
"""Rounds between two progress calls of the compiled loop: a few hundredths of a second."""
_CALLBACK_BLOCK = 1 << 10
_LARGEST = 1e75
_LEFT = "o2nc: the iterates left the range of float64 in round {}; gamma is too large for this problem"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A finished run; no trajectory is kept."""

    average: Vector
    """The last averaged iterate."""
    sample: Vector
    """One averaged iterate drawn uniformly over the rounds: what the theorems are about."""
    sample_round: int
    """Its round."""
    x: Vector
    """The last iterate."""
    rounds: int
    """Rounds done."""
    certificate: StationarityCertificate
    """Upper bound on E|grad F|_c at `sample`, in expectation."""
    realised: float | None
    """The certificate with the true gradients in place of the noisy ones; None where they are unknown."""
    diagnostics: Diagnostics
    """Clip rate, largest gradient, regret terms."""
    tuning: Tuning
    """Parameters of the run."""
    norm: str
    """Norm scope; `all` is what the theorems cover."""

    @property
    def coverage(self) -> str:
        """What the theorems say about the run's norm scope; the certificate holds in every scope."""
        return NORMS[self.norm]


def o2nc(
    gradient: Objective | Gradient,
    x0: ArrayLike,
    tuning: Tuning,
    steps: int | None = None,
    seed: int = 0,
    *,
    norm: str = "all",
    sizes: Sequence[int] | None = None,
    c: float | None = None,
    noise: float | None = None,
    progress: Progress | None = None,
) -> Run:
    r"""Run Algorithm 2: Adam steps scaled by Exp(1), the averaged iterate, and a certificate of its stationarity.

    Parameters
    ----------
    gradient
        A built-in `Objective` (compiled loop, about 10 million rounds in seconds), or a function that returns a
        stochastic gradient at a point (d,).
    x0
        Starting point (d,).
    tuning
        Parameters, from `tune` or by hand.
    steps
        Rounds; by default the tuning's own T. Fewer is fine: the certificate says what was reached.
    seed
        In [0, 2^64); with the round it fixes every random number of the run except a function's own.
    norm
        "all" (covered by the theorems), "coord", or "tensor" with `sizes`, the lengths of the blocks of x.
    sizes
        For "tensor".
    c, noise
        Price of the spread and sigma for the certificate, where the tuning does not carry them.
    progress
        Called with (rounds, certificate) now and then.

    Notes
    -----
    Keys `o2nc`, `certificate`. O(d) memory and time per round; O(1) for certificate and diagnostics. Warns when a
    gradient exceeds the G of the tuning.

    Examples
    --------
    >>> from undrift.optim import tune
    >>> wave = Objective("kinks", dim=2, noise=0.2)
    >>> tuning = tune(wave.problem([3.0, 1.5], c=1.0, epsilon=1.0), "clipped/nu")
    >>> run = o2nc(wave, [3.0, 1.5], tuning, seed=1)
    >>> run.rounds == tuning.steps and run.certificate.bound < 1.0
    True
    """
    state = _State.start(gradient, x0, tuning, seed, norm, sizes, c, noise)
    wanted = tuning.steps if steps is None else steps
    if wanted is None:
        raise InputError("o2nc: steps is missing; give it, or a tuning that carries a number of steps")
    rounds = _check.integer("o2nc", "steps", wanted, 1, 2**53)
    advance = state.run_compiled if isinstance(gradient, Objective) else state.run_interpreted
    block = _BLOCK if isinstance(gradient, Objective) else _CALLBACK_BLOCK
    for first in range(0, rounds, block):
        advance(gradient, min(block, rounds - first))  # type: ignore[arg-type]  # chosen by its kind above
        if progress is not None:
            progress(int(state.counts[0]), state.certificate)
    run = state.run(norm)
    if run.diagnostics.assumption_holds is False:
        warnings.warn(
            f"o2nc: the largest gradient, {run.diagnostics.largest_gradient:.6g}, exceeds lipschitz = "
            f"{tuning.lipschitz:.6g}; the theorem's promise does not apply, the certificate does",
            UndriftWarning,
            stacklevel=2,
        )
    return run


@dataclass(slots=True, eq=False)
class _State:
    """The flat state of Algorithm 2, in the arrays the kernel takes; see tests/twins/o2nc.py for the layout."""

    tuning: Tuning
    seed: int
    c: float
    noise: float
    x: Vector
    average: Vector
    m: Vector
    truth: Vector
    delta: Vector
    sample: Vector
    v: Vector
    offsets: NDArray[np.int64]
    scalars: Vector
    counts: NDArray[np.int64]
    knows_truth: bool

    @classmethod
    def start(
        cls,
        gradient: Objective | Gradient,
        x0: ArrayLike,
        tuning: Tuning,
        seed: int,
        norm: str,
        sizes: Sequence[int] | None,
        c: float | None,
        noise: float | None,
    ) -> _State:
        who = "o2nc"
        known = isinstance(gradient, Objective)
        if not known and not callable(gradient):
            raise InputError(f"{who}: gradient must be an Objective or a function, got a {type(gradient).__name__}")
        x = np.array(_check.finite_array(who, "x0", x0, (gradient.dim if isinstance(gradient, Objective) else None,)))
        if not len(x):
            raise InputError(f"{who}: x0 must have at least one coordinate, got none")
        for name in ("gamma", "nu"):
            _check.interval(who, f"tuning.{name}", getattr(tuning, name), POSITIVE)
        for name in ("gap1", "gap2"):
            _check.interval(who, f"tuning.{name}", getattr(tuning, name), "(0, 1)")
        _check.interval(who, "tuning.mu", tuning.mu, "[0, 1e200]")
        if tuning.ball is not None:
            _check.interval(who, "tuning.clip_norm", tuning.ball, POSITIVE)
        if noise is None:
            noise = gradient.noise if isinstance(gradient, Objective) else tuning.noise
        c = tuning.c if c is None else c
        for name, value in (("c", c), ("noise", noise)):
            if value is None:
                raise InputError(
                    f"{who}: {name} is missing for the certificate; give {name}=, or use a tuning from tune"
                )
        offsets = _offsets(norm, sizes, len(x))
        return cls(
            tuning=tuning,
            seed=_check.integer(who, "seed", seed, 0, 2**64 - 1),
            c=_check.interval(who, "c", c, "[0, 1e150]"),
            noise=_check.interval(who, "noise", noise, "[0, 1e150]"),
            x=x,
            average=x.copy(),
            m=np.zeros_like(x),
            truth=np.zeros_like(x),
            delta=np.zeros_like(x),
            sample=x.copy(),
            v=np.zeros(len(offsets) - 1),
            offsets=offsets,
            scalars=np.zeros(14),
            counts=np.zeros(3, dtype=np.int64),
            knows_truth=known,
        )

    def run_compiled(self, objective: Objective, steps: int) -> None:
        """Advance on a built-in objective."""
        c = self.tuning
        radius = math.inf if c.ball is None else c.ball
        numbers = np.array([self.noise, c.gamma, c.gap1, c.gap2, c.nu, c.mu, radius, self.c])
        status = kernels.o2nc_play(
            objective.kind,
            numbers,
            self.seed,
            steps,
            self.x,
            self.average,
            self.m,
            self.truth,
            self.delta,
            self.sample,
            self.v,
            self.offsets,
            self.scalars,
            self.counts,
        )
        if status:
            raise InputError(_LEFT.format(int(self.counts[0])))

    def run_interpreted(self, gradient: Gradient, steps: int) -> None:
        """Advance on a function, by the formulas of `core`."""
        c, s = self.tuning, self.scalars
        sums, regret = self._meters()
        warmth, spread, length = (float(s[k]) for k in (0, 1, 13))
        for t in range(int(self.counts[0]) + 1, int(self.counts[0]) + steps + 1):
            self.x = self.x + core.exponential(core.bits(self.seed, t)[0]) * self.delta
            g = self._ask(gradient, t)
            old_warmth, warmth = warmth, core.ema(warmth, 1.0, c.gap1)
            weight = core.averaging_weight(warmth, c.gap1)
            spread = core.spread_after(spread, weight, float(np.sum((self.x - self.average) ** 2)))
            self.average = core.ema(self.average, self.x, weight)
            high, low = core.bits(self.seed, t, stream=1)
            if (high << 32 | low) <= (2**64 - 1) // t:
                self.sample, self.counts[1] = self.average, t
            old_length, old_v = length, float(self.v[0])
            self.m = core.ema(self.m, g, c.gap1)
            length = math.sqrt(float(np.sum(self.m**2)))
            starts, repeats = self.offsets[:-1], np.diff(self.offsets)
            self.v = core.ema(self.v, np.add.reduceat(g**2, starts), c.gap2)
            rate = core.rate(self.v, warmth, c)
            lengths = np.sqrt(np.add.reduceat(self.m**2, starts))
            self.counts[2] += 0 if c.ball is None else int(np.sum(rate * lengths > c.ball))
            self.delta = -np.repeat(core.multiplier(rate, lengths, c.ball), repeats) * self.m
            square = float(np.sum(g**2))
            s[5] = max(float(s[5]), math.sqrt(square))
            sums.observe(length, warmth, spread)
            if not math.isfinite(sums.value):
                raise InputError(_LEFT.format(t))
            if len(self.v) == 1:
                regret.observe(
                    square=square,
                    old_v=old_v,
                    v=float(self.v[0]),
                    old_warmth=old_warmth,
                    warmth=warmth,
                    old_length=old_length,
                    moved=float(np.sum(self.delta**2)),
                )
            self.counts[0] = t
        s[:4] = warmth, spread, sums.total, sums.slack
        s[6:14] = (
            regret.A,
            regret.earlier,
            regret.lagged,
            regret.current,
            regret.deviation,
            regret.growth,
            regret.moved,
            length,
        )

    def _ask(self, gradient: Gradient, t: int) -> Vector:
        g = np.asarray(gradient(self.x.copy()), dtype=np.float64)
        if g.shape != self.x.shape:
            raise InputError(f"o2nc: gradient must return an array of shape {self.x.shape}, got {g.shape}")
        if not (np.abs(g) <= _LARGEST).all():
            bad = g[~(np.abs(g) <= _LARGEST)][0]
            raise InputError(f"o2nc: gradient must be finite and at most 1e75 in size, got {bad} in round {t}")
        return g

    def _meters(self) -> tuple[StationarityMeter, RegretMeter]:
        s, rounds = self.scalars, int(self.counts[0])
        last = 0.0 if rounds == 0 else core.stationarity(float(s[13]), float(s[0]), float(s[1]), self.c)
        sums = StationarityMeter(self.c, self.noise, self.tuning.gap1, rounds, last, float(s[2]), float(s[3]))
        A, earlier, lagged, current, deviation, growth, moved = (float(value) for value in s[6:13])
        return sums, RegretMeter(self.tuning, rounds, lagged, current, deviation, growth, earlier, A, moved)

    @property
    def certificate(self) -> StationarityCertificate:
        """Certificate so far."""
        return self._meters()[0].certificate

    def run(self, norm: str) -> Run:
        """Return the results."""
        rounds, s = int(self.counts[0]), self.scalars
        sums, regret = self._meters()
        return Run(
            average=self.average,
            sample=self.sample,
            sample_round=int(self.counts[1]),
            x=self.x,
            rounds=rounds,
            certificate=sums.certificate,
            realised=float(s[4]) / rounds if self.knows_truth else None,
            diagnostics=Diagnostics(
                rounds=rounds,
                clip_rate=int(self.counts[2]) / (rounds * len(self.v)),
                largest_gradient=float(s[5]),
                lipschitz=self.tuning.lipschitz,
                terms=regret.terms if len(self.v) == 1 else None,
            ),
            tuning=self.tuning,
            norm=norm,
        )


def _offsets(norm: str, sizes: Sequence[int] | None, dim: int) -> NDArray[np.int64]:
    """Borders of the blocks that share a second moment."""
    _check.choice("o2nc", "norm", norm, tuple(NORMS))
    if (sizes is not None) != (norm == "tensor"):
        raise InputError(f"o2nc: sizes go with norm='tensor' and only with it, got norm={norm!r}, sizes={sizes!r}")
    if sizes is None:
        sizes = (dim,) if norm == "all" else (1,) * dim
    lengths = [_check.integer("o2nc", "sizes", size, 1) for size in sizes]
    if sum(lengths) != dim:
        raise InputError(f"o2nc: sizes must add up to the {dim} coordinates of x0, got {sum(lengths)}")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
