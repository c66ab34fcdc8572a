"""The records of `__consumer_offsets` as values, independent of their version on disk.

Tombstones have types of their own. A record of an unknown key type is kept byte for byte (`UnknownRecord`),
so that records of a newer Headgate or Kafka are not lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.domain.ids import ZERO_TOPIC_ID, GroupId, InstanceId, MemberId, Millis, TopicId, TopicName
from headgate.records.consumer_model import ConsumerRecord
from headgate.records.paused_model import PausedTopicPartitions, PausedTopicPartitionsTombstone
from headgate.records.share_group_model import ShareGroupRecord

NO_LEADER_EPOCH = -1
NO_EXPIRY = Millis(-1)
NO_TIMESTAMP = Millis(-1)


@dataclass(slots=True)
class OffsetCommit:
    """A committed offset. Treat it as immutable.

    It is not frozen because one is created for each partition of each commit, and creating a frozen one takes
    five times as long.
    """

    group_id: GroupId
    topic: TopicName
    partition: int
    offset: int
    leader_epoch: int
    """The leader epoch of the last record consumed; -1: unknown."""
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis = NO_EXPIRY
    """When the offset expires, in ms, as an old client requested; -1: according to the broker's settings."""
    topic_id: TopicId = ZERO_TOPIC_ID
    """Read from records of Kafka 4.1 and later (value version 4), never written."""


@dataclass(slots=True, frozen=True)
class OffsetTombstone:
    """The tombstone of a committed offset that expired or was deleted."""

    group_id: GroupId
    topic: TopicName
    partition: int


@dataclass(slots=True, frozen=True)
class ChangeAuthor:
    """The client that changed offsets of a topic: those in the records before this one."""

    group_id: GroupId
    topic: TopicName
    back: int
    """The change's first record of the topic is so many records before this one."""
    count: int
    """How many there are from there on."""
    client_id: str
    client_host: str
    undone_at: Millis | None = None
    """If the change was an undo: the time of the change that it undid."""


@dataclass(slots=True, frozen=True)
class GroupMember:
    """A member of a classic group, as recorded at the end of a rebalance."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol, in the format of that protocol."""
    assignment: bytes


@dataclass(slots=True, frozen=True)
class GroupMetadata:
    """A classic group. It is Stable if it has members, otherwise Empty."""

    group_id: GroupId
    protocol_type: str
    """"consumer" for consumers; "" when no member ever joined."""
    generation: int
    protocol_name: str | None
    leader: MemberId | None
    state_timestamp: Millis
    """When the group entered its state, in ms; -1: not recorded."""
    members: tuple[GroupMember, ...] = ()


@dataclass(slots=True, frozen=True)
class GroupTombstone:
    """The tombstone of a classic or simple group."""

    group_id: GroupId


@dataclass(slots=True, frozen=True)
class UnknownRecord:
    """A record of an unknown key type, byte for byte."""

    key_type: int
    key: bytes
    """The whole key, with its type."""
    value: bytes | None


Record = (
    OffsetCommit
    | OffsetTombstone
    | ChangeAuthor
    | GroupMetadata
    | GroupTombstone
    | ConsumerRecord
    | ShareGroupRecord
    | PausedTopicPartitions
    | PausedTopicPartitionsTombstone
    | UnknownRecord
)
