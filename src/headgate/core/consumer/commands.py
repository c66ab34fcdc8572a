"""Commands to a consumer group and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import OwnedPartitions, TargetPartitions

JOINING = 0
"""Epoch of a member that joins, or rejoins without partitions."""
LEAVING = -1
"""Epoch of a member that leaves permanently."""
LEAVING_FOR_A_WHILE = -2
"""Epoch of a static member that leaves temporarily."""

UNCHANGED_MS = -1

Reported = Sequence[tuple[TopicId, Sequence[int]]]
"""The partitions that a member reports to own."""


@dataclass(slots=True, kw_only=True)
class ConsumerHeartbeat:
    """Join, stay, or leave, by the epoch. None means unchanged. Reply: `HeartbeatResult`.

    Commands and results are never changed; they are not frozen because every heartbeat makes both.
    """

    group_id: GroupId
    member_id: MemberId
    member_epoch: int
    instance_id: InstanceId | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_MS
    subscribed_topic_names: tuple[TopicName, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    reported: Reported | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_joining(self) -> bool:
        """Whether the member is new, or rejoins without partitions."""
        return self.member_epoch == JOINING

    @property
    def is_full(self) -> bool:
        """Whether the member sends all its fields, as after a lost response: it needs a full response too."""
        return (
            self.rebalance_timeout_ms != UNCHANGED_MS
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.reported is not None
        )


@dataclass(slots=True, kw_only=True)
class HeartbeatResult:
    """The result of a heartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """The reason of the error."""
    member_id: MemberId | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: OwnedPartitions | None = None
    """All partitions assigned to the member now; None if it knows them."""


class HeartbeatAgain(NamedTuple):
    """A repeated heartbeat of a member that reports no changes."""

    before: ConsumerHeartbeat
    answered: HeartbeatResult | None
    """The last answer, if it had no assignment; None if it is unknown."""


class HeartbeatsAgain(NamedTuple):
    """Repeated heartbeats of any members. Reply: a list with the previous answer for each.

    None for one whose answer would differ: it has no effect, and must be submitted as a `ConsumerHeartbeat`.
    """

    heartbeats: Sequence[HeartbeatAgain]


@dataclass(slots=True, frozen=True)
class GroupRefusal:
    """Why a member is refused."""

    error: ErrorCode
    message: str


@dataclass(slots=True, frozen=True)
class DescribeConsumerGroup:
    """Describe a consumer group. Reply: `DescribedConsumerGroup`, `GroupRefusal`, or an `ErrorCode`."""

    group_id: GroupId


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedConsumerMember:
    """A member in a group description."""

    member_id: MemberId
    instance_id: InstanceId | None
    rack_id: str | None
    client_id: str
    client_host: str
    member_epoch: int
    subscribed_topic_names: tuple[TopicName, ...]
    subscribed_topic_regex: str | None
    assigned: TargetPartitions
    target: TargetPartitions
    uses_classic_protocol: bool


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedConsumerGroup:
    """The description of a consumer group; `topic_names` has the existing topics in it."""

    group_id: GroupId
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]
    topic_names: Mapping[TopicId, TopicName]


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupConfigured:
    """Replace a group's overrides, by setting name. No reply."""

    group_id: GroupId
    settings: Mapping[str, int]
