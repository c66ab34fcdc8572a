"""A heartbeat of a member that is or becomes one: three steps, each from values to values and records.

1. The member as it says it is. If its group reads other topics by that, the group's epoch rises.
2. The target, if it is older than the group and the last one is old enough.
3. The member's own step towards the target.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from headgate.core.consumer.admission import Admitted, admit
from headgate.core.consumer.commands import (
    UNCHANGED_MS,
    ConsumerHeartbeat,
    HeartbeatResult,
    Refusal,
    Reported,
)
from headgate.core.consumer.group import ConsumerGroup, Member, tombstone_of
from headgate.core.consumer.patterns import invalid_pattern
from headgate.core.consumer.reconcile import Aim, reconciled
from headgate.core.consumer.removal import member_tombstones
from headgate.core.consumer.target import GroupAfter, make_target, most_wanted
from headgate.core.consumer.turn import ConsumerTurn
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
"""The epoch of a group that has assigned nothing yet."""


@dataclass(slots=True, frozen=True)
class Target:
    """What the member is to have, and for which group epoch that was decided."""

    epoch: int
    partitions: TargetPartitions


def heartbeat(
    turn: ConsumerTurn, group: ConsumerGroup, command: ConsumerHeartbeat, *, is_verified: bool
) -> tuple[HeartbeatResult, list[ConsumerRecord]] | Refusal:
    """Let a member in or go on: the answer, and the records.

    `is_verified`: the group's topics are what they were when it last looked.
    """
    admitted = admit(group, command, turn.settings.max_size)
    if isinstance(admitted, Refusal):
        return admitted
    before = admitted.member
    metadata = _as_it_says(before.metadata, command)
    if is_verified and metadata is before.metadata and _is_settled(group, admitted):
        turn.start_session(group.group_id, command.member_id)
        return _answer(turn, command, before, before.current), []
    regex = metadata.subscribed_topic_regex
    if regex and regex not in group.subscriptions.regex_users:
        refusal = invalid_pattern(regex)
        if refusal is not None:
            return refusal
        turn.match_patterns(group.group_id)
    said = Said(metadata, command.reported, command.member_epoch)
    moved = advance(turn, group, admitted, said, is_verified=is_verified)
    if isinstance(moved, Refusal):
        return moved
    current, records = moved
    _set_timers(turn, before, current, metadata, admitted.replaces)
    return _answer(turn, command, before, current), records


@dataclass(slots=True, frozen=True)
class Said:
    """What a member says: what it is, what it has if it tells, and the epoch that it knows."""

    metadata: ConsumerGroupMemberMetadata
    reported: Reported | None
    member_epoch: int


def advance(
    turn: ConsumerTurn, group: ConsumerGroup, admitted: Admitted, said: Said, *, is_verified: bool
) -> tuple[ConsumerGroupCurrentAssignment, list[ConsumerRecord]] | Refusal:
    """The three steps: what the member has from now on, and the records; `is_verified` as for a heartbeat."""
    before, metadata = admitted.member, said.metadata
    after = GroupAfter(group, metadata, admitted.replaces)
    is_subscription_new = metadata is not before.metadata and _reads_otherwise(
        group, before.metadata, metadata
    )
    epoch, records = _members_records(turn, after, admitted, is_subscription_new, is_verified)
    target, target_records = _target(turn, after, epoch)
    current = _step(turn, after, before, said, target, is_subscription_new)
    if current is None:
        message = (
            "The member is in a state of another version. It must abandon all its partitions and rejoin."
        )
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
    records += target_records
    if current is not before.current or admitted.is_new or admitted.replaces is not None:
        records.append(current)
    return current, records


def _is_settled(group: ConsumerGroup, admitted: Admitted) -> bool:
    """Whether there is nothing to do for a member that has nothing new to say: so it mostly is."""
    is_known = not admitted.is_new and admitted.replaces is None
    epoch = group.assignment_epoch
    return is_known and epoch == group.epoch and admitted.member.is_reconciled_to(epoch)


def is_as_before(group: ConsumerGroup, command: ConsumerHeartbeat) -> bool:
    """Whether a heartbeat that says nothing new comes from a member for which there is nothing to do.

    The same as what `heartbeat` finds out of it, in fewer steps; the group's topics are what they were.
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
    turn: ConsumerTurn,
    command: ConsumerHeartbeat,
    before: Member,
    current: ConsumerGroupCurrentAssignment,
) -> HeartbeatResult:
    wants_all = command.is_joining or command.is_full or current.assigned != before.current.assigned
    return HeartbeatResult(
        member_id=command.member_id,
        member_epoch=current.member_epoch,
        heartbeat_interval_ms=turn.settings.heartbeat_interval_ms,
        assigned=current.assigned if wants_all else None,
    )


# --- 1. the member and the group's epoch ---


def _as_it_says(
    metadata: ConsumerGroupMemberMetadata, command: ConsumerHeartbeat
) -> ConsumerGroupMemberMetadata:
    """What is known of the member now; the same object when that is what was known."""
    names = command.subscribed_topic_names
    says_nothing = (
        command.rebalance_timeout_ms == UNCHANGED_MS
        and names is None
        and command.subscribed_topic_regex is None
        and command.rack_id is None
        and command.server_assignor is None
        and command.client_id == metadata.client_id
        and command.client_host == metadata.client_host
        and metadata.classic is None
    )
    if says_nothing:
        return metadata
    regex, assignor = command.subscribed_topic_regex, command.server_assignor
    timeout_ms = command.rebalance_timeout_ms
    said = replace(
        metadata,
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
    return metadata if said == metadata else said


def _reads_otherwise(
    group: ConsumerGroup, before: ConsumerGroupMemberMetadata, after: ConsumerGroupMemberMetadata
) -> bool:
    """Whether the group is to be assigned anew: for other topics, or an expression that is matched already.

    Any other expression raises the group's epoch when it has been matched.
    """
    regex = after.subscribed_topic_regex
    is_newly_matched = bool(regex) and regex != before.subscribed_topic_regex and regex in group.regexes
    return is_newly_matched or group.subscriptions.of(after) != group.subscriptions.of(before)


def _ordered(names: tuple[TopicName, ...]) -> tuple[TopicName, ...]:
    return tuple(sorted(set(names)))


def _members_records(
    turn: ConsumerTurn,
    after: GroupAfter,
    admitted: Admitted,
    is_subscription_new: bool,
    is_verified: bool,
) -> tuple[int, list[ConsumerRecord]]:
    """The group's epoch from now on, and the records of member and group."""
    group, metadata = after.group, after.member
    records: list[ConsumerRecord] = []
    if admitted.replaces is not None:
        records += member_tombstones(group, admitted.replaces)
    if metadata is not admitted.member.metadata or admitted.is_new or admitted.replaces is not None:
        records.append(metadata)
        records += _given_up_patterns(after)
    is_rising = is_subscription_new or after.is_one_less or _wants_other_assignor(turn, after)
    metadata_hash = group.metadata_hash
    if is_rising or not is_verified:
        metadata_hash = turn.topics.hash_of(after.topics())
        is_rising = is_rising or metadata_hash != group.metadata_hash
    epoch = max(group.epoch, FIRST_EPOCH) + is_rising
    loses_member = admitted.replaces is not None
    if is_rising or group.is_empty or (loses_member and not group.has_lost_members):
        records.append(group.at_epoch(epoch, metadata_hash, loses_member=loses_member))
    return epoch, records


def _given_up_patterns(after: GroupAfter) -> list[ConsumerRecord]:
    """What takes regular expressions away that nobody subscribes by any more."""
    before = {member.subscribed_topic_regex for member in after.gone() if member.subscribed_topic_regex}
    if not before - {after.member.subscribed_topic_regex}:
        return []
    users = Counter(after.group.subscriptions.regex_users)
    users.subtract(member.subscribed_topic_regex for member in after.gone() if member.subscribed_topic_regex)
    users[after.member.subscribed_topic_regex or ""] += 1
    resolved = (after.group.regexes.get(regex) for regex in before if users[regex] <= 0)
    return [tombstone_of(one) for one in resolved if one is not None]


def _wants_other_assignor(turn: ConsumerTurn, after: GroupAfter) -> bool:
    group = after.group
    before = group.members.get(after.replaces or after.member.member_id)
    if group.is_empty or (before is not None and before.server_assignor == after.member.server_assignor):
        return False
    offered = turn.settings.assignors
    return after.assignor(offered) != most_wanted(group.assignor_votes, offered)


# --- 2. the target ---


def is_target_due(turn: ConsumerTurn, group: ConsumerGroup) -> bool:
    """Whether the target is older than the group and has stood for long enough."""
    return group.epoch > group.assignment_epoch and not _is_target_young(turn, group)


def _is_target_young(turn: ConsumerTurn, group: ConsumerGroup) -> bool:
    return 0 <= turn.system_time - group.assignment_timestamp < turn.settings.assignment_interval_ms


def _target(turn: ConsumerTurn, after: GroupAfter, epoch: int) -> tuple[Target, list[ConsumerRecord]]:
    """The target from now on, and the records that make it.

    A target stands for a while, so that a group which starts is not assigned anew for each of its members.
    But who comes after somebody went may be the same one again: in an epoch that it had before, its commits
    from then would be believed.
    """
    group, member_id = after.group, after.member.member_id
    assignment_epoch = max(group.assignment_epoch, FIRST_EPOCH)
    may_be_back = after.is_one_less or (group.has_lost_members and member_id not in group.members)
    if epoch > assignment_epoch and (may_be_back or not _is_target_young(turn, group)):
        partitions, records = make_target(turn, after, epoch, turn.paused.of(group.group_id))
        return Target(epoch, partitions), records
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
    return Target(assignment_epoch, partitions), records


# --- 3. the member's step ---


def _step(
    turn: ConsumerTurn,
    after: GroupAfter,
    before: Member,
    said: Said,
    target: Target,
    is_subscription_new: bool,
) -> ConsumerGroupCurrentAssignment | None:
    """What the member has from now on; the same object when it is what it had."""
    if not is_subscription_new and before.is_reconciled_to(target.epoch):
        return before.current
    owners = after.group.owners
    itself = (after.member.member_id, after.replaces)

    def owner_of(topic_id: TopicId, partition: int) -> MemberId | None:
        owner = owners[topic_id].get(partition) if topic_id in owners else None
        return None if owner in itself else owner

    aim = Aim(
        assignment_epoch=target.epoch,
        target=target.partitions,
        subscribed=turn.topics.ids_of(after.group.subscriptions.of(after.member)),
        is_subscription_new=is_subscription_new,
        owner_of=owner_of,
    )
    current = reconciled(before.current, aim, said.reported)
    if current is None or current is before.current or said.member_epoch == before.member_epoch:
        return current
    # Answers were lost: the epoch that the member knows stays good, however many there were since.
    return replace(current, previous_member_epoch=said.member_epoch)


def _set_timers(
    turn: ConsumerTurn,
    before: Member,
    current: ConsumerGroupCurrentAssignment,
    metadata: ConsumerGroupMemberMetadata,
    replaces: MemberId | None,
) -> None:
    group_id, member_id = metadata.group_id, metadata.member_id
    if replaces is not None:
        turn.forget(group_id, replaces)
        turn.forget(group_id, member_id)  # it may have been another member until now
    if before.uses_classic_protocol:
        turn.stop_waiting_for_join(group_id, member_id)
        turn.stop_waiting_for_sync(group_id, member_id)
    turn.start_session(group_id, member_id)
    if current is before.current and not before.uses_classic_protocol:
        return
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        turn.wait_for_revocation(group_id, member_id, metadata.rebalance_timeout_ms)
    else:
        turn.stop_waiting_for_revocation(group_id, member_id)
