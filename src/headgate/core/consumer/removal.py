"""Remove members: they leave, permanently or temporarily, are removed by an administrator, or time out.

A removed member's partitions become free, and the group epoch rises. A static member that leaves temporarily
(-2) keeps its partitions until its session expires: they wait for its next process, from epoch 0 on (R1.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from headgate.core.consumer.commands import LEAVING_FOR_A_WHILE
from headgate.core.consumer.context import ConsumerContext
from headgate.core.consumer.group import ConsumerGroup, Member, tombstone_of
from headgate.domain.ids import MemberId
from headgate.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTargetMetadata,
    ConsumerGroupTombstone,
    ConsumerRecord,
    ConsumerRecordType,
    MemberState,
    PausedPartitions,
)
from headgate.records.consumer_model import NEVER, NO_ASSIGNMENT_YET, OwnedPartitions

LAST_EPOCH = 2**31 - 1
"""Maximum epoch: 32 bits in records and in the protocol."""


def away(context: ConsumerContext, group: ConsumerGroup, member: Member) -> list[ConsumerRecord]:
    """Return the records of a static member that leaves temporarily; its pending revocations are complete."""
    context.stop_waiting_for_revocation(group.group_id, member.member_id)
    away = replace(
        member.current,
        member_epoch=LEAVING_FOR_A_WHILE,
        state=MemberState.STABLE,
        assigned=_kept_while_away(member.current.assigned, context.paused.of(group.group_id)),
        pending_revocation={},
    )
    return [] if away == member.current else [away]


def released_while_away(group: ConsumerGroup, paused: PausedPartitions) -> list[ConsumerRecord]:
    """Return records by which static members that left temporarily release paused partitions."""
    released = []
    for current in group.currents.values():
        if current.member_epoch == LEAVING_FOR_A_WHILE:
            kept = _kept_while_away(current.assigned, paused)
            if kept != current.assigned:
                released.append(replace(current, assigned=kept))
    return [*released]


def _kept_while_away(assigned: OwnedPartitions, paused: PausedPartitions) -> OwnedPartitions:
    """Return the partitions that wait for a static member's next process, from epoch 0 on: those not
    paused.
    """
    kept = {
        topic_id: dict.fromkeys((one for one in epochs if one not in paused.get(topic_id, {})), 0)
        for topic_id, epochs in assigned.items()
    }
    return {topic_id: epochs for topic_id, epochs in kept.items() if epochs}


def member_tombstones(group: ConsumerGroup, member_id: MemberId) -> list[ConsumerRecord]:
    """Return the tombstones of a member's records."""
    records = (group.currents.get(member_id), group.targets.get(member_id), group.members.get(member_id))
    return [tombstone_of(record) for record in records if record is not None]


def begin_anew(context: ConsumerContext, group: ConsumerGroup) -> list[ConsumerRecord]:
    """Remove all members of a group without a later epoch: they rejoin, in the first one."""
    records: list[ConsumerRecord] = []
    for member_id in group.members:
        context.forget(group.group_id, member_id)
        records += member_tombstones(group, member_id)
    records += map(tombstone_of, group.regexes.values())
    empty = group.at_epoch(0, context.topics.hash_of(frozenset()), empty_since=context.system_time)
    records.append(replace(empty, last_removal_epoch=0))
    records.append(
        ConsumerGroupTargetMetadata(
            group_id=group.group_id, assignment_epoch=0, assignment_timestamp=NO_ASSIGNMENT_YET
        )
    )
    return records


def is_past_last_epoch(group: ConsumerGroup, records: Iterable[ConsumerRecord]) -> bool:
    """Return whether records would raise the group epoch beyond the last one."""
    return group.epoch >= LAST_EPOCH and any(
        isinstance(record, ConsumerGroupMetadata) and record.epoch > LAST_EPOCH for record in records
    )


def remove_members(
    context: ConsumerContext, group: ConsumerGroup, member_ids: Collection[MemberId]
) -> list[ConsumerRecord]:
    """Return the records that remove members from the group; its epoch rises once for all of them."""
    if not member_ids:
        return []
    if group.epoch >= LAST_EPOCH:
        return begin_anew(context, group)
    records: list[ConsumerRecord] = []
    for member_id in member_ids:
        context.forget(group.group_id, member_id)
        records += member_tombstones(group, member_id)
    gone = [group.members[member_id] for member_id in dict.fromkeys(member_ids)]
    regexes = Counter(group.subscriptions.regex_users)
    regexes.subtract(member.subscribed_topic_regex for member in gone if member.subscribed_topic_regex)
    records += [
        ConsumerGroupTombstone(ConsumerRecordType.REGULAR_EXPRESSION, group.group_id, regex)
        for regex in group.regexes
        if regexes[regex] <= 0
    ]
    epoch = group.epoch + 1
    is_anybody_left = len(gone) < len(group.members)
    records.append(
        group.at_epoch(
            epoch,
            context.topics.hash_of(group.subscriptions.topics_after(gone)),
            loses_member=True,
            empty_since=NEVER if is_anybody_left else context.system_time,
        )
    )
    if not is_anybody_left:
        # No member is left to compute a target assignment for: the empty one is that of the new epoch.
        records.append(
            ConsumerGroupTargetMetadata(
                group_id=group.group_id, assignment_epoch=epoch, assignment_timestamp=NO_ASSIGNMENT_YET
            )
        )
    return records


def group_tombstones(group: ConsumerGroup) -> Iterable[ConsumerRecord]:
    """Return the tombstones of the whole group."""
    return map(tombstone_of, group.records())
