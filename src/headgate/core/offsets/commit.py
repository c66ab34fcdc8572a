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
    Conditions,
    OffsetColumns,
    Place,
    ToCommit,
    conditions_in_columns,
    expected_at,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import (
    Change,
    OffsetCommit,
    OffsetCommits,
    OffsetTombstone,
    StandingCommit,
    StandingCommits,
)
from headgate.records.model import NO_EXPIRY, NO_LEADER_EPOCH
from headgate.records.offset_commit import LONGEST_TEXT_BYTES, key_prefix
from headgate.records.offset_rows import OffsetRows

ACCEPTED = CommitResult(ErrorCode.NONE)

LATEST = Millis((1 << 63) - 1)
"""No record holds a later time."""
NARROWEST_ROWS = 100
"""Fewer partitions that differ in more than numbers are recorded one by one: that is as quick."""


def unknown_group_error(command: CommitOffsets) -> ErrorCode:
    """What a commit to a group that is not there gets: without a generation it makes a simple group."""
    if command.generation < 0:
        return ErrorCode.NONE
    if command.knows_group_not_found:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Whether metadata has more UTF-16 units than allowed, or more bytes than a record can hold."""
    if _is_surely_short(len(metadata), limit):
        return False
    units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
    return units > limit or len(metadata.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES


def _is_surely_short(size: int, limit: int) -> bool:
    """Whether so many characters are not too many, whatever they are."""
    return 2 * size <= limit and 4 * size <= LONGEST_TEXT_BYTES


def too_large_metadata(partitions: ToCommit, limit: int) -> Sequence[int]:
    """The numbers of the partitions whose metadata is too long."""
    if not isinstance(partitions, OffsetColumns):
        return [index for index, each in enumerate(partitions) if is_metadata_too_large(each.metadata, limit)]
    metadata = partitions.metadata
    if isinstance(metadata, str):
        return range(len(partitions.partitions)) if is_metadata_too_large(metadata, limit) else ()
    if _is_surely_short(max(map(len, metadata), default=0), limit):
        return ()
    return [index for index, text in enumerate(metadata) if is_metadata_too_large(text, limit)]


def commit(command: CommitOffsets, now: Millis, metadata_limit: int, token: Token) -> GroupEffects:
    """Record every offset of the command whose metadata is not too long."""
    group_id = command.group_id
    retention_ms = command.retention_ms
    has_expiry = retention_ms != NO_RETENTION
    expire_timestamp = Millis(min(now + retention_ms, LATEST)) if has_expiry else NO_EXPIRY
    records: list[Change] = []
    too_large: list[Place] = []
    for topic_index, (topic, partitions) in enumerate(command.topics):
        if isinstance(partitions, OffsetColumns):
            refused = too_large_metadata(partitions, metadata_limit)
            too_large += [(topic_index, index) for index in refused]
            expected = None if command.expected is None else command.expected[topic_index]
            recorded = _to_record(partitions, refused, expected)
            if len(recorded.partitions):
                times = now, expire_timestamp
                records += _in_columns((group_id, topic), recorded, times, removes=expected is not None)
            continue
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


def _to_record(columns: OffsetColumns, refused: Sequence[int], expected: Conditions | None) -> OffsetColumns:
    """What is recorded: not what is refused, and no removal where nothing is expected to be."""
    if not refused and expected is None:
        return columns
    is_recorded = np.ones(len(columns.partitions), np.bool_)
    is_recorded[list(refused)] = False
    if expected is not None:
        indexes, offsets = conditions_in_columns(expected)
        nothing = indexes[offsets == NOTHING_COMMITTED]
        is_recorded[nothing] &= columns.offsets[nothing] != NOTHING_COMMITTED
    return columns if is_recorded.all() else columns.at(np.flatnonzero(is_recorded))


def _in_columns(
    names: tuple[GroupId, TopicName], columns: OffsetColumns, times: tuple[Millis, Millis], *, removes: bool
) -> Sequence[Change]:
    """What is recorded of one topic, as one value if it is wide.

    `times`: those of the commit and of its expiry; `removes`: the offset -1 is none.
    """
    partitions, offsets, leader_epochs, metadata = columns
    now, expire_timestamp = times
    has_expiry = expire_timestamp != NO_EXPIRY
    has_removals = removes and bool((offsets == NOTHING_COMMITTED).any())
    if isinstance(metadata, str) and not (has_expiry or has_removals):
        return (OffsetCommits(*names, partitions, offsets, leader_epochs, metadata, now),)
    count = len(partitions)
    if has_expiry:
        leader_epochs = np.full(count, NO_LEADER_EPOCH)  # the record with an expiry has no place for it
    rows = OffsetRows(
        [key_prefix(*names)],
        np.zeros(count, np.int64),
        partitions,
        offsets,
        leader_epochs.astype(np.int32),
        np.full(count, now),
        (offsets == NOTHING_COMMITTED) & removes,
        _by_row(columns.texts()),
        expire_timestamp,
    )
    return (rows,) if count >= NARROWEST_ROWS else list(rows.each())


def _by_row(texts: Sequence[str]) -> dict[int, str]:
    """The texts that say something, by their place."""
    return dict(enumerate(texts)) if all(texts) else {row: text for row, text in enumerate(texts) if text}


def commits_again(command: CommitsAgain, errors: list[ErrorCode], now: Millis, token: Token) -> GroupEffects:
    """Record the offsets of those commits that no error stands against."""
    standing: list[StandingCommit] = []
    offsets: list[int] = []
    numbers = command.offsets
    for index, commit in enumerate(command.commits):
        if not errors[index]:
            standing += commit.partitions
            offsets += numbers[index]
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
                numbers, _, leader_epochs, metadata = partitions
                end = at + len(numbers)
                column = offsets
                if len(before.topics) > 1:  # a slice is a tenth of what there is to do for a wide commit
                    column = offsets[at:end]
                if not isinstance(column, np.ndarray):
                    column = np.array(column, np.int64)
                if isinstance(metadata, str):  # nearly always, and a call is a hundredth of a wide commit
                    records.append(
                        OffsetCommits(group_id, topic, numbers, column, leader_epochs, metadata, now)
                    )
                else:
                    columns = OffsetColumns(numbers, column, leader_epochs, metadata)
                    records += _in_columns((group_id, topic), columns, (now, NO_EXPIRY), removes=False)
                at = end
                continue
            for partition, _, leader_epoch, metadata in partitions:
                offset = int(offsets[at])
                records.append(OffsetCommit(group_id, topic, partition, offset, leader_epoch, metadata, now))
                at += 1
    return Effects(records, (Reply(token, ACCEPTED),))
