"""A member of a consumer group in three versions: one for each client library, with the same interface.

All three support the `range` strategy only, so they agree on it, whichever of them is the leader.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

SESSION_TIMEOUT_MS = 10_000


class Subscription(NamedTuple):
    """What a member subscribes to, and the callback for its assigned partitions."""

    bootstrap_servers: str
    group: str
    topic: str
    client_id: str
    on_assignment: Callable[[list[int]], None]


class Seen(NamedTuple):
    """One record as a member reads it."""

    partition: int
    offset: int
    value: bytes


class Member(ABC):
    """A member of the group. Every method may raise the library's own errors while the broker is down."""

    @abstractmethod
    def poll(self, max_records: int, timeout_s: float) -> list[Seen]:
        """Return the next records; wait for the first."""

    @abstractmethod
    def commit(self, offsets: dict[int, int]) -> None:
        """Commit the next offset to read of each partition, and wait for the acknowledgement."""

    @abstractmethod
    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Fetch the committed offsets from the coordinator."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""


class ConfluentMember(Member):
    """confluent-kafka: C's librdkafka."""

    def __init__(self, subscription: Subscription) -> None:
        from confluent_kafka import Consumer

        self._topic = subscription.topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": subscription.bootstrap_servers,
                "group.id": subscription.group,
                "client.id": subscription.client_id,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 1000,
            }
        )

        def assigned(_consumer: Any, partitions: list[Any]) -> None:
            subscription.on_assignment(sorted(one.partition for one in partitions))

        def revoked(_consumer: Any, _partitions: list[Any]) -> None:
            subscription.on_assignment([])

        self._consumer.subscribe([subscription.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self, max_records: int, timeout_s: float) -> list[Seen]:
        messages = self._consumer.consume(max_records, timeout_s)
        # librdkafka returns transient errors in place of records; lasting errors appear in commits.
        return [
            Seen(message.partition() or 0, message.offset() or 0, message.value() or b"")
            for message in messages
            if message.error() is None
        ]

    def commit(self, offsets: dict[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        for answer in self._consumer.commit(offsets=wanted, asynchronous=False) or []:
            if answer.error is not None:
                raise KafkaException(answer.error)

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        from confluent_kafka import TopicPartition

        wanted = [TopicPartition(self._topic, partition) for partition in partitions]
        return {one.partition: one.offset for one in self._consumer.committed(wanted, timeout=5.0)}

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember(Member):
    """kafka-python: pure Python, blocking."""

    def __init__(self, subscription: Subscription) -> None:
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        from kafka import ConsumerRebalanceListener, KafkaConsumer

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                subscription.on_assignment(sorted(one.partition for one in assigned))

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                subscription.on_assignment([])

        self._topic = subscription.topic
        self._consumer = KafkaConsumer(
            bootstrap_servers=subscription.bootstrap_servers,
            group_id=subscription.group,
            client_id=subscription.client_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._consumer.subscribe([subscription.topic], listener=Listener())
        # A leader that joins before it knows the topic rejoins when it does, and can lose its new assignment
        # (tests/compat/FINDINGS.md).
        while not self._consumer.partitions_for_topic(subscription.topic):
            pass

    def poll(self, max_records: int, timeout_s: float) -> list[Seen]:
        found = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=max_records)
        return [Seen(one.partition, one.offset, one.value) for records in found.values() for one in records]

    def commit(self, offsets: dict[int, int]) -> None:
        from kafka.structs import OffsetAndMetadata

        from kafka import TopicPartition

        self._consumer.commit(
            {
                TopicPartition(self._topic, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in offsets.items()
            }
        )

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        from kafka import TopicPartition

        found = {one: self._consumer.committed(TopicPartition(self._topic, one)) for one in partitions}
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class AiokafkaMember(Member):
    """aiokafka: pure Python on asyncio; its loop runs during each call."""

    def __init__(self, subscription: Subscription) -> None:
        self._topic = subscription.topic
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = self._run(self._start(subscription))

    def _run(self, doing: Any) -> Any:
        return self._loop.run_until_complete(doing)

    async def _start(self, subscription: Subscription) -> Any:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the library has no types
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                subscription.on_assignment(sorted(one.partition for one in assigned))

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                subscription.on_assignment([])

        consumer = AIOKafkaConsumer(
            bootstrap_servers=subscription.bootstrap_servers,
            group_id=subscription.group,
            client_id=subscription.client_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe([subscription.topic], listener=Listener())
        await consumer.start()
        return consumer

    def poll(self, max_records: int, timeout_s: float) -> list[Seen]:
        found = self._run(self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=max_records))
        return [Seen(one.partition, one.offset, one.value) for records in found.values() for one in records]

    def commit(self, offsets: dict[int, int]) -> None:
        from aiokafka import TopicPartition

        wanted = {TopicPartition(self._topic, partition): offset for partition, offset in offsets.items()}
        self._run(self._consumer.commit(wanted))

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        from aiokafka import TopicPartition

        found = {
            one: self._run(self._consumer.committed(TopicPartition(self._topic, one))) for one in partitions
        }
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.close()


MEMBERS: dict[str, Callable[[Subscription], Member]] = {
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}
