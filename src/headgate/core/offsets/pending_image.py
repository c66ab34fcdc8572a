"""Writes the pending offsets to parts of an image, and restores them.

They are copied at once, before anything else of the image is read: a transaction that ends after the copy is
ended again by the log after the restore, and one that ended before it is in the rows that follow. A copy in
steps would lose or double offsets of transactions that end between two steps.

    pending   producer id i64, epoch i32, offsets u32, group size u16, topic size u16 | group, topic |
              a column each: partitions, positions, offsets, timestamps, expiries i64, leader epochs i32,
              metadata sizes u32 | the metadata, one after another. Without a value, the position is -1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import Any, Final

import numpy as np

from headgate.core.contract import MalformedImage, Producer
from headgate.core.offsets.pending import Partitions, PendingOffset, PendingOffsets
from headgate.core.offsets.pending_holders import Place
from headgate.domain.ids import GroupId, Millis, TopicName

PENDING: Final = "pending"

_OFFSETS_A_PART: Final = 1 << 12
_WITHOUT_VALUE: Final = PendingOffset(-1, 0, 0, "", Millis(0), Millis(0))
_COLUMNS: Final[tuple[np.dtype[Any], ...]] = tuple(map(np.dtype, ["i8"] * 5 + ["i4", "u4"]))
_head = Struct("=qiIHH")

Copy = Sequence[tuple[Producer, Place, Partitions]]


def parts_of(copy: Copy) -> Iterator[tuple[str, bytes]]:
    """Yield a copy of the pending offsets in parts."""
    for producer, place, partitions in copy:
        left = iter(partitions.items())
        while some := list(islice(left, _OFFSETS_A_PART)):
            yield PENDING, _part(producer, place, some)


def _part(producer: Producer, place: Place, some: Sequence[tuple[int, PendingOffset | None]]) -> bytes:
    group_id, topic = (name.encode() for name in place)
    rows = [(partition, _WITHOUT_VALUE if one is None else one) for partition, one in some]
    texts = [one.metadata.encode() for _, one in rows]
    columns: list[Sequence[int]] = [
        [partition for partition, _ in rows],
        [one.position for _, one in rows],
        [one.offset for _, one in rows],
        [one.commit_timestamp for _, one in rows],
        [one.expire_timestamp for _, one in rows],
        [one.leader_epoch for _, one in rows],
        [len(text) for text in texts],
    ]
    return b"".join(
        (
            _head.pack(*producer, len(rows), len(group_id), len(topic)),
            group_id,
            topic,
            *(np.array(column, kind).tobytes() for column, kind in zip(columns, _COLUMNS, strict=True)),
            *texts,
        )
    )


def restore(pending: PendingOffsets, parts: Callable[[str], Iterable[bytes]]) -> Iterator[None]:
    """Add the pending offsets of an image, in steps. Raises MalformedImage."""
    for data in parts(PENDING):
        try:
            _restore_part(pending, data)
        except (struct.error, ValueError) as problem:
            raise MalformedImage(f"its pending offsets cannot be decoded: {problem}") from problem
        yield


def _restore_part(pending: PendingOffsets, data: bytes) -> None:
    producer_id, epoch, count, group_size, topic_size = _head.unpack_from(data)
    at = _head.size
    group_id = GroupId(data[at : at + group_size].decode())
    at += group_size
    topic = TopicName(data[at : at + topic_size].decode())
    at += topic_size
    columns: list[Any] = []
    for kind in _COLUMNS:
        columns.append(np.frombuffer(data, kind, count, at).tolist())
        at += count * kind.itemsize
    partitions: Partitions = {}
    for partition, position, offset, timestamp, expiry, leader_epoch, size in zip(*columns, strict=True):
        metadata = data[at : at + size].decode()
        at += size
        value = PendingOffset(position, offset, leader_epoch, metadata, timestamp, expiry)
        partitions[partition] = None if position < 0 else value
    if at != len(data):
        raise MalformedImage("a part of the pending offsets is longer or shorter than it says")
    pending.restore(Producer(producer_id, epoch), (group_id, topic), partitions)
