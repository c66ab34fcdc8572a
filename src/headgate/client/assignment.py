"""What a consumer was assigned, as its group's leader wrote it, as the partitions in order."""

from __future__ import annotations

from headgate.domain import assigned_partitions
from headgate.domain.ids import TopicPartition


def read_assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions, in order; None where the bytes are something else. No bytes are no partitions."""
    found = assigned_partitions.read_assignment(data)
    if found is None:
        return None
    return tuple(
        TopicPartition(topic, index)
        for topic, indexes in sorted(found.partitions.items())
        for index in indexes
    )
