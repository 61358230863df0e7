"""Runs: from a file of rows to a directory with predictions, the model, and everything a report needs."""

from __future__ import annotations

from undrift._internal.stopping import Interrupted as Interrupted
from undrift.run.finish.certificates import certify_run as certify_run
from undrift.run.finish.certificates import replay_run as replay_run
from undrift.run.finish.compare import FileComparison as FileComparison
from undrift.run.finish.compare import LearnerResult as LearnerResult
from undrift.run.finish.compare import compare_file as compare_file
from undrift.run.finish.compare_runs import ComparedRun as ComparedRun
from undrift.run.finish.compare_runs import RunsComparison as RunsComparison
from undrift.run.finish.compare_runs import compare_runs as compare_runs
from undrift.run.finish.predict import Predictions as Predictions
from undrift.run.finish.predict import predict_file as predict_file
from undrift.run.finish.run_data import RunData as RunData
from undrift.run.finish.run_data import read_run as read_run
from undrift.run.finish.run_data import write_report as write_report
from undrift.run.finish.versions import Version as Version
from undrift.run.finish.versions import list_versions as list_versions
from undrift.run.finish.versions import rollback_run as rollback_run
from undrift.run.fleet.key_reports import KeyReport as KeyReport
from undrift.run.fleet.play import FleetUpdate as FleetUpdate
from undrift.run.fleet.play import play_fleet as play_fleet
from undrift.run.fleet.result import FleetResult as FleetResult
from undrift.run.forecast.certify import certify_forecasts as certify_forecasts
from undrift.run.forecast.keys import KeysResult as KeysResult
from undrift.run.forecast.keys import forecast_keys as forecast_keys
from undrift.run.forecast.keys import has_keys as has_keys
from undrift.run.forecast.keys import summarize_keys as summarize_keys
from undrift.run.forecast.keys import update_keys as update_keys
from undrift.run.forecast.play import ForecastResult as ForecastResult
from undrift.run.forecast.play import find_forecast as find_forecast
from undrift.run.forecast.play import forecast_file as forecast_file
from undrift.run.mix import MixResult as MixResult
from undrift.run.mix import MixScore as MixScore
from undrift.run.mix import mix_file as mix_file
from undrift.run.play.run_loop import Progress as Progress
from undrift.run.play.runner import play_file as play_file
from undrift.run.play.update import RunUpdate as RunUpdate
from undrift.run.service.open_keys import update_fleet as update_fleet
from undrift.run.service.served_forecasts import update_forecast as update_forecast
from undrift.run.service.served_run import update_run as update_run
from undrift.run.tables import unescape_formula as unescape_formula
from undrift.stream.settings import FleetSettings as FleetSettings
from undrift.stream.settings import ForecastSettings as ForecastSettings
from undrift.stream.settings import MixSettings as MixSettings
from undrift.stream.settings import Settings as Settings
