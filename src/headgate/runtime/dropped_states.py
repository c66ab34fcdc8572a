"""Frees the memory of shards that failed, of which the former state is dropped.

A shard is part of reference cycles, and the collector looks at old objects very seldom (`server/memory.py`).
A full disk makes shards fail and load again every second: their former states would fill the memory. So the
collector runs when a state was dropped, for a twentieth of the time at most, because it stops the event loop.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter
from typing import Final

PAUSE_SECONDS: Final = 1.0
"""Least time between two collections."""
_TIMES_ITS_LENGTH: Final = 20


class DroppedStates:
    """Runs the collector for all shards of a process."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._not_before = 0.0

    def free(self) -> None:
        """Free what was dropped, unless the collector ran just now: then the next call does it."""
        began = self._seconds()
        if began < self._not_before:
            return
        gc.collect()
        ended = self._seconds()
        self._not_before = ended + max(PAUSE_SECONDS, _TIMES_ITS_LENGTH * (ended - began))


DROPPED: Final = DroppedStates()
"""One for each process, as the collector."""
