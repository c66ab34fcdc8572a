"""Committing: from a command that the group accepts to its records.

The metadata limit counts UTF-16 units, as Kafka's does, and fails one partition alone (R3.2). A partition
named twice is recorded twice: the last one wins, both are answered.

Of a commit with conditions the offset -1 removes what is committed: as a condition it means that nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import GroupEffects
from headgate.core.offsets.commands import (
    NO_RETENTION,
    NOTHING_COMMITTED,
    CommitAgain,
    CommitOffsets,
    CommitResult,
    CommitsAgain,
    OffsetColumns,
    expected_at,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import Millis
from headgate.records import (
    Change,
    OffsetCommit,
    OffsetCommits,
    OffsetTombstone,
    StandingCommit,
    StandingCommits,
)
from headgate.records.model import NO_EXPIRY, NO_LEADER_EPOCH
from headgate.records.offset_commit import LONGEST_TEXT_BYTES

ACCEPTED = CommitResult(ErrorCode.NONE)


def unknown_group_error(command: CommitOffsets) -> ErrorCode:
    """What a commit to a group that is not there gets: without a generation it makes a simple group."""
    if command.generation < 0:
        return ErrorCode.NONE
    if command.knows_group_not_found:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Whether metadata has more UTF-16 units than allowed, or more bytes than a record can hold."""
    size = len(metadata)
    if 2 * size <= limit and 4 * size <= LONGEST_TEXT_BYTES:
        return False
    units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
    return units > limit or len(metadata.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES


def commit(command: CommitOffsets, now: Millis, metadata_limit: int, token: Token) -> GroupEffects:
    """Record every offset of the command whose metadata is not too long."""
    group_id = command.group_id
    retention_ms = command.retention_ms
    has_expiry = retention_ms != NO_RETENTION
    expire_timestamp = Millis(now + retention_ms) if has_expiry else NO_EXPIRY
    records: list[Change] = []
    too_large = []
    for topic_index, (topic, partitions) in enumerate(command.topics):
        if isinstance(partitions, OffsetColumns):
            removes = command.expected is not None and bool((partitions.offsets == NOTHING_COMMITTED).any())
            if (
                not has_expiry
                and not removes
                and not is_metadata_too_large(partitions.metadata, metadata_limit)
            ):
                records.append(OffsetCommits(group_id, topic, *partitions, now))
                continue
            partitions = partitions.each()
        for index, (partition, offset, leader_epoch, metadata) in enumerate(partitions):
            if metadata and is_metadata_too_large(metadata, metadata_limit):
                too_large.append((topic_index, index))
                continue
            if offset == NOTHING_COMMITTED and command.expected is not None:
                if expected_at(command.expected[topic_index], index) != NOTHING_COMMITTED:
                    records.append(OffsetTombstone(group_id, topic, partition))
                continue
            if has_expiry:
                leader_epoch = NO_LEADER_EPOCH  # the record with an expiry has no place for it
            records.append(
                OffsetCommit(
                    group_id, topic, partition, offset, leader_epoch, metadata, now, expire_timestamp
                )
            )
    result = ACCEPTED if not too_large else CommitResult(ErrorCode.NONE, frozenset(too_large))
    return Effects(records, (Reply(token, result),))


def commits_again(
    command: CommitsAgain, errors: Sequence[ErrorCode], now: Millis, token: Token
) -> GroupEffects:
    """Record the offsets of those commits that no error stands against."""
    standing: list[StandingCommit] = []
    offsets: list[int] = []
    for commit, numbers, error in zip(command.commits, command.offsets, errors, strict=True):
        if not error:
            standing += commit.partitions
            offsets += numbers
    results = [CommitResult(error) if error else ACCEPTED for error in errors]
    records = (StandingCommits(standing, offsets, now),) if standing else ()
    return Effects(records, (Reply(token, results),))


def commit_again(command: CommitAgain, now: Millis, token: Token) -> GroupEffects:
    """Record the offsets of a commit that differs in nothing else from one whose metadata was accepted."""
    before, times = command
    group_id = before.group_id
    records: list[Change] = []
    for offsets in times:
        at = 0
        for topic, partitions in before.topics:
            if isinstance(partitions, OffsetColumns):
                end = at + len(partitions.partitions)
                column = np.asarray(offsets[at:end], np.int64)
                numbers, _, leader_epochs, metadata = partitions
                records.append(OffsetCommits(group_id, topic, numbers, column, leader_epochs, metadata, now))
                at = end
                continue
            for partition, _, leader_epoch, metadata in partitions:
                offset = int(offsets[at])
                records.append(OffsetCommit(group_id, topic, partition, offset, leader_epoch, metadata, now))
                at += 1
    return Effects(records, (Reply(token, ACCEPTED),))
