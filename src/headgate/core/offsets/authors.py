"""The records that tell who made an administrative change, one for each of its topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headgate.domain.ids import GroupId, Millis, TopicName
from headgate.records import Change, ChangeAuthor, ColumnBatch, OffsetBatch, OffsetCommit, OffsetTombstone
from headgate.records.offset_rows import OffsetRows, split_prefix

LONGEST_CLIENT_ID = 255
"""In characters; a longer one is cut."""


class Author(NamedTuple):
    """The client that asks for a change."""

    client_id: str
    client_host: str
    """Its address as group descriptions show it: a slash, then the address."""
    undone_at: Millis | None = None
    """If it asks for an undo: the time of the change that is undone."""


def authors_of(group_id: GroupId, changes: Sequence[Change], author: Author | None) -> Sequence[ChangeAuthor]:
    """Return the records to append after the changes of a group's offsets; none without an author."""
    if author is None:
        return ()
    runs: list[tuple[TopicName, int]] = []
    for topic, count in (one for change in changes for one in _topics_of(change)):
        if runs and runs[-1][0] == topic:
            runs[-1] = topic, runs[-1][1] + count
        else:
            runs.append((topic, count))
    records = []
    before = 0
    total = sum(count for _, count in runs)
    client_id = author.client_id[:LONGEST_CLIENT_ID]
    for number, (topic, count) in enumerate(runs):
        back = total - before + number
        records.append(
            ChangeAuthor(group_id, topic, back, count, client_id, author.client_host, author.undone_at)
        )
        before += count
    return records


def _topics_of(change: Change) -> Iterator[tuple[TopicName, int]]:
    """Yield the topics of a change with the numbers of their records, in order."""
    match change:
        case OffsetBatch():
            for shape in change.shapes:
                yield shape.topic, 1
        case ColumnBatch():
            yield change.shape.topic, len(change)
        case OffsetRows():
            names = [TopicName(split_prefix(prefix)[1].decode()) for prefix in change.prefixes]
            starts = np.flatnonzero(np.diff(change.stretch_of, prepend=-1))
            stretches = change.stretch_of.tolist()
            ends = [*starts[1:].tolist(), len(change)]
            for start, end in zip(starts.tolist(), ends, strict=True):
                yield names[stretches[start]], end - start
        case OffsetCommit() | OffsetTombstone():
            yield change.topic, 1
