"""Streams: what happens to rows before a learner sees them."""

from __future__ import annotations

from undrift.streams.features import Waves as Waves
from undrift.streams.scaling import Scaling as Scaling
from undrift.streams.synthetic import Synthetic as Synthetic
from undrift.streams.synthetic import synthetic as synthetic
