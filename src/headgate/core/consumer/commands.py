"""Commands to a consumer group and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, TopicId, TopicName
from headgate.records.consumer_model import OwnedPartitions, TargetPartitions

JOINING = 0
"""The epoch of a member that joins, or joins again without any partitions."""
LEAVING = -1
"""The epoch of a member that leaves for good."""
LEAVING_FOR_A_WHILE = -2
"""The epoch of a static member that means to come back."""

UNCHANGED_MS = -1

Reported = Sequence[tuple[TopicId, Sequence[int]]]
"""The partitions that a member says it has."""


@dataclass(slots=True, kw_only=True)
class ConsumerHeartbeat:
    """Join, stay, or leave, by the epoch. What is None is as it was. Reply: `HeartbeatResult`.

    Neither is frozen, because both are made for every heartbeat; nobody changes one.
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
        """Whether the member is new, or says it has nothing and begins anew."""
        return self.member_epoch == JOINING

    @property
    def is_full(self) -> bool:
        """Whether the member says all it has to say, as after a lost answer: it wants all of ours too."""
        return (
            self.rebalance_timeout_ms != UNCHANGED_MS
            and (self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None)
            and self.reported is not None
        )


@dataclass(slots=True, kw_only=True)
class HeartbeatResult:
    """The outcome of a heartbeat."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    """Why it was refused."""
    member_id: MemberId | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: OwnedPartitions | None = None
    """All partitions the member is to have now; None when it knows them."""


class HeartbeatAgain(NamedTuple):
    """A heartbeat that came before, of a member that stays and says nothing else than that."""

    before: ConsumerHeartbeat
    answered: HeartbeatResult | None
    """The answer that it had, if that had no assignment in it; None: it is not known."""


class HeartbeatsAgain(NamedTuple):
    """Heartbeats of any members that came before. Reply: for each the very answer it had before.

    None for one that would have another answer now: nothing is done about it, it has to be said as it was.
    """

    heartbeats: Sequence[HeartbeatAgain]


@dataclass(slots=True, frozen=True)
class Refusal:
    """Why a member is refused."""

    error: ErrorCode
    message: str


@dataclass(slots=True, frozen=True)
class DescribeConsumerGroup:
    """What there is to know of a consumer group. Reply: `DescribedConsumerGroup`, `Refusal`, or an error."""

    group_id: GroupId


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedConsumerMember:
    """A member as an administrator sees it."""

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
    """A consumer group as an administrator sees it; `topic_names` names every topic in it that still is."""

    group_id: GroupId
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]
    topic_names: Mapping[TopicId, TopicName]


@dataclass(slots=True, frozen=True, kw_only=True)
class ConsumerGroupConfigured:
    """A group has settings of its own, by their names as numbers; no others any more. No reply."""

    group_id: GroupId
    settings: Mapping[str, int]
