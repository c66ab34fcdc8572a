"""One batch without some of its records: what compaction writes.

Rules, Kafka's: base offset, last offset, base sequence, producer and codec stay as they were, so offsets and
sequences go on adding up; the records that stay keep their offsets and timestamps. A batch may be left with
no record; its header then stands for its offsets and its producer's sequence. A delete horizon takes the
place of the base timestamp and is marked by an attribute; timestamps are counted from it.
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
    BatchHeader,
    Buffer,
    CorruptBatch,
)

_LENGTH_AND_ON: Final = Struct(">qi")
_ATTRIBUTES: Final = Struct(">h")
_ATTRIBUTES_AT: Final = 21


def check_sum(header: BatchHeader, batch: Buffer) -> None:
    """Raise CorruptBatch if the batch is not what was written: writing it anew would hide that for ever."""
    if crc32c(memoryview(batch)[CRC_END:]) != header.crc:
        raise CorruptBatch(f"the CRC of the batch at offset {header.base_offset} is wrong")


def unpacked(header: BatchHeader, batch: Buffer) -> bytes:
    """The batch with its records uncompressed, to be read and thrown away: its CRC is not summed again."""
    data = decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
    out = bytearray(batch[:HEADER_BYTES])
    _LENGTH_AND_ON.pack_into(out, 0, header.base_offset, len(data) + HEADER_BYTES - LENGTH_FIELD_END)
    _ATTRIBUTES.pack_into(out, _ATTRIBUTES_AT, header.attributes & ~CODEC_MASK)
    return bytes(out) + data


class BatchRewriter:
    """Collects the records that stay of one batch, and makes the batch of them."""

    __slots__ = ("_attributes", "_base_timestamp", "_max_timestamp", "_parts", "count", "header")

    def __init__(self, header: BatchHeader, delete_horizon_ms: int | None) -> None:
        """`delete_horizon_ms` is given to a batch that has none and gets one."""
        self.header = header
        self._attributes = header.attributes
        self._base_timestamp = header.base_timestamp
        if delete_horizon_ms is not None:
            self._attributes |= DELETE_HORIZON
            self._base_timestamp = delete_horizon_ms
        # Where the broker's clock counts, the batch's largest timestamp is that of every record.
        self._max_timestamp = header.max_timestamp if header.uses_log_append_time else -1
        self._parts: list[bytes] = []
        self.count = 0

    def add(self, offset: int, record: Record) -> None:
        """Keep this record; they come in their order."""
        key, value, timestamp, headers = record
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        encode_record(self._parts, key, value, delta, offset - self.header.base_offset, headers)
        self.count += 1

    def pack(self) -> bytes:
        """The whole batch, compressed as it was. Works on nothing but this object: any thread may."""
        body = b"".join(self._parts)
        if self.header.codec:
            body = compress(self.header.codec, body)
        return _whole(
            self.header, self._attributes, (self._base_timestamp, self._max_timestamp), self.count, body
        )

    @property
    def size_bytes(self) -> int:
        """What the records kept come to, before compression."""
        return sum(map(len, self._parts))


def emptied(header: BatchHeader) -> bytes:
    """The batch without a record: its offsets, its producer's sequence, its largest timestamp."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _whole(header, attributes, (header.max_timestamp, header.max_timestamp), 0, b"")


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
