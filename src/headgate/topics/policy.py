"""What a topic's settings mean for its partitions, worked out once for every change of the settings.

The topic's own value wins over the broker's, the broker's over the default. That holds for internal topics
too: whoever trusts the page cache with everything may trust it with the coordinator's log. But nothing set on
a coordinator's topic lets retention delete from it: what a coordinator has not replaced it still needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.domain.settings import SYNC, Settings


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The settings of one topic that its partitions obey."""

    is_durable: bool
    """Written records are synced before acks=all is answered, and before any reader sees them."""
    is_compacted: bool
    is_deleted_from: bool
    """Whether retention and DeleteRecords apply."""
    max_message_bytes: int
    codec: int | None
    """By which codec the topic keeps its batches, by Kafka's number; None: as producers compressed them."""
    codec_level: int | None
    """That codec's own level; None its usual one."""
    uses_log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    reserves_segments: bool
    flush_messages: int
    """In a topic that trusts the page cache: how many records may be written without a sync."""
    flush_ms: int
    """The same in time."""
    index_interval_bytes: int
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int

    @property
    def may_expire(self) -> bool:
        """Whether retention will ever delete anything."""
        return self.is_deleted_from and (self.retention_ms >= 0 or self.retention_bytes >= 0)


_CODECS: Mapping[str, int | None] = {
    "producer": None,
    "uncompressed": 0,
    "gzip": 1,
    "snappy": 2,
    "lz4": 3,
    "zstd": 4,
}
_USUAL_LEVELS: Mapping[str, int | None] = {"gzip": -1, "lz4": 9, "zstd": None}
"""The codecs that have levels, and the level that stands for the codec's own choice: to Kafka 9 is lz4's
fast one.
"""


def _codec_level(compression: str, value: Callable[[str], int]) -> int | None:
    if compression not in _USUAL_LEVELS:
        return None
    level = value(f"compression.{compression}.level")
    return None if level == _USUAL_LEVELS[compression] else level


def policy_of(settings: Settings, overrides: Mapping[str, str], *, is_always_compacted: bool) -> TopicPolicy:
    """The policy of a topic with these settings of its own; they have been checked before."""

    def value(name: str) -> int:
        return int(settings.of_topic(overrides, name))

    cleanup_policy = settings.of_topic(overrides, "cleanup.policy")
    is_compacted = is_always_compacted or "compact" in cleanup_policy
    # What is never closed is never compacted: the longest lag bounds a segment's age as well, as in Kafka.
    longest_open_ms = value("max.compaction.lag.ms") if is_compacted else value("segment.ms")
    compression = settings.of_topic(overrides, "compression.type")
    return TopicPolicy(
        codec=_CODECS[compression],
        codec_level=_codec_level(compression, value),
        is_durable=settings.of_topic(overrides, "headgate.durability") == SYNC,
        is_compacted=is_compacted,
        is_deleted_from=not is_always_compacted and "delete" in cleanup_policy,
        max_message_bytes=value("max.message.bytes"),
        uses_log_append_time=settings.of_topic(overrides, "message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        retention_ms=value("retention.ms"),
        retention_bytes=value("retention.bytes"),
        segment_bytes=value("segment.bytes"),
        segment_ms=min(value("segment.ms"), longest_open_ms),
        segment_jitter_ms=value("segment.jitter.ms"),
        reserves_segments=settings.of_topic(overrides, "preallocate"),
        flush_messages=value("flush.messages"),
        flush_ms=value("flush.ms"),
        index_interval_bytes=value("index.interval.bytes"),
        delete_retention_ms=value("delete.retention.ms"),
        min_cleanable_dirty_ratio=float(settings.of_topic(overrides, "min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=value("min.compaction.lag.ms"),
        max_compaction_lag_ms=value("max.compaction.lag.ms"),
    )
