"""Many offset records as bytes, in blocks. The records of a block have the same size and are rows of arrays.

The bytes equal those of `codec.encode`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.records.model import NO_EXPIRY
from headgate.records.offset_commit import EXPIRY_VERSION, WRITTEN_VERSION
from headgate.records.offset_rows import VALUE_HEAD, Int64s, OffsetRows

ByteRows = NDArray[np.uint8]
"""Byte strings of one length: a row for each."""

_LARGEST_TEXT = 1 << 16
_GONE = _LARGEST_TEXT - 1
"""Metadata size of tombstones in the sort key of blocks; larger than any real size."""
_PARTITION_BYTES = 4
_EXPIRY_HEAD = np.dtype([("version", ">i2"), ("offset", ">i8"), ("metadata", ">i2")])
_EXPIRY_TAIL = np.dtype([("commit", ">i8"), ("expire", ">i8")])


class OffsetBlock(NamedTuple):
    """Records with keys of one length and values of one length, a row for each record."""

    places: Int64s
    """The indexes of the records among all records; ascending."""
    keys: ByteRows
    values: ByteRows | None
    """None for tombstones."""


def blocks_of(rows: OffsetRows) -> Iterator[OffsetBlock]:
    """Yield all records in blocks. Each record is in one block."""
    if not len(rows):
        return
    texts = _Texts(rows)
    sizes = texts.sizes
    sizes[rows.is_gone] = _GONE
    prefix_sizes = np.array([len(prefix) for prefix in rows.prefixes], np.int64)
    kinds = prefix_sizes[rows.stretch_of] * _LARGEST_TEXT + sizes
    order = np.argsort(kinds, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
        first = int(places[0])
        keys = _keys(rows, places)
        if rows.is_gone[first]:
            yield OffsetBlock(places, keys, None)
            continue
        yield OffsetBlock(places, keys, _values(rows, places, texts.of(places)))


class _Texts:
    """The metadata of rows, concatenated."""

    def __init__(self, rows: OffsetRows) -> None:
        texts = rows.metadata.values()
        together = "".join(texts)
        self._octets = np.frombuffer(together.encode(), np.uint8)
        lengths = map(len, texts) if together.isascii() else (len(text.encode()) for text in texts)
        at = np.fromiter(rows.metadata, np.int64, len(texts))
        self.sizes = np.zeros(len(rows), np.int64)
        """Bytes of metadata of each row."""
        self.sizes[at] = np.fromiter(lengths, np.int64, len(texts))
        self._starts = np.zeros(len(rows), np.int64)
        self._starts[at] = np.cumsum(self.sizes[at]) - self.sizes[at]

    def of(self, places: Int64s) -> ByteRows:
        """Return the metadata of rows whose metadata has one size."""
        size = int(self.sizes[places[0]])
        if not size:
            return np.empty((len(places), 0), np.uint8)
        one = np.dtype(f"V{size}")
        anywhere = np.ndarray((len(self._octets) - size + 1,), one, self._octets, strides=(1,))
        return anywhere[self._starts[places]].view(np.uint8).reshape(len(places), size)


def _keys(rows: OffsetRows, places: Int64s) -> ByteRows:
    """Return the keys of rows whose key prefixes have one length."""
    stretches = rows.stretch_of[places]
    keys = keys_of(rows.prefixes[stretches[0]], rows.partitions[places])
    if stretches[0] != stretches[-1]:
        used, which = np.unique(stretches, return_inverse=True)
        prefixes = np.frombuffer(b"".join([rows.prefixes[one] for one in used.tolist()]), np.uint8)
        keys[:, :-_PARTITION_BYTES] = prefixes.reshape(len(used), -1)[which]
    return keys


def keys_of(prefix: bytes, partitions: Int64s) -> ByteRows:
    """Return a key for each partition, all with the prefix `prefix`."""
    keys = np.empty((len(partitions), len(prefix) + _PARTITION_BYTES), np.uint8)
    keys[:, : len(prefix)] = np.frombuffer(prefix, np.uint8)
    keys[:, len(prefix) :] = partitions.astype(">i4").view(np.uint8).reshape(-1, _PARTITION_BYTES)
    return keys


def _values(rows: OffsetRows, places: Int64s, texts: ByteRows) -> ByteRows:
    if rows.expire_timestamp != NO_EXPIRY:
        return _values_with_expiry(rows, places, texts)
    count, text_size = texts.shape
    heads = np.empty(count, VALUE_HEAD)
    heads["version"], heads["metadata"] = WRITTEN_VERSION, text_size
    heads["offset"], heads["epoch"] = rows.offsets[places], rows.leader_epochs[places]
    timestamps = rows.commit_timestamps[places].astype(">i8")
    columns = (heads.view(np.uint8).reshape(count, -1), texts, timestamps.view(np.uint8).reshape(count, -1))
    return np.hstack(columns)


def _values_with_expiry(rows: OffsetRows, places: Int64s, texts: ByteRows) -> ByteRows:
    count, text_size = texts.shape
    heads, tails = np.empty(count, _EXPIRY_HEAD), np.empty(count, _EXPIRY_TAIL)
    heads["version"], heads["metadata"] = EXPIRY_VERSION, text_size
    heads["offset"] = rows.offsets[places]
    tails["commit"], tails["expire"] = rows.commit_timestamps[places], rows.expire_timestamp
    return np.hstack(
        (heads.view(np.uint8).reshape(count, -1), texts, tails.view(np.uint8).reshape(count, -1))
    )
