"""Events: a sentence when something changes, as it happens, at a stated rate of false alarms.

The tests are our own because detectors of other libraries do not state the mean number of rows between two false
alarms of all features and keys together.
"""

from __future__ import annotations

from undrift.events.event import Event as Event
from undrift.events.event import EventKind as EventKind
from undrift.events.watch import KeyedWatch as KeyedWatch
from undrift.events.watch import Watch as Watch
