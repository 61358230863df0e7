"""Forecasts several steps ahead: every row is learned as it comes, nothing is ever fitted again."""

from __future__ import annotations

from undrift.forecast.forecast_input import align_candidate as align_candidate
from undrift.forecast.forecaster import Forecast as Forecast
from undrift.forecast.forecaster import Forecaster as Forecaster
from undrift.forecast.forecaster import ForecastTrace as ForecastTrace
from undrift.forecast.step_certificates import StepCertificate as StepCertificate
