"""Find the record batches in a stretch of log, check them, and lay their headers out as columns.

A stretch of log is bytes as they stand in a segment file or in a fetch response: batches (format v2) one
after the other, the last perhaps incomplete. Where the batches stand is found by following their length
fields, one step a batch; everything else in the headers is then read for all batches at once.

Nothing that fails its CRC is handed on: it becomes a `Corruption`, which says where it stands and why.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import crc32c
import numpy as np
from numpy.typing import NDArray

from headgate.log.header import (
    CODEC_MASK,
    CONTROL,
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
)

Ints = NDArray[np.int64]
"""One 64-bit integer a batch, or a record."""

Bits = NDArray[np.bool_]
"""One truth value a batch, or a record."""

PADDING = 16
"""Zero bytes every buffer carries behind its content, so that reading ahead of a check stays inside it."""

_LEAST_LENGTH = HEADER_BYTES - LENGTH_FIELD_END
_read_frame = struct.Struct(">qi4xb6xi").unpack_from
"""Base offset, length, magic, last offset delta."""


class CorruptLog(ValueError):
    """A batch that is not what its producer sent, and reading was asked to fail on that."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """One stretch of log that cannot be read: where it is, how long, and why."""

    place: str
    position: int
    size: int
    base_offset: int
    reason: str
    is_tail: bool = False
    """Whether it is only an incomplete batch at the end of the log, which is no corruption."""

    def __str__(self) -> str:
        return f"{self.place}: position {self.position} (offset {self.base_offset}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of one partition's log in memory.

    `data` holds `size` bytes of log and then `PADDING` zeros; `data[0]` stands at byte `position` of `place`,
    a file name or the name of a partition. Records before `start_offset`, or from `end_offset` on, are not
    wanted.
    """

    topic: str
    partition: int
    data: bytearray
    size: int
    place: str
    position: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch headers as columns. `at` is the batch's place in the chunk, `size` all its bytes."""

    at: Ints
    size: Ints
    base_offset: Ints
    last_offset: Ints
    leader_epoch: Ints
    attributes: Ints
    base_timestamp: Ints
    max_timestamp: Ints
    producer_id: Ints
    record_count: Ints

    def __len__(self) -> int:
        return len(self.at)

    @property
    def codec(self) -> Ints:
        """Kafka's compression codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def uses_log_append_time(self) -> Bits:
        return self._has(LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> Bits:
        return self._has(TRANSACTIONAL)

    @property
    def is_control(self) -> Bits:
        return self._has(CONTROL)

    def _has(self, attribute: int) -> Bits:
        found: Bits = (self.attributes & attribute) != 0
        return found


@dataclass(frozen=True, slots=True)
class Scan:
    """What a chunk holds: the good batches with wanted offsets, how far it was understood, and what was not.

    `end` is the place in the chunk of the first byte not yet understood: the chunk's size, or the start of an
    incomplete batch, or of something that is no batch at all (`broken` then says why). `missing` is the size
    of the incomplete batch at `end` as its length field has it, 0 where even that is cut off.
    """

    chunk: Chunk
    batches: Batches
    corruptions: list[Corruption]
    end: int
    next_offset: int
    missing: int = 0
    broken: str = ""

    def with_corruptions(self, more: list[Corruption]) -> Scan:
        """The same, with what somebody else knows of it."""
        return replace(self, corruptions=self.corruptions + more)


TableT = TypeVar("TableT")


def only(table: TableT, wanted: Bits) -> TableT:
    """The rows of a dataclass of columns for which `wanted` is true; what is no column stays as it is."""
    if wanted.all():
        return table
    cells = (getattr(table, field.name) for field in fields(table))  # type: ignore[arg-type]  # see above
    return type(table)(*(cell[wanted] if isinstance(cell, np.ndarray) else cell for cell in cells))


def gather(data: bytearray | bytes, kind: str, positions: Ints) -> NDArray[Any]:
    """Read a number of numpy type `kind`, such as `>i4`, at each position of a buffer, aligned or not."""
    item = np.dtype(kind)
    everywhere: NDArray[Any] = np.ndarray((len(data) - item.itemsize + 1,), item, data, strides=(1,))
    return everywhere[positions]


def scan_chunk(chunk: Chunk) -> Scan:
    """Find and check the batches of a chunk that overlap its wanted offsets."""
    data, size, first, beyond = chunk.data, chunk.size, chunk.start_offset, chunk.end_offset
    found: list[int] = []
    at, next_offset = 0, first
    last_header_at = size - HEADER_BYTES
    # This loop is all that is done batch by batch in Python; a log of small commits is all batches.
    while at <= last_header_at:
        base_offset, length, magic, last_offset_delta = _read_frame(data, at)
        end = at + LENGTH_FIELD_END + length
        if length < _LEAST_LENGTH or magic != MAGIC or base_offset >= beyond or end > size:
            break
        next_offset = base_offset + last_offset_delta + 1
        if next_offset > first:
            found.append(at)
        at = end
    else:
        return _scan(chunk, found, at, next_offset)
    if length < _LEAST_LENGTH:
        return _scan(chunk, found, at, next_offset, broken=f"a batch cannot have length {length}")
    if magic != MAGIC:
        reason = f"record format v{magic} is not supported, only v{MAGIC} (Kafka 0.11 and later)"
        return _scan(chunk, found, at, next_offset, broken=reason)
    if base_offset >= beyond:  # offsets only rise: nothing further on is wanted
        return _scan(chunk, found, size, beyond)
    return _scan(chunk, found, at, next_offset, missing=end - at)


def _scan(
    chunk: Chunk, found: list[int], end: int, next_offset: int, missing: int = 0, broken: str = ""
) -> Scan:
    batches = _headers(chunk.data, np.asarray(found, dtype=np.int64))
    good, corruptions = _check(chunk, batches)
    return Scan(chunk, only(batches, good), corruptions, end, next_offset, missing, broken)


def _headers(data: bytearray, at: Ints) -> Batches:
    def field(kind: str, offset: int) -> Ints:
        return gather(data, kind, at + offset).astype(np.int64, copy=False)

    base_offset = field(">i8", 0)
    return Batches(
        at=at,
        size=field(">i4", 8) + LENGTH_FIELD_END,
        base_offset=base_offset,
        leader_epoch=field(">i4", 12),
        attributes=field(">i2", 21),
        last_offset=base_offset + field(">i4", 23),
        base_timestamp=field(">i8", 27),
        max_timestamp=field(">i8", 35),
        producer_id=field(">i8", 43),
        record_count=field(">i4", 57),
    )


def _check(chunk: Chunk, batches: Batches) -> tuple[Bits, list[Corruption]]:
    """Which batches match their CRC and count their records sensibly, and a `Corruption` for each other."""
    checksum, view = crc32c.crc32c, memoryview(chunk.data)
    ends = (batches.at + batches.size).tolist()
    sums = [checksum(view[at + CRC_END : end]) for at, end in zip(batches.at.tolist(), ends, strict=True)]
    view.release()
    summed = np.asarray(sums, dtype=np.int64)
    stored = gather(chunk.data, ">u4", batches.at + 17).astype(np.int64)
    matches = summed == stored
    # Every record has an offset of its own; compaction takes records out, but leaves the last offset.
    room = batches.last_offset - batches.base_offset + 1
    counted = (batches.record_count >= 0) & (batches.record_count <= room)
    good = matches & counted
    corruptions = []
    for index in np.flatnonzero(~good).tolist():
        reason = (
            f"CRC is {int(stored[index]):08x}, the bytes say {sums[index]:08x}"
            if not matches[index]
            else f"claims {int(batches.record_count[index])} records, which it has no room for"
        )
        corruptions.append(corruption_of(chunk, batches, index, reason))
    return good, corruptions


def corruption_of(chunk: Chunk, batches: Batches, index: int, reason: str) -> Corruption:
    """Say that the batch with this index cannot be read."""
    return Corruption(
        chunk.place,
        chunk.position + int(batches.at[index]),
        int(batches.size[index]),
        int(batches.base_offset[index]),
        reason,
    )
