"""What a share group persisted of its deliveries, read as any consumer may: from `__share_group_state`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from headgate.domain.ids import Millis
from headgate.records.share_state import decode_share
from headgate.records.share_state_model import ShareRecord, ShareSnapshot, ShareUpdate

STATE_TOPIC = "__share_group_state"
READ_TIMEOUT_S = 30.0

Place = tuple[int, int]
"""Partition and offset of a record."""


class Persisted(NamedTuple):
    """The last state that was persisted of a record."""

    delivery_count: int
    state: int
    """A `DeliveryState`."""


def persisted_states(bootstrap: str, group: str) -> dict[Place, Persisted]:
    """Return the last persisted state of each record of the group's only topic.

    States are merged as the share coordinator does: the higher count, then the higher state (F18).
    """
    found: dict[Place, Persisted] = {}
    for record in _records(bootstrap):
        if isinstance(record, ShareSnapshot | ShareUpdate) and record.key.group_id == group:
            for batch in record.batches:
                new = Persisted(batch.delivery_count, batch.delivery_state)
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    place = record.key.partition, offset
                    found[place] = max(new, found.get(place, new))
    return found


def _records(bootstrap: str) -> Iterator[ShareRecord]:
    """Yield the records of the topic up to its end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "states", "enable.partition.eof": True, "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(STATE_TOPIC, timeout=READ_TIMEOUT_S).topics[STATE_TOPIC].partitions
        consumer.assign([TopicPartition(STATE_TOPIC, one, OFFSET_BEGINNING) for one in partitions])
        left = set(partitions)
        while left:
            message = consumer.poll(READ_TIMEOUT_S)
            assert message is not None, f"the end of partitions {left} did not come"
            error = message.error()
            if error is None:
                yield decode_share(message.key(), message.value(), Millis(0))
                continue
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(message.partition())
    finally:
        consumer.close()
