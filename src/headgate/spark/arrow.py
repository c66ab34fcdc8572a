"""Columns of records as Arrow arrays.

Keys and values are copied once, by Arrow: the payload serves as the data of an array whose elements are turn
by turn a wanted stretch and the gap behind it, and a `take` of the wanted ones makes a compact array of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import Bits, Ints

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

Column = Callable[[], pa.Array]
"""Makes a column when it is asked for: columns nobody wants cost nothing."""


@dataclass(frozen=True, slots=True)
class Rows:
    """So many rows, and the columns they have."""

    count: int
    columns: Mapping[str, Column]


LAST_TIMESTAMP_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: Spark has no timestamps beyond."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")


def integers(values: Ints, kind: pa.DataType, is_null: Bits | None = None) -> pa.Array:
    """An integer column, null where `is_null`."""
    mask = None if is_null is None or not is_null.any() else is_null
    return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), type=kind, mask=mask)


def timestamps(milliseconds: Ints) -> pa.Array:
    """A timestamp column; null where there is none (Kafka's -1), or none that Spark could show."""
    is_null = (milliseconds < 0) | (milliseconds > LAST_TIMESTAMP_MS)
    if is_null.any():
        return pa.array(np.where(is_null, 0, milliseconds) * 1000, type=pa.int64(), mask=is_null).view(
            _TIMESTAMP
        )
    return pa.array(milliseconds * 1000, type=pa.int64()).view(_TIMESTAMP)


def microseconds(milliseconds: int) -> int | None:
    """A time for a timestamp column, in microseconds; None where `timestamps` would have null."""
    return milliseconds * 1000 if 0 <= milliseconds <= LAST_TIMESTAMP_MS else None


def constant(value: str | int, size: int, kind: pa.DataType) -> pa.Array:
    """The same value in every row."""
    return pa.repeat(pa.scalar(value, type=kind), size)


def binaries(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """A binary column: `size` bytes from `at` on in each row, null where the size is -1. Places must rise."""
    count = len(at)
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0:-1:2] = at
    bounds[1::2] = at + np.maximum(size, 0)
    bounds[-1] = bounds[-2] if count else 0
    parts = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(payload)])
    is_null = size < 0
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None)
    return parts.take(wanted)


def strings(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """A string column over UTF-8 bytes; bytes that are not UTF-8 become replacement characters."""
    raw = binaries(payload, at, size)
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (None if cell is None else cell.decode("utf-8", "replace") for cell in raw.to_pylist())
        return pa.array(texts, type=pa.string())


def leader_epochs(records: Records) -> pa.Array:
    """The leader epoch of each record's batch; null where the batch has none."""
    epochs = records.batches.leader_epoch[records.batch]
    return integers(epochs, pa.int32(), epochs < 0)


def headers(records: Records) -> pa.Array:
    """The headers column: null for a record without any, as Kafka's own connector has it."""
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
