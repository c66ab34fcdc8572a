"""A topic's settings as its partitions use them, derived once for every change of the settings.

The topic's own value has precedence over the broker's, and the broker's over the default, for internal topics
too: an operator who relies on the page cache for all topics may do so for the coordinator's log. But no
setting lets retention delete from a coordinator's topic: the coordinator still needs every record that was
not replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate.domain.settings import SYNC, Settings


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The settings of one topic that apply to its partitions."""

    is_durable: bool
    """Records are synced before acks=all is answered, and before readers see them."""
    is_compacted: bool
    is_deleted_from: bool
    """Whether retention and DeleteRecords apply."""
    max_message_bytes: int
    codec: int | None
    """Kafka's number of the codec in which the topic stores batches; None: as producers compressed them."""
    codec_level: int | None
    """The level of that codec; None for its default."""
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
    """For a topic that is not durable: number of records that may be written without a sync."""
    flush_ms: int
    """For a topic that is not durable: time that records may stay unsynced, in ms."""
    index_interval_bytes: int
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int

    @property
    def may_expire(self) -> bool:
        """Whether retention can ever delete anything."""
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
"""The codecs with levels, and the setting's value that means the codec's default: for Kafka, 9 is the fast
level of lz4.
"""


def _codec_level(compression: str, value: Callable[[str], int]) -> int | None:
    if compression not in _USUAL_LEVELS:
        return None
    level = value(f"compression.{compression}.level")
    return None if level == _USUAL_LEVELS[compression] else level


def policy_of(settings: Settings, overrides: Mapping[str, str], *, is_always_compacted: bool) -> TopicPolicy:
    """Return the policy of a topic with these overrides, which have been checked."""

    def value(name: str) -> int:
        return int(settings.of_topic(overrides, name))

    cleanup_policy = settings.of_topic(overrides, "cleanup.policy")
    is_compacted = is_always_compacted or "compact" in cleanup_policy
    # An open segment is never compacted: max.compaction.lag.ms bounds a segment's age too, as in Kafka.
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
