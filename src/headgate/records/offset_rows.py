"""Committed offsets as columns of numbers.

Used for loading millions of offsets, and for commits of many partitions that differ in more than numbers.
`read_rows` reads offsets of value version 3 and tombstones of offsets, with the same result as
`codec.decode`. It leaves all other records to `codec.decode`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headgate.domain.ids import Millis
from headgate.records.errors import MalformedRecord
from headgate.records.model import NO_EXPIRY, OffsetCommit, OffsetTombstone
from headgate.records.offset_commit import KEY_STARTS, WRITTEN_VERSION, names_of

Int64s = NDArray[np.int64]

_PARTITION_BYTES = 4
_SMALLEST_KEY = 10
_WORD_BYTES = 8
VALUE_HEAD = np.dtype([("version", ">i2"), ("offset", ">i8"), ("epoch", ">i4"), ("metadata", ">i2")])
"""The head of a value. The metadata and the commit timestamp follow it."""
_VALUE_BYTES = VALUE_HEAD.itemsize + 8
_KEY_TYPES = np.array([struct.unpack(">H", start)[0] for start in KEY_STARTS], np.uint16)


class Spans(NamedTuple):
    """Positions and sizes of keys or values in a buffer. A size of -1 means null."""

    starts: Int64s
    sizes: Int64s


@dataclass(slots=True, eq=False)
class OffsetRows:
    """Committed and removed offsets in the order of the log, one row for each.

    A stretch is a sequence of rows with the same key prefix (group and topic).
    """

    prefixes: list[bytes]
    """The key prefix of each stretch: the key without the partition."""
    stretch_of: Int64s
    """The stretch of each row; ascending."""
    partitions: Int64s
    offsets: Int64s
    leader_epochs: NDArray[np.int32]
    commit_timestamps: Int64s
    is_gone: NDArray[np.bool_]
    """True for tombstones. Their offsets, leader epochs and timestamps have no meaning."""
    metadata: dict[int, str]
    """Metadata by row, for rows that have it."""
    expire_timestamp: Millis = NO_EXPIRY
    """When the committed offsets expire, in ms. With an expiry they have no leader epochs."""

    def __len__(self) -> int:
        return len(self.partitions)

    def each(self) -> Iterator[OffsetCommit | OffsetTombstone]:
        """Yield the single records, in order. Raises MalformedRecord."""
        names = [names_of(prefix) for prefix in self.prefixes]
        columns = zip(
            self.stretch_of.tolist(),
            self.partitions.tolist(),
            self.offsets.tolist(),
            self.leader_epochs.tolist(),
            self.commit_timestamps.tolist(),
            self.is_gone.tolist(),
            strict=True,
        )
        for row, (stretch, partition, offset, epoch, timestamp, is_gone) in enumerate(columns):
            group_id, topic = names[stretch]
            if is_gone:
                yield OffsetTombstone(group_id, topic, partition)
            else:
                metadata = self.metadata.get(row, "")
                yield OffsetCommit(
                    group_id, topic, partition, offset, epoch, metadata, timestamp, self.expire_timestamp
                )

    def at(self, rows: Int64s) -> OffsetRows:
        """Return these rows only. `rows` must ascend."""
        kept = {row: new for new, row in enumerate(rows.tolist())} if self.metadata else {}
        return OffsetRows(
            self.prefixes,
            self.stretch_of[rows],
            self.partitions[rows],
            self.offsets[rows],
            self.leader_epochs[rows],
            self.commit_timestamps[rows],
            self.is_gone[rows],
            {kept[row]: text for row, text in self.metadata.items() if row in kept},
            self.expire_timestamp,
        )

    def between(self, first: int, end: int) -> OffsetRows:
        """Return the rows from `first` to `end` (exclusive)."""
        rows = slice(first, end)
        stretches = self.stretch_of[rows]
        low = int(stretches[0]) if len(stretches) else 0
        high = int(stretches[-1]) + 1 if len(stretches) else 0
        return OffsetRows(
            self.prefixes[low:high],
            stretches - low,
            self.partitions[rows],
            self.offsets[rows],
            self.leader_epochs[rows],
            self.commit_timestamps[rows],
            self.is_gone[rows],
            {row - first: text for row, text in self.metadata.items() if first <= row < end},
            self.expire_timestamp,
        )


def split_prefix(prefix: bytes) -> tuple[bytes, bytes]:
    """Return the UTF-8 bytes of group and topic of a key without its partition. Raises MalformedRecord."""
    topic_at = 4 + (prefix[2] << 8 | prefix[3])
    topic = prefix[topic_at + 2 :]
    if len(prefix) < topic_at + 2 or len(topic) != prefix[topic_at] << 8 | prefix[topic_at + 1]:
        names_of(prefix)
        raise MalformedRecord(f"the key {prefix!r} does not match its lengths")
    return prefix[4:topic_at], topic


def read_rows(data: bytes, keys: Spans, values: Spans) -> tuple[Int64s, OffsetRows]:
    """Return the indexes of the offsets among these records, and the offsets. `data` must have spare bytes.

    The caller reads all other records with `codec.decode`, which finds malformed ones. Raises MalformedRecord
    for metadata that is not UTF-8. Names are not checked here; whoever decodes them does it.
    """
    is_offset = _are_offsets(data, keys)
    is_gone = is_offset & (values.sizes == -1)
    heads = np.ndarray((len(data) - VALUE_HEAD.itemsize,), VALUE_HEAD, data, strides=(1,))
    held = np.flatnonzero(is_offset & (values.sizes >= _VALUE_BYTES))
    head = heads[values.starts[held]]
    metadata_sizes = head["metadata"].astype(np.int64)
    is_plain = (head["version"] == WRITTEN_VERSION) & (metadata_sizes == values.sizes[held] - _VALUE_BYTES)
    held, head, metadata_sizes = held[is_plain], head[is_plain], metadata_sizes[is_plain]
    chosen = is_gone.copy()
    chosen[held] = True
    at = np.flatnonzero(chosen)
    count = len(at)
    # The rows of `at` that are not tombstones.
    places = np.searchsorted(at, held) if len(held) < count else slice(None)
    offsets, timestamps = np.zeros(count, np.int64), np.zeros(count, np.int64)
    epochs = np.zeros(count, np.int32)
    offsets[places], epochs[places] = head["offset"], head["epoch"]
    times = _numbers(data, ">i8")
    timestamps[places] = times[values.starts[held] + VALUE_HEAD.itemsize + metadata_sizes]
    starts, sizes = keys.starts[at], keys.sizes[at] - _PARTITION_BYTES
    prefixes, stretch_of = _stretches(data, starts, sizes)
    rows = OffsetRows(
        prefixes,
        stretch_of,
        _numbers(data, ">i4")[starts + sizes].astype(np.int64),
        offsets,
        epochs,
        timestamps,
        is_gone[at],
        {},
    )
    if metadata_sizes.any():
        noted = np.flatnonzero(metadata_sizes)
        row_of = np.arange(count)[places][noted] if isinstance(places, slice) else places[noted]
        text_starts = values.starts[held[noted]] + VALUE_HEAD.itemsize
        rows.metadata = _texts(data, row_of, text_starts, metadata_sizes[noted])
    return at, rows


def _texts(data: bytes, rows: Int64s, starts: Int64s, sizes: Int64s) -> dict[int, str]:
    texts = {}
    try:
        for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            texts[row] = data[start : start + size].decode()
    except UnicodeDecodeError:
        raise MalformedRecord("OffsetCommitValue: metadata that is not UTF-8") from None
    return texts


def _numbers(data: bytes, form: str) -> NDArray[Any]:
    """Return a view of the buffer with a number at each byte position."""
    kind = np.dtype(form)
    return np.ndarray((len(data) - kind.itemsize,), kind, data, strides=(1,))


def _are_offsets(data: bytes, keys: Spans) -> NDArray[np.bool_]:
    key_types = _numbers(data, ">u2")[keys.starts]
    is_offset: NDArray[np.bool_] = keys.sizes >= _SMALLEST_KEY
    is_offset &= (key_types == _KEY_TYPES[0]) | (key_types == _KEY_TYPES[1])
    return is_offset


def _stretches(data: bytes, starts: Int64s, sizes: Int64s) -> tuple[list[bytes], Int64s]:
    """Return the key prefix of each stretch, and the stretch of each key."""
    count = len(starts)
    begins = np.ones(count, np.bool_)
    if count > 1:
        begins[1:] = sizes[1:] != sizes[:-1]
        # Compare each prefix with the one before it, eight bytes at a time; mask the bytes after its end.
        words = _numbers(data, "<u8")
        done = 0
        pending = np.flatnonzero(~begins)
        while len(pending):
            short = sizes[pending] - done < _WORD_BYTES
            last = pending[short]
            mask = (np.uint64(1) << (8 * (sizes[last] - done)).astype(np.uint64)) - np.uint64(1)
            begins[last] = ((words[starts[last] + done] ^ words[starts[last - 1] + done]) & mask) != 0
            pending = pending[~short]
            differs = words[starts[pending] + done] != words[starts[pending - 1] + done]
            begins[pending[differs]] = True
            pending = pending[~differs]
            done += _WORD_BYTES
    first = np.flatnonzero(begins)
    ends = starts[first] + sizes[first]
    prefixes = [data[a:b] for a, b in zip(starts[first].tolist(), ends.tolist(), strict=True)]
    return prefixes, np.cumsum(begins) - 1
