"""Commands to a share group and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import TargetPartitions
from headgate.records.share_group_model import TopicPartitions

JOINING = 0
"""Epoch of a member that joins."""
LEAVING = -1
"""Epoch of a member that leaves."""

StatePartitions = Mapping[TopicId, TopicPartitions]


@dataclass(slots=True, kw_only=True)
class ShareHeartbeat:
    """Join, stay, or leave, by the epoch. None means unchanged. Reply: `ShareHeartbeatResult`.

    Commands and results are never changed; they are not frozen because every heartbeat makes both.
    """

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    rack_id: str | None = None
    subscribed_topic_names: tuple[TopicName, ...] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(slots=True, frozen=True)
class Initialization:
    """Share-partitions of a group whose states must be initialized; then `PartitionsInitialized` is due."""

    group_id: GroupId
    state_epoch: int
    partitions: StatePartitions


@dataclass(slots=True, kw_only=True)
class ShareHeartbeatResult:
    """The result of a heartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """The reason of the error."""
    member_id: MemberId | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: TargetPartitions | None = None
    """All partitions assigned to the member now; None if it knows them."""
    initialization: Initialization | None = None
    """What the caller must initialize; None for nothing."""


@dataclass(slots=True, frozen=True)
class PartitionsInitialized:
    """Record that share-partitions have states now. Reply: an `ErrorCode`."""

    group_id: GroupId
    partitions: TargetPartitions


@dataclass(slots=True, frozen=True)
class ShareGroupRefusal:
    """Why a request to a share group is refused."""

    error: ErrorCode
    message: str


@dataclass(slots=True, frozen=True)
class DescribeShareGroup:
    """Describe a share group. Reply: `DescribedShareGroup`, `ShareGroupRefusal`, or an `ErrorCode`."""

    group_id: GroupId


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedShareMember:
    """A member in a group description."""

    member_id: MemberId
    rack_id: str | None
    client_id: str
    client_host: str
    member_epoch: int
    subscribed_topic_names: tuple[TopicName, ...]
    assigned: TargetPartitions


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedShareGroup:
    """The description of a share group; `topic_names` has the existing topics in it."""

    group_id: GroupId
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedShareMember, ...]
    topic_names: Mapping[TopicId, TopicName]


@dataclass(slots=True, frozen=True)
class ListSharePartitions:
    """List the share-partitions of a group that have states.

    Reply: `SharePartitions`, without partitions for an unknown group; or `ShareGroupRefusal` for a group of
    another type.
    """

    group_id: GroupId


@dataclass(slots=True, frozen=True)
class SharePartitions:
    """Share-partitions of existing topics."""

    partitions: StatePartitions


@dataclass(slots=True, frozen=True)
class AlterShareOffsets:
    """Prepare the states of an empty group to begin anew, or paused ones of a group with members.

    An unknown group is created.

    Reply: an `Initialization`, whose partitions the caller initializes with their new start offsets before it
    submits `PartitionsInitialized`; or `ShareGroupRefusal`.
    """

    group_id: GroupId
    partitions: StatePartitions


@dataclass(slots=True, frozen=True)
class DeleteShareOffsets:
    """Prepare to remove the states of some topics of an empty group, or of all (None).

    Reply: a `StateRemoval`, after which the caller deletes the states and submits `StatesRemoved`; or
    `ShareGroupRefusal`, with GROUP_ID_NOT_FOUND for an unknown group.
    """

    group_id: GroupId
    topics: Sequence[TopicName] | None


@dataclass(slots=True, frozen=True)
class StateRemoval:
    """The share-partitions whose states must be deleted. Topics without states are not in it."""

    group_id: GroupId
    partitions: StatePartitions


@dataclass(slots=True, frozen=True)
class StatesRemoved:
    """Record that the states of these topics were deleted. Reply: an `ErrorCode`."""

    group_id: GroupId
    topics: Sequence[TopicId]


@dataclass(slots=True, frozen=True, kw_only=True)
class ShareGroupConfigured:
    """Replace a group's overrides, by setting name. No reply."""

    group_id: GroupId
    settings: Mapping[str, int]
