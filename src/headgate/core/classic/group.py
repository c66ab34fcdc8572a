"""A classic group in memory: its members, their parked requests, and the generation.

All of this is volatile. Only the last `GroupMetadata` record is durable: `ClassicGroup.of` makes the group
after a load from it (Stable with members, Empty without), and `metadata` makes the record from a group.
Joins, leaves and parked requests between two records are not durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from headgate.core.classic.commands import JoinedMember, JoinGroup, Protocols
from headgate.core.classic.state import TRANSITIONS, ClassicState
from headgate.core.classic.subscription import subscribed_topics
from headgate.core.contract import Token
from headgate.core.group_bytes import bytes_of, ids_bytes
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, InstanceId, MemberId, Millis, TopicName
from headgate.records import GroupMember, GroupMetadata


@dataclass(slots=True)
class Member:
    """One member. `awaiting_join` and `awaiting_sync` are its parked requests."""

    member_id: MemberId
    instance_id: InstanceId | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False
    """Whether it has not been in a generation yet: its connection may be lost while its join is parked."""

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


def positive_rebalance_timeout(rebalance_timeout_ms: int, session_timeout_ms: int) -> int:
    """Return the rebalance timeout in force for a member that asks for this one.

    If it is not positive, the session timeout is used for both, as in JoinGroup 0. Kafka does so for a record
    with -1; for a member that asks for 0 or less it uses that value.
    """
    return rebalance_timeout_ms if rebalance_timeout_ms > 0 else session_timeout_ms


class ClassicGroup:
    """One group with its volatile state."""

    __slots__ = (
        "awaiting_joins",
        "generation",
        "group_id",
        "has_new_members",
        "initial_remaining_ms",
        "instances",
        "leader",
        "members",
        "metadata_bytes",
        "pending_joins",
        "pending_syncs",
        "protocol_name",
        "protocol_support",
        "protocol_type",
        "reported",
        "state",
        "state_timestamp",
        "subscription",
    )

    def __init__(self, group_id: GroupId, system_time: Millis) -> None:
        """Create a group without members."""
        self.group_id = group_id
        self.state = ClassicState.EMPTY
        self.state_timestamp = system_time
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader: MemberId | None = None
        self.members: dict[MemberId, Member] = {}
        self.instances: dict[InstanceId, MemberId] = {}
        """Member ids of static members by their instance id."""
        self.pending_joins: dict[MemberId, None] = {}
        """Member ids that were given out and have not joined yet (an ordered set)."""
        self.pending_syncs: dict[MemberId, None] = {}
        """Members of this generation that have not synced yet (an ordered set)."""
        self.reported: set[MemberId] = set()
        """Members that were reported as awaited since the state changed."""
        self.awaiting_joins = 0
        self.protocol_support: dict[str, int] = {}
        """Number of members that support a protocol."""
        self.metadata_bytes = 0
        """Bytes of the metadata of all members, for all their protocols, and of their ids."""
        self.subscription: frozenset[TopicName] | None = None
        """The topics that members subscribe to; None if unknown."""
        self.has_new_members = False
        """Whether a member joined while an empty group delayed its first rebalance."""
        self.initial_remaining_ms: int | None = None
        """How much longer the first rebalance of an empty group may be delayed; None if it is not delayed."""

    # --- from and to the record ---

    @classmethod
    def of(cls, metadata: GroupMetadata) -> ClassicGroup:
        """Return the group that a record describes."""
        group = cls(metadata.group_id, metadata.state_timestamp)
        group.protocol_type = metadata.protocol_type or None
        group.protocol_name = metadata.protocol_name
        group.generation = metadata.generation
        for one in metadata.members:
            member = Member(
                member_id=one.member_id,
                instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                rebalance_timeout_ms=positive_rebalance_timeout(
                    one.rebalance_timeout_ms, one.session_timeout_ms
                ),
                session_timeout_ms=one.session_timeout_ms,
                protocols=((metadata.protocol_name or "", one.subscription),),
                assignment=one.assignment,
            )
            group.add(member)
        group.leader = metadata.leader
        if group.members:
            group.state = ClassicState.STABLE
        group.subscription = group.compute_subscription()
        return group

    def metadata(self) -> GroupMetadata:
        """Return the record that describes the group."""
        return GroupMetadata(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.leader,
            state_timestamp=self.state_timestamp,
            members=tuple(
                GroupMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ),
        )

    # --- state ---

    def become(self, state: ClassicState, system_time: Millis) -> None:
        """Change the state; the table of transitions must allow it."""
        assert state in TRANSITIONS[self.state], f"{self.group_id}: {self.state.value} to {state.value}"
        self.state = state
        self.state_timestamp = system_time
        self.reported.clear()

    @property
    def is_idle(self) -> bool:
        """Whether the group has no volatile state: its record describes it completely."""
        return self.state is ClassicState.EMPTY and not self.pending_joins

    # --- members ---

    def add(self, member: Member) -> None:
        """Add a member; the first one becomes the leader."""
        self.members[member.member_id] = member
        self.pending_joins.pop(member.member_id, None)
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._count(member, 1)

    def remove(self, member_id: MemberId) -> list[Token]:
        """Remove a member or a pending member; return its parked requests, which the caller must answer."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return []
        self._count(member, -1)
        if member.instance_id is not None and self.instances.get(member.instance_id) == member_id:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        parked = (self.take_join(member), self.take_sync(member))
        return [token for token in parked if token is not None]

    def update(self, member: Member, command: JoinGroup) -> None:
        """Update a member with the fields of its new join."""
        self._count(member, -1)
        member.protocols = command.protocols
        member.rebalance_timeout_ms = command.rebalance_timeout_ms
        member.session_timeout_ms = command.session_timeout_ms
        self._count(member, 1)

    def replace(self, old: Member, member_id: MemberId) -> Member:
        """Replace the id of a static member, which must not have parked requests."""
        assert old.instance_id is not None
        assert old.awaiting_join is None
        assert old.awaiting_sync is None
        was_leader = self.leader == old.member_id
        self.remove(old.member_id)
        new = Member(
            member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.add(new)
        if was_leader:
            self.leader = member_id
        return new

    def member_error(self, member_id: MemberId, instance_id: InstanceId | None) -> ErrorCode:
        """Return NONE for a member, else UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    # --- parked requests ---

    def park_join(self, member: Member, token: Token) -> Token | None:
        """Park a join of the member; return the older parked join that it replaces, if any."""
        older, member.awaiting_join = member.awaiting_join, token
        if older is None:
            self.awaiting_joins += 1
        return older

    def take_join(self, member: Member) -> Token | None:
        """Remove and return the member's parked join, which the caller must answer."""
        token, member.awaiting_join = member.awaiting_join, None
        if token is not None:
            self.awaiting_joins -= 1
        return token

    def take_sync(self, member: Member) -> Token | None:
        """Remove and return the member's parked sync, which the caller must answer."""
        token, member.awaiting_sync = member.awaiting_sync, None
        return token

    @property
    def has_all_joined(self) -> bool:
        """Whether every member has a parked join, and no pending member is left."""
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    # --- protocols and timeouts ---

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _count(self, member: Member, change: int) -> None:
        for name, _ in member.protocols:
            self.protocol_support[name] = self.protocol_support.get(name, 0) + change
        ids = member.member_id, member.instance_id or "", member.client_id, member.client_host
        self.metadata_bytes += change * (bytes_of(member.protocols) + ids_bytes(*ids))

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols is compatible with all others."""
        if self.state is ClassicState.EMPTY:
            return bool(protocol_type and protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.protocol_support.get(name, 0) == everybody for name, _ in protocols
        )

    def vote(self) -> str:
        """Return the protocol that most members prefer among those that all support; on a tie, the first
        voted for.
        """
        everybody = len(self.members)
        votes: dict[str, int] = {}
        for member in self.members.values():
            for name, _ in member.protocols:
                if self.protocol_support[name] == everybody:
                    votes[name] = votes.get(name, 0) + 1
                    break
        return max(votes, key=lambda name: votes[name])

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return the members for the leader's join response."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.members.values()
        )

    # --- subscription ---

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose subscriptions can be decoded."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def compute_subscription(self) -> frozenset[TopicName] | None:
        """Return the topics that members subscribe to; None if the metadata of a member cannot be decoded."""
        if not self.uses_consumer_protocol:
            return None
        topics: set[TopicName] = set()
        # Members mostly have the same metadata.
        for metadata in {member.metadata(self.protocol_name) for member in self.members.values()}:
            read = subscribed_topics(metadata)
            if read is None:
                return None
            topics |= read
        return frozenset(topics)

    def is_subscribed_to(self, topic: TopicName) -> bool:
        """Return whether members subscribe to a topic; assume it for consumers with unknown subscriptions."""
        if self.subscription is None:
            return self.uses_consumer_protocol
        return topic in self.subscription
