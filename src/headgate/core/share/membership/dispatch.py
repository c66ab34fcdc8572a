"""Dispatch the commands and deadlines of share groups to the modules that handle them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import NOTHING, GroupEffects, answer
from headgate.core.events import GroupCreated, GroupRebalanced, MemberJoined, MemberRemoved, RemovalReason
from headgate.core.groups import Groups
from headgate.core.kinds import Handler
from headgate.core.pause.contract import Pausing
from headgate.core.share.membership.commands import (
    JOINING,
    LEAVING,
    AlterShareOffsets,
    DeleteShareOffsets,
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
    Initialization,
    ListSharePartitions,
    PartitionsInitialized,
    ShareGroupConfigured,
    ShareGroupRefusal,
    ShareHeartbeat,
    ShareHeartbeatResult,
    SharePartitions,
    StateRemoval,
    StatesRemoved,
)
from headgate.core.share.membership.context import ShareContext, ShareTimer
from headgate.core.share.membership.group import FIRST_EPOCH, ShareGroup
from headgate.core.share.membership.groups import ShareGroups, gone_topics
from headgate.core.share.membership.heartbeat import heartbeat, removed, unknown_member
from headgate.core.share.membership.pausing import SharePausing, are_paused
from headgate.core.share.membership.states import (
    removable,
    with_deleting,
    with_initialized,
    with_initializing,
    without,
)
from headgate.core.share.membership.validation import invalid_heartbeat
from headgate.core.timers import Timer
from headgate.core.topic_image import TopicImage
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, MemberId, Millis, TopicId
from headgate.records.share_group_model import (
    ShareGroupMetadata,
    ShareGroupRecord,
    ShareGroupTargetMetadata,
    TopicPartitions,
)

ASSIGNOR = "simple"


class ShareDispatch:
    """Handles the commands of share groups; the `headgate.core.kinds.GroupCommands` of their kind."""

    __slots__ = ("_all", "_groups")
    TIMERS: ClassVar[Mapping[IntEnum, bool]] = {ShareTimer.SESSION: True, ShareTimer.TOPICS: True}

    def __init__(self, groups: ShareGroups, all_groups: Groups) -> None:
        self._groups = groups
        self._all = all_groups

    def handlers(self) -> Mapping[type[Any], Handler]:
        """Return the handler of each command."""
        return {
            ShareHeartbeat: self.heartbeat,
            PartitionsInitialized: self.initialized,
            DescribeShareGroup: self.describe,
            ListSharePartitions: self.list_partitions,
            AlterShareOffsets: self.alter,
            DeleteShareOffsets: self.delete,
            StatesRemoved: self.states_removed,
            ShareGroupConfigured: self.configured,
        }

    def pausing(self) -> Pausing:
        """Return the object that pauses partitions of share groups."""
        return SharePausing()

    # --- members ---

    def heartbeat(self, command: ShareHeartbeat, now: Millis, token: Token) -> GroupEffects:
        """Handle a join, a heartbeat or a leave."""
        if command.group_id in self._all.being_deleted:
            return answer(token, ShareHeartbeatResult(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        outcome = self._outcome(command, now)
        if isinstance(outcome, ShareGroupRefusal):
            return answer(token, ShareHeartbeatResult(error=outcome.error, message=outcome.message))
        result, records = outcome
        return Effects(records, (Reply(token, result),))

    def _outcome(
        self, command: ShareHeartbeat, now: Millis
    ) -> tuple[ShareHeartbeatResult, list[ShareGroupRecord]] | ShareGroupRefusal:
        group_id = command.group_id
        refusal = invalid_heartbeat(command)
        if refusal is not None:
            return refusal
        context = self._groups.context(group_id, now)
        group = self._groups.find(group_id)
        if group is None:
            if command.member_epoch != JOINING or self._all.find(group_id) is not None:
                return self._not_found(group_id)
            group = ShareGroup(group_id)
        if command.member_epoch == LEAVING:
            return self._leave(context, group, command.member_id)
        is_retry_due = self._groups.is_retry_due(group_id, now)
        outcome = heartbeat(context, group, command, is_retry_due=is_retry_due)
        if not isinstance(outcome, ShareGroupRefusal):
            self._report(group, command, outcome[1])
            if outcome[0].initialization is not None:
                self._groups.requested(group_id, now)
        return outcome

    def _report(
        self, group: ShareGroup, command: ShareHeartbeat, records: Sequence[ShareGroupRecord]
    ) -> None:
        """Report what a heartbeat has changed: `group` is as it was before."""
        group_id, report = group.group_id, self._groups.events.report
        is_new = command.member_id not in group.members
        if not group.exists:
            report(GroupCreated(group_id, self._groups.NAME))
        if is_new:
            report(MemberJoined(group_id, command.member_id, command.client_id, command.client_host))
        for record in records:
            if isinstance(record, ShareGroupTargetMetadata):
                self._groups.rebalances += 1
                count = len(group.members) + is_new
                report(GroupRebalanced(group_id, record.assignment_epoch, count, is_share=True))

    def _leave(
        self, context: ShareContext, group: ShareGroup, member_id: MemberId
    ) -> tuple[ShareHeartbeatResult, list[ShareGroupRecord]] | ShareGroupRefusal:
        if member_id not in group.members:
            return unknown_member(group, member_id)
        result = ShareHeartbeatResult(member_id=member_id, member_epoch=LEAVING)
        return result, self._removed(context, group, member_id, RemovalReason.LEFT)

    def _removed(
        self, context: ShareContext, group: ShareGroup, member_id: MemberId, reason: RemovalReason
    ) -> list[ShareGroupRecord]:
        member = group.members[member_id]
        client = member.client_id, member.client_host
        context.events.report(MemberRemoved(group.group_id, member_id, *client, reason))
        return removed(context, group, member_id)

    def _not_found(self, group_id: GroupId) -> ShareGroupRefusal:
        what = "not found" if self._all.find(group_id) is None else "is not a share group"
        return ShareGroupRefusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def initialized(self, command: PartitionsInitialized, now: Millis, token: Token) -> GroupEffects:
        """Record that share-partitions have states."""
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, ErrorCode.GROUP_ID_NOT_FOUND)
        states = with_initialized(group.states_now, command.partitions)
        records = () if states == group.states else (states,)
        return Effects(records, (Reply(token, ErrorCode.NONE),))

    def on_timer(self, timer: Timer, now: Millis) -> GroupEffects:
        """Handle a deadline of a member or of the group's topics."""
        group = self._groups.find(GroupId(timer.group_id))
        if group is None:
            return NOTHING
        if timer.kind is ShareTimer.TOPICS:
            gone = [TopicId(topic_id) for topic_id in gone_topics(group, self._groups)]
            return Effects([without(group.states_now, gone)]) if gone else NOTHING
        member_id = MemberId(timer.member_id)
        if member_id not in group.members:
            return NOTHING
        context = self._groups.context(group.group_id, now)
        return Effects(self._removed(context, group, member_id, RemovalReason.SESSION_TIMEOUT))

    def configured(self, command: ShareGroupConfigured, now: Millis, token: Token) -> GroupEffects:
        """Replace the overrides of a group."""
        self._groups.configure(command.group_id, command.settings)
        return answer(token, ErrorCode.NONE)

    # --- descriptions ---

    def describe(self, command: DescribeShareGroup, now: Millis, token: Token) -> GroupEffects:
        """Describe a group."""
        if not command.group_id:
            return answer(token, ErrorCode.INVALID_GROUP_ID)
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, self._not_found(command.group_id))
        return answer(token, _described(group, self._groups.topics))

    def list_partitions(self, command: ListSharePartitions, now: Millis, token: Token) -> GroupEffects:
        """List the share-partitions that have states."""
        group = self._groups.find(command.group_id)
        if group is None:
            if self._all.find(command.group_id) is not None:
                return answer(token, self._not_found(command.group_id))
            return answer(token, SharePartitions({}))
        topics = self._groups.topics
        found = {
            topic_id: TopicPartitions(name, indexes)
            for topic_id, (_, indexes) in group.states_now.initialized.items()
            if (name := topics.name_of(topic_id)) is not None
        }
        return answer(token, SharePartitions(found))

    # --- administration of states ---

    def alter(self, command: AlterShareOffsets, now: Millis, token: Token) -> GroupEffects:
        """Prepare states to begin anew: the group epoch rises, and is the new state epoch (F19).

        A group with members is refused, unless all of these partitions are paused.
        """
        group_id = command.group_id
        group = self._groups.find(group_id)
        if group is None:
            if self._all.find(group_id) is not None or group_id in self._all.being_deleted:
                return answer(token, self._not_found(group_id))
            group = ShareGroup(group_id)
            self._groups.events.report(GroupCreated(group_id, self._groups.NAME))
        refusal = _non_empty(group)
        if refusal is not None and not are_paused(command.partitions, self._groups.paused.of(group_id)):
            return answer(token, refusal)
        epoch = group.epoch + 1  # the first one of a new group
        records: list[ShareGroupRecord] = [
            ShareGroupMetadata(group_id=group_id, epoch=epoch, metadata_hash=group.metadata_hash),
            with_initializing(group.states_now, command.partitions),
        ]
        if group.target_metadata is None:
            records.append(ShareGroupTargetMetadata(group_id=group_id, assignment_epoch=FIRST_EPOCH))
        initialization = Initialization(group_id, epoch, command.partitions)
        return Effects(records, (Reply(token, initialization),))

    def delete(self, command: DeleteShareOffsets, now: Millis, token: Token) -> GroupEffects:
        """Prepare to remove states: their topics are marked, so that a crash leaves no state unnoticed."""
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, self._not_found(command.group_id))
        refusal = _non_empty(group)
        if refusal is not None:
            return answer(token, refusal)
        found = removable(group.states_now, command.topics, self._groups.topics)
        states = with_deleting(group.states_now, found)
        records = () if states == group.states_now else (states,)
        return Effects(records, (Reply(token, StateRemoval(command.group_id, found)),))

    def states_removed(self, command: StatesRemoved, now: Millis, token: Token) -> GroupEffects:
        """Forget topics whose states were deleted."""
        group = self._groups.find(command.group_id)
        if group is None:
            return answer(token, ErrorCode.GROUP_ID_NOT_FOUND)
        removed_now = [topic_id for topic_id in command.topics if topic_id in group.states_now.deleting]
        records = (without(group.states_now, removed_now),) if removed_now else ()
        return Effects(records, (Reply(token, ErrorCode.NONE),))


def _non_empty(group: ShareGroup) -> ShareGroupRefusal | None:
    if not group.members:
        return None
    return ShareGroupRefusal(ErrorCode.NON_EMPTY_GROUP, f"Group {group.group_id} is not empty.")


def _described(group: ShareGroup, topics: TopicImage) -> DescribedShareGroup:
    members = []
    for member_id, metadata in group.members.items():
        member = group.find_member(member_id)
        assert member is not None, "the group has it"
        members.append(
            DescribedShareMember(
                member_id=member_id,
                rack_id=metadata.rack_id,
                client_id=metadata.client_id,
                client_host=metadata.client_host,
                member_epoch=member.current.member_epoch,
                subscribed_topic_names=metadata.subscribed_topic_names,
                assigned=member.current.assigned,
            )
        )
    names = {topic_id: topics.name_of(topic_id) for member in members for topic_id in member.assigned}
    return DescribedShareGroup(
        group_id=group.group_id,
        state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=ASSIGNOR,
        members=tuple(members),
        topic_names={topic_id: name for topic_id, name in names.items() if name is not None},
    )
