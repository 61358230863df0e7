"""The Adam half of the theory: updates from discounted FTRL, the four convergence theorems as advice, certificates."""

from __future__ import annotations

from undrift.optim.core import NORMS as NORMS
from undrift.optim.core import Tuning as Tuning
