"""Commands to a classic group and their results. Versions of the protocol are behind us here: what a version
changes in behaviour is a field with a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names with the member's metadata for each, the preferred one first; no name twice."""

NO_MEMBER_ID = MemberId("")
NO_GENERATION = -1


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinGroup:
    """Become or stay a member. Reply: `JoinResult`, perhaps when a rebalance completes."""

    group_id: GroupId
    member_id: MemberId = NO_MEMBER_ID
    """"" when the client has none yet."""
    new_member_id: MemberId
    """The id to give to a member that has none; never used before."""
    new_consumer_member_id: MemberId = NO_MEMBER_ID
    """The same for one that joins a consumer group; "" for `new_member_id`."""
    instance_id: InstanceId | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_know_member_id: bool = True
    """From v4: a new dynamic member is given an id first and joins with it then (KIP-394)."""
    can_skip_assignment: bool = True
    """From v9: a returning static leader is told that it need not assign (KIP-814)."""


class JoinedMember(NamedTuple):
    """What the leader is told of a member."""

    member_id: MemberId
    instance_id: InstanceId | None
    metadata: bytes


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinResult:
    """The outcome of a join."""

    error: ErrorCode = ErrorCode.NONE
    member_id: MemberId = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: MemberId = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader alone."""
    skip_assignment: bool = False


@dataclass(slots=True, frozen=True, kw_only=True)
class SyncGroup:
    """Ask for the assignment; the leader brings it. Reply: `SyncResult`, when the leader has synced."""

    group_id: GroupId
    member_id: MemberId
    generation: int
    instance_id: InstanceId | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[MemberId, bytes], ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class SyncResult:
    """The outcome of a sync."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, frozen=True, kw_only=True)
class Heartbeat:
    """Stay a member. Reply: an `ErrorCode`."""

    group_id: GroupId
    member_id: MemberId
    generation: int
    instance_id: InstanceId | None = None


class Heartbeats(NamedTuple):
    """Heartbeats of any members, one after the other. Reply: an `ErrorCode` for each."""

    heartbeats: Sequence[Heartbeat]


class LeavingMember(NamedTuple):
    """A member to remove, by its member id or, where that is "", by its instance id."""

    member_id: MemberId
    instance_id: InstanceId | None


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaveGroup:
    """Remove members. Reply: `LeaveResult`."""

    group_id: GroupId
    members: tuple[LeavingMember, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaveResult:
    """The outcome of a leave, member by member in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@dataclass(slots=True, frozen=True)
class DescribeGroup:
    """What there is to know of a group. Reply: `DescribedGroup`, or `ErrorCode.GROUP_ID_NOT_FOUND`."""

    group_id: GroupId


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedMember:
    """A member as an administrator sees it."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedGroup:
    """A group as an administrator sees it."""

    group_id: GroupId
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
