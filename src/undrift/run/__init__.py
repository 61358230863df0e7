"""Runs: from a file of rows to a directory with predictions, the model, and everything a report needs."""

from __future__ import annotations

from undrift.run.certificate import certified as certified
from undrift.run.certificate import replayed as replayed
from undrift.run.comparing import Compared as Compared
from undrift.run.comparing import compare_file as compare_file
from undrift.run.data import RunData as RunData
from undrift.run.directory import read_run as read_run
from undrift.run.formulas import unescape_formula as unescape_formula
from undrift.run.keyed import KeyedRun as KeyedRun
from undrift.run.keyed import play_keyed as play_keyed
from undrift.run.predicting import Predictions as Predictions
from undrift.run.predicting import predictions as predictions
from undrift.run.runner import Progress as Progress
from undrift.run.runner import play_file as play_file
from undrift.run.settings import Settings as Settings
from undrift.run.tally import KeyReport as KeyReport
from undrift.stopping import Interrupted as Interrupted
