"""The snapshot of a partition's producers and transactions, `producers.snapshot`: its bytes.

    version u16 | CRC-32 of all that follows u32 | log end offset i64 | CRC of the last batch before it i64 |
    open transactions u32 | segments u32 | for each open transaction, in the order of their first offsets:
    producer id i64, epoch i16, first offset i64, time of its first batch i64 | for each segment with aborted
    transactions: base offset i64, entries in its .txnindex u32, CRC-32C of these u32 | producers

It is derived from the log, which has precedence. A snapshot is used only if its checksum is right and the log
still has the batch before its end offset; the entries of a .txnindex file are used only if the snapshot
vouches for them. Else all of it is read from the log.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from headgate.domain.ids import Millis
from headgate.log.segments import last_crc
from headgate.topics.producers import ProducerCopy, ProducerCount, Producers
from headgate.topics.transactions import OpenTransaction, Transactions

if TYPE_CHECKING:
    from headgate.log.log import Log

_VERSION = 2
_BEGINNING = struct.Struct(">HI")
_HEADER = struct.Struct(">qqII")
_TRANSACTION = struct.Struct(">qhqq")
_SEGMENT = struct.Struct(">qII")


class IndexedSegment(NamedTuple):
    """The entries that a segment's .txnindex file had at the time of a snapshot, and their CRC-32C."""

    entries: int
    crc: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of the file. `last_crc` is that of the batch before `end_offset`; -1 without one."""

    end_offset: int
    last_crc: int
    open_transactions: Sequence[OpenTransaction]
    segments: Mapping[int, IndexedSegment]
    """By base offset: the segments with aborted transactions."""
    producers: bytes = b""

    def encode(self) -> bytes:
        """Return the contents of the file."""
        parts = [
            _HEADER.pack(self.end_offset, self.last_crc, len(self.open_transactions), len(self.segments))
        ]
        parts += [
            _TRANSACTION.pack(one.producer_id, one.epoch, one.first_offset, one.since)
            for one in self.open_transactions
        ]
        parts += [_SEGMENT.pack(base, *indexed) for base, indexed in self.segments.items()]
        body = b"".join(parts) + self.producers
        return _BEGINNING.pack(_VERSION, zlib.crc32(body)) + body

    def with_producers(self, producers: Iterable[ProducerCopy]) -> Snapshot:
        """Return the snapshot with the bytes of these producers, which take a while if there are many."""
        return replace(self, producers=b"".join(one.to_bytes() for one in producers))

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """Return the snapshot in `data`; None for bytes that are no complete, valid one."""
        if len(data) < _BEGINNING.size + _HEADER.size:
            return None
        version, checksum = _BEGINNING.unpack_from(data)
        if version != _VERSION or checksum != zlib.crc32(memoryview(data)[_BEGINNING.size :]):
            return None
        at = _BEGINNING.size
        end_offset, crc, open_count, segment_count = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        open_end = at + open_count * _TRANSACTION.size
        segments_end = open_end + segment_count * _SEGMENT.size
        if segments_end > len(data):
            return None
        return cls(
            end_offset,
            crc,
            [
                OpenTransaction(producer_id, epoch, first_offset, Millis(since))
                for producer_id, epoch, first_offset, since in _TRANSACTION.iter_unpack(data[at:open_end])
            ],
            {
                base: IndexedSegment(entries, crc)
                for base, entries, crc in _SEGMENT.iter_unpack(data[open_end:segments_end])
            },
            data[segments_end:],
        )

    def is_of(self, log: Log) -> bool:
        """Return whether the log has the batch before the snapshot's end, or begins after it. A log that was
        replaced, and one that was compacted there, does not.
        """
        if self.end_offset <= log.log_start_offset:
            return True
        return self.end_offset <= log.log_end_offset and self.last_crc == last_crc(
            log.segments, self.end_offset
        )

    def restored_producers(self, count: ProducerCount, in_transaction: Container[int]) -> Producers | None:
        """Return the producers in the snapshot; None if they cannot be read."""
        return Producers.from_bytes(self.producers, count, in_transaction)


def snapshot_of(log: Log, transactions: Transactions) -> Snapshot:
    """Return the snapshot of a log whose .txnindex files are saved, without producers."""
    segments = {
        segment.base_offset: IndexedSegment(len(segment.aborted), segment.aborted.saved_crc)
        for segment in log.segments
        if segment.aborted
    }
    end = log.log_end_offset
    return Snapshot(end, last_crc(log.segments, end), transactions.all_open(), segments)
