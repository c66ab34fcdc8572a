"""The records of a consumer group (KIP-848) as values, independent of their format on disk.

A group has a record for its epoch, one for the epoch of its target assignment, and for each member its
metadata, its target assignment and its current assignment. Each has its own key. The last record of a key is
the current one; a `ConsumerGroupTombstone` removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeGuard, get_args

from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicId, TopicName

NEVER = Millis(-1)
NO_ASSIGNMENT_YET = Millis(0)
UNKNOWN_EPOCH = -1

TargetPartitions = Mapping[TopicId, tuple[int, ...]]
"""Partitions by topic, ascending. Immutable."""

OwnedPartitions = Mapping[TopicId, Mapping[int, int]]
"""Partitions by topic, each with its assignment epoch (KIP-1251). Immutable."""


class ConsumerRecordType(IntEnum):
    """The key types of a consumer group's records."""

    GROUP = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_METADATA = 6
    TARGET_MEMBER = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class MemberState(IntEnum):
    """The state of a member's reconciliation with its target assignment."""

    STABLE = 0
    """The member has its target assignment."""
    UNREVOKED_PARTITIONS = 1
    """The member must revoke partitions and has not confirmed it."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not released."""
    UNKNOWN = 127
    """A state written by a coordinator of another version."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupMetadata:
    """The epoch of a group. The group exists while it has this record."""

    group_id: GroupId
    epoch: int
    metadata_hash: int = 0
    """Hash of the subscribed topics' metadata. It differs when the metadata changed."""
    empty_since: Millis = NEVER
    """When the last member left (R0.4), in ms. -1: the group has members, or Kafka wrote the record."""
    last_removal_epoch: int = UNKNOWN_EPOCH
    """The target assignment's epoch at the last removal of a member id, 0 if none was removed.

    -1: the record was written by Kafka or by a version without this field.
    """
    written: Millis = field(default=NEVER, compare=False)
    """The record's timestamp in the log it was read from, in ms. Not part of the record itself."""


@dataclass(slots=True, frozen=True, kw_only=True)
class PartitionRacks:
    """The racks that hold a partition."""

    partition: int
    racks: tuple[str, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class SubscribedTopic:
    """Metadata of a topic that members of a group subscribed to."""

    topic_id: TopicId
    name: TopicName
    partition_count: int
    racks: tuple[PartitionRacks, ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupPartitionMetadata:
    """The topics of a group, written by Kafka before 4.1. Later versions write the metadata hash instead."""

    group_id: GroupId
    topics: tuple[SubscribedTopic, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class ClassicMemberMetadata:
    """What a member of the classic protocol sent in its JoinGroup request to a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Protocol names with the member's metadata for each. The preferred one is first."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupMemberMetadata:
    """What a member sent about itself: its client, subscription, rebalance timeout and assignor."""

    group_id: GroupId
    member_id: MemberId
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[TopicName, ...] = ()
    """Ascending, without duplicates."""
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """None for a member of the consumer protocol."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupTargetMetadata:
    """The group epoch that the target assignment was computed for, and the time of the computation."""

    group_id: GroupId
    assignment_epoch: int
    assignment_timestamp: Millis = NO_ASSIGNMENT_YET


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupTargetMember:
    """The target assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    partitions: TargetPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupCurrentAssignment:
    """The current assignment of a member, its epochs and its state."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: OwnedPartitions
    pending_revocation: OwnedPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupRegularExpression:
    """The topics that a regular expression of a group matches."""

    group_id: GroupId
    regular_expression: str
    topics: tuple[TopicName, ...]
    """Ascending, without duplicates."""
    version: int
    """Version of the topics' metadata that the expression was matched with."""
    timestamp: Millis


@dataclass(slots=True, frozen=True)
class ConsumerGroupTombstone:
    """The tombstone of one record of a consumer group."""

    record_type: ConsumerRecordType
    group_id: GroupId
    name: str = ""
    """The member id or the regular expression; "" for record types of which a group has one record."""


ConsumerRecord = (
    ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetMetadata
    | ConsumerGroupTargetMember
    | ConsumerGroupCurrentAssignment
    | ConsumerGroupRegularExpression
    | ConsumerGroupTombstone
)

_CONSUMER_RECORDS = frozenset(get_args(ConsumerRecord))


def is_consumer_record(record: object) -> TypeGuard[ConsumerRecord]:
    """Tell whether a record belongs to a consumer group. One set lookup is faster than type by type."""
    return type(record) in _CONSUMER_RECORDS
