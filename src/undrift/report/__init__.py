"""Reports: one HTML file that says what a run learned, how well, and what is proven about it."""

from __future__ import annotations

from undrift.report.comparison_page import render_comparison as render_comparison
from undrift.report.fleet_page import render_fleet as render_fleet
from undrift.report.forecast_page import render_forecast as render_forecast
from undrift.report.forecast_page import render_forecast_keys as render_forecast_keys
from undrift.report.frame_run import FrameRun as FrameRun
from undrift.report.frame_run import run_frame as run_frame
from undrift.report.run_page import render as render
