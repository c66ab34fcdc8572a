"""Commands to a classic group and their results. They are independent of the protocol version: behaviour that
depends on the version is a named field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId

Protocols = tuple[tuple[str, bytes], ...]
"""Protocol names with the member's metadata for each, in order of preference, without duplicates."""

NO_MEMBER_ID = MemberId("")
NO_GENERATION = -1


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinGroup:
    """Join or rejoin. Reply: `JoinResult`, possibly when a rebalance completes."""

    group_id: GroupId
    member_id: MemberId = NO_MEMBER_ID
    """Empty if the client has no member id yet."""
    new_member_id: MemberId
    """Unused member id for a member without one."""
    new_consumer_member_id: MemberId = NO_MEMBER_ID
    """The same for a member of a consumer group; empty means `new_member_id`."""
    instance_id: InstanceId | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_know_member_id: bool = True
    """From v4: a new dynamic member first gets an id, then joins with it (KIP-394)."""
    can_skip_assignment: bool = True
    """From v9: a returning static leader may skip the assignment (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader's join response describes it."""

    member_id: MemberId
    instance_id: InstanceId | None
    metadata: bytes


@dataclass(slots=True, frozen=True, kw_only=True)
class JoinResult:
    """The result of a join."""

    error: ErrorCode = ErrorCode.NONE
    member_id: MemberId = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: MemberId = NO_MEMBER_ID
    members: tuple[JoinedMember, ...] = ()
    """All members; only for the leader."""
    skip_assignment: bool = False


@dataclass(slots=True, frozen=True, kw_only=True)
class SyncGroup:
    """Request the assignment; the leader's request contains all of them. Reply: `SyncResult`, when the leader
    has synced.
    """

    group_id: GroupId
    member_id: MemberId
    generation: int
    instance_id: InstanceId | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[MemberId, bytes], ...] = ()


@dataclass(slots=True, frozen=True, kw_only=True)
class SyncResult:
    """The result of a sync."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, frozen=True, kw_only=True)
class Heartbeat:
    """Restart the session timer. Reply: an `ErrorCode`."""

    group_id: GroupId
    member_id: MemberId
    generation: int
    instance_id: InstanceId | None = None


class Heartbeats(NamedTuple):
    """Heartbeats of any members, handled in order. Reply: a list with an `ErrorCode` for each."""

    heartbeats: Sequence[Heartbeat]


class LeavingMember(NamedTuple):
    """A member to remove, by its member id or, if that is empty, by its instance id."""

    member_id: MemberId
    instance_id: InstanceId | None
    reason: str | None = None
    """Why it is removed, in the words of the client."""


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaveGroup:
    """Remove members. Reply: `LeaveResult`."""

    group_id: GroupId
    members: tuple[LeavingMember, ...]


@dataclass(slots=True, frozen=True, kw_only=True)
class LeaveResult:
    """The result of a leave: an error for each member in the order asked."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


@dataclass(slots=True, frozen=True)
class DescribeGroup:
    """Describe a group. Reply: `DescribedGroup`, or `ErrorCode.GROUP_ID_NOT_FOUND`."""

    group_id: GroupId


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedMember:
    """A member in a group description."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(slots=True, frozen=True, kw_only=True)
class DescribedGroup:
    """The description of a group."""

    group_id: GroupId
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()
