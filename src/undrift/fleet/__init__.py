"""Fleets: one model per key."""

from __future__ import annotations

from undrift.fleet.fleet import AdvanceResult as AdvanceResult
from undrift.fleet.fleet import Fleet as Fleet
from undrift.fleet.fleet import KeyInfo as KeyInfo
from undrift.fleet.outputs import STATUSES as STATUSES
from undrift.fleet.outputs import Output as Output
from undrift.fleet.outputs import Outputs as Outputs
from undrift.fleet.outputs import canonical as canonical
from undrift.fleet.run import FleetRun as FleetRun
