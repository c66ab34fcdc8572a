"""Conditional commits: set x if and only if the committed offset is y (R3.16).

A condition is about the offset alone, not about its leader epoch or metadata; `NOTHING_COMMITTED` expects
that there is none. All conditions of a commit are about the state before it, also where it names a partition
twice. What was decided in the same turn counts, as it is applied already.
"""

from __future__ import annotations

import numpy as np

from headgate.core.offsets.commands import (
    CommitOffsets,
    CommitResult,
    ExpectedOffsets,
    Moved,
    OffsetColumns,
    Place,
    ToCommit,
    expected_offsets,
)
from headgate.core.offsets.commit import too_large_metadata
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName


def refuse(table: OffsetTable, command: CommitOffsets, metadata_limit: int) -> CommitResult | None:
    """Why nothing of a commit with conditions takes place; None if all of it may."""
    too_large: set[Place] = set()
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
    """Which partitions are not where they are expected to be, and where they are."""
    indexes, offsets = expected
    if isinstance(partitions, OffsetColumns):
        numbers = partitions.partitions[indexes]
    else:
        numbers = np.array([partitions[index].partition for index in indexes.tolist()], np.int64)
    committed = table.get_offsets(group_id, topic, numbers)
    different = np.flatnonzero(committed != offsets)
    return Moved(indexes[different], committed[different])
