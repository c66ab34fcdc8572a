"""confluent-kafka, the Python face of librdkafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import confluent_kafka
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.compat.support.driver import (
    ANSWER_TIMEOUT_S,
    Can,
    Committed,
    Driver,
    Group,
    Received,
    Refused,
    Sent,
)
from tests.waiting import wait_until

OFFSET_INVALID = -1001


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        said = error.args[0]
        raise Refused(said.code(), said.str()) from error


class Confluent(Driver):
    """confluent-kafka."""

    name = "confluent-kafka"
    version = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
    # There is no call to delete a group's offsets.
    can = frozenset(Can) - {Can.DELETE_OFFSETS}
    # It counts the NUL that ends a C string, so that every other library sees one; reading, it cuts there.
    metadata_tail = "\0"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def brokers(self) -> set[str]:
        listed = self._admin.list_topics(timeout=ANSWER_TIMEOUT_S).brokers.values()
        return {f"{broker.host}:{broker.port}" for broker in listed}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        topic = NewTopic(name, partitions, 1, config=dict(configs or {}))
        self._all(self._admin.create_topics([topic]))
        wait_until(lambda: self.partition_count(name) == partitions, f"topic {name} in the metadata")

    def topics(self) -> set[str]:
        return set(self._admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, timeout=ANSWER_TIMEOUT_S).topics[topic].partitions)

    def delete_topic(self, topic: str) -> None:
        self._all(self._admin.delete_topics([topic]))

    def add_partitions(self, topic: str, total: int) -> None:
        self._all(self._admin.create_partitions([NewPartitions(topic, total)]))

    def topic_config(self, topic: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (entries,) = self._all(self._admin.describe_configs([resource]))
        return {name: entry.value for name, entry in entries.items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._all(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._all(self._admin.delete_records([TopicPartition(topic, partition, before)]))

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        with self._consumer() as consumer:
            found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=ANSWER_TIMEOUT_S)
        assert found is not None
        return found[0], found[1]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        with self._consumer() as consumer, _refusals():
            asked = [TopicPartition(topic, partition, timestamp_ms)]
            return int(consumer.offsets_for_times(asked, timeout=ANSWER_TIMEOUT_S)[0].offset)

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failures.append(error)

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "compression.type": codec,
                "enable.idempotence": idempotent,
                "linger.ms": 20,
                "message.timeout.ms": int(ANSWER_TIMEOUT_S * 1000),
            }
        )
        for record in records:
            producer.produce(
                topic,
                record.value.encode(),
                key=None if record.key is None else record.key.encode(),
                partition=record.partition,
                timestamp=record.timestamp_ms or 0,
                headers=[(name, value.encode()) for name, value in record.headers],
                on_delivery=delivered,
            )
        assert producer.flush(ANSWER_TIMEOUT_S) == 0
        if failures:
            raise Refused(failures[0].code(), failures[0].str())

    def consume(self, topic: str, count: int) -> list[Received]:
        partitions = range(self.partition_count(topic))
        return self._read([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions], count)

    def read_from(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        return self._read([TopicPartition(topic, partition, offset)], count)

    def commit(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        partitions = [TopicPartition(topic, p, c.offset, c.metadata) for p, c in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, partitions)]
        (answered,) = self._all(self._admin.alter_consumer_group_offsets(asked))
        for one in answered.topic_partitions:
            if one.error is not None:
                raise Refused(one.error.code(), one.error.str())

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, Committed | None]:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        asked = [ConsumerGroupTopicPartitions(group, wanted)]
        (answered,) = self._all(self._admin.list_consumer_group_offsets(asked))
        return {
            one.partition: None if one.offset == OFFSET_INVALID else Committed(one.offset, one.metadata or "")
            for one in answered.topic_partitions
        }

    def groups(self) -> set[str]:
        return self._list_groups()

    def groups_in_state(self, state: str) -> set[str]:
        return self._list_groups(states={ConsumerGroupState[state.upper()]})

    def describe_group(self, group: str) -> Group:
        (described,) = self._all(self._admin.describe_consumer_groups([group]))
        # librdkafka spells states in capitals with underscores: PREPARING_REBALANCING.
        state = described.state.name.title().replace("_", "")
        return Group(state, described.partition_assignor, tuple(m.client_id for m in described.members))

    def delete_group(self, group: str) -> None:
        self._all(self._admin.delete_consumer_groups([group]))

    def _list_groups(self, **more: Any) -> set[str]:
        with _refusals():
            listed = self._admin.list_consumer_groups(**more).result(ANSWER_TIMEOUT_S)
        assert not listed.errors
        return {group.group_id for group in listed.valid}

    def _all(self, futures: Mapping[Any, Any]) -> list[Any]:
        with _refusals():
            return [future.result(timeout=ANSWER_TIMEOUT_S) for future in futures.values()]

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"unused-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 200,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _read(self, where: list[TopicPartition], count: int) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        with self._consumer() as consumer:
            consumer.assign(where)
            while len(received) < count and time.monotonic() < deadline:
                message = consumer.poll(0.2)
                if message is None:
                    continue
                if (error := message.error()) is not None:
                    raise Refused(error.code(), error.str())
                received.append(_received(message))
        return received


def _received(message: Message) -> Received:
    partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
    assert partition is not None and offset is not None
    headers: Any = message.headers()
    return Received(
        partition=partition,
        offset=offset,
        key=_text(key),
        value=_text(value),
        timestamp_ms=message.timestamp()[1],
        headers=tuple((name, _text(header) or "") for name, header in headers or []),
    )


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
