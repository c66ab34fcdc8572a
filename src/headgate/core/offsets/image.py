"""Writes the offset table to parts (bytes) in slices while the table changes, and restores it from them.

Each part has the state of its own moment; commits continue between two parts. So an image is not the state of
one moment: a commit or removal since the image was begun may be missing. A restore therefore applies the log
from that offset on. Until the image is complete, rows and names keep their numbers.

    rows      u32 rows, u32 aside | keys u64, offsets i64, timestamps i64, leader epochs i32, a column each |
              for each aside: key u64, expiry i64, size u32, metadata
    groups    u32 names | their ids u32 | their text, one after another, each with its end; topics likewise
    known     a bit for each group
    high      u32 entries | for each: topic id u32, high part i32, size u16, the topic's name
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import Any, Final

import numpy as np

from headgate.core.contract import MalformedImage
from headgate.core.offsets.columns import NONE, flip
from headgate.core.offsets.keys import groups_of, topics_of
from headgate.core.offsets.names import Names
from headgate.core.offsets.rows import Rows
from headgate.domain.ids import Millis, TopicName

ROWS: Final = "rows"
GROUPS: Final = "groups"
TOPICS: Final = "topics"
KNOWN: Final = "known"
HIGH: Final = "high"

Aside = dict[int, tuple[str, Millis]]
Parts = Callable[[str], Iterable[bytes]]

_ROWS_A_PART: Final = 1 << 15
_ROWS_A_PART_WITH_TEXTS: Final = 1 << 12
"""The number of rows of a part where some may have metadata, which is written row by row."""
_NAME_BYTES_A_PART: Final = 1 << 19
_COLUMNS: Final = ((np.uint64, 8), (np.int64, 8), (np.int64, 8), (np.int32, 4))
_two_counts = Struct("=II")
_count = Struct("=I")
_aside_head = Struct("=QqI")
_high_head = Struct("=IiH")


def parts_of(groups: Names, topics: Names, rows: Rows, aside: Aside) -> Iterator[tuple[str, bytes]]:
    """Yield all parts of a table except the high partitions."""
    end = len(rows.keys)  # later rows are in the log
    first = 0
    while first < end:
        following = min(first + (_ROWS_A_PART_WITH_TEXTS if aside else _ROWS_A_PART), end)
        yield ROWS, _rows_part(rows, aside, first, following)
        first = following
    yield from _names_parts(GROUPS, groups)
    yield from _names_parts(TOPICS, topics)
    yield KNOWN, np.packbits(rows.known_groups()).tobytes()


def _rows_part(rows: Rows, aside: Aside, first: int, end: int) -> bytes:
    columns: list[Any] = [
        np.frombuffer(column, kind)[first:end]
        for column, (kind, _) in zip(
            (rows.keys, rows.offsets, rows.timestamps, rows.epochs), _COLUMNS, strict=True
        )
    ]
    if rows.left_behind:
        is_live = np.frombuffer(rows.nexts, np.int32)[first:end] >= NONE
        columns = [column[is_live] for column in columns]
    noted = []
    if aside:
        noted = [(key, *aside[key]) for key in columns[0].tolist() if key in aside]
    head = _two_counts.pack(len(columns[0]), len(noted))
    texts = [(key, expiry, metadata.encode()) for key, metadata, expiry in noted]
    return b"".join(
        (
            head,
            *(column.tobytes() for column in columns),
            *(_aside_head.pack(key, expiry, len(text)) + text for key, expiry, text in texts),
        )
    )


def _names_parts(kind: str, names: Names) -> Iterator[tuple[str, bytes]]:
    for ids, text in names.parts(_NAME_BYTES_A_PART):
        yield kind, _count.pack(len(ids)) + ids.tobytes() + text


def high_partitions_part(high_partitions: dict[int, tuple[TopicName, int]]) -> tuple[str, bytes]:
    """Return the part that maps topic ids to a topic and the high part of a partition."""
    entries = [(topic_id, high, name.encode()) for topic_id, (name, high) in high_partitions.items()]
    data = [_high_head.pack(topic_id, high, len(name)) + name for topic_id, high, name in entries]
    return HIGH, _count.pack(len(entries)) + b"".join(data)


# --- restoring ---


def restore(
    groups: Names, topics: Names, rows: Rows, aside: Aside, parts: Parts, offset_count: int
) -> Iterator[None]:
    """Fill an empty table from the parts; `offset_count` is the number of offsets to reserve room for.

    Raises MalformedImage.
    """
    try:
        for kind, names in ((GROUPS, groups), (TOPICS, topics)):
            for data in parts(kind):
                (count,) = _count.unpack_from(data)
                ids = np.frombuffer(data, np.uint32, count, _count.size)
                names.restore(ids, data[_count.size + ids.nbytes :])
                yield
            yield from names.restored()
        rows.heads.frombytes(np.full(groups.id_count, flip(NONE), np.int32).tobytes())
        for data in parts(KNOWN):
            _restore_known(rows, groups, data)
        yield from rows.index.reserve(offset_count)
        for data in parts(ROWS):
            _restore_rows(rows, aside, data, topics.id_count)
            yield
    except (struct.error, ValueError, IndexError) as problem:
        raise MalformedImage(f"its parts do not fit together: {problem}") from problem


def _restore_known(rows: Rows, groups: Names, data: bytes) -> None:
    # A group that was added while the image was written may be known in it and have no name in it.
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=groups.id_count).astype(np.bool_)
    known = np.flatnonzero(bits & groups.is_named())
    np.frombuffer(rows.heads, np.int32)[known] = NONE
    rows.group_count = len(known)


def _restore_rows(rows: Rows, aside: Aside, data: bytes, topic_count: int) -> None:
    count, aside_count = _two_counts.unpack_from(data)
    at = _two_counts.size
    columns: list[Any] = []
    for kind, width in _COLUMNS:
        columns.append(np.frombuffer(data, kind, count, at))
        at += count * width
    keys, offsets, timestamps, epochs = columns
    if count:
        if int(groups_of(keys).max()) >= len(rows.heads) or int(topics_of(keys).max()) >= topic_count:
            raise MalformedImage("a row belongs to a group or topic without a name")
        rows.append_each(keys, offsets, epochs, timestamps)
    for _ in range(aside_count):
        key, expiry, size = _aside_head.unpack_from(data, at)
        at += _aside_head.size
        aside[key] = data[at : at + size].decode(), Millis(expiry)
        at += size
    if at != len(data):
        raise MalformedImage("a part of the rows is longer or shorter than it says")


def read_high_partitions(parts: Parts) -> dict[int, tuple[TopicName, int]]:
    """Read the high partitions from their part. Raises MalformedImage."""
    found: dict[int, tuple[TopicName, int]] = {}
    try:
        for data in parts(HIGH):
            (count,) = _count.unpack_from(data)
            at = _count.size
            for _ in range(count):
                topic_id, high, size = _high_head.unpack_from(data, at)
                at += _high_head.size
                found[topic_id] = TopicName(data[at : at + size].decode()), high
                at += size
    except (struct.error, ValueError) as problem:
        raise MalformedImage(f"its high partitions do not read: {problem}") from problem
    return found
