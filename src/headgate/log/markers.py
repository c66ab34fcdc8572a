"""The markers that end transactions: control batches of one record, in Kafka's format.

key    version i16 | type i16: 0 abort, 1 commit
value  version i16 | epoch of the transaction coordinator i32
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records
from headgate.log.header import BatchHeader, Buffer

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_ABORT: Final = 0
_COMMIT: Final = 1


class EndMarker(NamedTuple):
    """How a transaction ended."""

    is_committed: bool
    coordinator_epoch: int
    """The epoch of the transaction coordinator that decided it."""


def encode_marker(marker: EndMarker, producer_id: int, producer_epoch: int, timestamp: int) -> bytearray:
    """The control batch that ends the open transaction of a producer; `timestamp` in ms."""
    key = _KEY.pack(0, _COMMIT if marker.is_committed else _ABORT)
    return encode_batch(
        [Record(key, _VALUE.pack(0, marker.coordinator_epoch), timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_marker(batch: Buffer) -> EndMarker | None:
    """What a control batch says; None for a control record that ends no transaction. Raises CorruptBatch."""
    _, record = next(iterate_records(batch))
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record has no type")
    _, kind = _KEY.unpack_from(key)
    if kind not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptBatch("a marker does not say which coordinator wrote it")
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return EndMarker(kind == _COMMIT, coordinator_epoch)


def is_marker(header: BatchHeader, batch: Buffer) -> bool:
    """Return whether a control batch ends a transaction; an empty one, which Kafka's compaction leaves, does
    not. Raises CorruptBatch.
    """
    return header.record_count > 0 and read_marker(batch) is not None
