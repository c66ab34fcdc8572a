"""Members of groups that read with the stock client, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer
from tests.waiting import wait_until

ASSIGNED_WITHIN_S = 30.0


@contextmanager
def reading(
    bootstrap: str, group: str, topic: str, settings: Mapping[str, str] | None = None
) -> Iterator[Consumer]:
    """A consumer in the group that has partitions of the topic and commits only when it is told to.

    `settings` are the client's, beside the necessary ones. It leaves the group at the end of the block.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            **(settings or {}),
        }
    )
    consumer.subscribe([topic])

    def has_partitions() -> bool:
        consumer.poll(0.05)
        return bool(consumer.assignment())

    try:
        wait_until(has_partitions, f"a member of {group} has partitions of {topic}", ASSIGNED_WITHIN_S)
        yield consumer
    finally:
        consumer.close()
