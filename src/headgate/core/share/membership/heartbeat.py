"""Handle the heartbeat of a new or known member, in steps from values to values and records.

1. Update the member's metadata. The group epoch rises if its subscription changes by that, if subscribed
   topics changed themselves, or if share-partitions were initialized that nobody has.
2. Compute the target assignment of initialized partitions, if it is older than the group epoch, and the last
   one is old enough.
3. Move the member to its target assignment: members share partitions, so it waits for nobody.
4. Request the states of subscribed partitions that have none.
"""

from __future__ import annotations

from dataclasses import replace

from headgate.core.assignors.contract import AssignablePartitions, GroupSpec, MemberSubscription
from headgate.core.assignors.simple import assign_shares
from headgate.core.share.membership.commands import (
    JOINING,
    Initialization,
    ShareGroupRefusal,
    ShareHeartbeat,
    ShareHeartbeatResult,
)
from headgate.core.share.membership.context import ShareContext
from headgate.core.share.membership.group import (
    FIRST_EPOCH,
    ShareGroup,
    ShareMember,
    nothing_assigned,
    tombstone_of,
)
from headgate.core.share.membership.states import (
    assignable,
    differs_from_target,
    missing_states,
    with_initializing,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import MemberId, TopicId, TopicName
from headgate.records.consumer_model import TargetPartitions
from headgate.records.share_group_model import (
    ShareGroupCurrentAssignment,
    ShareGroupMemberMetadata,
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupTargetMember,
    ShareGroupTargetMetadata,
)


def heartbeat(
    context: ShareContext, group: ShareGroup, command: ShareHeartbeat, *, is_retry_due: bool
) -> tuple[ShareHeartbeatResult, list[ShareGroupRecord]] | ShareGroupRefusal:
    """Return the answer and the records, or a refusal; `is_retry_due`: request all missing states again."""
    before = _admitted(group, command, context.settings.max_size)
    if isinstance(before, ShareGroupRefusal):
        return before
    metadata = _updated(before.metadata, command)
    is_known = command.member_id in group.members
    names = metadata.subscribed_topic_names
    is_new = not is_known or names != before.metadata.subscribed_topic_names
    topics = group.topics_after(frozenset({command.member_id}), names) if is_new else group.topics
    records: list[ShareGroupRecord] = [] if is_known and metadata == before.metadata else [metadata]
    epoch = _group_epoch(context, group, topics, records, is_new=is_new)
    assignment_epoch, target = _target(context, group, metadata, epoch, records)
    current = _moved(context, before.current, command, assignment_epoch, target, metadata)
    if current != before.current or not is_known:
        records.append(current)
    initialization = _requested(context, group, topics, epoch, is_retry_due, records)
    context.start_session(group.group_id, command.member_id)
    wants_all = (
        command.member_epoch == JOINING
        or command.subscribed_topic_names is not None
        or current.assigned != before.current.assigned
    )
    result = ShareHeartbeatResult(
        member_id=command.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=context.settings.heartbeat_interval_ms,
        assigned=current.assigned if wants_all else None,
        initialization=initialization,
    )
    return result, records


def removed(context: ShareContext, group: ShareGroup, member_id: MemberId) -> list[ShareGroupRecord]:
    """Return the records that remove a member; the group epoch rises."""
    context.end_session(group.group_id, member_id)
    topics = group.topics_after(frozenset({member_id}), ())
    found = (group.currents.get(member_id), group.targets.get(member_id), group.members[member_id])
    return [
        *(tombstone_of(record) for record in found if record is not None),
        ShareGroupMetadata(
            group_id=group.group_id, epoch=group.epoch + 1, metadata_hash=context.topics.hash_of(topics)
        ),
    ]


# --- 1. the member and the group's epoch ---


def _admitted(group: ShareGroup, command: ShareHeartbeat, max_size: int) -> ShareMember | ShareGroupRefusal:
    member_id, epoch = command.member_id, command.member_epoch
    member = group.find_member(member_id)
    if epoch == JOINING:
        if member is not None:
            return member
        if len(group.members) >= max_size:
            message = f"The share group has reached its maximum capacity of {max_size} members."
            return ShareGroupRefusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
        metadata = ShareGroupMemberMetadata(group_id=group.group_id, member_id=member_id)
        return ShareMember(metadata, nothing_assigned(group.group_id, member_id))
    if member is None:
        return unknown_member(group, member_id)
    known, previous = member.current.member_epoch, member.current.previous_member_epoch
    if epoch in (known, previous):
        return member
    what = "greater" if epoch > known else "smaller"
    return ShareGroupRefusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {what} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def unknown_member(group: ShareGroup, member_id: MemberId) -> ShareGroupRefusal:
    """Return the refusal of an unknown member id."""
    message = f"Member {member_id} is not a member of group {group.group_id}."
    return ShareGroupRefusal(ErrorCode.UNKNOWN_MEMBER_ID, message)


def _updated(metadata: ShareGroupMemberMetadata, command: ShareHeartbeat) -> ShareGroupMemberMetadata:
    names = command.subscribed_topic_names
    return replace(
        metadata,
        rack_id=metadata.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names
        if names is None
        else tuple(sorted(set(names))),
    )


def _group_epoch(
    context: ShareContext,
    group: ShareGroup,
    topics: frozenset[TopicName],
    records: list[ShareGroupRecord],
    *,
    is_new: bool,
) -> int:
    """Return the group epoch after the heartbeat; a new one is recorded."""
    metadata_hash = context.topics.hash_of(topics)
    is_rising = is_new or metadata_hash != group.metadata_hash
    if not is_rising and group.has_pending_assignment and group.epoch <= group.assignment_epoch:
        is_rising = differs_from_target(group, context.topics)
        group.has_pending_assignment = is_rising
    epoch = max(group.epoch, FIRST_EPOCH) + is_rising
    if is_rising:
        records.append(ShareGroupMetadata(group_id=group.group_id, epoch=epoch, metadata_hash=metadata_hash))
    return epoch


# --- 2. the target assignment ---


def _target(
    context: ShareContext,
    group: ShareGroup,
    member: ShareGroupMemberMetadata,
    epoch: int,
    records: list[ShareGroupRecord],
) -> tuple[int, TargetPartitions]:
    """Return the epoch of the target assignment and the member's part of it; new ones are recorded."""
    assignment_epoch = max(group.assignment_epoch, FIRST_EPOCH)
    age_ms = context.system_time - group.assignment_timestamp
    if epoch <= assignment_epoch or 0 <= age_ms < context.settings.assignment_interval_ms:
        return assignment_epoch, group.target_of(member.member_id)
    members = {**group.members, member.member_id: member}
    spec = GroupSpec(
        members={
            one.member_id: MemberSubscription(
                topics=context.topics.ids_of(frozenset(one.subscribed_topic_names)),
                rack_id=one.rack_id,
                current=group.target_of(one.member_id),
            )
            for one in members.values()
        },
        assignable=_assignable(context, group),
    )
    targets = assign_shares(spec)
    records += [
        ShareGroupTargetMember(group_id=group.group_id, member_id=member_id, partitions=targets[member_id])
        for member_id in members
        if member_id not in group.targets or group.targets[member_id].partitions != targets[member_id]
    ]
    records.append(
        ShareGroupTargetMetadata(
            group_id=group.group_id, assignment_epoch=epoch, assignment_timestamp=context.system_time
        )
    )
    return epoch, targets[member.member_id]


def _assignable(context: ShareContext, group: ShareGroup) -> dict[TopicId, AssignablePartitions]:
    found = {}
    for topic_id, indexes in assignable(group.states_now, context.topics).items():
        count = indexes[-1] + 1 if indexes else 0
        found[topic_id] = AssignablePartitions(count, frozenset(range(count)).difference(indexes))
    return found


# --- 3. the member's assignment ---


def _moved(
    context: ShareContext,
    current: ShareGroupCurrentAssignment,
    command: ShareHeartbeat,
    assignment_epoch: int,
    target: TargetPartitions,
    metadata: ShareGroupMemberMetadata,
) -> ShareGroupCurrentAssignment:
    """Return the member's current assignment: its target, without topics that it has just left."""
    subscribed = context.topics.ids_of(frozenset(metadata.subscribed_topic_names))
    assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed}
    if current.member_epoch == assignment_epoch and current.assigned == assigned:
        return current
    is_rising = assignment_epoch != current.member_epoch
    return replace(
        current,
        member_epoch=assignment_epoch,
        # If responses were lost, the epoch that the member knows remains valid.
        previous_member_epoch=command.member_epoch if is_rising else current.previous_member_epoch,
        assigned=assigned,
    )


# --- 4. states ---


def _requested(
    context: ShareContext,
    group: ShareGroup,
    topics: frozenset[TopicName],
    epoch: int,
    is_retry_due: bool,
    records: list[ShareGroupRecord],
) -> Initialization | None:
    """Return the share-partitions to initialize now; they are recorded."""
    missing = missing_states(group, topics, context.topics, is_retry_due=is_retry_due)
    if not missing:
        return None
    records.append(with_initializing(group.states_now, missing))
    return Initialization(group.group_id, epoch, missing)
