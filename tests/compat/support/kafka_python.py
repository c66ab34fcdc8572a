"""kafka-python, pure Python and blocking."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka.admin import ConfigResource, KafkaAdminClient, MemberToRemove
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition
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

import kafka


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", None), str(error)) from error


class KafkaPython(Driver):
    """kafka-python."""

    name = "kafka-python"
    version = kafka.__version__
    can = frozenset(Can)

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self._admin.close()

    def brokers(self) -> set[str]:
        with _refusals():
            listed = self._admin.describe_cluster()["brokers"]
        return {f"{broker['host']}:{broker['port']}" for broker in listed}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        asked = {
            name: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs or {})}
        }
        with _refusals():
            self._admin.create_topics(asked, wait_for_metadata=True)

    def topics(self) -> set[str]:
        with _refusals():
            return set(self._admin.list_topics())

    def partition_count(self, topic: str) -> int:
        with _refusals():
            return len(self._admin.describe_topics([topic])[0]["partitions"])

    def delete_topic(self, topic: str) -> None:
        with _refusals():
            self._admin.delete_topics([topic])

    def add_partitions(self, topic: str, total: int) -> None:
        with _refusals():
            self._admin.create_partitions({topic: total})

    def topic_config(self, topic: str) -> dict[str, str]:
        with _refusals():
            described = self._admin.describe_configs([ConfigResource("topic", topic)], config_filter="all")
        return {name: entry["value"] for name, entry in described["topic"][topic].items()}

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        with _refusals():
            answered = self._admin.alter_configs([ConfigResource("topic", topic, {name: value})])
        # A refusal is no exception here but a text: "[Error 40] InvalidConfigurationError: ...".
        if (said := answered["topic"][topic]) != "OK":
            code = re.match(r"\[Error (-?\d+)\]", said)
            raise Refused(int(code[1]) if code else None, said)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        with _refusals():
            self._admin.delete_records({TopicPartition(topic, partition): before})

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer, _refusals():
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        where = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer, _refusals():
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
        return -1 if found is None else int(found.offset)

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
        )
        with closing(producer), _refusals():
            futures = [
                producer.send(
                    topic,
                    record.value.encode(),
                    key=None if record.key is None else record.key.encode(),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=[(name, value.encode()) for name, value in record.headers],
                )
                for record in records
            ]
            for future in futures:
                future.get(timeout=ANSWER_TIMEOUT_S)

    def consume(self, topic: str, count: int) -> list[Received]:
        partitions = [TopicPartition(topic, p) for p in range(self.partition_count(topic))]
        return self._read(dict.fromkeys(partitions, 0), count)

    def read_from(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        return self._read({TopicPartition(topic, partition): offset}, count)

    def commit(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        asked = {
            TopicPartition(topic, p): OffsetAndMetadata(c.offset, c.metadata, -1) for p, c in offsets.items()
        }
        with _refusals():
            answered = self._admin.alter_group_offsets(group, asked)
        _check(answered)

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, Committed | None]:
        wanted = [TopicPartition(topic, partition) for partition in partitions]
        with _refusals():
            found = self._admin.list_group_offsets({group: wanted})[group]
        return {
            where.partition: None if one.offset < 0 else Committed(one.offset, one.metadata)
            for where, one in found.items()
        }

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        with _refusals():
            answered = self._admin.delete_group_offsets(group, [TopicPartition(topic, p) for p in partitions])
        _check(answered)

    def groups(self) -> set[str]:
        with _refusals():
            return {group["group_id"] for group in self._admin.list_groups()}

    def groups_in_state(self, state: str) -> set[str]:
        with _refusals():
            return {group["group_id"] for group in self._admin.list_groups(states_filter=[state])}

    def describe_group(self, group: str) -> Group:
        with _refusals():
            described = self._admin.describe_groups([group])[group]
        clients = tuple(member["client_id"] for member in described["members"])
        return Group(described["group_state"], described["protocol_data"], clients)

    def delete_group(self, group: str) -> None:
        with _refusals():
            said = self._admin.delete_groups([group])[group]
        if said != "OK":
            raise Refused(getattr(kafka.errors, said).errno, said)

    def remove_static_member(self, group: str, instance_id: str) -> None:
        """Makes a static member leave, wherever it is."""
        with _refusals():
            _check(self._admin.remove_group_members(group, [MemberToRemove(group_instance_id=instance_id)]))

    def _consumer(self, **more: Any) -> Any:
        return kafka.KafkaConsumer(bootstrap_servers=self.bootstrap, fetch_max_wait_ms=200, **more)

    def _read(self, where: Mapping[Any, int], count: int) -> list[Received]:
        received: list[Received] = []
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        with closing(self._consumer()) as consumer, _refusals():
            consumer.assign(list(where))
            for partition, offset in where.items():
                if offset:
                    consumer.seek(partition, offset)
                else:
                    consumer.seek_to_beginning(partition)
            while len(received) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=200).values():
                    received += [_received(record) for record in records]
        return received[:count]


def _check(answered: Mapping[Any, type[KafkaError]]) -> None:
    for error in answered.values():
        if error.errno:
            raise Refused(error.errno, error.__name__)


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        key=None if record.key is None else record.key.decode(),
        value=None if record.value is None else record.value.decode(),
        timestamp_ms=record.timestamp,
        headers=tuple((name, value.decode()) for name, value in record.headers),
    )
