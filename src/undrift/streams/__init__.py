"""Streams: what happens to rows before a learner sees them."""

from __future__ import annotations

from undrift.streams.synthetic import Synthetic as Synthetic
from undrift.streams.synthetic import synthetic as synthetic
from undrift.streams.transforms import Scaling as Scaling
from undrift.streams.transforms import Waves as Waves
