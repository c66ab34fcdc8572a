"""Columns of records as Arrow arrays.

Arrow copies keys and values once: the payload becomes the data of an array whose elements alternate between a
wanted part and the gap after it, and a `take` of the wanted ones makes a compact array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from headgate.log.batch_records import Records, read_headers
from headgate.log.batch_scan import WORD_BYTES, Bits, Ints, words_of
from headgate.spark import text_kernel
from headgate.spark.text_kernel import Kernels

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
    count = len(milliseconds)
    least, most = (int(milliseconds.min()), int(milliseconds.max())) if count else (0, 0)
    if least >= 0 and most <= LAST_TIMESTAMP_MS:
        return pa.array(milliseconds * 1000, type=pa.int64()).view(_TIMESTAMP)
    if most < 0:
        return constant(None, count, _TIMESTAMP)
    is_null = (milliseconds < 0) | (milliseconds > LAST_TIMESTAMP_MS)
    kept = np.where(is_null, 0, milliseconds) * 1000
    return pa.array(kept, type=pa.int64(), mask=is_null).view(_TIMESTAMP)


def microseconds(milliseconds: int) -> int | None:
    """Return a time for a timestamp column, in microseconds; None where `timestamps` has null."""
    return milliseconds * 1000 if 0 <= milliseconds <= LAST_TIMESTAMP_MS else None


def constant(value: str | int | bool | None, size: int, kind: pa.DataType) -> pa.Array:
    """Return a column with the same value in every row."""
    return _repeated(value, 1 << max(size - 1, 0).bit_length(), kind).slice(0, size)


@lru_cache(maxsize=16)
def _repeated(value: str | int | bool | None, size: int, kind: pa.DataType) -> pa.Array:
    """Return such a column; the next batches of a log need the same ones."""
    return pa.repeat(pa.scalar(value, type=kind), size)


def binaries(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """Return a binary column: `size` bytes from `at` in each row, null for size -1. Positions must ascend.

    The payload has `PADDING` bytes after the last row's.
    """
    kernels = text_kernel.compiled_kernels()
    if kernels is not None and len(payload) <= _MOST_BYTES:
        return _copied(kernels, payload, at, size)
    count = len(at)
    bounds = np.empty(2 * count + 1, dtype=np.int32)
    bounds[0:-1:2] = at
    bounds[1::2] = at + np.maximum(size, 0)
    bounds[-1] = bounds[-2] if count else 0
    parts = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(payload)])
    is_null = size < 0
    wanted = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=is_null if is_null.any() else None)
    return parts.take(wanted)


def _copied(kernels: Kernels, payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """Return the same column, copied by machine code."""
    place, copy = kernels
    ends = np.empty(len(at) + 1, np.int32)
    missing = place(size, ends)
    size_of_all = int(ends[-1])
    content = np.empty(size_of_all + WORD_BYTES, np.uint8)
    copy(words_of(payload), at, ends, words_of(content))
    there = pa.py_buffer(np.packbits(size >= 0, bitorder="little")) if missing else None
    buffers = [there, pa.py_buffer(ends), pa.py_buffer(content[:size_of_all])]
    return pa.Array.from_buffers(pa.binary(), len(at), buffers)


def strings(payload: bytes | bytearray, at: Ints, size: Ints) -> pa.Array:
    """Return a string column of UTF-8 bytes; invalid bytes become replacement characters."""
    raw = binaries(payload, at, size)
    there, ends, content = raw.buffers()
    if not raw.offset and _is_ascii(content):
        return pa.Array.from_buffers(pa.string(), len(raw), [there, ends, content])
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = (None if cell is None else cell.decode("utf-8", "replace") for cell in raw.to_pylist())
        return pa.array(texts, type=pa.string())


def _is_ascii(content: pa.Buffer | None) -> bool:
    """Return whether all bytes are ASCII: then no text needs a check of its own."""
    return content is None or not content.size or int(np.frombuffer(content, np.uint8).max()) < 0x80


def leader_epochs(records: Records) -> pa.Array:
    """Return the leader epoch of each record's batch; null if the batch has none."""
    return _of_batches(records, records.batches.leader_epoch, pa.int32())


def producer_ids(records: Records) -> pa.Array:
    """Return the producer id of each record's batch; null if the batch has none."""
    return _of_batches(records, records.batches.producer_id, pa.int64())


def _of_batches(records: Records, values: Ints, kind: pa.DataType) -> pa.Array:
    """Return a number of each record's batch, null below 0; mostly all batches have the same."""
    if len(values) and (values == values[0]).all():
        number = int(values[0])
        return constant(None if number < 0 else number, len(records), kind)
    of_records = values[records.batch]
    return integers(of_records, kind, of_records < 0)


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
