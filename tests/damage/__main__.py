"""Try every damage out and write the table into docs/correctness.md: python -m tests.damage"""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

from tests.damage.damages import ROWS
from tests.damage.directories import build
from tests.damage.document import lines_of, write
from tests.damage.observe import observe
from tests.damage.table import cells_of


def main() -> None:
    """Build the directories, damage copies of them, and write what came of it."""
    logging.getLogger("headgate").propagate = False
    place = Path(tempfile.mkdtemp(prefix="headgate-damage-"))
    try:
        ends = build(place)
        shutil.copytree(ends.closed, place / "whole")
        whole = observe(place / "whole")
        lines = []
        for target, damages in ROWS:
            lines += lines_of(target, cells_of(ends, whole, target, damages, place))
            print(lines[-1], flush=True)
        write(lines)
    finally:
        shutil.rmtree(place)


main()
