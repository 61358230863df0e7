"""The researchers' room: closed-form bounds, the frontier of a run, and the lemmas of both halves of the theory.

Nothing else in the package needs it: learners and certificates are in `undrift.regret`, advice about Adam in
`undrift.optim`.
"""

from __future__ import annotations

from undrift.theory import adam_lemmas as adam_lemmas
from undrift.theory import bounds as bounds
from undrift.theory import regret_lemmas as regret_lemmas
from undrift.theory.frontier import frontier as frontier
