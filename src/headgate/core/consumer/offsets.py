"""Checks of commits, fetches and deletions of offsets in a consumer group, and the clock of their expiry.

A member's commit for a partition is accepted while the member owns it, from the epoch on in which it was
assigned (KIP-1251), so that a commit in flight is not lost when the epoch rises. For other partitions it must
have the current member epoch (R1.2).
"""

from __future__ import annotations

from headgate.core.consumer.group import ConsumerGroup, Member
from headgate.core.offsets.commands import CommitOffsets, FetchOffsets
from headgate.core.offsets.expiry import Aging, GroupClock
from headgate.core.pause.commits import (
    IsOwned,
    administrative_error,
    is_administrative,
    is_any_withheld,
    partitions_of,
)
from headgate.core.topic_image import TopicImage
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import TopicId
from headgate.records import PausedPartitions
from headgate.records.consumer_model import NEVER


def commit_error(
    group: ConsumerGroup, command: CommitOffsets, topics: TopicImage, paused: PausedPartitions | None
) -> ErrorCode:
    """Return the error of a whole commit, in Kafka's order of checks (R1.1 to R1.7).

    `paused` has the group's paused partitions; None if there are none.
    """
    if command.generation < 0 and group.is_empty:
        return ErrorCode.NONE
    if command.is_transactional:
        return _transactional_error(group, command, topics, paused)
    if paused is not None and is_administrative(command):
        return _administrative_error(group, command, topics, paused)
    return _member_error(group, command, topics, paused)


def _transactional_error(
    group: ConsumerGroup, command: CommitOffsets, topics: TopicImage, paused: PausedPartitions | None
) -> ErrorCode:
    """Return the error of a transactional commit (R1.5). Without a member, all but withheld partitions are
    accepted: early versions cannot name one.
    """
    if not is_administrative(command):
        error = _member_error(group, command, topics, paused)
        return ErrorCode.ILLEGAL_GENERATION if error is ErrorCode.STALE_MEMBER_EPOCH else error
    if paused is not None and is_any_withheld(command, topics, paused, _ownership_in(group)):
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def _administrative_error(
    group: ConsumerGroup, command: CommitOffsets, topics: TopicImage, paused: PausedPartitions
) -> ErrorCode:
    return administrative_error(command, topics, paused, _ownership_in(group))


def _ownership_in(group: ConsumerGroup) -> IsOwned:
    """Return the function that tells whether any member owns a partition."""
    return lambda topic_id, partition: partition in group.owners.get(topic_id, {})


def _member_error(
    group: ConsumerGroup, command: CommitOffsets, topics: TopicImage, paused: PausedPartitions | None
) -> ErrorCode:
    """Return the error of a member's commit."""
    epoch = command.generation
    member = group.find_member(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if (
        not member.uses_classic_protocol
        and not command.knows_group_not_found
        and not command.is_transactional
    ):
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch > member.member_epoch:
        return _stale(member)
    if epoch < member.member_epoch and not _all_assigned_by(member, epoch, command, topics):
        return _stale(member)
    if paused is not None and _is_any_withheld_from(member, command, topics, paused):
        return _stale(member)
    return ErrorCode.NONE


def _is_any_withheld_from(
    member: Member, command: CommitOffsets, topics: TopicImage, paused: PausedPartitions
) -> bool:
    current = member.current

    def is_own(topic_id: TopicId, partition: int) -> bool:
        assigned, pending = current.assigned, current.pending_revocation
        return partition in assigned.get(topic_id, {}) or partition in pending.get(topic_id, {})

    return is_any_withheld(command, topics, paused, is_own)


def _stale(member: Member) -> ErrorCode:
    if member.uses_classic_protocol:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _all_assigned_by(member: Member, epoch: int, command: CommitOffsets, topics: TopicImage) -> bool:
    """Return whether the member owns every partition of the commit, since `epoch` or earlier."""
    current = member.current
    for name, partitions in partitions_of(command):
        topic = topics.find(name)
        if topic is None:
            return False
        assigned = current.assigned.get(topic.topic_id, {})
        pending = current.pending_revocation.get(topic.topic_id, {})
        for partition in partitions:
            since = assigned.get(partition, pending.get(partition))
            if since is None or epoch < since:
                return False
    return True


def fetch_error(group: ConsumerGroup, command: FetchOffsets) -> ErrorCode:
    """Return the error of a fetch: if it names a member, that must be valid and in its current epoch."""
    if group.metadata is None or (command.member_id is None and command.member_epoch < 0):
        return ErrorCode.NONE
    member = None if command.member_id is None else group.find_member(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if command.member_epoch != member.member_epoch:
        return _stale(member)
    return ErrorCode.NONE


def clock_of(group: ConsumerGroup) -> GroupClock:
    """Return since when the group's offsets age. Those of subscribed topics never do; see `Subscriptions`."""
    if group.is_empty:
        if group.empty_since == NEVER:
            return GroupClock(Aging.SINCE_COMMIT)
        return GroupClock(Aging.SINCE_STATE, group.empty_since)
    return GroupClock(Aging.SINCE_COMMIT if group.subscriptions.is_known else Aging.HELD)
