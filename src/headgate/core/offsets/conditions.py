"""Conditional commits: set x if and only if the committed offset is y (R3.16).

A condition is about the offset alone, not about its leader epoch or metadata; `NOTHING_COMMITTED` expects no
offset. All conditions of a commit refer to the state before the commit, also if it names a partition twice.
That state includes the earlier commands of the same turn, because they are already applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from headgate.core.offsets.commands import (
    CommitIndex,
    CommitOffsets,
    CommitResult,
    ExpectedOffsets,
    Moved,
    OffsetColumns,
    OffsetToCommit,
    ToCommit,
    expected_offsets,
)
from headgate.core.offsets.commit import too_large_metadata
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName

_NONE: Final = np.empty(0, np.int64)
NOTHING_MOVED: Final = Moved(_NONE, _NONE)


def refuse(table: OffsetTable, command: CommitOffsets, metadata_limit: int) -> CommitResult | None:
    """Return why a conditional commit is refused as a whole; None if it is accepted."""
    too_large: set[CommitIndex] = set()
    moved: list[Moved] = []
    conditions = command.expected or [expected_offsets({})] * len(command.topics)
    for number, ((topic, partitions), expected) in enumerate(zip(command.topics, conditions, strict=True)):
        too_large.update((number, index) for index in too_large_metadata(partitions, metadata_limit))
        moved.append(_moved(table, command.group_id, topic, partitions, expected))
    if not too_large and not any(len(one.indexes) for one in moved):
        return None
    return CommitResult(ErrorCode.NONE, frozenset(too_large), moved, is_attempted=False)


def _moved(
    table: OffsetTable, group_id: GroupId, topic: TopicName, partitions: ToCommit, expected: ExpectedOffsets
) -> Moved:
    """Return the partitions whose condition fails, with their committed offsets."""
    indexes, offsets = expected
    if not isinstance(partitions, OffsetColumns):
        return _moved_of_few(table, group_id, topic, partitions, expected)
    committed = table.get_offsets(group_id, topic, partitions.partitions[indexes])
    different = np.flatnonzero(committed != offsets)
    return Moved(indexes[different], committed[different])


def _moved_of_few(
    table: OffsetTable,
    group_id: GroupId,
    topic: TopicName,
    partitions: Sequence[OffsetToCommit],
    expected: ExpectedOffsets,
) -> Moved:
    """Do the same without arrays: a commit may have thousands of topics with one partition each."""
    moved: list[tuple[int, int]] = []
    for index, offset in zip(expected.indexes.tolist(), expected.offsets.tolist(), strict=True):
        committed = table.get_offset(group_id, topic, partitions[index].partition)
        if committed != offset:
            moved.append((index, committed))
    if not moved:
        return NOTHING_MOVED
    rows = np.array(moved, np.int64)
    return Moved(rows[:, 0], rows[:, 1])
