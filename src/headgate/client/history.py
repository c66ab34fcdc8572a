"""The history of a group's committed offsets, from its coordinator. Only Headgate has it, Kafka does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.client.offsets import CommittedOffset
from headgate.domain.ids import (
    ZERO_TOPIC_ID,
    GroupId,
    Millis,
    TopicId,
    TopicName,
    TopicPartition,
    topic_id_text,
)
from headgate.wire.extensions.describe_offset_history import (
    DescribeOffsetHistoryRequest,
    DescribeOffsetHistoryRequestTopic,
    DescribeOffsetHistoryResponse,
    DescribeOffsetHistoryResponseEntry,
)

Scope = Mapping[TopicName, Sequence[int] | None] | None
"""Topics with partitions (None: all of the topic). None alone: all partitions in the group's history."""

SINCE_EVER = Millis(-1)
_LIST, _AS_OF, _LAST_CHANGE = range(3)
_COMMIT: Final = 0
_SHARE_OF_TIMEOUT: Final = 0.5
"""The share of a call's timeout in which the node may read its logs."""


class Earlier(IntEnum):
    """The time before the oldest returned change."""

    NOTHING = 0
    """There was no offset."""
    MORE = 1
    """There are more changes."""
    UNKNOWN = 2
    """The history does not go back so far."""


class TopicNow(StrEnum):
    """The present state of the topic that an offset was committed for."""

    SAME = "same"
    """The topic exists."""
    RECREATED = "recreated"
    """The topic was deleted, and another topic has its name now."""
    DELETED = "deleted"
    """The topic was deleted, and no topic has its name."""


class ChangeAuthor(NamedTuple):
    """The client that made a change."""

    client_id: str
    host: str
    """Its address, after a slash."""


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A commit, or the removal of an offset. Times are in ms since the epoch."""

    partition: TopicPartition
    time: Millis
    """The commit timestamp, or the time of the removal."""
    committed: CommittedOffset | None
    """None: the offset was removed."""
    written: Millis
    """When the record was written. All changes of one request have the same time."""
    log_offset: int
    """The offset of the record in the group's partition of `__consumer_offsets`."""
    topic_now: TopicNow = TopicNow.SAME
    author: ChangeAuthor | None = None
    """Who made an administrative change (a reset, an undo, a deletion), if that is known."""
    undone_at: Millis | None = None
    """If the change was an undo: the time of the change that it undid."""


@dataclass(frozen=True, slots=True)
class HistoryTopic:
    """The topic that has the name now: its id and the time of its creation, in ms."""

    topic_id: str
    """As Kafka's tools print it."""
    created: Millis


@dataclass(frozen=True, slots=True)
class PartitionHistory:
    """The changes of one partition, the newest first."""

    partition: TopicPartition
    changes: Sequence[OffsetChange]
    earlier: Earlier


@dataclass(frozen=True, slots=True)
class OffsetHistory:
    """The requested changes, by partition.

    All offsets that were current at `known_since` (ms) or later are known; -1: the history is complete.
    """

    known_since: Millis
    partitions: Sequence[PartitionHistory]
    topics: Mapping[TopicName, HistoryTopic] = field(default_factory=dict)
    """The existing topics among those of the partitions. Another topic may have had the name before."""


def require_history(cluster: Cluster, group_id: GroupId) -> None:
    """Raise `VersionNotSupported` if the group's coordinator keeps no history."""
    cluster.coordinator(group_id).version_for(DescribeOffsetHistoryRequest)


def list_changes(
    cluster: Cluster, group_id: GroupId, scope: Scope, since: Millis | None, until: Millis | None, limit: int
) -> OffsetHistory:
    """Return the newest changes of each partition between `since` and `until`, at most `limit` of each."""
    message = DescribeOffsetHistoryRequest(mode=_LIST, limit=limit)
    if since is not None:
        message.since_ms = since
    if until is not None:
        message.until_ms = until
    return _ask(cluster, group_id, scope, message)


def changes_in_force(cluster: Cluster, group_id: GroupId, scope: Scope, time: Millis) -> OffsetHistory:
    """Return for each partition the change that was current at `time`."""
    return _ask(cluster, group_id, scope, DescribeOffsetHistoryRequest(mode=_AS_OF, until_ms=time))


def last_change(cluster: Cluster, group_id: GroupId, scope: Scope) -> OffsetHistory:
    """Return the newest change in the scope: its partitions, each with the change and the one before it."""
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
            topics[name] = HistoryTopic(topic_id_text(TopicId(topic.topic_id)), Millis(topic.created_ms))
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
    author = None
    if entry.client_id is not None:
        author = ChangeAuthor(entry.client_id, entry.client_host or "")
    return OffsetChange(
        partition,
        Millis(entry.time_ms),
        committed,
        Millis(entry.written_ms),
        entry.log_offset,
        topic_now,
        author,
        None if entry.undone_ms is None else Millis(entry.undone_ms),
    )
