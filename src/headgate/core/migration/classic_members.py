"""Classic members of a consumer group: JoinGroup, SyncGroup and Heartbeat on its state.

The server assigns, so no request is parked and there is no leader. The generation is the member epoch. A join
reports the member's partitions and moves it one step towards its target assignment; a sync returns its
current assignment; a heartbeat tells it when to rejoin. The rebalance timeout limits the time from that
heartbeat to the join, and from the join to the sync; after it the member is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headgate.core.classic.commands import Heartbeat, JoinGroup, JoinResult, SyncGroup, SyncResult
from headgate.core.consumer.admission import Admitted, full_group, in_place_of, known_member, new_member
from headgate.core.consumer.commands import GroupRefusal
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.consumer.heartbeat import ReportedState, advance, is_target_due
from headgate.core.group_bytes import MOST_BYTES, bytes_of
from headgate.core.migration.consumer_protocol import Subscription, read_subscription
from headgate.core.migration.downgrade import assignment_bytes
from headgate.core.migration.upgrade import partitions_by_id
from headgate.core.offsets.expiry import CONSUMER_PROTOCOL_TYPE
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId
from headgate.records import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetMetadata,
    ConsumerRecord,
    MemberState,
)

# --- joining ---


@dataclass(slots=True, frozen=True)
class Joined:
    """An accepted classic member: its new state, the member it replaces, and the records."""

    member: Member
    admitted: Admitted
    records: Sequence[ConsumerRecord]

    @property
    def changes_group(self) -> bool:
        """Whether this join changes the group's epoch or its target assignment."""
        return any(
            isinstance(one, ConsumerGroupMetadata | ConsumerGroupTargetMetadata) for one in self.records
        )

    def others(self, group: ConsumerGroup) -> list[Member]:
        """Return all members except this one and the one it replaces."""
        itself = (self.member.member_id, self.admitted.replaces)
        return [group.member(one) for one in group.members if one not in itself]

    def was_of_the_new_protocol(self, group: ConsumerGroup) -> bool:
        """Return whether it was a member of the consumer protocol until now."""
        before = group.members.get(self.admitted.replaces or self.member.member_id)
        return before is not None and before.classic is None

    def leaves_settled(self, group: ConsumerGroup) -> bool:
        """Return whether every member has its target assignment, and this join does not change it."""
        return (
            not self.changes_group
            and group.epoch == group.assignment_epoch
            and all(one.is_reconciled_to(group.epoch) for one in (*self.others(group), self.member))
        )

    def result(self) -> JoinResult:
        """Return the response to the member."""
        classic = self.member.metadata.classic
        assert classic is not None
        protocol_name, _ = classic.protocols[0]
        return JoinResult(
            member_id=self.member.member_id,
            generation=self.member.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol_name,
        )


def join(
    context: ConsumerContext,
    group: ConsumerGroup,
    command: JoinGroup,
    *,
    is_verified: bool,
    is_id_given: bool,
) -> Joined | JoinResult:
    """Handle the join of a new or known classic member; return its state, or why it is refused. Changes no
    timer.

    `is_id_given`: the client got its id a moment ago, and joins with it for the first time.
    """
    admitted = _admit(context, group, command)
    if isinstance(admitted, JoinResult):
        return admitted
    if not _fits(group, admitted.replaces or admitted.member.member_id, command):
        return JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=command.member_id)
    _, metadata = command.protocols[0]
    subscription = read_subscription(metadata)
    if subscription is None:
        return JoinResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if admitted.is_new and command.member_id and subscription.owned and not is_id_given:
        # It was removed, and other members may have its partitions: it must give them up before it joins.
        # Kafka accepts it, and its commits for them as long as it is in the newest epoch.
        return JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=command.member_id)
    before = admitted.member
    reported_state = ReportedState(
        metadata=_updated_metadata(before.metadata, command, subscription),
        reported=[*partitions_by_id(subscription.owned, context.topics).items()],
        member_epoch=before.member_epoch,
    )
    advanced = advance(context, group, admitted, reported_state, is_verified=is_verified)
    if isinstance(advanced, GroupRefusal):
        return JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID)
    current, records = advanced
    return Joined(Member(reported_state.metadata, current), admitted, records)


def _fits(group: ConsumerGroup, member_id: MemberId, command: JoinGroup) -> bool:
    """Return whether the metadata of all classic members fits into a record, if the group becomes classic."""
    others = (
        bytes_of(one.classic.protocols)
        for other_id, one in group.members.items()
        if one.classic is not None and other_id != member_id
    )
    return sum(others) + bytes_of(command.protocols) <= MOST_BYTES


def _admit(context: ConsumerContext, group: ConsumerGroup, command: JoinGroup) -> Admitted | JoinResult:
    """Find or create the member of a join, in Kafka's order of checks.

    Unlike in a classic group, a client may choose its member id: it need not have been given it.
    """
    static = None if command.instance_id is None else group.find_static(command.instance_id)
    is_known = static is not None or command.member_id in group.members
    full = None if is_known else full_group(group, context.settings.max_size)
    if full is not None:
        return JoinResult(error=full.error)
    names = [name for name, _ in command.protocols]
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(names):
        return JoinResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if command.instance_id is not None and command.member_id:
        known = known_member(group, command.member_id, command.instance_id)
        return JoinResult(error=known.error) if isinstance(known, GroupRefusal) else Admitted(known)
    member_id = command.member_id or command.new_consumer_member_id or command.new_member_id
    if static is not None:
        return in_place_of(static, member_id)
    if command.instance_id is None and not command.member_id and command.must_know_member_id:
        return JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    member = group.find_member(member_id)
    return new_member(group, member_id) if member is None else Admitted(member)


def _updated_metadata(
    metadata: ConsumerGroupMemberMetadata, command: JoinGroup, subscription: Subscription
) -> ConsumerGroupMemberMetadata:
    """Return the member's metadata after the join; the same object if nothing changed."""
    updated = replace(
        metadata,
        instance_id=command.instance_id or metadata.instance_id,
        rack_id=subscription.rack_id or metadata.rack_id,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex=None,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=command.session_timeout_ms, protocols=command.protocols
        ),
    )
    return metadata if updated == metadata else updated


def start_waiting_for_sync(context: ConsumerContext, joined: Joined) -> None:
    """Start the session timer and the timer for the sync; cancel the member's other timers."""
    metadata = joined.member.metadata
    assert metadata.classic is not None
    group_id, member_id = metadata.group_id, metadata.member_id
    for one in {member_id, joined.admitted.replaces or member_id}:
        context.forget(group_id, one)
    context.start_session(group_id, member_id, metadata.classic.session_timeout_ms)
    context.wait_for_sync(group_id, member_id, metadata.rebalance_timeout_ms)


# --- syncing and staying ---


def sync(context: ConsumerContext, group: ConsumerGroup, command: SyncGroup) -> SyncResult:
    """Return a classic member's current assignment."""
    member = _classic_member(group, command)
    if isinstance(member, ErrorCode):
        return SyncResult(error=member)
    metadata = member.metadata
    assert metadata.classic is not None
    if command.protocol_type is not None and command.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    protocol_name, _ = metadata.classic.protocols[0]
    if command.protocol_name is not None and command.protocol_name != protocol_name:
        return SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _is_behind(context, group, member) and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        context.wait_for_join(group.group_id, member.member_id, metadata.rebalance_timeout_ms)
        return SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
    context.stop_waiting_for_sync(group.group_id, member.member_id)
    context.start_session(group.group_id, member.member_id, metadata.classic.session_timeout_ms)
    return SyncResult(
        protocol_type=command.protocol_type,
        protocol_name=command.protocol_name,
        assignment=assignment_bytes(metadata.classic, member.current.assigned, context.topics),
    )


def heartbeat(
    context: ConsumerContext, group: ConsumerGroup, command: Heartbeat, *, is_verified: bool
) -> ErrorCode:
    """Restart a classic member's session timer; return REBALANCE_IN_PROGRESS if it must rejoin.

    `is_verified`: the group's topics have not changed since its subscriptions were resolved.
    """
    member = _classic_member(group, command)
    if isinstance(member, ErrorCode):
        return member
    metadata = member.metadata
    assert metadata.classic is not None
    context.start_session(group.group_id, member.member_id, metadata.classic.session_timeout_ms)
    if is_verified and not _has_to_join(context, group, member):
        return ErrorCode.NONE
    context.wait_for_join(group.group_id, member.member_id, metadata.rebalance_timeout_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _classic_member(group: ConsumerGroup, command: SyncGroup | Heartbeat) -> Member | ErrorCode:
    """Return the classic member of a request with the current generation, or the error."""
    member = known_member(group, command.member_id, command.instance_id)
    if isinstance(member, GroupRefusal):
        return member.error
    if not member.uses_classic_protocol:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if command.generation != member.member_epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return member


def _is_behind(context: ConsumerContext, group: ConsumerGroup, member: Member) -> bool:
    """Return whether there is a newer target assignment, or one is due.

    In Kafka only members of the consumer protocol trigger one.
    """
    return member.member_epoch < group.assignment_epoch or is_target_due(context, group)


def _has_to_join(context: ConsumerContext, group: ConsumerGroup, member: Member) -> bool:
    match member.current.state:
        case MemberState.STABLE:
            return _is_behind(context, group, member)
        case MemberState.UNRELEASED_PARTITIONS:
            return _is_behind(context, group, member) or not _waits_for_others(group, member)
        case MemberState.UNREVOKED_PARTITIONS | MemberState.UNKNOWN:
            return True


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Return whether another member still owns a partition of the member's target assignment."""
    assigned = member.current.assigned
    return any(
        partition not in assigned.get(topic_id, {}) and partition in group.owners.get(topic_id, {})
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions
    )
