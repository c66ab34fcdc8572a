"""Columns of records as Arrow arrays.

Arrow copies keys and values once: the payload becomes the data of an array whose elements alternate between a
wanted part and the gap after it, and a `take` of the wanted ones makes a compact array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import Bits, Ints
from headgate.spark import text_kernel

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

Column = Callable[[], pa.Array]
"""Builds a column when called, so that columns that are not selected cost nothing."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A number of rows, and their columns."""

    count: int
    columns: Mapping[str, Column]


_MOST_BYTES = (1 << 31) - 1
"""Maximum size of a column, whose positions have 32 bits."""

LAST_TIMESTAMP_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, the maximum of Spark's timestamps."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def integers(values: Ints, kind: pa.DataType, is_null: Bits | None = None) -> pa.Array:
    """Return an integer column, null where `is_null`."""
    mask = None if is_null is None or not is_null.any() else is_null
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), type=kind, mask=mask)


def timestamps(milliseconds: Ints) -> pa.Array:
    """Return a timestamp column; null for no timestamp (Kafka's -1), and for one that Spark cannot show."""
    is_null = (milliseconds < 0) | (milliseconds > LAST_TIMESTAMP_MS)
    if is_null.any():
        return pa.array(np.where(is_null, 0, milliseconds) * 1000, type=pa.int64(), mask=is_null).view(
            _TIMESTAMP
        )
    return pa.array(milliseconds * 1000, type=pa.int64()).view(_TIMESTAMP)


def microseconds(milliseconds: int) -> int | None:
    """Return a time for a timestamp column, in microseconds; None where `timestamps` has null."""
    return milliseconds * 1000 if 0 <= milliseconds <= LAST_TIMESTAMP_MS else None


def constant(value: str | int, size: int, kind: pa.DataType) -> pa.Array:
    """Return a column with the same value in every row."""
    return pa.repeat(pa.scalar(value, type=kind), size)


def binaries(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """Return a binary column: `size` bytes from `at` in each row, null for size -1. Positions must ascend."""
    copy = text_kernel.compiled_copy_parts
    total = int(size.sum(where=size > 0))
    if copy is not None and total <= _MOST_BYTES:
        return _copied(payload, at, size, copy)
    count = len(at)
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0:-1:2] = at
    bounds[1::2] = at + np.maximum(size, 0)
    bounds[-1] = bounds[-2] if count else 0
    parts = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(payload)])
    is_null = size < 0
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None)
    return parts.take(wanted)


def _copied(payload: bytes | bytearray, at: Ints, size: Ints, copy: Callable[..., None]) -> pa.Array:
    is_null = size < 0
    ends = np.zeros(len(at) + 1, np.int32)
    np.cumsum(np.maximum(size, 0) if is_null.any() else size, out=ends[1:])
    content = np.empty(int(ends[-1]), np.uint8)
    copy(np.frombuffer(payload, np.uint8), at, ends, content)
    there = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(at), buffers)


def strings(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """Return a string column of UTF-8 bytes; invalid bytes become replacement characters."""
    raw = binaries(payload, at, size)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (None if cell is None else cell.decode("utf-8", "replace") for cell in raw.to_pylist())
        return pa.array(texts, type=pa.string())


def leader_epochs(records: Records) -> pa.Array:
    """Return the leader epoch of each record's batch; null if the batch has none."""
    epochs = records.batches.leader_epoch[records.batch]
    return integers(epochs, pa.int32(), epochs < 0)


def headers(records: Records) -> pa.Array:
    """Return the headers column: null for a record without headers, as in Kafka's own connector."""
    counts = records.header_count
    is_null = counts == 0
    if is_null.all():
        return pa.nulls(len(records), HEADERS)
    payload = records.payload
    found, _ = read_headers(payload, records.headers_at, records.headers_end, counts)
    pairs = pa.StructArray.from_arrays(
        [
            strings(payload, found.key_at, found.key_size),
            binaries(payload, found.value_at, found.value_size),
        ],
        fields=list(HEADERS.value_type),
    )
    ends = np.cumsum(counts)
    starts = pa.array(np.append(0, ends).astype(np.int32), mask=np.append(is_null, False))
    return pa.ListArray.from_arrays(starts, pairs, type=HEADERS)
