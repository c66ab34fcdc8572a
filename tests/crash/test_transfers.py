"""Money is transferred between accounts in transactions, while the server is killed again and again.

A transfer is one transaction: a record that takes an amount from one partition, a record that adds it to
another one, and the number of the transfer as a group's offset. One producer speaks the first version of
transactions, the other one the second (KIP-890). After each kill a reader of committed records finds whole
transfers only, every acknowledged one among them, none that was aborted, and the group's offsets agree.
"""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.crash.test_sigkill import quiet
from tests.server.raw import RawConnection

from headgate.broker import Broker, run
from headgate.domain.errors import ErrorCode
from headgate.log.batch import Record, encode_batch
from headgate.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headgate.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headgate.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.wire.messages.end_txn import EndTxnRequest
from headgate.wire.messages.init_producer_id import InitProducerIdRequest
from headgate.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

KILLS = 5
ACCOUNTS = 3
SEED = 98
TOPIC = "accounts"
_LATER = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


class Refused(Exception):
    """The server refused a step of a transfer."""


class Teller:
    """One transactional producer, over all lives of the server."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"teller-{index}"
        self.knows_epoch_bump = index == 1
        self.chance = random.Random(SEED + index)
        self.number = 0
        self.acknowledged: set[int] = set()
        self.aborted: set[int] = set()
        self.failure: Exception | None = None

    def connect(self, broker: Broker) -> None:
        """Begin a life: abort what the last one left open, and fence it."""
        self.connection = RawConnection(broker.port)
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        answer = self.ask(request, 4)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences: dict[int, int] = defaultdict(int)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request until it is not refused for the moment."""
        while True:
            answer = self.connection.request(request, version, request.response_type())
            error = _error_of(answer)
            if not error:
                return answer
            if error not in _LATER:
                raise Refused(f"{type(request).__name__}: {ErrorCode(error).name}")
            time.sleep(0.002)

    def work(self) -> None:
        """Transfer until the server is gone."""
        try:
            while True:
                self.transfer()
        except (ConnectionError, OSError):
            pass
        except Exception as failure:
            self.failure = failure

    def transfer(self) -> None:
        """One transaction."""
        self.number += 1
        number, amount = self.number, self.chance.randrange(1, 100)
        one, other = self.chance.sample(range(ACCOUNTS), 2)
        self._write(number, {one: -amount, other: amount})
        self._commit_offset(number)
        is_committed = self.chance.random() < 0.8
        if not is_committed:
            self.aborted.add(number)
        end = EndTxnRequest(**self._who, committed=is_committed)
        answer = self.ask(end, 5 if self.knows_epoch_bump else 3)
        if self.knows_epoch_bump:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        if is_committed:
            self.acknowledged.add(number)

    @property
    def _who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def _write(self, number: int, amounts: dict[int, int]) -> None:
        if not self.knows_epoch_bump:
            added = AddPartitionsToTxnTopic(name=TOPIC, partitions=[*amounts])
            who = {f"v3_and_below_{name}": value for name, value in self._who.items()}
            self.ask(AddPartitionsToTxnRequest(**who, v3_and_below_topics=[added]), 3)
        data = []
        for partition, amount in amounts.items():
            record = Record(None, f"{self.index} {number} {amount}".encode(), int(time.time() * 1000))
            batch = encode_batch(
                [record],
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=self.sequences[partition],
                is_transactional=True,
            )
            self.sequences[partition] += 1
            data.append(PartitionProduceData(index=partition, records=bytes(batch)))
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=5000, topic_data=topics)
        self.ask(request, 12 if self.knows_epoch_bump else 9)

    def _commit_offset(self, number: int) -> None:
        if not self.knows_epoch_bump:
            self.ask(AddOffsetsToTxnRequest(**self._who, group_id="bank"), 3)
        partition = TxnOffsetCommitRequestPartition(partition_index=self.index, committed_offset=number)
        topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
        request = TxnOffsetCommitRequest(**self._who, group_id="bank", topics=topics)
        self.ask(request, 5 if self.knows_epoch_bump else 3)


def _error_of(answer: Any) -> int:
    """The first error of a response."""
    parts = [answer]
    while parts:
        part = parts.pop()
        if getattr(part, "error_code", 0) or getattr(part, "partition_error_code", 0):
            return int(getattr(part, "error_code", 0) or part.partition_error_code)
        for name in (
            "topics",
            "partitions",
            "responses",
            "partition_responses",
            "results_by_topic_v3_and_below",
        ):
            parts += getattr(part, name, ())
        parts += getattr(part, "results_by_partition", ())
    return 0


def transfers_found(broker: Broker) -> tuple[dict[tuple[int, int], list[int]], list[int]]:
    """Read all committed records; the amounts of each transfer, and the offsets of the group."""
    settings = quiet(
        broker,
        group_id="bank",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_partition_eof=True,
    )
    consumer = Consumer(settings)
    partitions = range(ACCOUNTS)
    consumer.assign([TopicPartition(TOPIC, one, 0) for one in partitions])
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    at_end: set[int] = set()
    deadline = time.monotonic() + 30
    while len(at_end) < ACCOUNTS:
        assert time.monotonic() < deadline, "the log is not read to its end"
        for message in consumer.consume(1000, 0.2):
            if message.error() is not None:
                at_end.add(message.partition() or 0)
                continue
            teller, number, amount = map(int, (message.value() or b"").split())
            found[teller, number].append(amount)
    committed = consumer.committed([TopicPartition(TOPIC, one) for one in range(2)], timeout=10)
    consumer.close()
    return found, [max(one.offset, 0) for one in committed]


def audit(broker: Broker, tellers: list[Teller]) -> None:
    """Check the whole bank; no transfer is under way."""
    found, offsets = transfers_found(broker)
    assert all(len(amounts) == 2 and sum(amounts) == 0 for amounts in found.values())
    for teller in tellers:
        assert teller.failure is None, teller.failure
        numbers = {number for index, number in found if index == teller.index}
        assert teller.acknowledged <= numbers <= set(range(1, teller.number + 1)) - teller.aborted
        assert offsets[teller.index] == max(numbers, default=0)


def test_the_total_is_unchanged_at_every_read(tmp_path: Path) -> None:
    """Also the offsets: they are those of the last transfer that can be read."""
    chance = random.Random(SEED)
    tellers = [Teller(0), Teller(1)]
    with run({"headgate.checkpoint.interval.records": "50"}, data_dir=tmp_path / "data") as broker:
        topic = CreatableTopic(name=TOPIC, num_partitions=ACCOUNTS, replication_factor=1)
        admin = RawConnection(broker.port)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        assert admin.request(request, 5, request.response_type()).topics[0].error_code == 0
        admin.socket.close()
        for _ in range(KILLS):
            for teller in tellers:
                teller.connect(broker)
            audit(broker, tellers)
            threads = [threading.Thread(target=teller.work) for teller in tellers]
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.1, 0.6))
            broker.kill()
            for thread, teller in zip(threads, tellers, strict=True):
                thread.join(timeout=30)
                teller.connection.socket.close()
            broker.start()
        for teller in tellers:
            teller.connect(broker)
        audit(broker, tellers)
        for teller in tellers:
            teller.connection.socket.close()
    assert min(len(teller.acknowledged) for teller in tellers) > KILLS
