"""Commits: from a command that the group accepts to its records.

A commit is a shape and offsets (`headgate.records.offset_batches`). A commit that was decoded has a new
shape; a repeated commit has its known shape. Commits without a shape become rows (`OffsetRows`), or single
records if they are few: removals, metadata that differs between many partitions, and commits with their own
retention.

The metadata limit counts UTF-16 units, as Kafka's does, and refuses single partitions (R3.2). A partition
that is named twice is recorded twice: the last offset is valid, and both are answered.

In a commit with conditions the offset -1 removes the committed offset; the condition -1 expects none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from headgate.core.contract import Effects, Reply, Token
from headgate.core.effects import GroupEffects
from headgate.core.offsets.authors import authors_of
from headgate.core.offsets.commands import (
    NO_RETENTION,
    NOTHING_COMMITTED,
    CommitIndex,
    CommitOffsets,
    CommitResult,
    Commits,
    CommitShape,
    ExpectedOffsets,
    OffsetColumns,
    OffsetToCommit,
    Part,
    ToCommit,
    in_columns,
)
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, ColumnBatch, ColumnShape, OffsetBatch, RecordShape
from headgate.records.columns import Int64s
from headgate.records.model import NO_EXPIRY, NO_LEADER_EPOCH
from headgate.records.offset_commit import LONGEST_TEXT_BYTES, key_prefix
from headgate.records.offset_rows import OffsetRows

ACCEPTED = CommitResult(ErrorCode.NONE)

LATEST = Millis((1 << 63) - 1)
"""Upper limit of the time of a record."""
NARROWEST_ROWS = 100
"""Fewer partitions with different metadata become single records, which is as fast."""


class CommitCounts:
    """Numbers of accepted commits by the way they are recorded; see `docs/internals/requests.md`."""

    __slots__ = ("columns", "known_columns", "known_partitions", "partitions", "rows", "transactional")

    def __init__(self) -> None:
        self.partitions = self.columns = 0
        """Commits that were decoded, with a new shape."""
        self.known_partitions = self.known_columns = 0
        """Repeated commits, by their shape; some of them may have been refused."""
        self.rows = 0
        self.transactional = 0
        """Commits in transactions, whether these were committed or not."""

    def note_read(self, changes: Sequence[Change]) -> None:
        """Count a commit that became these changes."""
        if changes and isinstance(changes[0], OffsetBatch):
            self.partitions += 1
        elif changes and isinstance(changes[0], ColumnBatch):
            self.columns += 1
        else:
            self.rows += 1

    def note_known(self, commits: Sequence[CommitShape]) -> None:
        """Count repeated commits: all of them lists of partitions, or one commit in columns."""
        if commits[0].records is not None:
            self.known_partitions += len(commits)
        else:
            self.known_columns += len(commits)

    def by_way(self) -> Mapping[tuple[str, str], int]:
        """Return the counts by way, and by "new" or known shape."""
        return {
            ("partitions", "new"): self.partitions,
            ("partitions", "known"): self.known_partitions,
            ("columns", "new"): self.columns,
            ("columns", "known"): self.known_columns,
            ("rows", "new"): self.rows,
            ("transaction", "new"): self.transactional,
        }


def unknown_group_error(command: CommitOffsets) -> ErrorCode:
    """Return the error of a commit to an unknown group. Without a generation, a commit creates the group."""
    if command.generation < 0:
        return ErrorCode.NONE
    if command.knows_group_not_found:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.ILLEGAL_GENERATION


def is_metadata_too_large(metadata: str, limit: int) -> bool:
    """Return whether metadata exceeds the limit of UTF-16 units, or the bytes that a record can hold."""
    if _is_surely_short(len(metadata), limit):
        return False
    units = len(metadata.encode("utf-16-le", "surrogatepass")) // 2
    return units > limit or len(metadata.encode("utf-8", "surrogatepass")) > LONGEST_TEXT_BYTES


def _is_surely_short(size: int, limit: int) -> bool:
    """Return whether a text of `size` characters is below the limit for any characters."""
    return 2 * size <= limit and 4 * size <= LONGEST_TEXT_BYTES


def too_large_metadata(partitions: ToCommit, limit: int) -> Sequence[int]:
    """Return the indexes of the partitions whose metadata is too long."""
    if not isinstance(partitions, OffsetColumns):
        return [index for index, each in enumerate(partitions) if is_metadata_too_large(each.metadata, limit)]
    metadata = partitions.metadata
    if isinstance(metadata, str):
        return range(len(partitions.partitions)) if is_metadata_too_large(metadata, limit) else ()
    if _is_surely_short(max(map(len, metadata), default=0), limit):
        return ()
    return [index for index, text in enumerate(metadata) if is_metadata_too_large(text, limit)]


def shape_of(command: CommitOffsets) -> CommitShape:
    """Return the shape of a commit without conditions and without its own retention.

    Its parts are made once for a command, and have what the table and the log cached in them.
    """
    if command.parts is not None:
        return CommitShape(command, command.parts)
    group_id = command.group_id
    parts: list[Part] = []
    records: list[RecordShape] | None = None
    for topic, partitions in command.topics:
        if isinstance(partitions, OffsetColumns):
            records = None
            metadata = partitions.metadata
            if isinstance(metadata, str):
                parts.append(
                    ColumnShape(group_id, topic, partitions.partitions, partitions.leader_epochs, metadata)
                )
            else:
                parts.append(((group_id, topic), partitions))
            continue
        if records is None:
            records = []
            parts.append(records)
        for partition, _, leader_epoch, text in partitions:
            records.append(RecordShape(group_id, topic, partition, leader_epoch, text))
    command.parts = parts
    return CommitShape(command, parts)


def offsets_of(command: CommitOffsets) -> Sequence[int] | Int64s:
    """Return the offsets of a commit, in the order of its shape."""
    if len(command.topics) == 1:
        partitions = command.topics[0][1]
        if isinstance(partitions, OffsetColumns):
            return partitions.offsets
        return [one.offset for one in partitions]
    offsets: list[int] = []
    for _, partitions in command.topics:
        if isinstance(partitions, OffsetColumns):
            offsets += partitions.offsets.tolist()
        else:
            offsets += [one.offset for one in partitions]
    return offsets


def commit(command: CommitOffsets, now: Millis, metadata_limit: int, token: Token) -> GroupEffects:
    """Record the offsets of the command, except those whose metadata is too long."""
    too_large = [
        (topic_index, index)
        for topic_index, (_, partitions) in enumerate(command.topics)
        for index in too_large_metadata(partitions, metadata_limit)
    ]
    if too_large or command.expected is not None or command.retention_ms != NO_RETENTION:
        result = CommitResult(ErrorCode.NONE, frozenset(too_large)) if too_large else ACCEPTED
        return Effects(_signed(command, _in_rows(command, now, too_large)), (Reply(token, result),))
    changes = _batches_of(shape_of(command), offsets_of(command), now)
    return Effects(_signed(command, changes), (Reply(token, ACCEPTED),))


def _signed(command: CommitOffsets, changes: list[Change]) -> list[Change]:
    """Return the changes, followed by records of the author if the command names one."""
    if command.author is not None:
        changes += authors_of(command.group_id, changes, command.author)
    return changes


def commits(command: Commits, errors: list[ErrorCode], now: Millis, token: Token) -> GroupEffects:
    """Record the offsets of the commits without an error."""
    changes: list[Change] = []
    records: list[RecordShape] = []
    offsets: list[int] = []
    results: list[CommitResult] = []
    for index, shape in enumerate(command.commits):
        if errors[index]:
            results.append(CommitResult(errors[index]))
            continue
        results.append(ACCEPTED)
        if shape.records is not None:  # the usual case: all commits become one batch
            if not records:
                changes.append(OffsetBatch(records, offsets, now))
            records += shape.records
            numbers = command.offsets[index]
            offsets += numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
        else:
            changes += _batches_of(shape, command.offsets[index], now)
            records, offsets = [], []
    return Effects(changes, (Reply(token, results),))


def _batches_of(shape: CommitShape, offsets: Sequence[int] | Int64s, now: Millis) -> list[Change]:
    """Return one value for each part of a commit."""
    if shape.records is not None:
        if not shape.records:
            return []
        numbers = offsets.tolist() if isinstance(offsets, np.ndarray) else list(offsets)
        return [OffsetBatch(shape.records, numbers, now)]
    changes: list[Change] = []
    column = offsets if isinstance(offsets, np.ndarray) else np.array(offsets, np.int64)
    at = 0
    for part in shape.parts:
        if isinstance(part, list):
            end = at + len(part)
            changes.append(OffsetBatch(part, column[at:end].tolist(), now))
        elif isinstance(part, ColumnShape):
            end = at + len(part)
            # Slicing costs a tenth of a wide commit.
            changes.append(ColumnBatch(part, column if len(shape.parts) == 1 else column[at:end], now))
        else:
            names, columns = part
            end = at + len(columns.partitions)
            changes += _rows(names, columns._replace(offsets=column[at:end]), (now, NO_EXPIRY))
        at = end
    return changes


def _in_rows(command: CommitOffsets, now: Millis, too_large: Sequence[CommitIndex]) -> list[Change]:
    """Return the records of a commit without a shape, except for partitions in `too_large`.

    With conditions, the offset -1 removes the committed offset, if the condition expects one.
    """
    has_expiry = command.retention_ms != NO_RETENTION
    expire_timestamp = Millis(min(now + command.retention_ms, LATEST)) if has_expiry else NO_EXPIRY
    times, removes = (now, expire_timestamp), command.expected is not None
    left_out: dict[int, list[int]] = {}
    for number, index in too_large:
        left_out.setdefault(number, []).append(index)
    changes: list[Change] = []
    few = _Few()
    for number, (topic, partitions) in enumerate(command.topics):
        names = command.group_id, topic
        expected = None if command.expected is None else command.expected[number]
        if not isinstance(partitions, OffsetColumns):
            few.add(names, partitions, left_out.get(number, ()), expected)
            continue
        changes += few.changes(times, removes=removes)
        few = _Few()
        is_recorded = np.ones(len(partitions.partitions), np.bool_)
        is_recorded[left_out.get(number, [])] = False
        if expected is not None:
            nothing = expected.indexes[expected.offsets == NOTHING_COMMITTED]
            is_recorded[nothing] &= partitions.offsets[nothing] != NOTHING_COMMITTED
        if is_recorded.any():
            recorded = partitions if is_recorded.all() else partitions.at(np.flatnonzero(is_recorded))
            changes += _rows(names, recorded, times, removes=removes)
    return [*changes, *few.changes(times, removes=removes)]


class _Few:
    """Partitions of topics with few of them, for one value: a commit may have thousands of such topics."""

    __slots__ = ("_prefixes", "_recorded", "_stretches")

    def __init__(self) -> None:
        self._prefixes: list[bytes] = []
        self._stretches: list[int] = []
        self._recorded: list[OffsetToCommit] = []

    def add(
        self,
        names: tuple[GroupId, TopicName],
        partitions: Sequence[OffsetToCommit],
        left_out: Iterable[int],
        expected: ExpectedOffsets | None,
    ) -> None:
        """Add the partitions of a topic, but those left out, and those that have no offset and get none."""
        omitted = set(left_out)
        if expected is not None:
            for index, offset in zip(expected.indexes.tolist(), expected.offsets.tolist(), strict=True):
                if offset == NOTHING_COMMITTED == partitions[index].offset:
                    omitted.add(index)
        recorded = [one for index, one in enumerate(partitions) if index not in omitted]
        if recorded:
            self._stretches += [len(self._prefixes)] * len(recorded)
            self._prefixes.append(key_prefix(*names))
            self._recorded += recorded

    def changes(self, times: tuple[Millis, Millis], *, removes: bool) -> Sequence[Change]:
        """Return what was added, as one value or as single records."""
        if not self._recorded:
            return ()
        stretches = np.array(self._stretches, np.int64)
        return _in_stretches(self._prefixes, stretches, in_columns(self._recorded), times, removes=removes)


def _rows(
    names: tuple[GroupId, TopicName],
    columns: OffsetColumns,
    times: tuple[Millis, Millis],
    *,
    removes: bool = False,
) -> Sequence[Change]:
    """Return partitions of a topic as one value, or as single records if they are few.

    `times`: commit time and expiry time. `removes`: the offset -1 is a removal.
    """
    stretches = np.zeros(len(columns.partitions), np.int64)
    return _in_stretches([key_prefix(*names)], stretches, columns, times, removes=removes)


def _in_stretches(
    prefixes: list[bytes],
    stretch_of: Int64s,
    columns: OffsetColumns,
    times: tuple[Millis, Millis],
    *,
    removes: bool,
) -> Sequence[Change]:
    """Do the same for partitions of several topics, whose key prefixes are given."""
    partitions, offsets, leader_epochs, _ = columns
    now, expire_timestamp = times
    count = len(partitions)
    if expire_timestamp != NO_EXPIRY:
        leader_epochs = np.full(count, NO_LEADER_EPOCH)  # the record with an expiry has no field for it
    rows = OffsetRows(
        prefixes,
        stretch_of,
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
    """Return the non-empty texts by row."""
    return dict(enumerate(texts)) if all(texts) else {row: text for row, text in enumerate(texts) if text}
