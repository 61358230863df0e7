"""Measured regret, and the bound beside it term by term."""

from __future__ import annotations

from undrift.regret import comparators as comparators
from undrift.regret.certify import certify as certify
from undrift.regret.composite import ReferenceLearners as ReferenceLearners
from undrift.regret.d2d import Certificate as Certificate
from undrift.regret.hindsight import HindsightLeaves as HindsightLeaves
from undrift.regret.measures import d2d_identity as d2d_identity
from undrift.regret.measures import discounted_regret as discounted_regret
from undrift.regret.measures import dynamic_regret as dynamic_regret
from undrift.regret.measures import path_length as path_length
from undrift.regret.restarted import Restarted as Restarted
from undrift.regret.variation import beta_star as beta_star
from undrift.regret.variation import discounted_variation as discounted_variation
from undrift.template import Certifiable as Certifiable
from undrift.template import Composite as Composite
from undrift.template import Designed as Designed
from undrift.template import Leaf as Leaf
from undrift.template import Template as Template
