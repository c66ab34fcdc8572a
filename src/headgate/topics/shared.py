"""What all topics of a node have in common."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headgate.domain.ids import TopicId
from headgate.domain.settings import Settings
from headgate.log.filesystem import FileSystem
from headgate.log.log import Log
from headgate.topics.producers import ProducerCount
from headgate.topics.waiters import Waiters


@dataclass(slots=True)
class Shared:
    """What all topics of a node have in common."""

    fs: FileSystem
    data_dir: Path
    settings: Settings
    waiters: Waiters
    leader_epoch: int
    unrecovered: set[tuple[TopicId, int]] = field(default_factory=set)
    """Partitions whose logs a crash may have left torn, and which were not opened since."""
    seconds: Callable[[], float] = time.monotonic
    """Steady time: when to try again what failed."""
    producers: ProducerCount = field(default_factory=ProducerCount)
    open_files_limit: int = 512
    """How many logs may keep files open; the one unused for longest gives its own back."""
    _used: dict[int, Log] = field(default_factory=dict)

    def used(self, log: Log) -> None:
        """The log is about to read or write, and has files open from now on."""
        key = id(log)
        if self._used.pop(key, None) is None and len(self._used) >= self.open_files_limit:
            idle = next(iter(self._used))
            self._used.pop(idle).close_files()
        self._used[key] = log

    def closed(self, log: Log) -> None:
        """The log has no files open any more."""
        self._used.pop(id(log), None)
