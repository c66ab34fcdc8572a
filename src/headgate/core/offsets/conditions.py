"""Conditional commits: set x if and only if the committed offset is y (R3.16).

A condition is about the offset alone, not about its leader epoch or metadata; `NOTHING_COMMITTED` expects no
offset. All conditions of a commit refer to the state before the commit, also if it names a partition twice.
That state includes the earlier commands of the same turn, because they are already applied.
"""

from __future__ import annotations

import numpy as np

from headgate.core.offsets.commands import (
    CommitIndex,
    CommitOffsets,
    CommitResult,
    ExpectedOffsets,
    Moved,
    OffsetColumns,
    ToCommit,
    expected_offsets,
)
from headgate.core.offsets.commit import too_large_metadata
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName


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
    if isinstance(partitions, OffsetColumns):
        numbers = partitions.partitions[indexes]
    else:
        numbers = np.array([partitions[index].partition for index in indexes.tolist()], np.int64)
    committed = table.get_offsets(group_id, topic, numbers)
    different = np.flatnonzero(committed != offsets)
    return Moved(indexes[different], committed[different])
