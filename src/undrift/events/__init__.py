"""Events: a word when something changes, as it happens, at a stated rate of false alarms."""

from __future__ import annotations

from undrift.events.event import Event as Event
from undrift.events.event import EventKind as EventKind
from undrift.events.watch import Watch as Watch
