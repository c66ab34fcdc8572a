"""Reading committed offsets: of the partitions asked for, or of all there are, in order."""

from __future__ import annotations

from headgate.core.offsets.commands import FetchedOffsets, FetchOffsets
from headgate.core.offsets.table import OffsetTable, StoredOffset
from headgate.domain.ids import TopicName


def fetch(table: OffsetTable, command: FetchOffsets, *, is_known: bool) -> FetchedOffsets:
    """The offsets of a group; a group that is not known has none, which is no error."""
    if command.topics is None:
        return FetchedOffsets(_all(table, command) if is_known else [])
    group_id = command.group_id
    if not is_known:
        return FetchedOffsets(
            [(topic, [(one, None) for one in partitions]) for topic, partitions in command.topics]
        )
    return FetchedOffsets(
        [(topic, table.get_each(group_id, topic, partitions)) for topic, partitions in command.topics]
    )


def _all(
    table: OffsetTable, command: FetchOffsets
) -> list[tuple[TopicName, list[tuple[int, StoredOffset | None]]]]:
    topics: dict[TopicName, list[tuple[int, StoredOffset | None]]] = {}
    for topic, partition, stored in table.offsets_of(command.group_id):
        topics.setdefault(topic, []).append((partition, stored))
    for partitions in topics.values():
        partitions.sort(key=lambda one: one[0])
    return sorted(topics.items())
