"""The paused partitions of all groups of a shard, of any kind: durable, changed only by `apply`.

They are stored by topic id: a topic that is created again has no paused partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headgate.domain.ids import GroupId, TopicId
from headgate.domain.pauses import is_of_rewind
from headgate.records import (
    Pause,
    PausedPartitions,
    PausedTopicPartitions,
    PausedTopicPartitionsTombstone,
    Record,
)

NOTHING_PAUSED: Final[PausedPartitions] = {}
PausedRecord = PausedTopicPartitions | PausedTopicPartitionsTombstone

Partitions = Iterable[tuple[TopicId, Iterable[int]]]
"""Partitions by topic; a topic may occur more than once."""


class PausedGroups:
    """The groups with paused partitions."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[GroupId, PausedPartitions] = {}
        """Only groups with at least one paused partition."""

    def of(self, group_id: GroupId) -> PausedPartitions:
        """Return the paused partitions of a group."""
        return self.by_group.get(group_id, NOTHING_PAUSED)

    # --- records ---

    def apply(self, record: PausedRecord) -> None:
        """Apply a record to the durable state."""
        if isinstance(record, PausedTopicPartitions) and record.partitions:
            self.by_group[record.group_id] = record.partitions
        else:
            self.by_group.pop(record.group_id, None)

    def current(self, group_id: GroupId) -> PausedRecord:
        """Return the record of a group's paused partitions."""
        return record_of(group_id, self.of(group_id))

    def records(self) -> list[Record]:
        """Return the records of all groups."""
        return [
            PausedTopicPartitions(group_id=group_id, partitions=partitions)
            for group_id, partitions in self.by_group.items()
        ]

    def tombstones(self, group_id: GroupId) -> list[Record]:
        """Return the tombstone of a group's record, if it has one."""
        return [PausedTopicPartitionsTombstone(group_id)] if group_id in self.by_group else []


def record_of(group_id: GroupId, paused: PausedPartitions) -> PausedRecord:
    """Return the record with exactly these paused partitions."""
    if paused:
        return PausedTopicPartitions(group_id=group_id, partitions=paused)
    return PausedTopicPartitionsTombstone(group_id)


def with_paused(before: PausedPartitions, partitions: Partitions, pause: Pause) -> PausedPartitions:
    """Return the paused partitions with these added; the same object if nothing changes.

    A partition that is paused already keeps its pause, but for that of a rewind: the rewind will resume it,
    and who pauses it meanwhile wants it to stay paused.
    """
    changed: dict[TopicId, dict[int, Pause]] = {}
    takes_over = not is_of_rewind(pause.reason)
    for topic_id, indexes in _by_topic(partitions).items():
        now = before.get(topic_id, {})
        added = dict.fromkeys(
            [one for one in indexes if one not in now or (takes_over and is_of_rewind(now[one].reason))]
            if now
            else indexes,
            pause,
        )
        if added:
            changed[topic_id] = {**now, **added} if now else added
    return {**before, **changed} if changed else before


def without(
    before: PausedPartitions, partitions: Partitions, *, only_of_rewinds: bool = False
) -> PausedPartitions:
    """Return the paused partitions without these; the same object if nothing changes.

    `only_of_rewinds`: without those of them that rewinds have paused.
    """
    changed: dict[TopicId, Mapping[int, Pause]] = {}
    for topic_id, indexes in _by_topic(partitions).items():
        now = before.get(topic_id, {})
        gone = now.keys() & set(indexes)
        if only_of_rewinds:
            gone = {index for index in gone if is_of_rewind(now[index].reason)}
        if gone:
            changed[topic_id] = {index: pause for index, pause in now.items() if index not in gone}
    if not changed:
        return before
    return {topic_id: indexes for topic_id, indexes in {**before, **changed}.items() if indexes}


def _by_topic(partitions: Partitions) -> Mapping[TopicId, Sequence[int]]:
    """Return all partitions of each topic: a request may name a topic thousands of times."""
    indexes_by_topic: dict[TopicId, list[int]] = {}
    for topic_id, indexes in partitions:
        indexes_by_topic.setdefault(topic_id, []).extend(indexes)
    return indexes_by_topic


def added(before: PausedPartitions, after: PausedPartitions) -> dict[TopicId, frozenset[int]]:
    """Return the partitions of `after` that are not in `before`, of each topic that has any."""
    more = {
        topic_id: frozenset(indexes.keys() - before.get(topic_id, {}).keys())
        for topic_id, indexes in after.items()
        if indexes is not before.get(topic_id)
    }
    return {topic_id: indexes for topic_id, indexes in more.items() if indexes}
