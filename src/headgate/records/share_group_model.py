"""The records of a share group (KIP-932) in `__consumer_offsets`, as values independent of their format.

A group has a record for its epoch, one for the epoch of its target assignment, one for the share-partitions
that have a state, and for each member its metadata, its target assignment and its current assignment. The
last record of a key is the current one; a `ShareGroupTombstone` removes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeGuard, get_args

from headgate.domain.ids import GroupId, MemberId, Millis, TopicId, TopicName
from headgate.records.consumer_model import NO_ASSIGNMENT_YET, TargetPartitions


class ShareGroupRecordType(IntEnum):
    """The key types of a share group's records."""

    MEMBER = 10
    GROUP = 11
    TARGET_METADATA = 12
    TARGET_MEMBER = 13
    CURRENT_ASSIGNMENT = 14
    STATE_PARTITIONS = 15


class TopicPartitions(NamedTuple):
    """Partitions of a topic, ascending, with the topic's name."""

    name: TopicName
    partitions: tuple[int, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupMetadata:
    """The epoch of a group. The group exists while it has this record, or one of its share-partitions."""

    group_id: GroupId
    epoch: int
    metadata_hash: int = 0
    """Hash of the subscribed topics' metadata. It differs when the metadata changed."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupMemberMetadata:
    """What a member sent about itself."""

    group_id: GroupId
    member_id: MemberId
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[TopicName, ...] = ()
    """Ascending, without duplicates."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupTargetMetadata:
    """The group epoch that the target assignment was computed for, and the time of the computation."""

    group_id: GroupId
    assignment_epoch: int
    assignment_timestamp: Millis = NO_ASSIGNMENT_YET


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupTargetMember:
    """The target assignment of a member."""

    group_id: GroupId
    member_id: MemberId
    partitions: TargetPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupCurrentAssignment:
    """The current assignment of a member, and its epochs. A member of a share group is always stable."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    previous_member_epoch: int
    assigned: TargetPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupStatePartitions:
    """The share-partitions of a group, by how far their states are. Immutable.

    Of a group whose start offsets are set before its first member joins, Kafka writes only this record.
    """

    group_id: GroupId
    initializing: Mapping[TopicId, TopicPartitions] = field(default_factory=dict)
    """Their state was requested and is not confirmed."""
    initialized: Mapping[TopicId, TopicPartitions] = field(default_factory=dict)
    """They have a state. Only these are assigned (F2)."""
    deleting: Mapping[TopicId, TopicName] = field(default_factory=dict)
    """Topics whose states are being removed."""


@dataclass(slots=True, frozen=True)
class ShareGroupTombstone:
    """The tombstone of one record of a share group."""

    record_type: ShareGroupRecordType
    group_id: GroupId
    name: str = ""
    """The member id; "" for record types of which a group has one record."""


ShareGroupRecord = (
    ShareGroupMetadata
    | ShareGroupMemberMetadata
    | ShareGroupTargetMetadata
    | ShareGroupTargetMember
    | ShareGroupCurrentAssignment
    | ShareGroupStatePartitions
    | ShareGroupTombstone
)

SHARE_GROUP_RECORDS = frozenset(get_args(ShareGroupRecord))
"""The types of these records."""


def is_share_group_record(record: object) -> TypeGuard[ShareGroupRecord]:
    """Tell whether a record belongs to a share group."""
    return type(record) in SHARE_GROUP_RECORDS
