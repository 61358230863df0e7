"""Fleets: one model per key."""

from __future__ import annotations

from undrift.fleet.fleet import Fleet as Fleet
from undrift.fleet.run import FleetRun as FleetRun
from undrift.stream.keyed.keyed_streams import AdvanceResult as AdvanceResult
from undrift.stream.keyed.keyed_streams import KeyInfo as KeyInfo
from undrift.stream.keyed.outputs import STATUSES as STATUSES
from undrift.stream.keyed.outputs import Output as Output
from undrift.stream.keyed.outputs import Outputs as Outputs
from undrift.stream.keyed.outputs import canonical as canonical
