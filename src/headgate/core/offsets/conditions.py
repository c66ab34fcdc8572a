"""Conditional commits: set x if and only if the committed offset is y (R3.16).

A condition is about the offset alone, not about its leader epoch or metadata; `NOTHING_COMMITTED` expects
that there is none. All conditions of a commit are about the state before it, also where it names a partition
twice. What was decided in the same turn counts, as it is applied already.
"""

from __future__ import annotations

from headgate.core.offsets.commands import NOTHING_COMMITTED, CommitOffsets, CommitResult, OffsetColumns
from headgate.core.offsets.commit import is_metadata_too_large
from headgate.core.offsets.table import OffsetTable
from headgate.domain.errors import ErrorCode


def refuse(table: OffsetTable, command: CommitOffsets, metadata_limit: int) -> CommitResult | None:
    """Why nothing of a commit with conditions takes place; None if all of it may."""
    expected_at = command.expected or {}
    too_large, current = set(), {}
    for topic_index, (topic, partitions) in enumerate(command.topics):
        each = partitions.each() if isinstance(partitions, OffsetColumns) else partitions
        for index, to_commit in enumerate(each):
            place = topic_index, index
            if is_metadata_too_large(to_commit.metadata, metadata_limit):
                too_large.add(place)
            expected = expected_at.get(place)
            if expected is None:
                continue
            stored = table.get(command.group_id, topic, to_commit.partition)
            committed = NOTHING_COMMITTED if stored is None else stored.offset
            if committed != expected:
                current[place] = committed
    if not too_large and not current:
        return None
    return CommitResult(ErrorCode.NONE, frozenset(too_large), current, is_attempted=False)
