"""Conditional commits: set x if and only if the committed offset is y (R3.16).

A condition is about the offset alone, not about its leader epoch or metadata; `NOTHING_COMMITTED` expects
that there is none. All conditions of a commit are about the state before it, also where it names a partition
twice. What was decided in the same turn counts, as it is applied already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from headgate.core.offsets.commands import (
    NOTHING_COMMITTED,
    CommitOffsets,
    CommitResult,
    Conditions,
    Moved,
    OffsetColumns,
    OffsetToCommit,
    Place,
)
from headgate.core.offsets.commit import is_metadata_too_large
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName

ToCommit = Sequence[OffsetToCommit] | OffsetColumns


def refuse(table: OffsetTable, command: CommitOffsets, metadata_limit: int) -> CommitResult | None:
    """Why nothing of a commit with conditions takes place; None if all of it may."""
    too_large: set[Place] = set()
    moved: list[Moved] = []
    conditions = command.expected or [{}] * len(command.topics)
    for number, ((topic, partitions), expected) in enumerate(zip(command.topics, conditions, strict=True)):
        too_large.update((number, index) for index in _too_large(partitions, metadata_limit))
        moved.append(_moved(table, command.group_id, topic, partitions, expected))
    if not too_large and not any(len(one.indexes) for one in moved):
        return None
    return CommitResult(ErrorCode.NONE, frozenset(too_large), moved, is_attempted=False)


def _too_large(partitions: ToCommit, limit: int) -> Sequence[int]:
    """Which partitions have metadata that is too long."""
    if isinstance(partitions, OffsetColumns):
        return range(len(partitions.partitions)) if is_metadata_too_large(partitions.metadata, limit) else ()
    return [index for index, each in enumerate(partitions) if is_metadata_too_large(each.metadata, limit)]


def _moved(
    table: OffsetTable, group_id: GroupId, topic: TopicName, partitions: ToCommit, expected: Conditions
) -> Moved:
    """Which partitions are not where they are expected to be, and where they are."""
    if isinstance(expected, np.ndarray):
        assert isinstance(partitions, OffsetColumns)
        found = table.get_columns(group_id, topic, partitions.partitions)
        if found is not None:
            _, offsets, _ = found
            indexes = np.flatnonzero(offsets != expected)
            return Moved(indexes, offsets[indexes])
        expected = dict(enumerate(expected.tolist()))
    numbers = _numbers(partitions, expected)
    different: list[tuple[int, int]] = []
    for index, (_, stored) in zip(expected, table.get_each(group_id, topic, numbers), strict=True):
        committed = NOTHING_COMMITTED if stored is None else stored.offset
        if committed != expected[index]:
            different.append((index, committed))
    columns = np.array(sorted(different), np.int64).reshape(-1, 2)
    return Moved(columns[:, 0], columns[:, 1])


def _numbers(partitions: ToCommit, indexes: Iterable[int]) -> list[int]:
    """The numbers of the partitions at these places."""
    if isinstance(partitions, OffsetColumns):
        numbers = partitions.partitions
        return [int(numbers[index]) for index in indexes]
    return [partitions[index].partition for index in indexes]
