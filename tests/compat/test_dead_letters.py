"""Dead letters with real clients: members reject, the broker is killed, each letter is there exactly once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from tests.compat.support.java import java_member_missing
from tests.compat.support.share_members import ShareMember, ShareMembership
from tests.waiting import wait_until

import headgate
from headgate.admin import Admin
from headgate.broker import Broker

SETTINGS = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.assignment.interval.ms": "100",
    "group.share.record.lock.duration.ms": "2000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "3",
}
TOPIC, DEAD = "orders", "dlq.orders"
RECORDS = 600
KILLS = 4
JAVA = pytest.param(
    "java", marks=pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with a topic, a group of its name that begins at the first record, and a dead-letter topic."""
    with headgate.run(SETTINGS) as broker:
        admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        enabled = {"errors.deadletterqueue.group.enable": "true"}
        for done in admin.create_topics(
            [NewTopic(TOPIC, 2, 1), NewTopic(DEAD, 1, 1, config=enabled)]
        ).values():
            done.result()
        group = ConfigResource(ConfigResource.Type.GROUP, TOPIC)
        for name, value in {
            "share.auto.offset.reset": "earliest",
            "errors.deadletterqueue.topic.name": DEAD,
            "errors.deadletterqueue.copy.record.enable": "true",
        }.items():
            entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            group.add_incremental_config(entry)
        for done in admin.incremental_alter_configs([group]).values():
            done.result()
        yield broker


def _write(broker: Broker) -> dict[tuple[int, int], str]:
    """Produce records, of which every third is to be rejected; return those, by partition and offset."""
    bad: dict[tuple[int, int], str] = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        value = f"reject {number}" if number % 3 == 0 else f"poison {number}" if number % 50 == 1 else "good"
        if value != "good":
            bad[number % 2, number // 2] = value
        producer.produce(TOPIC, value, partition=number % 2)
    producer.flush()
    return bad


def _letters(broker: Broker) -> list[tuple[tuple[int, int], str]]:
    """Return the dead letters, as partition and offset of the record with its value."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader"})
    try:
        where = TopicPartition(DEAD, 0, 0)
        _, end = consumer.get_watermark_offsets(where, timeout=10)
        consumer.assign([where])
        found: list[tuple[tuple[int, int], str]] = []
        while len(found) < end:
            record = consumer.poll(5)
            assert record is not None
            assert record.error() is None, record.error()
            headers: dict[str, Any] = dict(record.headers() or [])
            place = int(headers["__dlq.errors.partition"]), int(headers["__dlq.errors.offset"])
            assert headers["__dlq.errors.topic"] == TOPIC.encode()
            found.append((place, (record.value() or b"").decode()))
        return found
    finally:
        consumer.close()


def _is_complete(broker: Broker) -> bool:
    with Admin(broker.bootstrap_servers) as admin:
        offsets = admin.share_offsets(TOPIC)
    return len(offsets) == 2 and all(one.lag == 0 for one in offsets)


@pytest.mark.parametrize("library", [JAVA, "confluent"])
def test_each_dead_letter_is_there_once_though_the_broker_is_killed(broker: Broker, library: str) -> None:
    """Rejected records and those that nobody can process, and no others."""
    bad = _write(broker)
    membership = ShareMembership(broker.bootstrap_servers, TOPIC, TOPIC, library, most=20)
    members = [ShareMember(membership) for _ in range(2)]
    try:
        for number in range(1, KILLS + 1):
            enough = number * RECORDS // (2 * KILLS)
            wait_until(
                lambda enough=enough: sum(len(one.records) for one in members) >= enough,  # type: ignore[misc]
                lambda: str([*map(str, members)]),
                60,
            )
            time.sleep(0.05 * number)
            broker.kill()
            broker.restart()
        wait_until(lambda: _is_complete(broker), lambda: str([*map(str, members)]), 90)
    finally:
        for member in members:
            member.end()
    found = _letters(broker)
    assert Counter(place for place, _ in found) == Counter(bad.keys())
    assert dict(found) == bad
