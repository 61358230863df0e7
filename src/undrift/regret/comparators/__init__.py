"""Comparators chosen in hindsight: the opponents a learner is measured against. Each returns (T, d), one a round."""

from __future__ import annotations

from undrift.regret.comparators.piecewise import fixed as fixed
from undrift.regret.comparators.piecewise import piecewise as piecewise
from undrift.regret.comparators.smooth import smooth as smooth
