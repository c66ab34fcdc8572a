"""The paused partitions of all groups of a shard, whatever their kind: durable, changed by `apply` alone.

They are kept by topic id: a topic that is created again under its name has no paused partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headgate.domain.ids import GroupId, TopicId
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
"""Partitions by topic; a topic may come more than once."""


class PausedGroups:
    """The groups that have paused partitions."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[GroupId, PausedPartitions] = {}
        """No group is without any."""

    def of(self, group_id: GroupId) -> PausedPartitions:
        """Return the paused partitions of a group."""
        return self.by_group.get(group_id, NOTHING_PAUSED)

    # --- records ---

    def apply(self, record: PausedRecord) -> None:
        """Take a record into durable state."""
        if isinstance(record, PausedTopicPartitions) and record.partitions:
            self.by_group[record.group_id] = record.partitions
        else:
            self.by_group.pop(record.group_id, None)

    def current(self, group_id: GroupId) -> PausedRecord:
        """Return the record that says what is paused in a group now."""
        return record_of(group_id, self.of(group_id))

    def records(self) -> list[Record]:
        """Return the records of all groups."""
        return [
            PausedTopicPartitions(group_id=group_id, partitions=partitions)
            for group_id, partitions in self.by_group.items()
        ]

    def tombstones(self, group_id: GroupId) -> list[Record]:
        """Return what takes a group's record away, if it has one."""
        return [PausedTopicPartitionsTombstone(group_id)] if group_id in self.by_group else []


def record_of(group_id: GroupId, paused: PausedPartitions) -> PausedRecord:
    """Return the record that says that just these partitions are paused."""
    if paused:
        return PausedTopicPartitions(group_id=group_id, partitions=paused)
    return PausedTopicPartitionsTombstone(group_id)


def with_paused(before: PausedPartitions, partitions: Partitions, pause: Pause) -> PausedPartitions:
    """Return what is paused when these are too. A partition that is paused already keeps its pause.

    The same object if nothing changes.
    """
    changed: dict[TopicId, dict[int, Pause]] = {}
    for topic_id, indexes in partitions:
        now = changed.get(topic_id) or before.get(topic_id, {})
        added = dict.fromkeys((index for index in indexes if index not in now), pause)
        if added:
            changed[topic_id] = {**now, **added}
    return {**before, **changed} if changed else before


def without(before: PausedPartitions, partitions: Partitions) -> PausedPartitions:
    """Return what is paused when these are not any more; the same object if nothing changes."""
    changed: dict[TopicId, Mapping[int, Pause]] = {}
    for topic_id, indexes in partitions:
        now = changed.get(topic_id, before.get(topic_id, {}))
        gone = now.keys() & set(indexes)
        if gone:
            changed[topic_id] = {index: pause for index, pause in now.items() if index not in gone}
    if not changed:
        return before
    return {topic_id: indexes for topic_id, indexes in {**before, **changed}.items() if indexes}


def added(before: PausedPartitions, after: PausedPartitions) -> dict[TopicId, frozenset[int]]:
    """Return the partitions of `after` that are not in `before`, of each topic that has any."""
    more = {
        topic_id: frozenset(indexes.keys() - before.get(topic_id, {}).keys())
        for topic_id, indexes in after.items()
        if indexes is not before.get(topic_id)
    }
    return {topic_id: indexes for topic_id, indexes in more.items() if indexes}
