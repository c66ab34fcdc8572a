"""The reader of a classic member's assignment, as the leader of its group wrote it."""

from __future__ import annotations

from headgate.domain import assigned_partitions
from headgate.domain.ids import TopicPartition


def read_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """Return the partitions, sorted; None if the bytes are no assignment. Empty bytes mean no partitions."""
    found = assigned_partitions.read_assignment(data)
    if found is None:
        return None
    return tuple(
        TopicPartition(topic, index)
        for topic, indexes in sorted(found.partitions.items())
        for index in indexes
    )
