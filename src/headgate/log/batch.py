"""Encode records into Kafka's record batches, and decode them.

This module owns the records inside a batch (`header.py` owns the header; its names are exported here too). A
record is

    length varint | attributes i8 | timestamp delta varint | offset delta varint |
    key length varint, key | value length varint, value |
    header count varint, then for each: key length varint, key, value length varint, value

with zigzag varints and a length of -1 for null. Each length precedes its bytes, so a batch is read in one
pass. A batch of one small record is the hot path, as every offset commit is one. Reading raises CorruptBatch
and nothing else, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from headgate.log.compression import compress, decompress
from headgate.log.header import (
    CONTROL,
    CRC_END,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    CorruptBatch,
    InvalidBatch,
    place_batch,
    read_header,
    set_log_append_time,
)

__all__ = [
    "BatchHeader",
    "CorruptBatch",
    "InvalidBatch",
    "Record",
    "RecordHeader",
    "encode_batch",
    "iterate_records",
    "place_batch",
    "read_header",
    "records_of",
    "seal_batch",
    "set_log_append_time",
]

RecordHeader: TypeAlias = tuple[bytes, bytes | None]
"""A header's key and value. The key is UTF-8 by convention only, and so kept as bytes."""

NO_TIMESTAMP: Final = -1


class Record(NamedTuple):
    """One record: `timestamp` in ms since the epoch, -1 for none; a None value makes it a tombstone."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[RecordHeader] = ()


def varint(value: int) -> bytes:
    """Encode a signed number as a zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(varint(value) for value in range(1024))
_NULL: Final = varint(-1)
_HEAD: Final = Struct(">qiibI").pack
_REST: Final = Struct(">hiqqqhii").pack


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    codec: int = 0,
) -> bytearray:
    """Encode `records` as one batch, at offsets from `base_offset` on; `place_batch` may move it later.

    Raises ValueError without records: only compaction writes empty batches.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = max_timestamp = records[0].timestamp
    parts: list[bytes] = []
    for delta, (key, value, timestamp, headers) in enumerate(records):
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        encode_record(parts, key, value, timestamp - base_timestamp, delta, headers)
    if codec:
        parts = [compress(codec, b"".join(parts))]
    attributes = codec | (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0)
    rest = _REST(
        attributes,
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return _with_head(rest + b"".join(parts), base_offset, leader_epoch)


def assemble_batch(records: bytes, count: int, base_timestamp: int, max_timestamp: int) -> bytearray:
    """Return a batch, without a producer id, of `count` records that are encoded already."""
    rest = _REST(0, count - 1, base_timestamp, max_timestamp, -1, -1, -1, count)
    return _with_head(rest + records, 0, 0)


def seal_batch(header: BatchHeader, body: Buffer) -> bytearray:
    """Return the batch of `header` and `body`, its encoded records; size and CRC are computed."""
    batch = bytearray(HEADER_BYTES)
    batch += body
    batch[CRC_END:HEADER_BYTES] = _REST(*header[5:])
    with memoryview(batch) as whole, whole[CRC_END:] as summed:
        crc = crc32c(summed)
    batch[:CRC_END] = _HEAD(
        header.base_offset, len(batch) - LENGTH_FIELD_END, header.leader_epoch, MAGIC, crc
    )
    return batch


def _with_head(summed: bytes, base_offset: int, leader_epoch: int) -> bytearray:
    length = len(summed) + (CRC_END - LENGTH_FIELD_END)
    batch = bytearray(_HEAD(base_offset, length, leader_epoch, MAGIC, crc32c(summed)))
    batch += summed
    return batch


def finish_batch(batch: bytearray, count: int, timestamp: int) -> None:
    """Write the header of a batch with `count` records of one time, into the space before the records."""
    batch[CRC_END:HEADER_BYTES] = _REST(0, count - 1, timestamp, timestamp, -1, -1, -1, count)
    with memoryview(batch) as whole, whole[CRC_END:] as summed:
        crc = crc32c(summed)
    batch[:CRC_END] = _HEAD(0, len(batch) - LENGTH_FIELD_END, 0, MAGIC, crc)


def encode_record(
    parts: list[bytes],
    key: bytes | None,
    value: bytes | None,
    timestamp_delta: int,
    offset_delta: int,
    headers: Sequence[RecordHeader],
) -> None:
    """Append the parts of one encoded record to `parts`."""
    # Lengths nearly always fit the table; larger and negative ones take the slow way.
    small = _SMALL
    if key is None:
        key_length, key = _NULL, b""
    else:
        size = len(key)
        key_length = small[size] if size < 1024 else varint(size)
    if value is None:
        value_length, value = _NULL, b""
    else:
        size = len(value)
        value_length = small[size] if size < 1024 else varint(size)
    timestamp = small[timestamp_delta] if 0 <= timestamp_delta < 1024 else varint(timestamp_delta)
    offset = small[offset_delta] if offset_delta < 1024 else varint(offset_delta)
    tail = _encode_headers(headers) if headers else b"\x00"
    size = (
        1
        + len(timestamp)
        + len(offset)
        + len(key_length)
        + len(key)
        + len(value_length)
        + len(value)
        + len(tail)
    )
    length = small[size] if size < 1024 else varint(size)
    parts += (length, b"\x00", timestamp, offset, key_length, key, value_length, value, tail)


def _encode_headers(headers: Sequence[RecordHeader]) -> bytes:
    parts = [varint(len(headers))]
    for key, value in headers:
        parts += (varint(len(key)), key)
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)


def iterate_records(buffer: Buffer) -> Iterator[tuple[int, Record]]:
    """Yield every record of the batches in `buffer` with its offset; decompress where needed.

    Control batches are read too; `header.is_control` tells them. The CRC is not checked
    (`checked_batches` does that). Raises CorruptBatch and nothing else.
    """
    view = memoryview(buffer)
    at = 0
    while at < len(view):
        header = read_header(view, at)
        if header.magic != MAGIC:
            raise InvalidBatch(f"message format {header.magic} is not supported, only {MAGIC} is")
        if header.size < HEADER_BYTES or header.size > len(view) - at:
            raise CorruptBatch(f"a batch claims {header.size} bytes, {len(view) - at} are left")
        body = view[at + HEADER_BYTES : at + header.size]
        data = decompress(header.codec, body) if header.codec else bytes(body)
        yield from records_of(header, data)
        at += header.size


def records_of(header: BatchHeader, data: bytes) -> Iterator[tuple[int, Record]]:
    """Yield every record of one batch with its offset; `data` is its records, decompressed. Raises
    CorruptBatch.
    """
    # This loop dominates the cost of a load. Lengths and deltas of one byte, nearly all of them, are looked
    # up.
    zigzag, varint, new = _ZIGZAG, _read_varint, tuple.__new__
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.uses_log_append_time else None
    last_delta, largest_delta = -1, header.last_offset_delta
    key: bytes | None
    value: bytes | None
    at = 0
    try:
        for _ in range(header.record_count):
            if (size := zigzag[data[at]]) is None:
                size, at = varint(data, at)
            else:
                at += 1
            end = at + size
            if size < 0 or end > len(data):
                raise CorruptBatch(f"a record claims {size} bytes, {len(data) - at} are left")
            at += 1
            if (timestamp := zigzag[data[at]]) is None:
                timestamp, at = varint(data, at)
            else:
                at += 1
            if (delta := zigzag[data[at]]) is None:
                delta, at = varint(data, at)
            else:
                at += 1
            if not last_delta < delta <= largest_delta:
                raise CorruptBatch(f"offset delta {delta} follows {last_delta}")
            last_delta = delta
            if (size := zigzag[data[at]]) is None or size < 0:
                key, at = _read_bytes(data, at, end)
            else:
                key = data[at + 1 : at + 1 + size]
                at += 1 + size
            if (size := zigzag[data[at]]) is None or size < 0:
                value, at = _read_bytes(data, at, end)
            else:
                value = data[at + 1 : at + 1 + size]
                at += 1 + size
            headers: Sequence[RecordHeader] = ()
            if data[at]:
                headers, at = _read_headers(data, at, end)
            else:
                at += 1
            if at != end:
                raise CorruptBatch(f"a record ends {abs(end - at)} bytes {'early' if at < end else 'late'}")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield base_offset + delta, new(Record, (key, value, timestamp, headers))
    except IndexError:
        raise CorruptBatch("the records end within a record") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes are left after the last record")


_ZIGZAG: Final = (*((byte >> 1) ^ -(byte & 1) for byte in range(0x80)), *[None] * 0x80)
"""Value of a varint by its first byte if it has only one; None if more follow."""


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            raise CorruptBatch("a varint has more than 64 bits")
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    if size < 0:
        if size != -1:
            raise CorruptBatch(f"a length is {size}")
        return None, at
    if size > end - at:
        raise CorruptBatch(f"a field claims {size} bytes, {end - at} are left in its record")
    return data[at : at + size], at + size


def _read_headers(data: bytes, at: int, end: int) -> tuple[list[RecordHeader], int]:
    count, at = _read_varint(data, at)
    # Each header takes at least two bytes: refuse an impossible count before allocating for it.
    if count < 0 or count > (end - at) // 2:
        raise CorruptBatch(f"a record claims {count} headers")
    headers: list[RecordHeader] = []
    for _ in range(count):
        key, at = _read_bytes(data, at, end)
        if key is None:
            raise CorruptBatch("a header has no key")
        value, at = _read_bytes(data, at, end)
        headers.append((key, value))
    return headers, at
