"""Removal of offsets: by request, with their group, with their topic, or by expiry.

A large removal is cut into slices, so that no batch exceeds the maximum of a log (`SLICE_BYTES`) and no other
request waits long (`SLICE_STEPS`). The remaining slices follow in later ticks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import numpy as np

from headgate.core.offsets.commands import DeleteOffsets, DeleteOffsetsResult
from headgate.core.offsets.expiry import GroupClock, is_expired
from headgate.core.offsets.pending import PendingOffsets
from headgate.core.offsets.scanning import OffsetsOfTopic
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, OffsetTombstone, Record
from headgate.records.model import NO_EXPIRY
from headgate.records.offset_commit import key_prefix
from headgate.records.offset_rows import OffsetRows

SLICE_BYTES = 800_000
SLICE_STEPS = 2000
"""Number of steps in a slice. A step is one check of an offset, about two microseconds."""
_TOMBSTONE_STEPS = 8
"""Steps to decide, apply and write the removal of an offset."""
STRETCH_STEPS = 200
"""Steps to scan a stretch of the table."""
_ERASED_AT_ONCE = 64
_FEWEST_IN_COLUMNS = 100
"""Fewer removals become single records, which is as fast."""
_TOMBSTONE_OVERHEAD_BYTES = 24


def tombstone_bytes(tombstone: OffsetTombstone) -> int:
    """Return the size of a tombstone in a batch, for ASCII names; other text takes up to three times that."""
    return len(tombstone.group_id) + len(tombstone.topic) + _TOMBSTONE_OVERHEAD_BYTES


class Slice:
    """Records for one batch, with a limit of bytes and of time to search for more."""

    __slots__ = ("_bytes_left", "_steps_left", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._bytes_left = SLICE_BYTES
        self._steps_left = SLICE_STEPS

    def is_full(self) -> bool:
        """Return whether the batch has enough bytes or took enough time."""
        return self._bytes_left <= 0 or self._steps_left <= 0

    def take_steps(self, count: int) -> None:
        """Count work that takes as long as the check of `count` offsets."""
        self._steps_left -= count

    def add(self, tombstone: OffsetTombstone) -> None:
        """Add a tombstone."""
        self.records.append(tombstone)
        self._bytes_left -= tombstone_bytes(tombstone)
        self._steps_left -= _TOMBSTONE_STEPS


def delete(
    table: OffsetTable,
    pending: PendingOffsets,
    command: DeleteOffsets,
    is_held: Callable[[TopicName, Sequence[int]], bool],
) -> tuple[DeleteOffsetsResult, Sequence[Change]]:
    """Delete offsets, also pending ones. An offset that was never committed is no error.

    `is_held` returns whether the group reads any of these partitions of a topic, which refuses all of them.
    """
    group_id = command.group_id
    outcomes = []
    wanted: dict[TopicName, list[int]] = {}
    for topic, partitions in command.topics:
        if is_held(topic, partitions):
            outcomes.append((topic, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC))
            continue
        outcomes.append((topic, ErrorCode.NONE))
        wanted.setdefault(topic, []).extend(partitions)  # a request may name a topic thousands of times
    gone: dict[TopicName, list[int]] = {}
    for topic, named in wanted.items():
        found = table.committed_among(group_id, topic, named)
        if waiting := pending.partitions_of(group_id, topic):
            found += (waiting & set(named)).difference(found)
        if found:
            gone[topic] = found
    return DeleteOffsetsResult(ErrorCode.NONE, outcomes), removals_of(group_id, gone)


def removals_of(group_id: GroupId, offsets: Mapping[TopicName, Sequence[int]]) -> Sequence[Change]:
    """Return the removals of offsets of a group, all different; one value if they are many."""
    count = sum(map(len, offsets.values()))
    if count < _FEWEST_IN_COLUMNS:
        return [
            OffsetTombstone(group_id, topic, partition)
            for topic, partitions in offsets.items()
            for partition in partitions
        ]
    nothing = np.zeros(count, np.int64)
    return [
        OffsetRows(
            [key_prefix(group_id, topic) for topic in offsets],
            np.repeat(np.arange(len(offsets)), [len(partitions) for partitions in offsets.values()]),
            np.fromiter(chain.from_iterable(offsets.values()), np.int64, count),
            nothing,
            np.zeros(count, np.int32),
            nothing,
            np.ones(count, np.bool_),
            {},
        )
    ]


def erase_pending(pending: PendingOffsets, topic: TopicName, room: Slice) -> None:
    """Remove the pending offsets of a topic, all at once: no transaction commits them during the removal."""
    for group_id, partition in pending.of_topic(topic):
        room.add(OffsetTombstone(group_id, topic, partition))


def erase_topic(offsets: OffsetsOfTopic, topic: TopicName, room: Slice) -> bool:
    """Remove more of a topic's offsets as they are found; return whether those were the last.

    The topic no longer accepts commits. A commit during the removal may remain.
    """
    while not (offsets.is_over or room.is_full()):
        room.take_steps(STRETCH_STEPS)
        for group_id, partition in offsets.step(_ERASED_AT_ONCE):
            room.add(OffsetTombstone(group_id, topic, partition))
    return offsets.is_over


class GroupWalk:
    """A walk over the offsets of one group that removes expired offsets, in as many slices as needed."""

    __slots__ = ("_arrivals", "_table", "group_id", "is_over", "offsets", "stays", "was_cut")

    def __init__(self, table: OffsetTable, group_id: GroupId) -> None:
        self._table = table
        self._arrivals = table.arrivals
        self.group_id = group_id
        self.offsets = table.walk(group_id)
        self.stays = False
        """Whether the group has an offset that does not expire."""
        self.was_cut = False
        self.is_over = False

    @property
    def knows_all(self) -> bool:
        """Return whether all remaining offsets of the group are known: none was added behind the walk."""
        return self.is_over and (self.stays or not self.was_cut or self._table.arrivals == self._arrivals)

    def look_again(self) -> None:
        """Note that the removals of the walk are applied: remaining offsets were added meanwhile."""
        self.stays = self._table.has_offsets(self.group_id)
        self.was_cut = False


class Retention:
    """The check which offsets of one group are expired now."""

    __slots__ = (
        "_clock",
        "_is_subscribed",
        "_now",
        "_pending",
        "_retention_ms",
        "expired",
        "expired_by_own_time",
    )

    def __init__(
        self,
        clock: GroupClock,
        is_subscribed: Callable[[TopicName], bool],
        pending: PendingOffsets,
        now: Millis,
        retention_ms: int,
    ) -> None:
        self._clock = clock
        self._is_subscribed = is_subscribed
        self._pending = pending
        self._now = now
        self._retention_ms = retention_ms
        self.expired = 0
        """Number of offsets removed because of the group's retention."""
        self.expired_by_own_time = 0
        """Number of offsets removed because of an expiry time of their own."""

    def expire(self, walk: GroupWalk, room: Slice) -> None:
        """Continue the walk and remove expired offsets, while there is room."""
        for found in walk.offsets:
            room.take_steps(1)
            if found is not None:
                topic, partition, stored = found
                if (
                    self._is_subscribed(topic)
                    or not is_expired(
                        self._clock,
                        stored.commit_timestamp,
                        stored.expire_timestamp,
                        self._now,
                        self._retention_ms,
                    )
                    or self._pending.has(walk.group_id, topic, partition)
                ):
                    walk.stays = True
                else:
                    room.add(OffsetTombstone(walk.group_id, topic, partition))
                    if stored.expire_timestamp == NO_EXPIRY:
                        self.expired += 1
                    else:
                        self.expired_by_own_time += 1
            if room.is_full():
                walk.was_cut = True
                return
        walk.is_over = True
