"""Trees: boosted ones that are fitted, refreshed and grown in steps."""

from __future__ import annotations

from undrift.trees.boosted import BoostedTrees as BoostedTrees
from undrift.trees.boosted import TreeGrowth as TreeGrowth
