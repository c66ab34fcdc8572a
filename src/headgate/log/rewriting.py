"""Write one batch without some of its records, for compaction.

Rules, Kafka's: base offset, last offset, base sequence, producer and codec do not change, so offsets and
sequences remain consecutive; the remaining records keep their offsets and timestamps. A batch may have no
record left; its header then holds its offsets and its producer's sequence. A delete horizon replaces the base
timestamp and is marked by an attribute; timestamp deltas are relative to it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from crc32c import crc32c

from headgate.log.batch import Record, encode_record
from headgate.log.compression import compress, decompress
from headgate.log.header import (
    CODEC_MASK,
    CRC_END,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    BatchHeader,
    Buffer,
    CorruptBatch,
)

_LENGTH_AND_ON: Final = Struct(">qi")
_PLACE: Final = Struct(">qiib")
"""Base offset, length, leader epoch and magic."""
_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21


def check_sum(header: BatchHeader, batch: Buffer) -> None:
    """Raise CorruptBatch for a wrong CRC: a new CRC would hide the damage for ever."""
    if crc32c(memoryview(batch)[CRC_END:]) != header.crc:
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")


def unpacked(header: BatchHeader, batch: Buffer) -> bytes:
    """Return the batch with its records decompressed, for reading only: its CRC is not updated."""
    data = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    out = bytearray(batch[:HEADER_BYTES])
    _LENGTH_AND_ON.pack_into(out, 0, header.base_offset, len(data) + HEADER_BYTES - LENGTH_FIELD_END)
    _ATTRIBUTES.pack_into(out, _ATTRIBUTES_AT, header.attributes & ~CODEC_MASK)
    return bytes(out) + data


class BatchRewriter:
    """Collects the remaining records of one batch, and builds the batch."""

    __slots__ = ("_attributes", "_base_timestamp", "_max_timestamp", "_parts", "count", "header")

    def __init__(self, header: BatchHeader, delete_horizon_ms: int | None) -> None:
        """`delete_horizon_ms` is set for a batch that gets its first one."""
        self.header = header
        self._attributes = header.attributes
        self._base_timestamp = header.base_timestamp
        if delete_horizon_ms is not None:
            self._attributes |= DELETE_HORIZON
            self._base_timestamp = delete_horizon_ms
        # With log append time, the batch's largest timestamp is that of every record.
        self._max_timestamp = header.max_timestamp if header.uses_log_append_time else -1
        self._parts: list[bytes] = []
        self.count = 0

    def add(self, offset: int, record: Record) -> None:
        """Keep this record; records come in order."""
        key, value, timestamp, headers = record
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        encode_record(self._parts, key, value, delta, offset - self.header.base_offset, headers)
        self.count += 1

    def pack(self) -> bytes:
        """Return the whole batch, compressed as before. Uses only this object: any thread may call it."""
        body = b"".join(self._parts)
        if self.header.codec:
            body = compress(self.header.codec, body)
        return _whole(
            self.header, self._attributes, (self._base_timestamp, self._max_timestamp), self.count, body
        )

    @property
    def size_bytes(self) -> int:
        """Size of the kept records before compression."""
        return sum(map(len, self._parts))


def emptied(header: BatchHeader) -> bytes:
    """Return the batch without records: its offsets, its producer's sequence, its largest timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _whole(header, attributes, (header.max_timestamp, header.max_timestamp), 0, b"")


def empty_batch(first: int, end: int, leader_epoch: int, timestamp: int) -> bytes:
    """Return a batch without records and producer for the offsets from `first` to `end - 1`."""
    delta = end - first - 1
    header = BatchHeader(first, 0, leader_epoch, MAGIC, 0, 0, delta, timestamp, timestamp, -1, -1, -1, 0)
    return _whole(header, 0, (timestamp, timestamp), 0, b"")


def with_place(batch: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Return a batch with other values in all fields that its checksum does not cover."""
    length = len(batch) - LENGTH_FIELD_END
    return _PLACE.pack(base_offset, length, leader_epoch, MAGIC) + batch[_PLACE.size :]


def is_filling(header: BatchHeader) -> bool:
    """Return whether a batch is like those of `empty_batch`."""
    return not header.record_count and header.size == HEADER_BYTES and header.producer_id < 0


def _whole(
    header: BatchHeader, attributes: int, timestamps: tuple[int, int], count: int, body: bytes
) -> bytes:
    base_timestamp, max_timestamp = timestamps
    fields = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    head = bytearray(HEADER_BYTES)
    length = HEADER_BYTES - LENGTH_FIELD_END + len(body)
    HEADER.pack_into(head, 0, fields.base_offset, length, *fields[2:])
    crc = crc32c(body, crc32c(memoryview(head)[CRC_END:]))
    HEADER.pack_into(head, 0, fields.base_offset, length, *fields._replace(crc=crc)[2:])
    return bytes(head) + body
