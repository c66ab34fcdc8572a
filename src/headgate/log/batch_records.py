"""Read the records of checked batches, as columns: the tolerant reader.

A batch with invalid records is left out, with its reason. `headgate.log.record_fields` finds the fields,
or by machine code where numba is installed. Keys and values are not copied: columns have their positions in
the payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from headgate.log import record_kernel
from headgate.log.batch_scan import PADDING, Batches, Bits, Chunk, Corruption, Ints, Scan, corruption_of, only
from headgate.log.compression import decompress
from headgate.log.header import HEADER_BYTES, CorruptBatch
from headgate.log.record_fields import FieldReader, Fields, find_fields, offsets_rise

UNPACKED_BYTES = 64 << 20
"""Batches are decompressed up to this number of bytes, then returned as one piece."""

_SMALLEST_RECORD_BYTES = 7
_NONE: Ints = np.zeros(0, dtype=np.int64)
_NO_BITS: Bits = np.zeros(0, dtype=np.bool_)


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
        yield _wanted(records, scan.chunk), corruptions
        corruptions = []


def _wanted(records: Records, chunk: Chunk) -> Records:
    """Return the records between the start and the end offset; mostly that is all of them."""
    batches = records.batches
    begin, end = chunk.start_offset, chunk.end_offset
    if (batches.base_offset >= begin).all() and (batches.last_offset < end).all():
        return records
    return only(records, (records.offset >= begin) & (records.offset < end))


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
    batch = np.repeat(np.arange(len(batches), dtype=np.int64), batches.record_count)
    kernel = record_kernel.compiled_find_fields()
    found = _find_by_numpy(part, batch) if kernel is None else _find_by_kernel(kernel, part, batch)
    if found.astray.any():
        reason = "its record lengths do not add up to its size"
        return _nothing(payload, batches), _blame(found.astray, reason)
    fields, wrong = found.fields, found.wrong
    if found.has_headers and not wrong.any():
        _, headers_wrong = read_headers(payload, fields.headers_at, fields.end, fields.header_count)
        wrong[batch[headers_wrong]] = True
    if wrong.any():
        return _nothing(payload, batches), _blame(wrong, "a record's fields do not fill the record")

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
class _Found:
    """The fields of all records, and which batches have lengths that do not match or wrong fields.

    The fields are undefined if there is such a batch. With `has_headers` some records may have headers, which
    are not checked yet.
    """

    fields: Fields
    astray: Bits
    wrong: Bits
    has_headers: bool


def _find_by_numpy(part: _Part, batch: Ints) -> _Found:
    batches = part.batches
    wrong = np.zeros(len(batches), np.bool_)
    astray, fields = find_fields(part.payload, part.begin, part.end, batches.record_count)
    if not astray.any():
        rises = offsets_rise(fields.offset_delta, batch, batches.last_offset - batches.base_offset)
        wrong[batch[fields.overrun | (fields.header_count < 0) | ~rises]] = True
    return _Found(fields, astray, wrong, has_headers=True)


def _find_by_kernel(find: Callable[..., bool], part: _Part, batch: Ints) -> _Found:
    """Find the fields record by record, by machine code."""
    batches = part.batches
    out = np.empty((record_kernel.COLUMNS, len(batch)), np.int64)
    fault = np.zeros(len(batches), np.int64)
    octets = np.frombuffer(part.payload, np.uint8)
    last_delta = batches.last_offset - batches.base_offset
    has_headers = find(octets, part.begin, part.end, batches.record_count, last_delta, out, fault)
    fields = Fields(_NO_BITS, *out)
    return _Found(fields, fault == record_kernel.ASTRAY, fault == record_kernel.WRONG, has_headers)


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
        read = FieldReader(octets, at[row], end[row])
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
