"""What all figures of a run share: its data, its timeline, its certificates, and its losses in blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from undrift._typing import Vector
from undrift.baselines import BASELINES
from undrift.report.blocks import Blocks, cut_blocks
from undrift.report.certificate_text import CertificateSummary, summarize_certificates
from undrift.report.class_rounds import ClassRounds, read_class_rounds
from undrift.report.formatting import half_life_text
from undrift.report.timeline import Timeline, make_timeline
from undrift.run import RunData
from undrift.run.finish.run_data import OWN

POINTS = 1000
"""Points of a curve through the whole run, at most."""


@dataclass(frozen=True)
class RunContext:
    """A run as its figures see it."""

    data: RunData
    """The run."""
    timeline: Timeline
    """Its horizontal axis."""
    certificates: list[CertificateSummary]
    """What is proven about it."""

    @property
    def binary(self) -> bool:
        """Whether labels are two classes."""
        return self.data.task == "classification"

    @property
    def several(self) -> bool:
        """Whether labels are several classes."""
        return self.data.task == "multiclass"

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers."""
        return self.data.task == "regression"

    @property
    def loss_name(self) -> str:
        """The loss that is added up, in the units of certificates."""
        return "squared error / 2" if self.numbers else "log-loss"

    def memory_text(self, half_life: float) -> str:
        """Return a half-life of the run in words: in rows and as time, or as time alone if it forgets by that."""
        return half_life_text(half_life, self.timeline.spacing, self.data.memory_unit)

    @cached_property
    def class_rounds(self) -> ClassRounds | None:
        """Labels and probabilities of two or several classes; None for numbers."""
        return read_class_rounds(self.data)

    @cached_property
    def shown_baselines(self) -> list[str]:
        """The baselines that figures draw: those of the task, and the best of those that repeat an earlier row."""
        usual = len(BASELINES[self.data.task])
        names = list(self.data.baselines)
        best = sorted(names[usual:], key=lambda name: float(np.sum(self.data.losses(name))))[:1]
        return names[:usual] + best

    @cached_property
    def block_hits(self) -> dict[str, Vector]:
        """Like `block_losses`, of the rounds in which the most likely class came."""
        data, some, out = self.data, self.data.predicted, {}
        for name in (OWN, *self.shown_baselines):
            yhat = data.yhat if name == OWN else data.baselines[name]
            hits = np.zeros(data.rounds)
            hits[some] = (yhat[some] > 0.0) == (data.y[some] > 0.0) if self.binary else yhat[some] == data.y[some]
            out[name] = self.blocks.sum(hits)
        return out

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of rounds that curves of losses are made of."""
        return cut_blocks(self.data.rounds, POINTS)

    @cached_property
    def block_predicted(self) -> Vector:
        """How many rounds of each block were predicted; nothing is before the first label is known."""
        return self.blocks.sum(self.data.predicted.astype(np.float64))

    @cached_property
    def block_losses(self) -> dict[str, Vector]:
        """Sums of losses by block, of the run and the baselines shown; rounds before any label count for nobody."""
        data = self.data
        some, out = data.predicted, {}
        for name in (OWN, *self.shown_baselines):
            losses = np.zeros(data.rounds)
            losses[some] = data.losses(name)
            out[name] = self.blocks.sum(losses)
        return out


def make_context(data: RunData) -> RunContext:
    """Return what the figures of a run share."""
    return RunContext(data, make_timeline(data), summarize_certificates(data))
