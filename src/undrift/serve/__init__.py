"""A service that predicts over HTTP, and learns each label when it comes."""

from __future__ import annotations

from undrift.run.service.served_models import Answer as Answer
from undrift.run.service.service import LearnResult as LearnResult
from undrift.run.service.service import Service as Service
from undrift.serve.client import Client as Client
from undrift.serve.client import ServedAnswer as ServedAnswer
from undrift.serve.open_service import open_service as open_service
