"""Find and check the record batches in a part of a log, and return their headers as columns.

A part of a log is bytes as in a segment file or in a fetch response: consecutive batches (format v2), the
last one possibly incomplete. Their positions are found by their length fields, one step per batch; all other
header fields are then read for all batches at once.

This is the tolerant reader of logs that were not recovered: copies, live directories, other brokers' logs. A
batch that fails its CRC, or contradicts its neighbours, is not returned: it becomes a `Corruption`, with
position and reason. The CRC does not cover a batch's base offset, so the order of the batches is its check: a
batch begins at or after the end of the previous one, and ends before the next.
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
"""One 64-bit integer per batch, or per record."""

Bits = NDArray[np.bool_]
"""One boolean per batch, or per record."""

PADDING = 64
"""Zero bytes after the content of every buffer, so that reads before a check stay inside it."""

WORD_BYTES = 8
"""The size of the numbers of `words_of`."""

NO_END = (1 << 63) - 1
"""An offset after every record."""

_LEAST_LENGTH = HEADER_BYTES - LENGTH_FIELD_END
_read_frame = struct.Struct(">8xi4xb").unpack_from
"""Length and magic."""


class CorruptLog(ValueError):
    """A batch is damaged, and the reader was asked to fail on that."""


@dataclass(frozen=True, slots=True)
class Corruption:
    """A part of a log that cannot be read: position, size and reason."""

    place: str
    position: int
    size: int
    base_offset: int
    reason: str
    is_tail: bool = False
    """Whether it is an incomplete batch at the end of the log, which is no corruption."""

    def __str__(self) -> str:
        return f"{self.place}: position {self.position} (offset {self.base_offset}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of one partition's log in memory.

    `data` has `size` bytes of log and then `PADDING` zeros; `data[0]` is byte `position` of `place`, a file
    name or the name of a partition. Records before `start_offset`, or from `end_offset` on, are not wanted.
    Every batch must lie between `floor`, the end of the batch before the chunk, and `ceiling`, the start of
    the next one after it. With `more_follows` the last batch is left for the next chunk, whose batches
    confirm its base offset; a single batch then needs a larger chunk.
    """

    data: bytearray
    size: int
    place: str
    position: int = 0
    start_offset: int = 0
    end_offset: int = NO_END
    floor: int = 0
    ceiling: int = NO_END
    more_follows: bool = False


@dataclass(frozen=True, slots=True)
class Batches:
    """Batch headers as columns. `at` is the batch's position in the chunk, `size` its whole size."""

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
        """Whether each batch uses log append time."""
        return self._has(LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> Bits:
        """Whether each batch is part of a transaction."""
        return self._has(TRANSACTIONAL)

    @property
    def is_control(self) -> Bits:
        """Whether each batch has control records of the broker."""
        return self._has(CONTROL)

    def _has(self, attribute: int) -> Bits:
        found: Bits = (self.attributes & attribute) != 0
        return found


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan: good batches with wanted offsets, corruptions, and where to continue.

    `end` is the position in the chunk from which to continue: the chunk's size, or the start of a batch that
    is incomplete or left for the next chunk, or of bytes that are no batch (`broken` then has the reason).
    `missing` is the size of the incomplete batch at `end`, as far as it is known; 0 without one.
    `next_offset` is the end of the last good batch.
    """

    chunk: Chunk
    batches: Batches
    corruptions: list[Corruption]
    end: int
    next_offset: int
    missing: int = 0
    broken: str = ""

    def with_corruptions(self, more: list[Corruption]) -> Scan:
        """Return the same scan with additional corruptions."""
        return replace(self, corruptions=self.corruptions + more)


TableT = TypeVar("TableT")


def only(table: TableT, wanted: Bits) -> TableT:
    """Return the rows of a dataclass of columns for which `wanted` is true; other fields are unchanged."""
    if wanted.all():
        return table
    cells = (getattr(table, field.name) for field in fields(table))  # type: ignore[arg-type]  # see above
    return type(table)(*(cell[wanted] if isinstance(cell, np.ndarray) else cell for cell in cells))


def gather(data: bytearray | bytes, kind: str, positions: Ints) -> NDArray[Any]:
    """Read a number of numpy type `kind`, such as `>i4`, at each position of a buffer, aligned or not."""
    item = np.dtype(kind)
    everywhere: NDArray[Any] = np.ndarray((len(data) - item.itemsize + 1,), item, data, strides=(1,))
    return everywhere[positions]


def words_of(data: bytes | bytearray | NDArray[np.uint8]) -> Ints:
    """Return the little-endian number of the eight bytes from each byte of a buffer on, without a copy."""
    return np.ndarray((len(data) - WORD_BYTES + 1,), np.dtype("<i8"), data, strides=(1,))


def scan_chunk(chunk: Chunk) -> Scan:
    """Find and check the batches of a chunk that overlap its wanted offsets."""
    data, size = chunk.data, chunk.size
    found: list[int] = []
    at, missing, broken = 0, 0, ""
    last_header_at = size - HEADER_BYTES
    # This loop is all that is done batch by batch in Python; a log of small commits is all batches.
    while at <= last_header_at:
        length, magic = _read_frame(data, at)
        end = at + LENGTH_FIELD_END + length
        if length < _LEAST_LENGTH or magic != MAGIC or end > size:
            broken = _not_a_batch(length, magic)
            missing = 0 if broken else end - at
            break
        found.append(at)
        at = end
    else:
        missing = HEADER_BYTES if at < size else 0
    if chunk.more_follows and found and not broken:
        last = found.pop()
        at, missing = (last, 0) if found else (0, 0)
    batches = _headers(data, np.asarray(found, dtype=np.int64))
    reasons = _check(chunk, batches)
    good = np.ones(len(batches), np.bool_)
    good[list(reasons)] = False
    kept = only(batches, good)
    next_offset = int(kept.last_offset[-1]) + 1 if len(kept) else chunk.floor
    wanted = (kept.last_offset >= chunk.start_offset) & (kept.base_offset < chunk.end_offset)
    corruptions = _corruptions(chunk, batches, good, reasons) if reasons else []
    return Scan(chunk, only(kept, wanted), corruptions, at, next_offset, missing, broken)


def _not_a_batch(length: int, magic: int) -> str:
    """Return why length and magic are not those of a batch; an empty text if they may be."""
    if not length and not magic:
        return "zeros where a batch was due"
    if length < _LEAST_LENGTH:
        return f"a batch cannot have length {length}"
    if magic != MAGIC:
        return f"record format v{magic} is not supported, only v{MAGIC} (Kafka 0.11 and later)"
    return ""


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


def _check(chunk: Chunk, batches: Batches) -> dict[int, str]:
    """Check checksums, counts and the order of offsets; return the reasons of bad batches by row."""
    checksum, view = crc32c.crc32c, memoryview(chunk.data)
    ends = (batches.at + batches.size).tolist()
    sums = [checksum(view[at + CRC_END : end]) for at, end in zip(batches.at.tolist(), ends, strict=True)]
    view.release()
    summed = np.asarray(sums, dtype=np.int64)
    stored = gather(chunk.data, ">u4", batches.at + 17).astype(np.int64)
    # Every record has an offset of its own; compaction takes records out, but leaves the last offset.
    room = batches.last_offset - batches.base_offset + 1
    reasons = {
        index: f"CRC is {int(stored[index]):08x}, the bytes say {sums[index]:08x}"
        for index in np.flatnonzero(stored != summed).tolist()
    }
    for index in np.flatnonzero((batches.record_count < 0) | (batches.record_count > room)).tolist():
        reasons.setdefault(
            index, f"claims {int(batches.record_count[index])} records, which it has no room for"
        )
    _check_order(chunk, batches, reasons)
    return reasons


def _check_order(chunk: Chunk, batches: Batches, reasons: dict[int, str]) -> None:
    """Find batches, among those without a fault so far, whose offsets overlap those of others."""
    base, end = batches.base_offset, batches.last_offset + 1
    rows = [index for index in range(len(batches)) if index not in reasons] if reasons else None
    starts, ends = (base, end) if rows is None else (base[rows], end[rows])
    floors = np.concatenate((np.asarray([chunk.floor], np.int64), ends[:-1]))
    if (starts >= floors).all() and (ends > starts).all() and (not len(ends) or ends[-1] <= chunk.ceiling):
        return
    _find_misplaced(chunk, base.tolist(), end.tolist(), rows or list(range(len(batches))), reasons)


def _find_misplaced(
    chunk: Chunk, base: list[int], end: list[int], rows: list[int], reasons: dict[int, str]
) -> None:
    """Compare neighbours. If two overlap, the wrong one is the one that also contradicts its other
    neighbour.
    """
    kept: list[int] = []
    for place, row in enumerate(rows):
        if not chunk.floor <= base[row] < end[row] <= chunk.ceiling:
            reasons[row] = (
                f"it claims offsets {base[row]} to {end[row] - 1}, but only {chunk.floor} to "
                f"{chunk.ceiling - 1} belong here"
            )
            continue
        if kept and base[row] < end[kept[-1]]:
            before = kept[-1]
            floor = end[kept[-2]] if len(kept) > 1 else chunk.floor
            following = base[rows[place + 1]] if place + 1 < len(rows) else chunk.ceiling
            if base[row] < floor or base[before] == floor:
                reasons[row] = f"it begins at offset {base[row]}, but the batch before ends at {end[before]}"
                continue
            reasons[before] = f"it ends at offset {end[before]}, but the batch behind begins at {base[row]}"
            kept.pop()
            if end[row] != following:  # either may be the wrong one
                reasons[row] = f"the batch before claims offset {base[row]} too"
                continue
        kept.append(row)


def _corruptions(chunk: Chunk, batches: Batches, good: Bits, reasons: dict[int, str]) -> list[Corruption]:
    """Return the bad batches whose offsets, judged by the good ones around them, may be wanted."""
    ends = np.maximum.accumulate(np.where(good, batches.last_offset + 1, chunk.floor))
    starts = np.minimum.accumulate(np.where(good, batches.base_offset, chunk.ceiling)[::-1])[::-1]
    return [
        corruption_of(chunk, batches, index, reasons[index])
        for index in sorted(reasons)
        if starts[index] > chunk.start_offset and ends[index] < chunk.end_offset
    ]


def corruption_of(chunk: Chunk, batches: Batches, index: int, reason: str) -> Corruption:
    """Return the corruption of the batch with this index."""
    return Corruption(
        chunk.place,
        chunk.position + int(batches.at[index]),
        int(batches.size[index]),
        int(batches.base_offset[index]),
        reason,
    )
