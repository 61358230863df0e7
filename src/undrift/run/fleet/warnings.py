"""What a user should hear at once about a file with many keys: most of it was not used, or its labels cannot come."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from undrift.fleet.outputs import DUPLICATE, ERROR, LABELLED, LATE, OK, POISON, PREDICTED, Outputs

_OF_ROWS = (OK, PREDICTED, LABELLED, DUPLICATE, LATE, POISON, ERROR)
"""What becomes of rows; other outputs are about rows that never came or that were let go."""
_REASONS = {DUPLICATE: "the order or time of each was there before", LATE: "each came after a later one of its key"}


class UnusedRows(NamedTuple):
    """Rows of a file that were not used for one reason, the most frequent one."""

    number: int
    rows: int
    """Rows of the file."""
    reason: str
    """The reason as it was given most often; reasons may differ in the values they name."""

    @property
    def are_most(self) -> bool:
        """Whether they are more than half of the rows."""
        return 2 * self.number > self.rows


def find_unused_rows(outputs: Outputs, *, update: bool) -> UnusedRows:
    """Return the rows that were not used; in an `update`, those that were there before are no matter."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for status, reason in _REASONS.items():
        counts[reason][reason] = 0 if update else int(np.count_nonzero(outputs.status == status))
    for i in np.flatnonzero(np.isin(outputs.status, (POISON, ERROR))).tolist():
        reason = outputs.reasons.get(i, "")
        counts[reason.split(" is ")[0].split(", got ")[0]][reason] += 1
    most = max(counts.values(), key=Counter.total)
    rows = int(np.count_nonzero(np.isin(outputs.status, _OF_ROWS)))
    return UnusedRows(most.total(), rows, most.most_common(1)[0][0])


def find_warnings(outputs: Outputs, unused: UnusedRows, name: str, *, ordered: bool) -> list[str]:
    """Return one sentence for each thing about a file's outputs that spoils the result as a whole."""
    found = list[str]()
    if unused.are_most:
        share = f"{unused.number:,} of {unused.rows:,} rows ({unused.number / unused.rows:.0%})"
        found.append(f"{name}: {share} were not used, as {unused.reason}; predictions.csv names each")
    asked = int(np.count_nonzero(outputs.status == PREDICTED))
    if asked and not ordered:
        found.append(
            f"{name}: {asked:,} rows without a target were predicted, and no later file can bring their labels, as "
            "only an order or a time tells which row is which; name its column with --order or --time"
        )
    return found
