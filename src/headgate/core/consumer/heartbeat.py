"""Handle the heartbeat of a new or known member, in three steps from values to values and records.

1. Update the member's metadata. If the group's subscribed topics change by that, the group epoch rises.
2. Compute the target assignment, if it is older than the group epoch and the last one is old enough.
3. Reconcile the member: move it one step towards its target assignment.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from headgate.core.consumer.admission import Admitted, admit
from headgate.core.consumer.commands import (
    UNCHANGED_MS,
    ConsumerHeartbeat,
    GroupRefusal,
    HeartbeatResult,
    Reported,
)
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup, Member, tombstone_of
from headgate.core.consumer.patterns import invalid_pattern
from headgate.core.consumer.reconcile import TargetAssignment, reconciled
from headgate.core.consumer.removal import member_tombstones
from headgate.core.consumer.target import GroupAfter, make_target, most_wanted
from headgate.core.events import GroupCreated, MemberJoined
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicId, TopicName
from headgate.records import (
    ConsumerGroupCurrentAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetMember,
    ConsumerGroupTargetMetadata,
    ConsumerRecord,
    MemberState,
)
from headgate.records.consumer_model import TargetPartitions

FIRST_EPOCH = 1
"""Epoch of a group that has not assigned anything yet."""


@dataclass(slots=True, frozen=True)
class MemberTarget:
    """The target assignment of the member, and its group epoch."""

    epoch: int
    partitions: TargetPartitions


def heartbeat(
    context: ConsumerContext, group: ConsumerGroup, command: ConsumerHeartbeat, *, is_verified: bool
) -> tuple[HeartbeatResult, list[ConsumerRecord]] | GroupRefusal:
    """Handle a heartbeat of a new or known member; return the answer and the records, or a refusal.

    `is_verified`: the group's topics have not changed since its own record.
    """
    admitted = admit(group, command, context.settings.max_size)
    if isinstance(admitted, GroupRefusal):
        return admitted
    before = admitted.member
    metadata = _updated_metadata(before.metadata, command)
    if is_verified and metadata is before.metadata and _is_settled(group, admitted):
        context.start_session(group.group_id, command.member_id)
        return _answer(context, command, before, before.current), []
    regex = metadata.subscribed_topic_regex
    if regex and regex not in group.subscriptions.regex_users:
        refusal = invalid_pattern(regex)
        if refusal is not None:
            return refusal
        context.match_patterns(group.group_id)
    reported_state = ReportedState(metadata, command.reported, command.member_epoch)
    moved = advance(context, group, admitted, reported_state, is_verified=is_verified)
    if isinstance(moved, GroupRefusal):
        return moved
    current, records = moved
    _set_timers(context, before, current, metadata, admitted.replaces)
    return _answer(context, command, before, current), records


@dataclass(slots=True, frozen=True)
class ReportedState:
    """The state that a member reports: metadata, partitions if it sends them, and the epoch it knows."""

    metadata: ConsumerGroupMemberMetadata
    reported: Reported | None
    member_epoch: int


def advance(
    context: ConsumerContext,
    group: ConsumerGroup,
    admitted: Admitted,
    reported_state: ReportedState,
    *,
    is_verified: bool,
) -> tuple[ConsumerGroupCurrentAssignment, list[ConsumerRecord]] | GroupRefusal:
    """Do the three steps; return the member's new current assignment and the records, or a refusal."""
    before, metadata = admitted.member, reported_state.metadata
    if admitted.is_new:
        _report_joined(context, group, metadata)
    after = GroupAfter(group, metadata, admitted.replaces)
    is_subscription_new = metadata is not before.metadata and _requires_new_target(
        group, before.metadata, metadata
    )
    epoch, records = _members_records(context, after, admitted, is_subscription_new, is_verified)
    target, target_records = _target(context, after, epoch)
    current = _step(context, after, before, reported_state, target, is_subscription_new)
    if current is None:
        message = (
            "The member is in a state of another version. It must abandon all its partitions and rejoin."
        )
        return GroupRefusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
    records += target_records
    if current is not before.current or admitted.is_new or admitted.replaces is not None:
        records.append(current)
    return current, records


def _report_joined(
    context: ConsumerContext, group: ConsumerGroup, metadata: ConsumerGroupMemberMetadata
) -> None:
    """Report a new member, and its group if that is new."""
    if not group.epoch:
        context.events.report(GroupCreated(group.group_id, "consumer"))
    context.events.report(
        MemberJoined(group.group_id, metadata.member_id, metadata.client_id, metadata.client_host)
    )


def _is_settled(group: ConsumerGroup, admitted: Admitted) -> bool:
    """Return whether a member without changes is in a stable state: mostly it is."""
    is_known = not admitted.is_new and admitted.replaces is None
    epoch = group.assignment_epoch
    return is_known and epoch == group.epoch and admitted.member.is_reconciled_to(epoch)


def is_unchanged_and_stable(group: ConsumerGroup, command: ConsumerHeartbeat) -> bool:
    """Return whether a heartbeat without changes comes from a member in a stable state.

    It is the same check as in `heartbeat`, in fewer steps; the group must be verified.
    """
    current = group.currents.get(command.member_id)
    metadata = group.members.get(command.member_id)
    return (
        current is not None
        and metadata is not None
        and command.member_epoch == current.member_epoch == group.assignment_epoch == group.epoch
        and current.state is MemberState.STABLE
        and metadata.instance_id == command.instance_id
        and metadata.client_id == command.client_id
        and metadata.client_host == command.client_host
        and metadata.classic is None
    )


def _answer(
    context: ConsumerContext,
    command: ConsumerHeartbeat,
    before: Member,
    current: ConsumerGroupCurrentAssignment,
) -> HeartbeatResult:
    wants_all = command.is_joining or command.is_full or current.assigned != before.current.assigned
    return HeartbeatResult(
        member_id=command.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=context.settings.heartbeat_interval_ms,
        assigned=current.assigned if wants_all else None,
    )


# --- 1. the member and the group's epoch ---


def _updated_metadata(
    metadata: ConsumerGroupMemberMetadata, command: ConsumerHeartbeat
) -> ConsumerGroupMemberMetadata:
    """Return the member's metadata after the heartbeat; the same object if nothing changed."""
    names = command.subscribed_topic_names
    is_unchanged = (
        command.rebalance_timeout_ms == UNCHANGED_MS
        and names is None
        and command.subscribed_topic_regex is None
        and command.rack_id is None
        and command.server_assignor is None
        and command.client_id == metadata.client_id
        and command.client_host == metadata.client_host
        and metadata.classic is None
    )
    if is_unchanged:
        return metadata
    regex, assignor = command.subscribed_topic_regex, command.server_assignor
    timeout_ms = command.rebalance_timeout_ms
    updated = ConsumerGroupMemberMetadata(
        group_id=metadata.group_id,
        member_id=metadata.member_id,
        instance_id=command.instance_id or metadata.instance_id,
        rack_id=command.rack_id or metadata.rack_id,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms if timeout_ms == UNCHANGED_MS else timeout_ms,
        subscribed_topic_names=metadata.subscribed_topic_names if names is None else _ordered(names),
        subscribed_topic_regex=metadata.subscribed_topic_regex if regex is None else regex,
        server_assignor=metadata.server_assignor if assignor is None else assignor,
        client_id=command.client_id,
        client_host=command.client_host,
        classic=None,
    )
    return metadata if updated == metadata else updated


def _requires_new_target(
    group: ConsumerGroup, before: ConsumerGroupMemberMetadata, after: ConsumerGroupMemberMetadata
) -> bool:
    """Return whether the change of a member requires a new target: other topics, or a resolved expression.

    An unresolved expression raises the group epoch when it has been resolved.
    """
    regex = after.subscribed_topic_regex
    is_newly_matched = bool(regex) and regex != before.subscribed_topic_regex and regex in group.regexes
    return is_newly_matched or group.subscriptions.of(after) != group.subscriptions.of(before)


def _ordered(names: tuple[TopicName, ...]) -> tuple[TopicName, ...]:
    return tuple(sorted(set(names)))


def _members_records(
    context: ConsumerContext,
    after: GroupAfter,
    admitted: Admitted,
    is_subscription_new: bool,
    is_verified: bool,
) -> tuple[int, list[ConsumerRecord]]:
    """Return the new group epoch, and the records of member and group."""
    group, metadata = after.group, after.member
    records: list[ConsumerRecord] = []
    if admitted.replaces is not None:
        records += member_tombstones(group, admitted.replaces)
    if metadata is not admitted.member.metadata or admitted.is_new or admitted.replaces is not None:
        records.append(metadata)
        records += _given_up_patterns(after)
    is_rising = is_subscription_new or after.is_one_less or _wants_other_assignor(context, after)
    metadata_hash = group.metadata_hash
    if is_rising or not is_verified:
        metadata_hash = context.topics.hash_of(after.topics())
        is_rising = is_rising or metadata_hash != group.metadata_hash
    epoch = max(group.epoch, FIRST_EPOCH) + is_rising
    loses_member = admitted.replaces is not None
    if is_rising or group.is_empty or (loses_member and not group.has_lost_members):
        records.append(group.at_epoch(epoch, metadata_hash, loses_member=loses_member))
    return epoch, records


def _given_up_patterns(after: GroupAfter) -> list[ConsumerRecord]:
    """Return tombstones of regular expressions that no member subscribes to any more."""
    before = {member.subscribed_topic_regex for member in after.gone() if member.subscribed_topic_regex}
    if not before - {after.member.subscribed_topic_regex}:
        return []
    users = Counter(after.group.subscriptions.regex_users)
    users.subtract(member.subscribed_topic_regex for member in after.gone() if member.subscribed_topic_regex)
    users[after.member.subscribed_topic_regex or ""] += 1
    resolved = [after.group.regexes.get(regex) for regex in before if users[regex] <= 0]
    return [tombstone_of(one) for one in resolved if one is not None]


def _wants_other_assignor(context: ConsumerContext, after: GroupAfter) -> bool:
    group = after.group
    before = group.members.get(after.replaces or after.member.member_id)
    if group.is_empty or (before is not None and before.server_assignor == after.member.server_assignor):
        return False
    offered = context.settings.assignors
    return after.assignor(offered) != most_wanted(group.assignor_votes, offered)


# --- 2. the target assignment ---


def is_target_due(context: ConsumerContext, group: ConsumerGroup) -> bool:
    """Return whether the target assignment is older than the group epoch, and old enough to be replaced."""
    return group.epoch > group.assignment_epoch and not _is_target_young(context, group)


def _is_target_young(context: ConsumerContext, group: ConsumerGroup) -> bool:
    return 0 <= context.system_time - group.assignment_timestamp < context.settings.assignment_interval_ms


def _target(
    context: ConsumerContext, after: GroupAfter, epoch: int
) -> tuple[MemberTarget, list[ConsumerRecord]]:
    """Return the target assignment to use, and its new records.

    A target assignment is kept for a minimum time, so that a starting group does not compute one for each
    member. The exception is a member that joins after another was removed, as it may be the same one: in an
    epoch that it had before, its old commits would be accepted.
    """
    group, member_id = after.group, after.member.member_id
    assignment_epoch = max(group.assignment_epoch, FIRST_EPOCH)
    may_be_back = after.is_one_less or (group.has_lost_members and member_id not in group.members)
    if epoch > assignment_epoch and (may_be_back or not _is_target_young(context, group)):
        partitions, records = make_target(context, after, epoch, context.paused.of(group.group_id))
        return MemberTarget(epoch, partitions), records
    records = []
    partitions = after.target_of(member_id)
    if after.replaces is not None:
        records.append(
            ConsumerGroupTargetMember(group_id=group.group_id, member_id=member_id, partitions=partitions)
        )
    if group.target_metadata is None:
        records.append(
            ConsumerGroupTargetMetadata(group_id=group.group_id, assignment_epoch=assignment_epoch)
        )
    return MemberTarget(assignment_epoch, partitions), records


# --- 3. reconciliation ---


def _step(
    context: ConsumerContext,
    after: GroupAfter,
    before: Member,
    reported_state: ReportedState,
    target: MemberTarget,
    is_subscription_new: bool,
) -> ConsumerGroupCurrentAssignment | None:
    """Return the member's new current assignment; the same object if it did not change."""
    if not is_subscription_new and before.is_reconciled_to(target.epoch):
        return before.current
    owners = after.group.owners
    itself = (after.member.member_id, after.replaces)

    def owner_of(topic_id: TopicId, partition: int) -> MemberId | None:
        owner = owners[topic_id].get(partition) if topic_id in owners else None
        return None if owner in itself else owner

    target_assignment = TargetAssignment(
        assignment_epoch=target.epoch,
        partitions=target.partitions,
        subscribed=context.topics.ids_of(after.group.subscriptions.of(after.member)),
        is_subscription_new=is_subscription_new,
        owner_of=owner_of,
    )
    current = reconciled(before.current, target_assignment, reported_state.reported)
    if current is None or current is before.current or reported_state.member_epoch == before.member_epoch:
        return current
    # Responses were lost: the epoch that the member knows remains valid, however many there were since.
    return replace(current, previous_member_epoch=reported_state.member_epoch)


def _set_timers(
    context: ConsumerContext,
    before: Member,
    current: ConsumerGroupCurrentAssignment,
    metadata: ConsumerGroupMemberMetadata,
    replaces: MemberId | None,
) -> None:
    group_id, member_id = metadata.group_id, metadata.member_id
    if replaces is not None:
        context.forget(group_id, replaces)
        context.forget(group_id, member_id)  # the id may have been that of another member
    if before.uses_classic_protocol:
        context.stop_waiting_for_join(group_id, member_id)
        context.stop_waiting_for_sync(group_id, member_id)
    context.start_session(group_id, member_id)
    if current is before.current and not before.uses_classic_protocol:
        return
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        context.wait_for_revocation(group_id, member_id, metadata.rebalance_timeout_ms)
    else:
        context.stop_waiting_for_revocation(group_id, member_id)
