"""Ensembles: learners side by side, and mixers that learn whom to trust."""

from __future__ import annotations

from undrift.ensemble.class_ensemble import ClassEnsemble as ClassEnsemble
from undrift.ensemble.class_ensemble import softmax_ensemble as softmax_ensemble
from undrift.ensemble.ensemble import Ensemble as Ensemble
from undrift.ensemble.grids import LinearEnsemble as LinearEnsemble
from undrift.ensemble.grids import LogisticEnsemble as LogisticEnsemble
from undrift.ensemble.grids import drift_ensemble as drift_ensemble
from undrift.ensemble.grids import linear_ensemble as linear_ensemble
from undrift.ensemble.grids import logistic_ensemble as logistic_ensemble
from undrift.ensemble.hedge import Hedge as Hedge
from undrift.ensemble.hedge import newton_ensemble as newton_ensemble
from undrift.ensemble.mixable import Mixable as Mixable
from undrift.ensemble.mixable import MixableProbabilities as MixableProbabilities
from undrift.ensemble.mixer import Mixer as Mixer
from undrift.ensemble.multi_output import MultiOutputRegressor as MultiOutputRegressor
from undrift.ensemble.multi_output import MultiOutputTrace as MultiOutputTrace
from undrift.ensemble.squared import Aggregating as Aggregating
from undrift.ensemble.squared import RangeMean as RangeMean
from undrift.ensemble.squared import ResidualScale as ResidualScale
from undrift.ensemble.squared import SelfConfident as SelfConfident
