"""The tests of topics share a data directory on a disk in memory, and batches as producers send them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.log.batch import Record, encode_batch
from headgate.log.filesystem import MemoryFileSystem
from headgate.topics.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = Millis(1_750_000_000_000)
DATA = Path("/data")


class Disk:
    """A disk, and the topics on it as they are at the moment."""

    def __init__(self) -> None:
        self.files = MemoryFileSystem()
        self.files.make_directory(DATA)
        self.files.sync_directory(DATA.parent)
        self.settings = Settings()
        self._ids = 0

    def start(self) -> Topics:
        """Open the topics as a starting server does."""
        return Topics.open(self.files, DATA, self.settings, NOW)

    def topic_id(self) -> TopicId:
        """An id never given before."""
        self._ids += 1
        return TopicId(self._ids.to_bytes(16, "big"))


def batch(
    *values: bytes,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int = NOW,
    keys: Sequence[bytes | None] | None = None,
    codec: int = 0,
) -> bytes:
    """One batch as a producer sends it; `producer` is its id, epoch and first sequence."""
    named = keys or [b"key"] * len(values)
    records = [Record(key, value, timestamp) for key, value in zip(named, values, strict=True)]
    return bytes(
        encode_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            codec=codec,
        )
    )
