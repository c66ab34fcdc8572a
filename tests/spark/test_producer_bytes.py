"""Batches of other producers are read in every codec."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from tests.spark.unpacked import CODECS, as_records, read

HEADERS = [("trace", b"\x00\x01"), ("none", None)]


def by_aiokafka(codec: int) -> bytes:
    """Return 200 records in one batch of aiokafka."""
    builder: Any = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for number in range(200):
        builder.append(number, 1_700_000_000_000 + number, b"key", b"value %d" % number, HEADERS)
    return bytes(builder.build())


def by_kafka_python(codec: int) -> bytes:
    """Return 200 records in one batch of kafka-python."""
    with warnings.catch_warnings():
        # The library uses a deprecated function of importlib.
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.record import MemoryRecordsBuilder
    builder: Any = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for number in range(200):
        builder.append(1_700_000_000_000 + number, b"key", b"value %d" % number, HEADERS)
    builder.close()
    return bytes(builder.buffer())


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("build", [by_aiokafka, by_kafka_python])
def test_a_batch_of_another_library_is_read(build: Any, codec: int) -> None:
    """Keys, values, times and headers are those that were produced."""
    data = build(codec)
    pieces, corruptions = read(data)
    assert corruptions == []
    records = [record for _, record in as_records(pieces)]
    assert [record.value for record in records] == [b"value %d" % number for number in range(200)]
    assert [record.timestamp - 1_700_000_000_000 for record in records] == list(range(200))
    assert {record.key for record in records} == {b"key"}
    assert {record.headers for record in records} == {((b"trace", b"\x00\x01"), (b"none", None))}
