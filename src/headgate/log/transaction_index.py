"""The aborted transactions of one segment, and Kafka's file format for them, `.txnindex`.

    version i16 | producer id i64 | first offset i64 | last offset i64 | last stable offset i64

for each aborted transaction whose marker is in the segment, in the order of the markers. The last offset is
that of the marker; the last stable offset is that of the log after the marker. Rules:

1. Last offsets grow, and last stable offsets never decrease. So the transactions that a reader needs are
   found by bisection; only those that were aborted during a longer transaction are searched one by one, in
   columns.
2. The file is derived from the log, which has precedence. It has no checksum: who knows the transactions of
   the log decides whether a file is used (`topics/transaction_loading.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, overload

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from headgate.log.filesystem import FileSystem, read_file, write_fully

if TYPE_CHECKING:
    from pathlib import Path

_ENTRY: Final = Struct(">hqqqq")
ENTRY_BYTES: Final = _ENTRY.size
_VERSION: Final = 0
_ENTRIES: Final = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("stable_offset", ">i8"),
    ]
)
"""The same as `_ENTRY`, for many at once."""
Int64s = NDArray[np.int64]


class AbortedTransaction(NamedTuple):
    """One aborted transaction: the offsets of its first batch and of its marker, and the last stable offset
    of the log after the marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ListedTransactions(Sequence[tuple[int, int]]):
    """Aborted transactions as a fetch lists them, in columns: there may be hundreds of thousands.

    A sequence of pairs: producer id and first offset.
    """

    __slots__ = ("first_offsets", "producer_ids")

    def __init__(self, producer_ids: Int64s, first_offsets: Int64s) -> None:
        self.producer_ids = producer_ids
        self.first_offsets = first_offsets

    @classmethod
    def together(cls, parts: Sequence[ListedTransactions]) -> ListedTransactions:
        """Return those of several segments."""
        if len(parts) == 1:
            return parts[0]
        none = [np.empty(0, np.int64)]
        return cls(
            np.concatenate([one.producer_ids for one in parts] or none),
            np.concatenate([one.first_offsets for one in parts] or none),
        )

    def among(self, producer_ids: Collection[int], last_offset: int) -> list[tuple[int, int]]:
        """Return those of these producers that began up to `last_offset`, by first offset."""
        begun = self.first_offsets <= last_offset
        firsts, ids = self.first_offsets[begun], self.producer_ids[begun]
        is_theirs = np.isin(ids, np.fromiter(producer_ids, np.int64, len(producer_ids)))
        firsts, ids = firsts[is_theirs], ids[is_theirs]
        order = np.argsort(firsts, kind="stable")
        return list(zip(ids[order].tolist(), firsts[order].tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.first_offsets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.producer_ids.tolist(), self.first_offsets.tolist(), strict=True)

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        if isinstance(index, slice):
            return list(self)[index]
        return int(self.producer_ids[index]), int(self.first_offsets[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ListedTransactions({list(self)!r})"


NO_TRANSACTIONS: Final = ListedTransactions.together(())


class AbortedTransactions:
    """The aborted transactions of one segment, in the order of their markers."""

    __slots__ = (
        "_first_offsets",
        "_has_more_in_file",
        "_last_offsets",
        "_producer_ids",
        "_saved",
        "_stable_offsets",
        "saved_crc",
    )

    def __init__(self) -> None:
        self._saved = 0
        """How many of them are in the file."""
        self._has_more_in_file = False
        """Whether the file has entries after these."""
        self.saved_crc = 0
        """The CRC-32C of their bytes."""
        self._producer_ids: array[int] = array("q")
        self._first_offsets: array[int] = array("q")
        self._last_offsets: array[int] = array("q")
        self._stable_offsets: array[int] = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __getitem__(self, at: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[at], self._first_offsets[at], self._last_offsets[at], self._stable_offsets[at]
        )

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(self.__getitem__, range(len(self)))

    def append(self, aborted: AbortedTransaction) -> None:
        """Add a transaction whose marker is after all others."""
        assert not self._last_offsets or self._last_offsets[-1] < aborted.last_offset
        self._producer_ids.append(aborted.producer_id)
        self._first_offsets.append(aborted.first_offset)
        self._last_offsets.append(aborted.last_offset)
        self._stable_offsets.append(aborted.last_stable_offset)

    def find(self, start: int, end: int) -> tuple[ListedTransactions, bool]:
        """Return the transactions with records from `start` to below `end`, and whether no later segment can
        have more of them.
        """
        first = bisect_left(self._last_offsets, start)
        # After this entry no transaction was open that began before `end`.
        last = bisect_left(self._stable_offsets, end, first)
        is_complete = last < len(self)
        first_offsets = np.array(self._first_offsets[first : last + 1], np.int64)
        producer_ids = np.array(self._producer_ids[first : last + 1], np.int64)
        found = first_offsets < end
        return ListedTransactions(producer_ids[found], first_offsets[found]), is_complete

    def to_bytes(self, start: int = 0) -> bytes:
        """Return the contents of the .txnindex file, from the entry at `start` on."""
        entries = np.empty(len(self) - start, _ENTRIES)
        entries["version"] = _VERSION
        entries["producer_id"] = np.array(self._producer_ids[start:], np.int64)
        entries["first_offset"] = np.array(self._first_offsets[start:], np.int64)
        entries["last_offset"] = np.array(self._last_offsets[start:], np.int64)
        entries["stable_offset"] = np.array(self._stable_offsets[start:], np.int64)
        return entries.tobytes()

    def save(self, files: FileSystem, path: Path) -> None:
        """Write the entries that are not in the file yet after those that are; nothing is synced. Raises
        OSError.
        """
        if self._saved == len(self) and not self._has_more_in_file:
            return
        file = files.open(path, create=True)
        try:
            position = self._saved * ENTRY_BYTES
            if file.size() < position:
                position = self._saved = self.saved_crc = 0
            data = self.to_bytes(self._saved)
            file.truncate(position)
            write_fully(file, data, position)
        finally:
            file.close()
        self._saved, self.saved_crc = len(self), crc32c(data, self.saved_crc)
        self._has_more_in_file = False

    def saved(self) -> None:
        """Note that the caller wrote the file with all entries."""
        self._saved, self.saved_crc = len(self), crc32c(self.to_bytes())

    @classmethod
    def load(cls, files: FileSystem, path: Path, count: int, crc: int) -> AbortedTransactions | None:
        """Return the first `count` entries of the file, whose CRC-32C must be `crc`; None if it does not have
        them. Raises OSError.
        """
        try:
            data = read_file(files, path)
        except FileNotFoundError:
            return None
        entries = data[: count * ENTRY_BYTES]
        if len(entries) < count * ENTRY_BYTES or crc32c(entries) != crc:
            return None
        found = cls.from_bytes(entries)
        if found is not None:
            found._saved, found.saved_crc = count, crc
            found._has_more_in_file = len(data) > len(entries)
        return found

    @classmethod
    def from_bytes(cls, data: bytes) -> AbortedTransactions | None:
        """Return the transactions in a .txnindex file; None if the bytes cannot be one."""
        if len(data) % ENTRY_BYTES:
            return None
        found = cls()
        before = AbortedTransaction(-1, -1, -1, -1)
        for version, *fields in _ENTRY.iter_unpack(data):
            one = AbortedTransaction(*fields)
            if version != _VERSION or not _follows(before, one):
                return None
            found.append(one)
            before = one
        return found


def _follows(before: AbortedTransaction, one: AbortedTransaction) -> bool:
    return (
        one.producer_id >= 0
        and 0 <= one.first_offset < one.last_offset
        and before.last_offset < one.last_offset
        and before.last_stable_offset <= one.last_stable_offset <= one.last_offset + 1
    )
