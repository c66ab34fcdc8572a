"""Fetches of committed offsets: of named partitions, or of all partitions, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from headgate.core.offsets.columns import NONE
from headgate.core.offsets.commands import (
    FetchedColumns,
    FetchedInSteps,
    FetchedNumbers,
    FetchedOffsets,
    FetchedPartitions,
    FetchOffsets,
    RepeatedFetch,
)
from headgate.core.offsets.fetch_steps import all_in_steps, named_in_steps
from headgate.core.offsets.stored import StoredOffset
from headgate.core.offsets.table import OffsetTable
from headgate.core.offsets.wide_rows import NARROWEST_WIDE
from headgate.core.topic_image import TopicImage
from headgate.domain.ids import GroupId, TopicId, TopicName
from headgate.records.columns import Int64s

MOST_NARROW: Final = 12
"""Up to this number of partitions, a repeated fetch finds them one by one."""
MOST_AT_ONCE: Final = 1000
"""A fetch of all partitions with more offsets, or of more named topics, is answered in steps."""


def fetch(
    table: OffsetTable, command: FetchOffsets, topics: TopicImage, *, is_known: bool
) -> FetchedOffsets | FetchedInSteps:
    """Return the offsets of a group. An unknown group has no offsets, which is no error."""
    group_id = command.group_id
    if command.topics is None:
        if is_known and table.offset_count_of(group_id, MOST_AT_ONCE) == MOST_AT_ONCE:
            return FetchedInSteps(all_in_steps(table.all_by_topic(group_id), topics.as_now()))
        found = _all(table, command) if is_known else []
        return FetchedOffsets(found, _ids_of(found, topics))
    if not is_known:
        return FetchedOffsets([(topic, _nothing(partitions)) for topic, partitions in command.topics])
    if len(command.topics) > MOST_AT_ONCE:
        return FetchedInSteps(named_in_steps(table.all_by_topic(group_id), command.topics))
    return FetchedOffsets(
        [(topic, _partitions(table, group_id, topic, partitions)) for topic, partitions in command.topics]
    )


def fetch_again(table: OffsetTable, fetch: RepeatedFetch) -> FetchedNumbers | None:
    """Return the offsets of named partitions as numbers; None if one of them has metadata."""
    if fetch.partition_count > MOST_NARROW:
        return _fetch_columns(table, fetch)
    command = fetch.asked
    if fetch.rows_as_of is table.numbering:
        rows = fetch.rows
    else:
        rows = []
        for topic, partitions in command.topics or ():
            found = table.rows_of(command.group_id, topic, _listed(partitions))
            if found is None:
                return None
            rows += found
        if NONE not in rows:
            fetch.rows, fetch.rows_as_of = rows, table.numbering
    numbers = table.numbers_at(rows)
    if numbers is None:
        return None
    before, now = fetch.found, FetchedNumbers(*numbers)
    return before if isinstance(before, FetchedNumbers) and before == now else now


def _fetch_columns(table: OffsetTable, fetch: RepeatedFetch) -> FetchedNumbers | None:
    if fetch.rows_as_of is not table.numbering and not _find_wide_rows(table, fetch):
        return _search_columns(table, fetch.asked)
    columns: list[tuple[Int64s, Int64s]] = []
    for known in fetch.wide_rows:
        found = table.columns_at(known)
        if found is None:
            return None
        columns.append(found)
    return _together(columns)


def _find_wide_rows(table: OffsetTable, fetch: RepeatedFetch) -> bool:
    """Find the rows of all topics and keep them; return False if a partition has no row."""
    command = fetch.asked
    rows = []
    for topic, partitions in command.topics or ():
        known = table.wide_row_of(command.group_id, topic, np.asarray(partitions, np.int64))
        if known is None:
            return False
        rows.append(known)
    fetch.wide_rows, fetch.rows_as_of = rows, table.numbering
    return True


def _search_columns(table: OffsetTable, command: FetchOffsets) -> FetchedNumbers | None:
    columns = []
    for topic, partitions in command.topics or ():
        found = table.get_columns(command.group_id, topic, np.asarray(partitions, np.int64))
        if found is None:
            return None
        columns.append(found[1:])
    return _together(columns)


def _together(columns: Sequence[tuple[Int64s, Int64s]]) -> FetchedNumbers:
    """Concatenate the offsets and leader epochs of several topics."""
    if len(columns) == 1:
        return FetchedNumbers(*columns[0])
    offsets, leader_epochs = zip(*columns, strict=True)
    return FetchedNumbers(np.concatenate(offsets), np.concatenate(leader_epochs))


def _nothing(partitions: Sequence[int] | Int64s) -> FetchedPartitions | FetchedColumns:
    if len(partitions) < NARROWEST_WIDE:
        return [(one, None) for one in _listed(partitions)]
    nothing = np.full(len(partitions), NONE, np.int64)
    return FetchedColumns(np.asarray(partitions, np.int64), nothing, nothing)


def _partitions(
    table: OffsetTable, group_id: GroupId, topic: TopicName, partitions: Sequence[int] | Int64s
) -> FetchedPartitions | FetchedColumns:
    if len(partitions) >= NARROWEST_WIDE:
        numbers = np.asarray(partitions, np.int64)
        columns = table.get_columns(group_id, topic, numbers) or table.get_wide(group_id, topic, numbers)
        if columns is not None:
            return FetchedColumns(*columns)
    return table.get_each(group_id, topic, _listed(partitions))


def _listed(partitions: Sequence[int] | Int64s) -> Sequence[int]:
    return partitions.tolist() if isinstance(partitions, np.ndarray) else partitions


def _ids_of(found: Sequence[tuple[TopicName, Any]], topics: TopicImage) -> dict[TopicName, TopicId]:
    """Return the topic ids now: when the response is sent, a name may belong to another topic."""
    known = [(name, topics.find(name)) for name, _ in found]
    return {name: topic.topic_id for name, topic in known if topic is not None}


def _all(
    table: OffsetTable, command: FetchOffsets
) -> list[tuple[TopicName, list[tuple[int, StoredOffset | None]]]]:
    topics: dict[TopicName, list[tuple[int, StoredOffset | None]]] = {}
    for topic, partition, stored in table.offsets_of(command.group_id):
        topics.setdefault(topic, []).append((partition, stored))
    for partitions in topics.values():
        partitions.sort(key=lambda one: one[0])
    return sorted(topics.items())
