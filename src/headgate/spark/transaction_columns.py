"""The records of `__transaction_state`, the log of the transaction coordinator, as `schemas.TRANSACTIONS`."""

from __future__ import annotations

from headgate.domain.ids import TopicPartition
from headgate.log.batch_records import Records
from headgate.records import MalformedRecord
from headgate.records.transactions import (
    TransactionMetadata,
    TransactionTombstone,
    decode_transaction,
)
from headgate.spark.arrow import Rows, microseconds
from headgate.spark.event_rows import MALFORMED, OTHER, Event, event_columns, keys_and_values
from headgate.spark.schemas import TRANSACTIONS

KEY_VERSION = 0
LAST_VALUE_VERSION = 1


def rows(records: Records, where: TopicPartition) -> Rows:
    """Return all records, as `schemas.TRANSACTIONS`."""
    keys, values = keys_and_values(records)
    events = [_event(key, value) for key, value in zip(keys, values, strict=True)]
    return Rows(len(records), event_columns(records, where, TRANSACTIONS, events, (keys, values)))


def _event(key: bytes | None, value: bytes | None) -> Event:
    try:
        transactional_id = decode_transaction(key, None).transactional_id
    except MalformedRecord:
        return {"event": OTHER if _is_later(key, KEY_VERSION) else MALFORMED}
    event: Event = {"transactional_id": transactional_id}
    try:
        record = decode_transaction(key, value)
    except MalformedRecord:
        return event | {"event": OTHER if _is_later(value, LAST_VALUE_VERSION) else MALFORMED}
    if isinstance(record, TransactionTombstone):
        return event | {"event": "removed"}
    return event | _transition(record)


def _is_later(data: bytes | None, last: int) -> bool:
    """Return whether bytes have a version later than `last`, an int16 at their start."""
    return data is not None and len(data) >= 2 and int.from_bytes(data[:2], "big", signed=True) > last


def _transition(record: TransactionMetadata) -> Event:
    return {
        "event": "transition",
        "state": record.state.title,
        "producer_id": _number(record.producer_id),
        "producer_epoch": _number(record.producer_epoch),
        "last_producer_epoch": _number(record.last_producer_epoch),
        "previous_producer_id": _number(record.previous_producer_id),
        "next_producer_id": _number(record.next_producer_id),
        "timeout_ms": record.timeout_ms,
        "partitions": [
            {"topic": topic, "partition": partition}
            for topic, partitions in sorted(record.partitions.items())
            for partition in sorted(partitions)
        ],
        "started_at": microseconds(record.start_timestamp),
        "updated_at": microseconds(record.last_update_timestamp),
        "client_transaction_version": record.client_transaction_version,
    }


def _number(value: int) -> int | None:
    """Return an id or an epoch; None for -1, which is none."""
    return None if value < 0 else value
