"""Whether segments are being replaced by compacted ones, and of which life of the log that is true.

A replacement is decided and settled in another thread than the log's own. That must not happen while the log
is read anew, cut or deleted, and what was prepared for the log as it was before counts for nothing after.
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
    """Of one log: `generation` is another number whenever the log was read anew, truncated or deleted."""

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
        """The log becomes another; no replacement is decided or settled meanwhile."""
        with self._lock:
            self.generation += 1
            yield

    def decide(self, generation: int) -> bool:
        """Let what stands aside count from here on; False: the log is another now. Raises OSError."""
        with self._lock:
            if generation != self.generation:
                return False
            self.is_under_way = True
            decide(self._files, self._directory)
        return True

    def settle(self, compacted_to: int, generation: int) -> None:
        """What was decided is carried out: make that durable. Raises OSError."""
        with self._lock:
            if generation == self.generation and self.is_under_way:
                settle(self._files, self._directory, compacted_to)
                self.is_under_way = False

    def revoke(self, compacted_to: int) -> None:
        """What was decided is not to be; for who has begun the next generation. Raises OSError."""
        if self.is_under_way:
            settle(self._files, self._directory, compacted_to)
            discard(self._files, self._directory)
            self.is_under_way = False
