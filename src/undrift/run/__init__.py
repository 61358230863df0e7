"""Runs: from a file of rows to a directory with predictions, the model, and everything a report needs."""

from __future__ import annotations

from undrift.run.certificate import certified as certified
from undrift.run.data import RunData as RunData
from undrift.run.directory import read_run as read_run
from undrift.run.runner import Interrupted as Interrupted
from undrift.run.runner import Progress as Progress
from undrift.run.runner import play_file as play_file
from undrift.run.settings import Settings as Settings
