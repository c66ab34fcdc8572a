"""Markers and transactional batches: what a reader finds is what was written, byte for byte Kafka's."""

from __future__ import annotations

import pytest
from tests.log.support import headers_of

from headgate.log.batch import CorruptBatch, Record, encode_batch, iterate_records
from headgate.log.header import set_transaction
from headgate.log.markers import EndMarker, encode_marker, read_marker


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_marker_is_a_control_batch_of_its_producer(is_committed: bool) -> None:
    """It is what a log takes, and says how the transaction of which producer ended."""
    marker = EndMarker(is_committed, 7)
    batch = encode_marker(marker, 4000, 3, 1_700_000_000_000)
    (header,) = headers_of(batch)
    assert header.is_control and header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, -1)
    assert read_marker(batch) == marker
    ((_, record),) = iterate_records(batch)
    assert record.key == bytes((0, 0, 0, is_committed))
    assert record.value == b"\0\0\0\0\0\7"


def test_other_control_records_are_no_markers() -> None:
    """A type that ends no transaction is none of ours; what has no type is damaged."""
    unknown = encode_batch([Record(b"\0\0\0\5", b"\0\0\0\0\0\0")], is_control=True)
    assert read_marker(unknown) is None
    for key, value in ((b"\0", b"\0\0\0\0\0\0"), (None, b""), (b"\0\0\0\1", b"\0"), (b"\0\0\0\1", None)):
        with pytest.raises(CorruptBatch):
            read_marker(encode_batch([Record(key, value)], is_control=True))


def test_a_batch_becomes_part_of_a_transaction() -> None:
    """Its producer and the attribute change, its records do not, and its CRC holds."""
    plain = encode_batch([Record(b"k", b"v", 5), Record(b"l", None, 5)])
    batch = bytearray(plain)
    set_transaction(batch, 1 << 40, 12)
    (header,) = headers_of(batch)
    assert header.is_transactional and not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1 << 40, 12, 0)
    assert list(iterate_records(batch)) == list(iterate_records(plain))
