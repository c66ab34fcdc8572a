"""The records of many batches as columns: the strict reader, for logs that were recovered.

It is much faster than reading them one by one. If anything is unusual or wrong, the caller uses
`iterate_records`, which reads the same records and reports faults. The server does not use machine code here:
to load it takes longer than the event loop may wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headgate.log.compression import decompress
from headgate.log.header import HEADER_BYTES, MAGIC, BatchHeader, Buffer
from headgate.log.record_fields import Fields, find_fields, offsets_rise

Int64s = NDArray[np.int64]

READ_PAST_BYTES = 64
"""Number of zeros after the records in `RecordColumns.data`, for reads slightly past the end."""
_SMALLEST_RECORD_BYTES = 7


@dataclass(slots=True, eq=False)
class RecordColumns:
    """The records of some batches, in order: an element of each array is a record.

    Starts are positions in `data`. The size of a null key or value is -1.
    """

    data: bytes
    offsets: Int64s
    """Log offsets."""
    key_starts: Int64s
    key_sizes: Int64s
    value_starts: Int64s
    value_sizes: Int64s
    ends: Int64s
    """End position of each record."""
    has_headers: NDArray[np.bool_]
    timestamps: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, at: int) -> bytes | None:
        """Return the key of one record."""
        start, size = int(self.key_starts[at]), int(self.key_sizes[at])
        return None if size < 0 else self.data[start : start + size]

    def value(self, at: int) -> bytes | None:
        """Return the value of one record."""
        start, size = int(self.value_starts[at]), int(self.value_sizes[at])
        return None if size < 0 else self.data[start : start + size]


def read_columns(batches: Sequence[tuple[BatchHeader, Buffer]]) -> RecordColumns | None:
    """Return the records of these batches; None if a record is malformed or unusual.

    Raises CorruptBatch if a compressed batch cannot be decompressed.
    """
    headers = [header for header, _ in batches]
    if any(header.magic != MAGIC or header.record_count < 0 for header in headers):
        return None
    bodies = [
        decompress(header.codec, memoryview(batch)[HEADER_BYTES:])
        if header.codec
        else memoryview(batch)[HEADER_BYTES:]
        for header, batch in batches
    ]
    data = b"".join((*bodies, bytes(READ_PAST_BYTES)))
    sizes = np.array([len(body) for body in bodies], np.int64)
    ends = np.cumsum(sizes)
    counts = np.array([header.record_count for header in headers], np.int64)
    if (counts * _SMALLEST_RECORD_BYTES > sizes).any():
        return None
    astray, fields = find_fields(data, ends - sizes, ends, counts)
    return None if astray.any() else _checked(data, fields, headers, counts)


def _checked(
    data: bytes, fields: Fields, headers: Sequence[BatchHeader], counts: Int64s
) -> RecordColumns | None:
    """Return the columns; None if fields exceed their records or offsets do not ascend."""
    has_headers = fields.header_count != 0
    wrong = fields.overrun | (fields.header_count < 0) | (~has_headers & (fields.headers_at != fields.end))
    batch = np.repeat(np.arange(len(headers)), counts)
    last_deltas = np.array([header.last_offset_delta for header in headers], np.int64)
    if wrong.any() or not offsets_rise(fields.offset_delta, batch, last_deltas).all():
        return None
    base_offsets = np.array([header.base_offset for header in headers], np.int64)
    timestamps = np.array([header.base_timestamp for header in headers], np.int64)[batch]
    timestamps += fields.timestamp_delta
    for at, header in enumerate(headers):
        if header.uses_log_append_time:
            timestamps[batch == at] = header.max_timestamp
    return RecordColumns(
        data,
        base_offsets[batch] + fields.offset_delta,
        fields.key_at,
        fields.key_size,
        fields.value_at,
        fields.value_size,
        fields.end,
        has_headers,
        timestamps,
    )
