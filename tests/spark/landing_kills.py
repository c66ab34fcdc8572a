"""Landings that are killed at each of their writes in turn, and finished by the next run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.spark.landing import LandingFailed
from headgate.spark.landing.files import Folder

_MOST_WRITES = 60


def kill_at_each_write(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    land_once: Callable[[Path], object],
    after_a_kill: Callable[[int], object],
    check: Callable[[Path], object],
) -> int:
    """Land into one target for each write, killed there, then again and whole; return the number of writes.

    `after_a_kill` changes the source between the two runs, and `check` looks at the target after the second.
    """
    write = Folder.write
    left = 0

    def dying(self: Folder, name: str, content: bytes) -> None:
        nonlocal left
        if not left:
            raise OSError("killed")
        left -= 1
        write(self, name, content)

    for step in range(_MOST_WRITES):
        target = directory / f"tables{step}"
        left = step
        has_survived = False
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write", dying)
            try:
                land_once(target)
                has_survived = True
            except (OSError, LandingFailed):
                after_a_kill(step)
        land_once(target)
        check(target)
        if has_survived:
            return step
    raise AssertionError(f"a run has more than {_MOST_WRITES} writes")
