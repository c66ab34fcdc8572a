"""Commits in columns, made at once of all that is in them."""

from __future__ import annotations

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import ColumnBatch, ColumnShape
from headgate.records.columns import Int64s


def column_batch(
    group_id: GroupId,
    topic: TopicName,
    partitions: Int64s,
    offsets: Int64s,
    leader_epochs: Int64s,
    metadata: str,
    commit_timestamp: Millis,
) -> ColumnBatch:
    """One commit, whose shape is new."""
    shape = ColumnShape(group_id, topic, partitions, leader_epochs, metadata)
    return ColumnBatch(shape, offsets, commit_timestamp)
