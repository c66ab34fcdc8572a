"""Records as the columns of `headgate.log.batch_records`, and as tuples."""

from __future__ import annotations

from typing import Any

from tests.spark.support import chunk_of

from headgate.log import batch_records
from headgate.log.batch import Record
from headgate.log.batch_records import Records
from headgate.log.batch_scan import Corruption, scan_chunk
from headgate.spark import arrow

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def read(data: bytes | bytearray) -> tuple[list[Records], list[Corruption]]:
    """Return all records of a part of a log."""
    pieces, corruptions = [], []
    for records, found in batch_records.unpack(scan_chunk(chunk_of(data))):
        pieces.append(records)
        corruptions += found
    return pieces, corruptions


def as_records(pieces: list[Records]) -> list[tuple[int, Record]]:
    """Return columns as the tuples of `iterate_records`."""
    found: list[tuple[int, Record]] = []
    for records in pieces:
        keys = arrow.binaries(records.payload, records.key_at, records.key_size).to_pylist()
        values = arrow.binaries(records.payload, records.value_at, records.value_size).to_pylist()
        headers = [
            tuple((header["key"].encode(), header["value"]) for header in cell or ())
            for cell in arrow.headers(records).to_pylist()
        ]
        columns: Any = (records.offset.tolist(), keys, values, records.timestamp_ms.tolist(), headers)
        found += [(offset, Record(*cells)) for offset, *cells in zip(*columns, strict=True)]
    return found
