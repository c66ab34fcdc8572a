"""aiokafka: each call runs in an event loop of its own, with clients of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, for_code
from aiokafka.structs import OffsetAndMetadata
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

T = TypeVar("T")


def _run(work: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(ANSWER_TIMEOUT_S * 2):
            return await work

    try:
        return asyncio.run(bounded())
    except KafkaError as error:
        raise Refused(getattr(error, "errno", None), str(error)) from error


class AioKafka(Driver):
    """aiokafka."""

    name = "aiokafka"
    version = aiokafka.__version__
    # Its admin client has no call to delete groups or their offsets, and lists all groups or none.
    can = frozenset(Can) - {Can.DELETE_OFFSETS, Can.DELETE_GROUPS, Can.FILTER_GROUPS}

    def brokers(self) -> set[str]:
        async def brokers() -> set[str]:
            async with self._admin() as admin:
                listed = (await admin.describe_cluster())["brokers"]
                return {f"{broker['host']}:{broker['port']}" for broker in listed}

        return _run(brokers())

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        async def create() -> None:
            async with self._admin() as admin:
                topic = NewTopic(name, partitions, 1, topic_configs=dict(configs or {}))
                _check((await admin.create_topics([topic])).topic_errors)
                while len((await admin.describe_topics([name]))[0]["partitions"]) != partitions:
                    await asyncio.sleep(0.05)

        _run(create())

    def topics(self) -> set[str]:
        async def topics() -> set[str]:
            async with self._admin() as admin:
                return set(await admin.list_topics())

        return _run(topics())

    def partition_count(self, topic: str) -> int:
        async def partition_count() -> int:
            async with self._admin() as admin:
                return len((await admin.describe_topics([topic]))[0]["partitions"])

        return _run(partition_count())

    def delete_topic(self, topic: str) -> None:
        async def delete() -> None:
            async with self._admin() as admin:
                _check((await admin.delete_topics([topic])).topic_error_codes)

        _run(delete())

    def add_partitions(self, topic: str, total: int) -> None:
        async def add() -> None:
            async with self._admin() as admin:
                await admin.create_partitions({topic: NewPartitions(total)})

        _run(add())

    def topic_config(self, topic: str) -> dict[str, str]:
        async def config() -> dict[str, str]:
            async with self._admin() as admin:
                asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
                (answer,) = await admin.describe_configs(asked)
                code, message, _type, _name, entries = answer.resources[0]
                _check([(topic, code, message)])
                return {entry[0]: entry[1] for entry in entries}

        return _run(config())

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        async def alter() -> None:
            async with self._admin() as admin:
                asked = [ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})]
                (answer,) = await admin.alter_configs(asked)
                _check([(topic, *resource[:2]) for resource in answer.resources])

        _run(alter())

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        async def delete() -> None:
            async with self._admin() as admin:
                await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)})

        _run(delete())

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        where = TopicPartition(topic, partition)

        async def watermarks() -> tuple[int, int]:
            async with self._consumer() as consumer:
                low, high = await consumer.beginning_offsets([where]), await consumer.end_offsets([where])
                return low[where], high[where]

        return _run(watermarks())

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        where = TopicPartition(topic, partition)

        async def offset_at() -> int:
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
                return -1 if found is None else int(found.offset)

        return _run(offset_at())

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        async def produce() -> None:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        record.value.encode(),
                        key=None if record.key is None else record.key.encode(),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=[(name, value.encode()) for name, value in record.headers],
                    )
                    for record in records
                ]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()

        _run(produce())

    def consume(self, topic: str, count: int) -> list[Received]:
        partitions = [TopicPartition(topic, p) for p in range(self.partition_count(topic))]
        return _run(self._read(dict.fromkeys(partitions, 0), count))

    def read_from(self, topic: str, partition: int, offset: int, count: int) -> list[Received]:
        return _run(self._read({TopicPartition(topic, partition): offset}, count))

    def commit(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        async def commit() -> None:
            async with self._consumer(group_id=group, enable_auto_commit=False) as consumer:
                consumer.assign([TopicPartition(topic, partition) for partition in offsets])
                await consumer.commit(
                    {
                        TopicPartition(topic, p): OffsetAndMetadata(c.offset, c.metadata)
                        for p, c in offsets.items()
                    }
                )

        _run(commit())

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, Committed | None]:
        async def committed() -> dict[int, Committed | None]:
            async with self._admin() as admin:
                wanted = [TopicPartition(topic, partition) for partition in partitions]
                found = await admin.list_consumer_group_offsets(group, partitions=wanted)
                return {
                    where.partition: None if one.offset < 0 else Committed(one.offset, one.metadata)
                    for where, one in found.items()
                }

        return _run(committed())

    def groups(self) -> set[str]:
        async def groups() -> set[str]:
            async with self._admin() as admin:
                return {group[0] for group in await admin.list_consumer_groups()}

        return _run(groups())

    def describe_group(self, group: str) -> Group:
        async def describe() -> Group:
            async with self._admin() as admin:
                (answer,) = await admin.describe_consumer_groups([group])
                code, _group, state, _type, protocol, members = answer.groups[0][:6]
                _check([(group, code)])
                return Group(state, protocol, tuple(_client_id(member) for member in members))

        return _run(describe())

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    @asynccontextmanager
    async def _consumer(self, **more: Any) -> AsyncIterator[Any]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, fetch_max_wait_ms=200, **more)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    async def _read(self, where: Mapping[Any, int], count: int) -> list[Received]:
        received: list[Received] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ANSWER_TIMEOUT_S
        async with self._consumer() as consumer:
            consumer.assign(list(where))
            for partition, offset in where.items():
                if offset:
                    consumer.seek(partition, offset)
                else:
                    await consumer.seek_to_beginning(partition)
            while len(received) < count and loop.time() < deadline:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    received += [_received(record) for record in records]
        return received[:count]


def _check(errors: Sequence[Sequence[Any]]) -> None:
    """Raises for the first (name, error code, ...) that is an error."""
    for name, code, *_rest in errors:
        if code:
            raise for_code(code)(name)


def _client_id(member: Sequence[Any]) -> str:
    """From a member (member id, client id, ...), which has its instance id in between from version 4 on."""
    return str(member[1])


def _received(record: Any) -> Received:
    return Received(
        partition=record.partition,
        offset=record.offset,
        key=None if record.key is None else record.key.decode(),
        value=None if record.value is None else record.value.decode(),
        timestamp_ms=record.timestamp,
        headers=tuple((name, value.decode()) for name, value in record.headers),
    )
