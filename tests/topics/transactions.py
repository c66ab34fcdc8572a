"""Helpers of the tests of transactions: a partition that takes them, and what its readers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.topics.disk import NOW, sync

from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch, iterate_records, read_header
from headgate.topics.transactions import TransactionMarker, Verification

if TYPE_CHECKING:
    from headgate.topics.admission import AppendResult
    from headgate.topics.partition import Partition
    from headgate.topics.topic import Topic

VERIFIED = Verification.VERIFIED


def transactional(
    producer_id: int, *values: bytes, epoch: int = 0, sequence: int = 0, key: bytes = b"key"
) -> bytes:
    """Encode a batch of a transaction."""
    return bytes(
        encode_batch(
            [Record(key, value, NOW) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


class Writer:
    """A transactional producer and its coordinator, for one partition."""

    def __init__(self, topic: Topic, producer_id: int, epoch: int = 0) -> None:
        self.topic = topic
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = 0

    @property
    def partition(self) -> Partition:
        return self.topic.partition(0)

    def write(self, *values: bytes, key: bytes = b"key", is_durable: bool = True) -> int:
        """Append a verified batch of the transaction; return its base offset."""
        data = transactional(self.producer_id, *values, epoch=self.epoch, sequence=self.sequence, key=key)
        result = self.partition.append(data, NOW, VERIFIED)
        assert result.error == ErrorCode.NONE, result
        self.sequence += len(values)
        if is_durable:
            sync(self.topic)
        return result.base_offset

    def end(self, *, is_committed: bool, is_durable: bool = True, **fields: int) -> int:
        """Append the marker; return its offset."""
        result = self.try_end(is_committed=is_committed, **fields)
        assert result.error == ErrorCode.NONE, result
        if is_durable:
            sync(self.topic)
        return result.base_offset

    def try_end(
        self, *, is_committed: bool, epoch: int | None = None, coordinator_epoch: int = 0, version: int = 0
    ) -> AppendResult:
        """Append the marker, or be refused."""
        marker = TransactionMarker(
            self.producer_id, self.epoch if epoch is None else epoch, is_committed, coordinator_epoch, version
        )
        return self.partition.end_transaction(marker, NOW)


def committed(topic: Topic, start: int = 0, at_once: int = 1 << 30) -> list[bytes | None]:
    """Return the values that a reader of committed records gets."""
    return [record.value for record in committed_from(topic, start, at_once)]


def committed_records(topic: Topic) -> dict[bytes | None, bytes | None]:
    """Return the last value of each key that a reader of committed records gets."""
    return {record.key: record.value for record in committed_from(topic)}


def committed_from(topic: Topic, start: int = 0, at_once: int = 1 << 30) -> list[Record]:
    """Return the records that a client keeps of its fetches: the rules of Kafka's consumer."""
    records: list[Record] = []
    partition = topic.partition(0)
    offset = max(start, partition.log_start_offset)
    while True:
        result = partition.read(offset, at_once, minimum_one=True, is_committed=True)
        assert result.error == ErrorCode.NONE, result
        if not result.records:
            return records
        aborted = sorted(result.aborted, key=lambda one: one[1])
        dropped: set[int] = set()
        at = 0
        position = offset
        while at < len(result.records):
            header = read_header(result.records, at)
            batch = result.records[at : at + header.size]
            at += header.size
            offset = header.next_offset
            while aborted and aborted[0][1] <= header.last_offset:
                dropped.add(aborted.pop(0)[0])
            if not header.record_count:
                continue
            if header.is_control:
                ((_, record),) = iterate_records(batch)
                assert record.key is not None
                if record.key[3] == 0:
                    dropped.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in dropped:
                records += [one for number, one in iterate_records(batch) if number >= position]
