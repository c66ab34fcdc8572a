"""Produce the flights with confluent-kafka, at a fixed rate, each of them acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from demo.flights import Flight
from demo.story import FLIGHTS_PRODUCED_PER_S, TOPIC, DemoFailed

_SLICE_S = 0.05
MOST_IN_A_REQUEST = 10_000
"""Partitions that one request may create, as in Kafka."""


def create_topic(address: str, name: str, partition_count: int) -> None:
    """Create the topic, in several requests if it is a wide one."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
    topic = NewTopic(name, num_partitions=min(partition_count, MOST_IN_A_REQUEST), replication_factor=1)
    for created in admin.create_topics([topic], request_timeout=10.0).values():
        created.result(timeout=10.0)
    for count in range(2 * MOST_IN_A_REQUEST, partition_count + MOST_IN_A_REQUEST, MOST_IN_A_REQUEST):
        wider = NewPartitions(name, min(count, partition_count))
        for grown in admin.create_partitions([wider], request_timeout=10.0).values():
            grown.result(timeout=10.0)


def produce(address: str, flights: list[Flight], on_progress: Callable[[int], None]) -> None:
    """Produce all flights; call `on_progress` with the number acknowledged so far."""
    acknowledged, problems = 0, []

    def delivered(problem: Any, _message: Any) -> None:
        nonlocal acknowledged
        if problem is None:
            acknowledged += 1
        else:
            problems.append(str(problem))

    producer = Producer(
        {
            "bootstrap.servers": address,
            "client.id": "departures-desk",
            "log_level": 2,  # its errors arrive with the deliveries
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            "linger.ms": 20,
        }
    )
    slice_size = int(FLIGHTS_PRODUCED_PER_S * _SLICE_S)
    due = time.monotonic()
    for first in range(0, len(flights), slice_size):
        for key, value in flights[first : first + slice_size]:
            producer.produce(TOPIC, key=key, value=value, on_delivery=delivered)
        producer.poll(0)
        on_progress(acknowledged)
        if problems:
            break
        due += _SLICE_S
        time.sleep(max(0.0, due - time.monotonic()))
    producer.flush(30.0)
    on_progress(acknowledged)
    if problems or acknowledged != len(flights):
        why = problems[0] if problems else "no answer"
        raise DemoFailed(f"{len(flights) - acknowledged} flights were not acknowledged: {why}")
