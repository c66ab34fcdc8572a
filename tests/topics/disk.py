"""Helpers of the topics' tests: a data directory on a disk in memory, operations on it, and what
clients see.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis, TopicId
from headgate.domain.settings import Settings
from headgate.log.batch import Record, encode_batch, iterate_records
from headgate.log.filesystem import MemoryFileSystem
from headgate.topics.topic import Topic
from headgate.topics.topics import NewTopic, Topics

if TYPE_CHECKING:
    from collections.abc import Sequence

NOW = Millis(1_750_000_000_000)
DATA = Path("/data")


class Disk:
    """A disk, and the topics on it."""

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
        """Return a topic id that was not used before."""
        self._ids += 1
        return TopicId(self._ids.to_bytes(16, "big"))


def batch(
    *values: bytes,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int = NOW,
    keys: Sequence[bytes | None] | None = None,
    codec: int = 0,
) -> bytes:
    """Encode one batch as a producer does; `producer` is its id, epoch and first sequence."""
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


def create(topics: Topics, disk: Disk, name: str, partitions: int = 1, **overrides: str) -> Topic:
    """Create a topic; settings have underscores for dots."""
    texts = {key.replace("_", "."): value for key, value in overrides.items()}
    created = topics.create(NewTopic(name, disk.topic_id(), partitions, texts), NOW)
    assert isinstance(created, Topic), created
    return created


def append(
    topic: Topic, *values: bytes, partition: int = 0, producer: tuple[int, int, int] = (-1, -1, -1)
) -> int:
    """Append durably; return the base offset."""
    found = topic.partition(partition)
    result = found.append(batch(*values, producer=producer), NOW)
    assert result.error == ErrorCode.NONE, result
    sync(topic, partition)
    return result.base_offset


def sync(topic: Topic, partition: int = 0) -> None:
    """Make all of the partition durable, and visible to readers."""
    log = topic.partition(partition).log
    request = log.begin_sync()
    request.run()
    log.complete_sync(request)
    topic.partition(partition).advance()


def values(topic: Topic, partition: int = 0) -> list[bytes | None]:
    """Return the values of all visible records."""
    records = topic.partition(partition).read(0, 1 << 30, minimum_one=True).records
    return [record.value for _, record in iterate_records(records)]


def told(topics: Topics) -> list[Any]:
    """Return everything that clients can see of the topics."""
    return [
        (topic.name, topic.topic_id, topic.partition_count, topic.overrides, topic.is_internal)
        for topic in topics.all()
    ]
