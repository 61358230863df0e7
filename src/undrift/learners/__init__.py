"""Learners: parameters, a few float64 arrays, and three verbs."""

from __future__ import annotations

from undrift.learners.aioli import DiscountedAIOLI as DiscountedAIOLI
from undrift.learners.base import Learner as Learner
from undrift.learners.class_learner import OneVsRest as OneVsRest
from undrift.learners.drift import DriftVAW as DriftVAW
from undrift.learners.files import load as load
from undrift.learners.mean import DiscountedMean as DiscountedMean
from undrift.learners.mix import Mix as Mix
from undrift.learners.naive import BaseRate as BaseRate
from undrift.learners.naive import Persistence as Persistence
from undrift.learners.naive import Zero as Zero
from undrift.learners.newton import DiscountedNewton as DiscountedNewton
from undrift.learners.periodic_refit import PeriodicRefit as PeriodicRefit
from undrift.learners.served import ServedPrediction as ServedPrediction
from undrift.learners.softmax import DiscountedSoftmax as DiscountedSoftmax
from undrift.learners.vaw import DiscountedVAW as DiscountedVAW
