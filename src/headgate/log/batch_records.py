"""Read the records of checked batches, as columns.

Records have lengths of variable width, so the position of each follows from the one before. With numba this
runs as machine code (`headgate.log.record_kernel`). Without it there are two methods: one numpy operation for
the n-th records of all batches, while many batches have records left, and a plain loop, which is faster for
few batches. The fields are then read for all records at once. Keys and values are not copied here: columns
have their positions in the payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.log import record_kernel
from headgate.log.batch_scan import PADDING, Batches, Bits, Corruption, Ints, Scan, corruption_of, only
from headgate.log.compression import decompress
from headgate.log.header import HEADER_BYTES, CorruptBatch

WALK_IN_STEP_FROM = 48
"""Minimum number of batches for which the numpy operation is faster than the loop; measured."""

UNPACKED_BYTES = 64 << 20
"""Batches are decompressed up to this number of bytes, then returned as one piece."""

_SMALLEST_RECORD_BYTES = 7
_LONGEST_VARINT_BYTES = 10
_ALL_BUT_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_NONE: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Records:
    """Records as columns, in offset order. Positions (`..._at`) are relative to the padded `payload`.

    A size of -1 means null. `batch` is the row of the record's batch in `batches`.
    """

    payload: bytes | bytearray
    batches: Batches
    batch: Ints
    offset: Ints
    timestamp_ms: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    header_count: Ints
    headers_at: Ints
    headers_end: Ints

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def is_control(self) -> Bits:
        """Return which records are control records of the broker."""
        return self.batches.is_control[self.batch]


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of many records as columns, in the order of the records; `row` is the record's row."""

    row: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints


def unpack(scan: Scan) -> Iterator[tuple[Records, list[Corruption]]]:
    """Yield the wanted records of a scan, in offset order and in pieces of bounded size.

    Each piece has the corruptions found since the previous piece: those of the scan, and batches with invalid
    records, which are left out.
    """
    corruptions = scan.corruptions
    for part in _parts(scan):
        corruptions = corruptions + part.corruptions
        left = part
        records, bad = _records(left)
        while bad:
            corruptions += [corruption_of(scan.chunk, left.batches, index, why) for index, why in bad.items()]
            left = left.without(list(bad))
            records, bad = _records(left)
        wanted = (records.offset >= scan.chunk.start_offset) & (records.offset < scan.chunk.end_offset)
        yield only(records, wanted), corruptions
        corruptions = []


@dataclass(frozen=True, slots=True)
class _Part:
    """Some batches of a scan, their records in one buffer, and the begin and end of each batch there.

    `corruptions` are those found since the previous part.
    """

    batches: Batches
    payload: bytes | bytearray
    begin: Ints
    end: Ints
    corruptions: list[Corruption]

    def without(self, rows: list[int]) -> _Part:
        """Return the part without these batches."""
        good = np.ones(len(self.batches), dtype=np.bool_)
        good[rows] = False
        return _Part(only(self.batches, good), self.payload, self.begin[good], self.end[good], [])


def _parts(scan: Scan) -> Iterator[_Part]:
    """Yield the batches of a scan, decompressed; without a copy if none is compressed.

    `headgate.log` limits the decompressed size of a batch; this function limits how many are decompressed at
    a time.
    """
    data, batches = scan.chunk.data, scan.batches
    codec = batches.codec
    if not codec.any():
        yield _Part(batches, data, batches.at + HEADER_BYTES, batches.at + batches.size, [])
        return
    pieces: dict[int, bytes | memoryview] = {}
    corruptions: list[Corruption] = []
    view, held = memoryview(data), 0
    for index in range(len(batches)):
        at = int(batches.at[index])
        packed = view[at + HEADER_BYTES : at + int(batches.size[index])]
        try:
            pieces[index] = decompress(int(codec[index]), packed) if codec[index] else packed
        except CorruptBatch as problem:
            corruptions.append(corruption_of(scan.chunk, batches, index, problem.reason))
            continue
        held += len(pieces[index])
        if held >= UNPACKED_BYTES:
            yield _joined(batches, pieces, corruptions)
            pieces, corruptions, held = {}, [], 0
    yield _joined(batches, pieces, corruptions)


def _joined(batches: Batches, pieces: dict[int, bytes | memoryview], corruptions: list[Corruption]) -> _Part:
    """Return one part of the batches whose records are in `pieces`, by row."""
    taken = np.zeros(len(batches), dtype=np.bool_)
    taken[list(pieces)] = True
    size = np.asarray([len(piece) for piece in pieces.values()], dtype=np.int64)
    end = np.cumsum(size)
    payload = b"".join([*pieces.values(), bytes(PADDING)])
    return _Part(only(batches, taken), payload, end - size, end, corruptions)


def _records(part: _Part) -> tuple[Records, dict[int, str]]:
    """Return all records of all batches; or, if batches have invalid records, the reasons by row."""
    payload, batches, begin, end = part.payload, part.batches, part.begin, part.end
    crowded = batches.record_count * _SMALLEST_RECORD_BYTES > end - begin
    if crowded.any():
        return _nothing(payload, batches), _blame(crowded, "it claims more records than it has room for")
    count = batches.record_count
    batch = np.repeat(np.arange(len(batches), dtype=np.int64), count)
    find = _find_by_numpy if record_kernel.compiled_find_fields is None else _find_by_kernel
    astray, fields = find(payload, begin, end, count)
    if astray.any():
        return _nothing(payload, batches), _blame(astray, "its record lengths do not add up to its size")
    wrong = fields.overrun | (fields.header_count < 0) | ~_offsets_rise(batches, batch, fields.offset_delta)
    _, headers_wrong = read_headers(payload, fields.headers_at, fields.end, fields.header_count)
    wrong |= headers_wrong
    if wrong.any():
        blamed = np.zeros(len(batches), dtype=np.bool_)
        blamed[batch[wrong]] = True
        return _nothing(payload, batches), _blame(blamed, "a record's fields do not fill the record")

    timestamp = batches.base_timestamp[batch] + fields.timestamp_delta
    appended = batches.uses_log_append_time
    if appended.any():
        timestamp = np.where(appended[batch], batches.max_timestamp[batch], timestamp)
    return Records(
        payload=payload,
        batches=batches,
        batch=batch,
        offset=batches.base_offset[batch] + fields.offset_delta,
        timestamp_ms=timestamp,
        key_at=fields.key_at,
        key_size=fields.key_size,
        value_at=fields.value_at,
        value_size=fields.value_size,
        header_count=fields.header_count,
        headers_at=fields.headers_at,
        headers_end=fields.end,
    ), {}


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of records as columns, in the order of `record_kernel.find_fields`.

    `overrun` marks fields that exceed their record; the other fields of such a batch are invalid.
    """

    overrun: Bits
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    header_count: Ints
    headers_at: Ints
    end: Ints


def _find_by_kernel(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Bits, _Fields]:
    """Return the batches whose lengths do not match, and the fields of all records, by machine code."""
    find = record_kernel.compiled_find_fields or record_kernel.find_fields
    out = np.zeros((record_kernel.COLUMNS, int(count.sum())), np.int64)
    fault = np.zeros(len(count), np.int64)
    find(np.frombuffer(payload, np.uint8), begin, end, count, out, fault)
    overrun = np.repeat(fault == record_kernel.OVERRUN, count)
    return fault == record_kernel.ASTRAY, _Fields(overrun, *out)


def _find_by_numpy(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Bits, _Fields]:
    """Return the same, field by field for all records at once."""
    body_at, body_end, astray = _walk(payload, begin, end, count)
    if astray.any():
        return astray, _Fields(np.zeros(0, np.bool_), *([_NONE] * 9))
    # The first byte of a record is its attributes, which are not used.
    read = _FieldReader(np.frombuffer(payload, np.uint8), body_at + 1, body_end)
    timestamp_delta = read.varint()
    offset_delta = read.varint()
    key_at, key_size = read.sized()
    value_at, value_size = read.sized()
    header_count = read.varint()
    fields = _Fields(
        read.overrun,
        timestamp_delta,
        offset_delta,
        key_at,
        key_size,
        value_at,
        value_size,
        header_count,
        read.at,
        body_end,
    )
    return astray, fields


def _offsets_rise(batches: Batches, batch: Ints, offset_delta: Ints) -> Bits:
    """Return whether each record's offset is greater than the previous one, up to the batch's last offset."""
    rises = (offset_delta >= 0) & (offset_delta <= (batches.last_offset - batches.base_offset)[batch])
    rises[1:] &= (offset_delta[1:] > offset_delta[:-1]) | (batch[1:] != batch[:-1])
    return rises


def read_headers(payload: bytes | bytearray, at: Ints, end: Ints, count: Ints) -> tuple[Headers, Bits]:
    """Return the headers of records with `count` headers from `at` to `end`, and the records they do not fit.

    Most records have no headers, so each pass reads one header of only those records that have one left.
    """
    wrong = (at != end) & (count == 0)
    wrong |= count > (end - at) // 2
    row = np.flatnonzero((count > 0) & ~wrong)
    octets = np.frombuffer(payload, np.uint8)
    passes: list[tuple[Ints, ...]] = []
    at = at.copy()
    while row.size:
        read = _FieldReader(octets, at[row], end[row])
        key_at, key_size = read.sized()
        value_at, value_size = read.sized()
        passes.append((row, key_at, key_size, value_at, value_size))
        at[row] = read.at
        more = count[row] > len(passes)
        wrong[row] |= read.overrun | (key_size < 0) | (~more & (read.at != end[row]))
        row = row[more & ~read.overrun]
    if not passes:
        return Headers(*([_NONE] * 5)), wrong
    columns = [np.concatenate(column) for column in zip(*passes, strict=True)]
    in_order = np.argsort(columns[0], kind="stable")
    return Headers(*(column[in_order] for column in columns)), wrong


def _nothing(payload: bytes | bytearray, batches: Batches) -> Records:
    return Records(payload, batches, *([_NONE] * 10))


def _blame(batches: Bits, reason: str) -> dict[int, str]:
    return dict.fromkeys(np.flatnonzero(batches).tolist(), reason)


def _walk(payload: bytes | bytearray, begin: Ints, end: Ints, count: Ints) -> tuple[Ints, Ints, Bits]:
    """Return the begin and end of each record's body, and the batches whose lengths do not match."""
    total = int(count.sum())
    body_at, body_end = np.zeros(total, dtype=np.int64), np.zeros(total, dtype=np.int64)
    # The batches with most records first: those with records left are then always the first ones.
    order = np.argsort(-count, kind="stable")
    at, limit = begin[order], end[order]
    row = (np.cumsum(count) - count)[order]
    astray = np.zeros(len(count), dtype=np.bool_)
    falling = -count[order]
    octets = np.frombuffer(payload, np.uint8)
    step = 0
    while (active := int(np.searchsorted(falling, -step))) >= WALK_IN_STEP_FROM:
        read = _FieldReader(octets, at[:active], limit[:active])
        body_at[row[:active] + step], size = read.sized()
        body_end[row[:active] + step] = at[:active] = read.at
        astray[:active] |= read.overrun | (size < 0)
        step += 1
    for lane in range(active):
        rows = slice(int(row[lane]) + step, int(row[lane] - falling[lane]))
        at[lane] = _walk_alone(payload, int(at[lane]), int(limit[lane]), body_at[rows], body_end[rows])
    astray |= at != limit
    in_order = np.zeros_like(astray)
    in_order[order] = astray
    return body_at, body_end, in_order


def _walk_alone(payload: bytes | bytearray, at: int, limit: int, body_at: Ints, body_end: Ints) -> int:
    """Set the begin and end of one batch's next records; return the end of the last, or -1 on a fault."""
    begins: list[int] = []
    ends: list[int] = []
    for _ in range(len(body_at)):
        if at >= limit:
            return -1
        size = payload[at]
        at += 1
        if size >= 0x80:
            size &= 0x7F
            shift = 7
            while True:
                more = payload[at]
                at += 1
                size |= (more & 0x7F) << shift
                if more < 0x80:
                    break
                shift += 7
                if shift > 28 or at >= limit:
                    return -1
        if size & 1:  # zigzag: an odd number is a negative length
            return -1
        begins.append(at)
        at += size >> 1
        ends.append(at)
    body_at[:] = begins
    body_end[:] = ends
    return at


class _FieldReader:
    """Reads the same field of many records at once and advances each; never past the record's end.

    A record whose fields do not fit is marked in `overrun` and stays at its end from then on.
    """

    def __init__(self, octets: NDArray[np.uint8], at: Ints, limit: Ints) -> None:
        self.octets = octets
        self.at = at
        self.limit = limit
        self.overrun: Bits = at > limit

    def varint(self) -> Ints:
        """Read a zigzag-encoded integer of variable width."""
        octet = self.octets[self.at].astype(np.int64)
        at = self.at + 1
        more = np.flatnonzero(octet >= 0x80)
        if more.size:
            value = octet & 0x7F
            for shift in range(7, 7 * _LONGEST_VARINT_BYTES, 7):
                octet = self.octets[at[more]].astype(np.int64)
                value[more] |= (octet & 0x7F) << shift
                at[more] += 1
                more = more[octet >= 0x80]
                if not more.size:
                    break
            self.overrun[more] = True
            octet = value
        self._move(at)
        return ((octet >> 1) & _ALL_BUT_SIGN) ^ -(octet & 1)

    def sized(self) -> tuple[Ints, Ints]:
        """Read bytes with a size prefix: return their positions and sizes (-1 for null)."""
        size = self.varint()
        at = self.at
        self.overrun |= size < -1
        self._move(at + np.maximum(size, 0))
        return at, size

    def _move(self, at: Ints) -> None:
        over = at > self.limit
        if over.any():
            self.overrun |= over
            at = np.where(over, self.limit, at)
        self.at = at
