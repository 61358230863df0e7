"""Fleets whose files were tampered with, by the thousand: python -m tests.stress.fleet_hostile [tries] [seed].

Bytes, tables, views, triggers, cells, journals, and states with a valid digest but other contents. Each must end in a
result or in one sentence.
"""

from __future__ import annotations

import sys

from tests.run.fleet.hostile_fleets import attack


def main(tries: int = 2000, seed: int = 0) -> int:
    seen = attack(tries, seed)
    for kind in sorted({kind for kind, _ in seen}):
        print(f"{kind:10} {seen[kind, 'refused']:6} refused with one sentence, {seen[kind, 'went on']:6} harmless")
    print(f"{seen.total()} tampered fleets survived")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
