"""Tables as people have them: what the columns mean, the model that learns them, and what waits for its label."""

from __future__ import annotations

from undrift.stream.answers import Answers as Answers
from undrift.stream.settings import Settings as Settings
from undrift.stream.stream import Contribution as Contribution
from undrift.stream.stream import Explanation as Explanation
from undrift.stream.stream import Stream as Stream
