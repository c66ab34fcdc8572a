"""One loop that consumes, transforms and produces, run as a process: `python transformer_program.py '{...}'`.

Reads a topic as a member of a group, writes the values in capitals to the same partitions of another topic,
and commits its offsets: ten records or fewer in each transaction. The second transaction is aborted, and its
records are written again in the next one. Transaction number `hold_at` (from 0) is held when records and
offsets are written, and committed when it reads a line. Says, one JSON object a line: holding, committed,
refused. Ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any, Protocol

asked: dict[str, Any] = json.loads(sys.argv[1])
POLL_S = 0.1
MOST = 10
ABORTED = 1
told_to_go_on = threading.Event()

Read = list[tuple[int, int, str]]
"""Partition, offset and value of each record."""


def say(event: str, **more: Any) -> None:
    """One line for whoever started this."""
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def listen() -> None:
    """Sets the event on each line; without a parent there is nothing to do."""
    for _line in sys.stdin:
        told_to_go_on.set()
    os._exit(1)


class Library(Protocol):
    """A consumer in the group and a transactional producer."""

    def read(self) -> Read:
        """Read some records."""

    def begin(self) -> None:
        """Begin a transaction."""

    def write(self, partition: int, value: str) -> None:
        """Write a record."""

    def send_offsets(self, offsets: dict[int, int]) -> None:
        """Wait until all records are written, and add the offsets."""

    def commit(self) -> None:
        """Commit the transaction."""

    def abort(self) -> None:
        """Abort it."""


class Confluent:
    """confluent-kafka."""

    def __init__(self) -> None:
        from confluent_kafka import Consumer, Producer

        server = {"bootstrap.servers": asked["bootstrap"], "log_level": 2}
        self._consumer = Consumer(
            server
            | {
                "group.id": asked["group"],
                "session.timeout.ms": asked["session_timeout_ms"],
                "heartbeat.interval.ms": 300,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([asked["source"]])
        self._producer = Producer(server | {"transactional.id": asked["transactional_id"]})
        self._producer.init_transactions(30)

    def read(self) -> Read:
        found: list[Any] = [m for m in self._consumer.consume(MOST, POLL_S) if m.error() is None]
        return [(m.partition(), m.offset(), m.value().decode()) for m in found]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, partition: int, value: str) -> None:
        self._producer.produce(asked["target"], value.encode(), partition=partition)

    def send_offsets(self, offsets: dict[int, int]) -> None:
        from confluent_kafka import TopicPartition

        assert self._producer.flush(20) == 0
        positions = [TopicPartition(asked["source"], place, offset) for place, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), 20)

    def commit(self) -> None:
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        self._producer.abort_transaction(20)


class KafkaPython:
    """kafka-python."""

    def __init__(self) -> None:
        from kafka import KafkaConsumer, KafkaProducer

        self._consumer = KafkaConsumer(
            bootstrap_servers=asked["bootstrap"],
            group_id=asked["group"],
            session_timeout_ms=asked["session_timeout_ms"],
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=100,
            max_poll_records=MOST,
        )
        self._consumer.subscribe([asked["source"]])
        # FINDINGS.md: a consumer that polls before it knows its topic can lose its assignment.
        while not self._consumer.partitions_for_topic(asked["source"]):
            pass
        self._producer = KafkaProducer(
            bootstrap_servers=asked["bootstrap"], transactional_id=asked["transactional_id"]
        )
        self._producer.init_transactions()

    def read(self) -> Read:
        batches = self._consumer.poll(timeout_ms=int(POLL_S * 1000))
        return [(r.partition, r.offset, r.value.decode()) for batch in batches.values() for r in batch]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, partition: int, value: str) -> None:
        self._producer.send(asked["target"], value.encode(), partition=partition)

    def send_offsets(self, offsets: dict[int, int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        self._producer.flush(20)
        positions = {
            TopicPartition(asked["source"], place): OffsetAndMetadata(offset, "", -1)
            for place, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(positions, self._consumer.group_metadata())

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()


class AioKafka:
    """aiokafka, whose loop runs in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._do(self._start())

    def _do(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    async def _start(self) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        self._consumer = AIOKafkaConsumer(
            asked["source"],
            bootstrap_servers=asked["bootstrap"],
            group_id=asked["group"],
            session_timeout_ms=asked["session_timeout_ms"],
            rebalance_timeout_ms=asked["session_timeout_ms"],
            heartbeat_interval_ms=300,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=100,
        )
        await self._consumer.start()
        self._producer = AIOKafkaProducer(
            bootstrap_servers=asked["bootstrap"], transactional_id=asked["transactional_id"]
        )
        await self._producer.start()
        self._sent: list[Any] = []

    def read(self) -> Read:
        batches = self._do(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST))
        return [(r.partition, r.offset, r.value.decode()) for batch in batches.values() for r in batch]

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def write(self, partition: int, value: str) -> None:
        sending = self._producer.send(asked["target"], value.encode(), partition=partition)
        self._sent.append(self._do(sending))

    def send_offsets(self, offsets: dict[int, int]) -> None:
        from aiokafka import TopicPartition

        for record in self._sent:
            self._do(_wait(record))
        self._sent.clear()
        positions = {TopicPartition(asked["source"], place): offset for place, offset in offsets.items()}
        self._do(self._producer.send_offsets_to_transaction(positions, asked["group"]))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._do(self._producer.abort_transaction())


async def _wait(future: Any) -> None:
    await future


LIBRARIES: dict[str, type[Library]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def transact(library: Library, records: Read, number: int) -> None:
    """Transform some records in a transaction."""
    library.begin()
    for partition, _offset, value in records:
        library.write(partition, value.upper())
    library.send_offsets({partition: offset + 1 for partition, offset, _value in records})
    if number == asked["hold_at"]:
        say("holding")
        told_to_go_on.wait()
    if number == ABORTED:
        library.abort()
        transact(library, records, number + 1)
    else:
        library.commit()
        say("committed")


def main() -> None:
    """Works until it is killed, or refused."""
    threading.Thread(target=listen, daemon=True).start()
    library = LIBRARIES[asked["library"]]()
    number = 0
    while True:
        if records := library.read():
            try:
                transact(library, records, number)
            except Exception as refusal:
                say("refused", error=repr(refusal))
                os._exit(0)
            number += 2 if number == ABORTED else 1


if __name__ == "__main__":
    main()
