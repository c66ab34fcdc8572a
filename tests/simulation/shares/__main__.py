"""`python -m tests.simulation.shares --seeds 1..500`: runs seeds, and reports those that fail."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.simulation.requests import Violation
from tests.simulation.shares.world import ShareWorld


def main() -> int:
    """Return the number of seeds that failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.shares", description=__doc__)
    parser.add_argument("--seeds", default="1..100", metavar="FIRST..LAST", help="seeds to run")
    parser.add_argument("--calm", action="store_true", help="nothing fails but clients")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("..")
    counts: Counter[str] = Counter()
    failed = 0
    for seed in range(int(first), int(last or first) + 1):
        world = ShareWorld(seed, is_calm=options.calm)
        try:
            world.run()
        except Violation as violation:
            failed += 1
            print(f"seed {seed} at {world.time.seconds:.4f} s: {violation}", flush=True)
        counts += world.journal.counts
    print(f"{failed} seeds failed; {dict(counts)}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
