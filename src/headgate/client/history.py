"""What a group's offsets were, as its coordinator remembers it. Headgate tells; Kafka does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, Millis, TopicId, TopicName, TopicPartition
from headgate.wire.extensions.describe_offset_history import (
    DescribeOffsetHistoryRequest,
    DescribeOffsetHistoryRequestTopic,
    DescribeOffsetHistoryResponse,
    DescribeOffsetHistoryResponseEntry,
)

Scope = Mapping[TopicName, Sequence[int] | None] | None
"""Topics and which of their partitions, None being all; None alone: everything the group ever had."""

SINCE_EVER = Millis(-1)
_LIST, _AS_OF, _LAST_CHANGE = range(3)
_COMMIT: Final = 0
_SHARE_OF_TIMEOUT: Final = 0.5
"""How much of the time for a call the node may read its logs."""


class Earlier(IntEnum):
    """What is known of the time before the oldest change that was told."""

    NOTHING = 0
    """There was no offset."""
    MORE = 1
    """There are more changes."""
    UNKNOWN = 2


class TopicNow(StrEnum):
    """What became of the topic that an offset was committed for."""

    SAME = "same"
    RECREATED = "recreated"
    """It was deleted, and another has its name."""
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A commit, or the removal of an offset."""

    partition: TopicPartition
    time: Millis
    """When it came into force: the commit's timestamp, or that of the removal."""
    committed: CommittedOffset | None
    """None: removed."""
    written: Millis
    """What one request changed has the same."""
    log_offset: int
    """Where its record stood in the partition of `__consumer_offsets` that is the group's."""
    topic_now: TopicNow = TopicNow.SAME


@dataclass(frozen=True, slots=True)
class HistoryTopic:
    """The topic that has a name now."""

    topic_id: TopicId
    created: Millis


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The changes of one partition, newest first."""

    partition: TopicPartition
    changes: Sequence[OffsetChange]
    earlier: Earlier


@dataclass(frozen=True, slots=True)
class OffsetHistory:
    """The changes that were asked for, by partition.

    Of what was in force at `known_since` or later nothing is missing; -1: since ever.
    """

    known_since: Millis
    partitions: Sequence[PartitionHistory]
    topics: Mapping[TopicName, HistoryTopic] = field(default_factory=dict)
    """Of the topics of these partitions those that there are; another may have had the name before."""


def list_changes(
    cluster: Cluster, group_id: GroupId, scope: Scope, since: Millis | None, until: Millis | None, limit: int
) -> OffsetHistory:
    """The newest changes of each partition within a time, `limit` of each at most."""
    message = DescribeOffsetHistoryRequest(mode=_LIST, limit=limit)
    if since is not None:
        message.since_ms = since
    if until is not None:
        message.until_ms = until
    return _ask(cluster, group_id, scope, message)


def changes_in_force(cluster: Cluster, group_id: GroupId, scope: Scope, time: Millis) -> OffsetHistory:
    """Of each partition the change that was in force at a time."""
    return _ask(cluster, group_id, scope, DescribeOffsetHistoryRequest(mode=_AS_OF, until_ms=time))


def last_change(cluster: Cluster, group_id: GroupId, scope: Scope) -> OffsetHistory:
    """The partitions that the newest change within the scope changed: what it did, and what stood before."""
    return _ask(cluster, group_id, scope, DescribeOffsetHistoryRequest(mode=_LAST_CHANGE))


def _ask(
    cluster: Cluster, group_id: GroupId, scope: Scope, message: DescribeOffsetHistoryRequest
) -> OffsetHistory:
    message.group_id = group_id
    message.max_wait_ms = int(cluster.timeout_s * 1000 * _SHARE_OF_TIMEOUT)
    if scope is not None:
        message.topics = [
            DescribeOffsetHistoryRequestTopic(
                name=topic, partition_indexes=None if indexes is None else list(indexes)
            )
            for topic, indexes in scope.items()
        ]

    def attempt() -> OffsetHistory:
        response = cluster.coordinator(group_id).request(message)
        check(f"history of group {group_id}", response.error_code, response.error_message)
        return _read(response)

    return cluster.retrying(attempt)


def _read(response: DescribeOffsetHistoryResponse) -> OffsetHistory:
    partitions = []
    topics = {}
    for topic in response.topics:
        name, former = TopicName(topic.name), TopicNow.DELETED
        if topic.topic_id != ZERO_TOPIC_ID:
            topics[name] = HistoryTopic(TopicId(topic.topic_id), Millis(topic.created_ms))
            former = TopicNow.RECREATED
        for each in topic.partitions:
            where, own = TopicPartition(name, each.partition_index), len(each.entries) - each.former_entries
            changes = [
                _change(where, entry, TopicNow.SAME if at < own else former)
                for at, entry in enumerate(each.entries)
            ]
            partitions.append(PartitionHistory(where, changes, Earlier(each.earlier)))
    return OffsetHistory(Millis(response.known_since_ms), partitions, topics)


def _change(
    partition: TopicPartition, entry: DescribeOffsetHistoryResponseEntry, topic_now: TopicNow
) -> OffsetChange:
    committed = None
    if entry.kind == _COMMIT:
        committed = CommittedOffset(entry.committed_offset, entry.committed_leader_epoch, entry.metadata)
    return OffsetChange(
        partition, Millis(entry.time_ms), committed, Millis(entry.written_ms), entry.log_offset, topic_now
    )
