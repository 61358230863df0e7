"""The figures of a report, one file for each question they answer."""

from __future__ import annotations

from undrift.report.figures.certificate import certificates as certificates
from undrift.report.figures.loss import cumulative as cumulative
from undrift.report.figures.loss import rolling as rolling
from undrift.report.figures.memory import spectrum as spectrum
from undrift.report.figures.model import candidates as candidates
from undrift.report.figures.model import coefficients as coefficients
from undrift.report.figures.predictions import predictions as predictions
from undrift.report.figures.spec import Figure as Figure
from undrift.report.figures.spec import Spec as Spec
from undrift.report.figures.trust import calibration as calibration
from undrift.report.figures.trust import intervals as intervals
