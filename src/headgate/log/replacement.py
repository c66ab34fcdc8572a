"""The state of a replacement of segments by compacted ones.

A replacement is decided and settled in another thread than the log's own. That must not happen while the log
is recovered, truncated or deleted, and a replacement prepared before such a change is void after it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headgate.log.swap import decide, discard, settle

if TYPE_CHECKING:
    from pathlib import Path

    from headgate.log.filesystem import FileSystem


class Replacement:
    """Of one log: `generation` changes whenever the log is recovered, truncated or deleted."""

    __slots__ = ("_directory", "_files", "_lock", "generation", "is_under_way")

    def __init__(self, files: FileSystem, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._lock = threading.Lock()
        self.generation = 0
        self.is_under_way = False
        """Whether a replacement was decided and is not settled."""

    @contextmanager
    def next_generation(self) -> Iterator[None]:
        """Begin the next generation; no replacement is decided or settled within this context."""
        with self._lock:
            self.generation += 1
            yield

    def decide(self, generation: int) -> bool:
        """Make the prepared replacement effective; return False if the generation has changed. Raises
        OSError.
        """
        with self._lock:
            if generation != self.generation:
                return False
            self.is_under_way = True
            decide(self._files, self._directory)
        return True

    def settle(self, compacted_to: int, generation: int) -> None:
        """Make the carried-out replacement durable. Raises OSError."""
        with self._lock:
            if generation == self.generation and self.is_under_way:
                settle(self._files, self._directory, compacted_to)
                self.is_under_way = False

    def revoke(self, compacted_to: int) -> None:
        """Undo a decided replacement; called within `next_generation`. Raises OSError."""
        if self.is_under_way:
            settle(self._files, self._directory, compacted_to)
            discard(self._files, self._directory)
            self.is_under_way = False
