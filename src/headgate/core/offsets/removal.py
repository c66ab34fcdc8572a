"""Letting offsets go: by request, with their group, with their topic, or because they expired.

A removal that may be wide is cut into slices of at most `SLICE_BYTES`, so that no batch outgrows what a log
takes; the rest follows in ticks, which look anew at what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.core.offsets.commands import DeleteOffsets, DeleteOffsetsResult
from headgate.core.offsets.expiry import GroupClock, is_expired
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import OffsetTombstone, Record

SLICE_BYTES = 800_000
_TOMBSTONE_OVERHEAD_BYTES = 24


def tombstone_bytes(tombstone: OffsetTombstone) -> int:
    """What a tombstone takes in a batch, if its names are ASCII; other text takes up to three times that."""
    return len(tombstone.group_id) + len(tombstone.topic) + _TOMBSTONE_OVERHEAD_BYTES


class Slice:
    """Records for one batch, as long as there is room."""

    __slots__ = ("_left", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._left = SLICE_BYTES

    def is_full(self) -> bool:
        """Whether the batch has what it should hold."""
        return self._left <= 0

    def add(self, tombstone: OffsetTombstone) -> None:
        """Take one more."""
        self.records.append(tombstone)
        self._left -= tombstone_bytes(tombstone)


def delete(
    table: OffsetTable, command: DeleteOffsets, is_subscribed: Callable[[TopicName], bool]
) -> tuple[DeleteOffsetsResult, Sequence[Record]]:
    """Delete the offsets of topics that the group does not read. One that was never committed is no error."""
    group_id = command.group_id
    outcomes = []
    gone: dict[tuple[TopicName, int], None] = {}
    for topic, partitions in command.topics:
        if is_subscribed(topic):
            outcomes.append((topic, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        outcomes.append((topic, ErrorCode.NONE))
        for partition in partitions:
            if table.get(group_id, topic, partition) is not None:
                gone[topic, partition] = None
    records = [OffsetTombstone(group_id, topic, partition) for topic, partition in gone]
    return DeleteOffsetsResult(ErrorCode.NONE, outcomes), records


def delete_all(table: OffsetTable, group_id: GroupId) -> list[Record]:
    """Remove all offsets of a group."""
    return [OffsetTombstone(group_id, topic, partition) for topic, partition, _ in table.offsets_of(group_id)]


def erase_topic(table: OffsetTable, topic: TopicName, room: Slice) -> bool:
    """Remove a topic's offsets; whether that was all of them."""
    for group_id, partition in table.offsets_of_topic(topic):
        if room.is_full():
            return False
        room.add(OffsetTombstone(group_id, topic, partition))
    return True


class Retention:
    """One look at one group: which of its offsets are expired now."""

    __slots__ = ("_clock", "_is_subscribed", "_now", "_retention_ms")

    def __init__(
        self, clock: GroupClock, is_subscribed: Callable[[TopicName], bool], now: Millis, retention_ms: int
    ) -> None:
        self._clock = clock
        self._is_subscribed = is_subscribed
        self._now = now
        self._retention_ms = retention_ms

    def expire(self, table: OffsetTable, group_id: GroupId, room: Slice) -> bool:
        """Remove what is expired while there is room; whether nothing is left of the group's offsets."""
        is_all = True
        for topic, partition, stored in table.offsets_of(group_id):
            if self._is_subscribed(topic) or not is_expired(
                self._clock, stored.commit_timestamp, stored.expire_timestamp, self._now, self._retention_ms
            ):
                is_all = False
                continue
            if room.is_full():
                return False
            room.add(OffsetTombstone(group_id, topic, partition))
        return is_all
