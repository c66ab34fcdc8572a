"""The records of `__consumer_offsets` as values, free of their version on disk.

A tombstone is a record of its own: it says what is gone. What this version does not understand is kept as it
was read (`UnknownRecord`), so that nothing a newer Headgate or Kafka wrote is lost by passing through.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records.consumer_model import ConsumerRecord
from headgate.records.paused_model import PausedTopicPartitions, PausedTopicPartitionsTombstone

NO_LEADER_EPOCH = -1
NO_EXPIRY = Millis(-1)
NO_TIMESTAMP = Millis(-1)


@dataclass(slots=True)
class OffsetCommit:
    """A committed offset. Not frozen, because one is made for every partition of every commit and a frozen
    one takes five times as long; nobody changes one.
    """

    group_id: GroupId
    topic: TopicName
    partition: int
    offset: int
    leader_epoch: int
    """The epoch of the leader the offset was read from; -1: not known."""
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis = NO_EXPIRY
    """When a client of old asked the offset to expire; -1: as the broker's settings say."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """Only ever read, from records that Kafka 4.1 and later wrote (value version 4)."""


@dataclass(slots=True, frozen=True)
class OffsetTombstone:
    """A committed offset is gone: expired or deleted."""

    group_id: GroupId
    topic: TopicName
    partition: int


@dataclass(slots=True, frozen=True)
class GroupMember:
    """A member of a classic group, as it was when its generation was settled."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol, in that protocol's own format."""
    assignment: bytes


@dataclass(slots=True, frozen=True)
class GroupMetadata:
    """A classic group: Stable when it has members, Empty when it has none."""

    group_id: GroupId
    protocol_type: str
    """"consumer" for consumers; "" when no member ever joined."""
    generation: int
    protocol_name: str | None
    leader: MemberId | None
    state_timestamp: Millis
    """When the group came into its state; -1: not recorded."""
    members: tuple[GroupMember, ...] = ()


@dataclass(slots=True, frozen=True)
class GroupTombstone:
    """A classic or simple group is gone."""

    group_id: GroupId


@dataclass(slots=True, frozen=True)
class UnknownRecord:
    """A record of a key type this version does not know, byte for byte."""

    key_type: int
    key: bytes
    """The whole key, its type included."""
    value: bytes | None


Record = (
    OffsetCommit
    | OffsetTombstone
    | GroupMetadata
    | GroupTombstone
    | ConsumerRecord
    | PausedTopicPartitions
    | PausedTopicPartitionsTombstone
    | UnknownRecord
)
