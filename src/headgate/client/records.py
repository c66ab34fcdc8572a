"""Records as a client sees them: those of a fetch, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headgate.client.cluster import AbortedTransaction, Fetched
from headgate.client.errors import BadResponse
from headgate.domain.ids import TopicPartition
from headgate.log.batch import RecordHeader, records_of
from headgate.log.compression import decompress
from headgate.log.header import HEADER_BYTES, MAGIC, BatchHeader, CorruptBatch, read_header
from headgate.log.walking import checked_batches


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record with its place."""

    where: TopicPartition
    offset: int
    timestamp: int
    """In ms since the epoch; -1: none."""
    is_append_time: bool
    """Whether that is when the broker appended it, not when the producer created it."""
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[RecordHeader]


def records_in(fetched: Fetched, where: TopicPartition, offset: int) -> tuple[list[ConsumedRecord], int]:
    """Return the records of a fetch from an offset on, and the offset to fetch next.

    Records of the broker and of aborted transactions are left out. A batch that is damaged, or of the formats
    before Kafka 0.11, ends the result: the offset to fetch next is its own. Raises `BadResponse` if it is the
    first.
    """
    found: list[ConsumedRecord] = []
    following = offset
    aborted = _Aborted(fetched.aborted)
    try:
        for header, batch in checked_batches(_whole_batches(fetched.records)):
            if aborted.has(header):
                following = max(following, header.next_offset)
                continue
            body = batch[HEADER_BYTES:]
            data = bytes(decompress(header.codec, body)) if header.codec else body
            found += [
                ConsumedRecord(
                    where,
                    at,
                    record.timestamp,
                    header.uses_log_append_time,
                    header.leader_epoch,
                    record.key,
                    record.value,
                    record.headers,
                )
                for at, record in records_of(header, data)
                if at >= offset
            ]
            following = max(following, header.next_offset)
    except CorruptBatch as problem:
        if following > offset:
            return found, following
        raise BadResponse(f"{where} at offset {following}: {problem}") from problem
    return found, following


def _whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches; the last one of a fetch can be incomplete, and is left out."""
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        if header.magic != MAGIC:
            raise CorruptBatch(f"message format {header.magic} is not supported, only {MAGIC} is")
        if header.size < HEADER_BYTES:
            raise CorruptBatch(f"a batch claims {header.size} bytes")
        if header.size > len(data) - at:
            return
        yield header, data[at : at + header.size]
        at += header.size


class _Aborted:
    """Tells which batches of a fetch are of aborted transactions, or of the broker."""

    def __init__(self, transactions: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(transactions, reverse=True)
        self._active: set[int] = set()

    def has(self, header: BatchHeader) -> bool:
        """Take the next batch."""
        while self._waiting and self._waiting[-1].first_offset <= header.last_offset:
            self._active.add(self._waiting.pop().producer_id)
        if header.is_control:
            self._active.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._active
