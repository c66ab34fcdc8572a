"""A fetch that finds nothing waits at the broker, and is answered as soon as there is something."""

from __future__ import annotations

import threading
import time

from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition
from tests.compat.support.driver import Driver

LONGEST_WAIT_MS = 8_000


def test_a_parked_fetch_is_answered_when_a_record_arrives(admin: Driver, bootstrap: str, name: str) -> None:
    """The record comes long before the wait is over."""
    admin.create_topic(name, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "fetch.wait.max.ms": LONGEST_WAIT_MS,
            "socket.timeout.ms": 20_000,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    producer.list_topics(name, timeout=10)
    sent_at: list[float] = []

    def send() -> None:
        sent_at.append(time.monotonic())
        producer.produce(name, b"at last")
        producer.flush(10)

    timer = threading.Timer(1.5, send)
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_END)])
        assert consumer.poll(0.5) is None
        timer.start()
        message = consumer.poll(LONGEST_WAIT_MS / 1000)
        waited_s = time.monotonic() - sent_at[0]
    finally:
        timer.join()
        consumer.close()
    assert message is not None and message.value() == b"at last"
    assert waited_s < 1.0


def test_a_fetch_that_wants_more_bytes_waits_no_longer_than_it_said(
    admin: Driver, bootstrap: str, name: str
) -> None:
    """With too little to send, the answer comes when the wait is over, not before."""
    admin.create_topic(name, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(name, b"too little")
    assert producer.flush(10) == 0
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": name,
        "fetch.min.bytes": 100_000,
        "fetch.wait.max.ms": 1_500,
    }
    consumer = Consumer(config)
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        began = time.monotonic()
        message = consumer.poll(10)
        waited_s = time.monotonic() - began
    finally:
        consumer.close()
    assert message is not None and message.value() == b"too little"
    assert 1.2 < waited_s < 4
