"""Fleets whose files were tampered with, by the thousand: python tests/stress/fleet_hostile.py [tries] [seed].

Bytes, tables, views, triggers, cells, journals, and states with a valid digest but other contents. Each must end in a
result or in one sentence.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))

from hostile_fleets import attack  # the folder of the quick tests, put on the path just above


def main(tries: int = 2000, seed: int = 0) -> int:
    seen = attack(tries, seed)
    for kind in sorted({kind for kind, _ in seen}):
        print(f"{kind:10} {seen[kind, 'refused']:6} refused with one sentence, {seen[kind, 'went on']:6} harmless")
    print(f"{seen.total()} tampered fleets survived")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
