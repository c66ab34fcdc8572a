"""The records of a consumer group (KIP-848) as values, free of their form on disk.

A group is many records: its epoch, the epoch of its target assignment, and for each member what it said of
itself, what it is to have (the target) and what it has (the current assignment). Each stands alone under its
key, the last one counts, and a `ConsumerGroupTombstone` takes one away.
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
"""Partitions by topic, ascending. Nobody changes one."""

OwnedPartitions = Mapping[TopicId, Mapping[int, int]]
"""Partitions by topic, each with its assignment epoch (KIP-1251). Nobody changes one."""


class ConsumerRecordType(IntEnum):
    """The records of a consumer group, by their key types."""

    GROUP = 3
    PARTITION_METADATA = 4
    MEMBER = 5
    TARGET_METADATA = 6
    TARGET_MEMBER = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class MemberState(IntEnum):
    """How far a member is on the way to its target."""

    STABLE = 0
    """It has what it is to have."""
    UNREVOKED_PARTITIONS = 1
    """It is to let partitions go and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have not let go."""
    UNKNOWN = 127
    """Written by a coordinator of another version."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupMetadata:
    """The epoch of a group: the group exists."""

    group_id: GroupId
    epoch: int
    metadata_hash: int = 0
    """Of the topics that its members read: when it differs, they changed."""
    empty_since: Millis = NEVER
    """When its last member left (R0.4); -1: it has members, or Kafka wrote the record."""
    last_removal_epoch: int = UNKNOWN_EPOCH
    """The epoch of the target that was in force when a member id was last given up, 0 if none was.

    -1: Kafka wrote the record, or a version that did not tell.
    """
    written: Millis = field(default=NEVER, compare=False)
    """When the record was written, if it was read from a log. Not part of the record itself."""


@dataclass(slots=True, frozen=True, kw_only=True)
class PartitionRacks:
    """The racks that hold a partition."""

    partition: int
    racks: tuple[str, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class SubscribedTopic:
    """A topic as the members of a group knew it."""

    topic_id: TopicId
    name: TopicName
    partition_count: int
    racks: tuple[PartitionRacks, ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupPartitionMetadata:
    """The topics of a group. Brokers before Kafka 4.1 wrote it; the metadata hash has taken its place."""

    group_id: GroupId
    topics: tuple[SubscribedTopic, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class ClassicMemberMetadata:
    """What a member of the classic protocol said of itself when it came into a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Protocol names with the member's metadata for each, the preferred one first."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupMemberMetadata:
    """What a member said of itself."""

    group_id: GroupId
    member_id: MemberId
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[TopicName, ...] = ()
    """Ascending, none twice."""
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """For a member of the classic protocol."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupTargetMetadata:
    """The group epoch that the target assignment was made for, and when."""

    group_id: GroupId
    assignment_epoch: int
    assignment_timestamp: Millis = NO_ASSIGNMENT_YET


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupTargetMember:
    """What a member is to have."""

    group_id: GroupId
    member_id: MemberId
    partitions: TargetPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupCurrentAssignment:
    """What a member has, and its epoch."""

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
    """Ascending, none twice."""
    version: int
    """Of the topics' metadata when it was matched."""
    timestamp: Millis


@dataclass(slots=True, frozen=True)
class ConsumerGroupTombstone:
    """One record of a consumer group is gone."""

    record_type: ConsumerRecordType
    group_id: GroupId
    name: str = ""
    """The member's id, or the regular expression; "" for what is the group's."""


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
    """Whether a record is a consumer group's; quicker than to ask for one type after the other."""
    return type(record) in _CONSUMER_RECORDS
