"""The two estimators most people need: no parameters, any rows, `cost()` bounds their loss."""

from __future__ import annotations

from undrift._internal.rows import Table as Table
from undrift.learners.intervals import Coverage as Coverage
from undrift.learners.intervals import Interval as Interval
from undrift.online.classifier import OnlineClassifier as OnlineClassifier
from undrift.online.design import Design as Design
from undrift.online.memories import Line as Line
from undrift.online.memories import Spectrum as Spectrum
from undrift.online.regressor import OnlineRegressor as OnlineRegressor
