"""Reads the records of Kafka's coordinators, so that what cannot be read is known before the first start."""

from __future__ import annotations

from collections.abc import Callable

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC, Millis
from headgate.log.batch import BatchHeader, CorruptBatch, iterate_records
from headgate.log.markers import is_marker
from headgate.records import decode
from headgate.records.errors import MalformedRecord
from headgate.records.share_state import decode_share
from headgate.records.transactions import decode_transaction

BatchReader = Callable[[BatchHeader, memoryview], None]
"""Reads a good batch. Raises CorruptBatch for a record that a coordinator could not load."""
Decode = Callable[[bytes | None, bytes | None, Millis], object]


def read_nothing(header: BatchHeader, batch: memoryview) -> None:
    """Do nothing: records of ordinary topics have any form."""


def coordinator_reader(topic: str) -> BatchReader:
    """Return what reads the batches of a topic."""
    decode_one = _DECODERS.get(topic)
    if decode_one is None:
        return read_nothing

    def read(header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            _read_control(header, batch)
            return
        for offset, record in iterate_records(batch):
            try:
                decode_one(record.key, record.value, Millis(record.timestamp))
            except MalformedRecord as problem:
                raise CorruptBatch(f"the record at offset {offset} cannot be read: {problem}") from None

    return read


def _read_control(header: BatchHeader, batch: memoryview) -> None:
    """Read a marker as the load of the log does."""
    try:
        is_marker(header, batch)
    except CorruptBatch as problem:
        reason = f"the control record at offset {header.base_offset} cannot be read: {problem.reason}"
        raise CorruptBatch(reason) from None


_DECODERS: dict[str, Decode] = {
    GROUP_OFFSETS_TOPIC: decode,
    SHARE_STATE_TOPIC: decode_share,
    TRANSACTION_STATE_TOPIC: lambda key, value, written: decode_transaction(key, value),
}
